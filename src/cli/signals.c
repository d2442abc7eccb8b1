/*
 * Signals by signalfd(2). See signals.h.
 *
 * A blocked signal is queued even if it is ignored, so an ignored one (a background job of a shell
 * has SIGINT ignored) is left out of the mask and stays ignored.
 */
#include "cli/signals.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ENDING[] = {SIGINT, SIGTERM, SIGHUP};

int signals_open(struct err *err)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ENDING) / sizeof(ENDING[0]); i++) {
		struct sigaction old;

		if (sigaction(ENDING[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaddset(&set, ENDING[i]);
	}
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return err_sys(err, "cannot block signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_sys(err, "cannot read signals");
	return fd;
}

int signals_next(int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

_Noreturn void signals_die(int signal_number)
{
	sigset_t set;

	signal(signal_number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signal_number);
	_exit(128 + signal_number);
}
