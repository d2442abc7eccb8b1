/*
 * Checkpoints: sleeping copies of the guest, and how they wake.
 *
 *	guest  --vfork--> step --fork--> copy      "make a copy of yourself" (GUEST_COPY)
 *	                   '- _exit       '- sleeps in recvmsg(2), until ...
 *	copy   --vfork--> step --fork--> guest     "wake" (GUEST_WAKE); the copy sleeps on
 *
 * A copy never becomes the living guest itself: so each can be returned to any number of times.
 *
 * The step between makes the copy an orphan at once, a child of the box's init: code of the session
 * that waits for all its children neither sees nor waits for it, and the init reports how each
 * guest ended. It costs one copy of the page tables, as one fork does. It sends no signal when it
 * ends (clone(2), exit signal 0), so that no handler of the session's and no wait(2) of one of its
 * threads ever meets it; that is why it is not vfork(3) itself. The real fork() is glibc's, for the
 * handlers of pthread_atfork.
 *
 * What a copy must not do is to keep open what the guest has opened: the other end of a pipe or
 * socket would never see its end. So every descriptor that is no file is plugged: replaced, under
 * its number, by one end of a pair whose other end is closed. The number stays taken, and what
 * reads there after a return finds the end of a file, as from a peer that has gone.
 *
 * Offsets of open files belong to the guest and its copies together (fork(2)), so they are noted
 * before the copy is made and set again when it wakes. So does a lock of flock(2), which would last
 * as long as the copy when the guest closes the file: a copy opens such a file anew, and one that
 * wakes takes the lock again, if it can be had.
 */
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	FILES_MAX = 1024, /* offsets that are noted: as many as a guest may have open */
	NAME_BYTES = 16,  /* PR_SET_NAME */
	TIMERS = 3,
	OOM_GUEST = 500, /* oom_score_adj(5): the kernel takes the guest before its copies */
};

static const char NAME[] = "fumehood-copy";

/* What is noted before a copy is made; the copy has it in its memory. Static: see guest.h. */
static struct {
	struct {
		int fd;
		int lock; /* LOCK_SH or LOCK_EX; 0: none */
		off_t offset;
	} files[FILES_MAX];
	size_t file_count;
	struct itimerval timers[TIMERS];
	char name[NAME_BYTES];
	sigset_t signals;
	int marked; /* oom_score_adj is OOM_GUEST */
} noted;

/* --- two processes in one step ---------------------------------------------------------------- */

/*
 * As vfork(3), but the child's end sends no signal. The return address must not stay on the stack,
 * which the child uses before the parent does: so it is kept in a register, as glibc does it.
 */
pid_t copy_vfork(void) __attribute__((returns_twice, visibility("hidden")));

#if defined(__x86_64__)
__asm__(".text\n"
	".globl copy_vfork\n"
	".hidden copy_vfork\n"
	".type copy_vfork, @function\n"
	"copy_vfork:\n"
	"	endbr64\n"
	"	popq %r9\n"
	"	movl $56, %eax\n"     /* clone */
	"	movl $0x4100, %edi\n" /* CLONE_VM | CLONE_VFORK */
	"	xorl %esi, %esi\n"
	"	xorl %edx, %edx\n"
	"	xorl %r10d, %r10d\n"
	"	xorl %r8d, %r8d\n"
	"	syscall\n"
	"	pushq %r9\n"
	"	ret\n"
	".size copy_vfork, . - copy_vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl copy_vfork\n"
	".hidden copy_vfork\n"
	".type copy_vfork, %function\n"
	"copy_vfork:\n"
	"	mov x8, #220\n" /* clone */
	"	mov x0, #0x4100\n"
	"	mov x1, #0\n"
	"	mov x2, #0\n"
	"	mov x3, #0\n"
	"	mov x4, #0\n"
	"	svc #0\n"
	"	ret\n"
	".size copy_vfork, . - copy_vfork\n");
#else
#error "copy_vfork() is written for x86-64 and AArch64"
#endif

/* Returns 0 in the new process, its pid in the old one, -errno. */
static int __attribute__((noinline)) make(void)
{
	volatile pid_t made = -1;
	volatile int error = 0;
	pid_t step;

	PyOS_BeforeFork();
	step = copy_vfork();
	if (step == 0) {
		made = fork();
		if (made == 0) {
			PyOS_AfterFork_Child();
			lockdown_rseq();
			return 0;
		}
		error = made < 0 ? errno : 0;
		_exit(0);
	}
	while (step > 0 && waitpid(step, NULL, __WALL) < 0 && errno == EINTR)
		;
	PyOS_AfterFork_Parent();
	if (step < 0)
		return step; /* -errno: the call is raw */
	return made > 0 ? made : -(error ? error : EAGAIN);
}

/* --- descriptors ------------------------------------------------------------------------------ */

