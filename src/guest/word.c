/*
 * The interrupt word (protocol.h) and who sent the last SIGINT.
 *
 * The keeper writes the number of the cell that it wants to stop into a shared page and then has
 * SIGINT sent to the guest's process group. The page is mapped read-only here and its descriptor
 * closed, so the session's code cannot write it. The decision what a signal means is taken in
 * interrupt.py; one thing it cannot see from Python is the sender: a program that sends SIGINT to
 * itself means itself, whatever the word says. A handler in front of Python's notes that.
 */
#include "native.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Static, because a signal handler has no argument to carry it. */
static struct {
	const volatile uint32_t *page;
	void (*python_handler)(int);
	volatile sig_atomic_t own, of_init;
} word;

int word_map(int fd)
{
	void *page = mmap(NULL, GUEST_WORD_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	if (word.page)
		munmap((void *)(uintptr_t)word.page, GUEST_WORD_BYTES);
	word.page = page;
	close(fd);
	return 0;
}

uint32_t word_value(void)
{
	return word.page ? *word.page : 0;
}

int word_own_signal(void)
{
	return word.own;
}

int word_signal_of_init(void)
{
	return word.of_init;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	word.own =
		info->si_pid == getpid() && (info->si_code == SI_USER || info->si_code == SI_TKILL);
	word.of_init = info->si_pid == 1 && info->si_code == SI_USER && getpid() != 1;
	if (word.python_handler)
		word.python_handler(number);
}

int word_watch_signal(void)
{
	struct sigaction action;

	if (sigaction(SIGINT, NULL, &action) < 0)
		return -errno;
	if ((action.sa_flags & SA_SIGINFO) || action.sa_handler == SIG_DFL ||
	    action.sa_handler == SIG_IGN)
		return 0;
	word.python_handler = action.sa_handler;
	action.sa_sigaction = on_signal;
	action.sa_flags |= SA_SIGINFO;
	return sigaction(SIGINT, &action, NULL) < 0 ? -errno : 0;
}