/* Calls act(fd, data) for each open descriptor above the control socket. */
static void each_descriptor(void (*act)(int fd, void *data), void *data)
{
	DIR *list = opendir("/proc/self/fd");
	struct dirent *item;

	if (!list) {
		for (int fd = GUEST_CONTROL_FD + 1; fd < FILES_MAX; fd++)
			if (fcntl(fd, F_GETFD) >= 0)
				act(fd, data);
		return;
	}
	while ((item = readdir(list))) {
		int fd = item->d_name[0] == '.' ? -1 : (int)strtol(item->d_name, NULL, 10);

		if (fd > GUEST_CONTROL_FD && fd != dirfd(list))
			act(fd, data);
	}
	closedir(list);
}

static void note_file(int fd, void *data)
{
	struct stat st;
	off_t offset;

	(void)data;
	if (noted.file_count >= FILES_MAX || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	offset = lseek(fd, 0, SEEK_CUR);
	if (offset < 0)
		return;
	noted.files[noted.file_count].fd = fd;
	noted.files[noted.file_count++].offset = offset;
}

/* The lock of flock(2) on an open file: LOCK_SH, LOCK_EX or 0. proc_pid_fdinfo(5) has a line
 * "lock:	1: FLOCK  ADVISORY  WRITE ..." for it; where /proc is hidden, none is found. */
static int lock_of(int fd)
{
	char path[48], text[1024];
	const char *line;
	ssize_t got;
	int info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	got = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	if (info >= 0)
		close(info);
	text[got > 0 ? got : 0] = '\0';
	line = strstr(text, "FLOCK");
	if (!line)
		return 0;
	return strncmp(line + strlen("FLOCK  ADVISORY  "), "WRITE", 5) == 0 ? LOCK_EX : LOCK_SH;
}

/* The same file under the same number, but opened again: with an offset and locks of its own. */
static void open_anew(int fd)
{
	char path[48];
	int flags = fcntl(fd, F_GETFL), kept = fcntl(fd, F_GETFD), fresh;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fresh = flags < 0 ? -1 : open(path, (flags & ~(O_CREAT | O_EXCL | O_TRUNC)) | O_CLOEXEC);
	if (fresh < 0)
		return; /* the file is out of reach by now: it stays shared */
	dup3(fresh, fd, kept & FD_CLOEXEC ? O_CLOEXEC : 0);
	close(fresh);
}

/* In the copy. */
static void leave_locks(void)
{
	for (size_t i = 0; i < noted.file_count; i++) {
		noted.files[i].lock = lock_of(noted.files[i].fd);
		if (noted.files[i].lock)
			open_anew(noted.files[i].fd);
	}
}

struct plugging {
	int dead; /* what is put in their places */
	struct copy_plugged *count;
};

static void plug(int fd, void *data)
{
	struct plugging *plugging = data;
	struct stat st;

	if (fd == plugging->dead || fstat(fd, &st) < 0)
		return;
	if (S_ISSOCK(st.st_mode))
		plugging->count->sockets++;
	else if (S_ISFIFO(st.st_mode))
		plugging->count->pipes++;
	else if ((st.st_mode & S_IFMT) == 0) /* epoll, eventfd, timerfd, inotify, pidfd ... */
		plugging->count->others++;
	else
		return;
	dup3(plugging->dead, fd, O_CLOEXEC);
}

/* In the copy. The pipes of stdout and stderr become /dev/null, under all their numbers. */
static int plug_all(struct copy_plugged *plugged)
{
	struct plugging plugging = {.count = plugged};
	int pair[2], null;

	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || order_place(null, null) < 0)
		return -1;
	close(null);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	close(pair[1]);
	plugging.dead = pair[0];
	each_descriptor(plug, &plugging);
	close(pair[0]);
	return 0;
}

/* --- what else is noted and set again --------------------------------------------------------- */

static const __itimer_which_t WHICH[TIMERS] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

static void note(void)
{
	noted.file_count = 0;
	each_descriptor(note_file, NULL);
	for (int i = 0; i < TIMERS; i++)
		getitimer(WHICH[i], &noted.timers[i]);
	prctl(PR_GET_NAME, noted.name);
}

static void set_again(void)
{
	for (size_t i = 0; i < noted.file_count; i++) {
		if (noted.files[i].lock) {
			open_anew(noted.files[i].fd); /* not shared with the copy that sleeps on */
			(void)flock(noted.files[i].fd, noted.files[i].lock | LOCK_NB);
		}
		lseek(noted.files[i].fd, noted.files[i].offset, SEEK_SET);
	}
	for (int i = 0; i < TIMERS; i++)
		if (noted.timers[i].it_value.tv_sec || noted.timers[i].it_value.tv_usec)
			setitimer(WHICH[i], &noted.timers[i], NULL);
}

/* Where it may not be written (/proc is read-only in some boxes) the kernel chooses by size. */
static void set_oom_score(int score)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "%d", score);
	close(fd);
}

/* --- asleep ----------------------------------------------------------------------------------- */

static void say(uint8_t type, uint32_t number, const char *body, size_t len, int fd)
{
	const struct guest_header header = {.type = type, .cell = number};

	/* A keeper that does not listen any more drops this copy: the next receive sees it. */
	(void)channel_send_once(GUEST_CONTROL_FD, &header, body, len, &fd, fd >= 0 ? 1 : 0);
}

static void say_failed(uint32_t number, int error)
{
	char body[160];
	int len = snprintf(body, sizeof(body), "{\"errno\":%d,\"message\":\"%s\"}", error,
			   strerror(error));

	say(GUEST_COPY_FAILED, number, body, (size_t)len, -1);
}

static long long kibibytes(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	return line ? strtoll(line + strlen(name), NULL, 10) : 0;
}

/* What is this process's alone, and what it has in all; proc_pid_smaps(5). A process may always
 * read its own. */
static void say_measured(uint32_t number)
{
	char text[2048], body[96];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	long long own;
	int len;

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	own = kibibytes(text, "Private_Clean:") + kibibytes(text, "Private_Dirty:");
	len = snprintf(body, sizeof(body), "{\"private_bytes\":%lld,\"rss_bytes\":%lld}",
		       own * 1024, kibibytes(text, "\nRss:") * 1024);
	say(GUEST_MEASURED, number, body, (size_t)len, -1);
}

/* In the new guest: it takes the place of the one before. */
static int take_place(const int fds[static GUEST_WAKE_FDS])
{
	int rc;

	setsid();
	prctl(PR_SET_NAME, noted.name);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	set_oom_score(OOM_GUEST);
	if (dup3(fds[GUEST_WAKE_CONTROL], GUEST_CONTROL_FD, O_CLOEXEC) < 0)
		return -errno;
	rc = order_place(fds[GUEST_WAKE_STDOUT], fds[GUEST_WAKE_STDERR]);
	if (rc < 0)
		return rc;
	for (int i = 0; i < GUEST_WAKE_WORD; i++)
		close(fds[i]);
	rc = word_map(fds[GUEST_WAKE_WORD]); /* closes it */
	if (rc < 0)
		return rc;
	set_again();
	sigprocmask(SIG_SETMASK, &noted.signals, NULL);
	return 0;
}

/* One message of the keeper: its type, 0 when it is none. *count descriptors are the caller's. */
static int hear(int *fds, size_t *count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * GUEST_WAKE_FDS)];
	} control;
	struct guest_header header;
	struct iovec part = {.iov_base = &header, .iov_len = sizeof(header)};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t size = recvmsg(GUEST_CONTROL_FD, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	*count = 0;
	if (size < 0 && errno == EINTR)
		return 0;
	if (size < (ssize_t)sizeof(header))
		_exit(0); /* dropped, or the keeper is gone */
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		*count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(head), *count * sizeof(int));
	}
	return header.type;
}

/* Sleeps until it has been woken; returns in the new guest only. */
static int sleep_until_woken(uint32_t number)
{
	for (;;) {
		int fds[GUEST_WAKE_FDS];
		size_t count;
		int type = hear(fds, &count);

		if (type == GUEST_MEASURE)
			say_measured(number);
		if (type == GUEST_WAKE && count == GUEST_WAKE_FDS) {
			int rc = make();

			if (rc == 0)
				return take_place(fds);
			if (rc < 0)
				say_failed(number, -rc);
		}
		for (size_t i = 0; i < count; i++)
			close(fds[i]);
	}
}

/* A copy that has no descriptors left could not take those that it is woken with. */
static int check_room(void)
{
	int fds[GUEST_WAKE_FDS + 1]; /* and one to read its own memory's size */
	int count = 0, error;

	while (count <= GUEST_WAKE_FDS &&
	       (fds[count] = fcntl(GUEST_CONTROL_FD, F_DUPFD_CLOEXEC, 0)) >= 0)
		count++;
	error = errno;
	for (int i = 0; i < count; i++)
		close(fds[i]);
	errno = error;
	return count > GUEST_WAKE_FDS ? 0 : -1;
}

/* In the copy. Nobody inside can look into it or stop it by a signal that can be blocked. Its
 * entries in /proc are its own only until it is no longer dumpable. */
static int settle_down(int control, struct copy_plugged *plugged)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &noted.signals);
	setsid();
	set_oom_score(0);
	prctl(PR_SET_NAME, NAME);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (dup3(control, GUEST_CONTROL_FD, O_CLOEXEC) < 0)
		_exit(1); /* what it would say there is not its own to say */
	close(control);
	leave_locks();
	if (plug_all(plugged) < 0)
		return -1;
	return check_room();
}

int copy_make(int control, uint32_t number, const char *body, size_t len,
	      struct copy_plugged *plugged)
{
	int rc, pidfd;

	memset(plugged, 0, sizeof(*plugged));
	note();
	if (!noted.marked)
		set_oom_score(OOM_GUEST);
	noted.marked = 1;
	rc = make();
	if (rc < 0)
		return rc;
	if (rc > 0) {
		close(control);
		return 1;
	}
	if (settle_down(control, plugged) < 0 || (pidfd = channel_own_pidfd()) < 0) {
		say_failed(number, errno);
		_exit(1);
	}
	say(GUEST_COPIED, number, body, len, pidfd);
	close(pidfd);
	return sleep_until_woken(number);
}
