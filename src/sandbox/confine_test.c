/*
 * A process confines itself and tries what a keeper that was taken over would try. Each thing is
 * tried before as well, in the same process, where it must work: what fails there proves nothing.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/confine.h"
#include "sandbox/landlock.h"

/* Two folders: what it keeps, and a home with a secret and a socket in it. */
struct world {
	char own[64], home[64];
	char secret[96], socket[96];
	int own_fd, listener;
	pid_t other; /* a process of the same user */
};

static struct world world;

/* --- what is tried ------------------------------------------------------------------------------
 */

/* Each answers 0 when it could be done, else an errno. */
typedef int attempt(void);

static int result_of(long result)
{
	return result < 0 ? errno : 0;
}

static int close_result(int fd)
{
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_read_secret(void)
{
	return close_result(open(world.secret, O_RDONLY | O_CLOEXEC));
}

static int try_write_secret(void)
{
	return close_result(open(world.secret, O_WRONLY | O_CLOEXEC));
}

static int try_truncate_secret(void)
{
	return result_of(truncate(world.secret, 6));
}

static int try_read_by_dots(void)
{
	cleanup_free char *path = mem_format("../%s", strrchr(world.home, '/') + 1);
	cleanup_fd int folder = openat(world.own_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return folder < 0 ? errno : close_result(openat(folder, "secret", O_RDONLY | O_CLOEXEC));
}

static int try_list_home(void)
{
	return close_result(open(world.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int try_make_in_home(void)
{
	cleanup_free char *path = mem_format("%s/made", world.home);
	int status = close_result(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));

	unlink(path);
	return status;
}

static int try_rename_into_home(void)
{
	cleanup_free char *from = mem_format("%s/mine", world.own);
	cleanup_free char *to = mem_format("%s/moved", world.home);
	int status;

	close_result(open(from, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	status = result_of(rename(from, to));
	unlink(to);
	return status;
}

static int try_chmod(void)
{
	return result_of(chmod(world.secret, 0600));
}

static int try_chown(void)
{
	return result_of(chown(world.secret, getuid(), getgid()));
}

static int try_exec(void)
{
	/* Arguments that nobody can read: so it fails in any case, but for that reason only where
	 * nobody forbids it. */
	int sys = syscall(SYS_execve, "/bin/sh", 1L, NULL) < 0 ? errno : 0;

	return sys == EFAULT ? 0 : sys;
}

static int try_fork(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	waitpid(pid, NULL, 0);
	return 0;
}

static int try_new_code(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return errno;
	munmap(page, 4096);
	return 0;
}

static int try_mprotect(void)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = result_of(mprotect(page, 4096, PROT_READ | PROT_EXEC));

	munmap(page, 4096);
	return status;
}

static int try_socket(void)
{
	return close_result(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int handed_over = -1; /* a socket that somebody else has made */

static int try_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", world.socket);
	return result_of(connect(handed_over, (const struct sockaddr *)&address, sizeof(address)));
}

static int try_kill(void)
{
	return result_of(kill(world.other, SIGCONT));
}

static int try_trace(void)
{
	int status = result_of(ptrace(PTRACE_SEIZE, world.other, NULL, NULL));

	if (status == 0)
		(void)ptrace(PTRACE_DETACH, world.other, NULL, NULL);
	return status;
}

static int try_environ(void)
{
	cleanup_free char *path = mem_format("/proc/%d/environ", (int)world.other);

	return close_result(open(path, O_RDONLY | O_CLOEXEC));
}

static int try_limit_other(void)
{
	struct rlimit limit;

	return result_of(prlimit(world.other, RLIMIT_CORE, NULL, &limit));
}

static int try_namespace(void)
{
	return result_of(unshare(CLONE_FILES));
}

static int try_ids(void)
{
	return result_of(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1));
}

static const struct {
	const char *name;
	attempt *attempt;
	bool by_landlock; /* else by the filter */
} ATTEMPTS[] = {
	{"read a file of the user's", try_read_secret, true},
	{"write it", try_write_secret, true},
	{"truncate it", try_truncate_secret, true},
	{"read it by the folder above", try_read_by_dots, true},
	{"list the home", try_list_home, true},
	{"make a file there", try_make_in_home, true},
	{"move a file there", try_rename_into_home, true},
	{"the environment of another process", try_environ, true},
	{"change its mode", try_chmod, false},
	{"change its owner", try_chown, false},
	{"run a program", try_exec, false},
	{"make a process", try_fork, false},
	{"map new code", try_new_code, false},
	{"make data code", try_mprotect, false},
	{"make a socket", try_socket, false},
	{"connect one that was handed over", try_connect, false},
	{"send a signal", try_kill, false},
	{"trace another process", try_trace, false},
	{"look at another's limits", try_limit_other, false},
	{"another namespace", try_namespace, false},
	{"set ids", try_ids, false},
};

enum { ATTEMPTS_COUNT = sizeof(ATTEMPTS) / sizeof(*ATTEMPTS) };

/* --- the world ----------------------------------------------------------------------------------
 */

static pid_t start_other(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

static int open_world(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	(void)state;
	snprintf(world.own, sizeof(world.own), "/tmp/confine_own_XXXXXX");
	snprintf(world.home, sizeof(world.home), "/tmp/confine_home_XXXXXX");
	assert_non_null(mkdtemp(world.own));
	assert_non_null(mkdtemp(world.home));
	snprintf(world.secret, sizeof(world.secret), "%s/secret", world.home);
	snprintf(world.socket, sizeof(world.socket), "%s/socket", world.home);
	fd = open(world.secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	assert_int_equal(write(fd, "secret", 6), 6);
	close(fd);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", world.socket);
	world.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(world.listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(world.listener, 8), 0);
	world.own_fd = open(world.own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	world.other = start_other();
	assert_true(world.other > 0);
	return 0;
}

static int close_world(void **state)
{
	(void)state;
	kill(world.other, SIGKILL);
	waitpid(world.other, NULL, 0);
	close(world.listener);
	close(world.own_fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, world.own, NULL), 0);
	assert_int_equal(file_remove_tree(AT_FDCWD, world.home, NULL), 0);
	return 0;
}

static int new_handed_over(void)
{
	if (handed_over >= 0)
		close(handed_over);
	handed_over = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return handed_over;
}

static void confine_here(struct confined *confined)
{
	const struct confine_place places[] = {{.fd = world.own_fd, .write = true}};
	const struct confine_params params = {.places = places, .count = 1};
	struct err err = ERR_INIT;

	if (confine(&params, confined, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		_exit(100);
	}
}

/* Runs it in a child, since it is for good; what fails is told on stderr. */
static void in_child(int (*body)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* --- tests --------------------------------------------------------------------------------------
 */

static bool is_refusal(int sys)
{
	return sys == EPERM || sys == EACCES || sys == EXDEV;
}

static int nothing_of_the_users(void)
{
	struct confined confined;
	int before[ATTEMPTS_COUNT], bad = 0;

	for (size_t i = 0; i < ATTEMPTS_COUNT; i++) {
		new_handed_over();
		before[i] = ATTEMPTS[i].attempt();
	}
	new_handed_over();
	confine_here(&confined);
	for (size_t i = 0; i < ATTEMPTS_COUNT; i++) {
		bool wall = ATTEMPTS[i].by_landlock ? confined.files : confined.filter;
		int after = ATTEMPTS[i].attempt();

		if (before[i] != 0)
			fprintf(stderr, "unconfined, \"%s\" fails as well: %s\n", ATTEMPTS[i].name,
				strerror(before[i]));
		if (wall && !is_refusal(after))
			fprintf(stderr, "confined, \"%s\" gives %d\n", ATTEMPTS[i].name, after);
		bad += before[i] != 0 || (wall && !is_refusal(after));
	}
	return bad;
}

static void test_it_has_nothing_of_the_users(void **state)
{
	(void)state;
	in_child(nothing_of_the_users);
}

static void *run_thread(void *data)
{
	*(int *)data = try_read_secret() == 0 ? 1 : 2;
	return NULL;
}

/* What a keeper does all the time. */
static int own_work(void)
{
	struct confined confined;
	pthread_t thread;
	int seen = 0, pair[2], fd;
	struct rlimit limit;

	confine_here(&confined);
	fd = openat(world.own_fd, "a", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1 || fchmod(fd, 0644) != 0 || futimens(fd, NULL) != 0 ||
	    ftruncate(fd, 0) != 0 || fsync(fd) != 0)
		return 1;
	close(fd);
	if (mkdirat(world.own_fd, "d", 0700) != 0 ||
	    renameat(world.own_fd, "a", world.own_fd, "d/b") != 0 ||
	    linkat(world.own_fd, "d/b", world.own_fd, "c", 0) != 0 ||
	    unlinkat(world.own_fd, "d/b", 0) != 0 || unlinkat(world.own_fd, "c", 0) != 0)
		return 2;
	fd = file_open_beneath(world.own_fd, "d", O_RDONLY | O_DIRECTORY, 0, NULL);
	if (fd < 0 || unlinkat(world.own_fd, "d", AT_REMOVEDIR) != 0)
		return 3;
	close(fd);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 ||
	    send(pair[0], "x", 1, 0) != 1 || memfd_create("m", MFD_CLOEXEC) < 0 ||
	    getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 4;
	/* Half of a datagram pair could be connected to a name after all. */
	if (confined.filter && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0)
		return 5;
	if (pthread_create(&thread, NULL, run_thread, &seen) != 0 ||
	    pthread_join(thread, NULL) != 0)
		return 6;
	return confined.files && seen != 2 ? 7 : 0;
}

static void test_it_can_do_its_own_work(void **state)
{
	(void)state;
	in_child(own_work);
}

static int read_only_place(void)
{
	const struct confine_place places[] = {{.fd = world.own_fd, .write = false}};
	const struct confine_params params = {.places = places, .count = 1};
	struct confined confined;
	int fd = openat(world.own_fd, "there", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	close(fd);
	if (confine(&params, &confined, NULL) != 0)
		return 1;
	if (close_result(openat(world.own_fd, "there", O_RDONLY | O_CLOEXEC)) != 0)
		return 2;
	if (!confined.files)
		return 0;
	if (close_result(openat(world.own_fd, "there", O_WRONLY | O_CLOEXEC)) != EACCES)
		return 3;
	return unlinkat(world.own_fd, "there", 0) == 0 ? 4 : 0;
}

static void test_a_place_to_read_is_not_written(void **state)
{
	(void)state;
	in_child(read_only_place);
}

static int without_files(void)
{
	static const char why[] = "for a test";
	const struct confine_params params = {.without_files = why};
	struct confined confined;

	if (confine(&params, &confined, NULL) != 0)
		return 1;
	if (confined.files || (confined.filter && confined.files_why != why))
		return 2;
	if (try_read_secret() != 0) /* that is what it says */
		return 3;
	return !confined.filter || is_refusal(try_exec()) ? 0 : 4;
}

static void test_what_cannot_be_had_is_said(void **state)
{
	struct confined none = {.files_why = "no Landlock", .filter_why = "no filters"};
	cleanup_json struct json *layers = confined_layers(&none);

	(void)state;
	assert_int_equal(json_length(layers), 4);
	for (size_t i = 0; i < 4; i++) {
		assert_false(json_get_bool(json_at(layers, i), "holds", true));
		assert_non_null(json_get_string(json_at(layers, i), "effect"));
	}
	assert_string_equal(json_get_string(json_at(layers, 0), "why"), "no Landlock");
	in_child(without_files);
}

static void test_doctors_proof(void **state)
{
	struct confine_proof proof;

	(void)state;
	assert_int_equal(confine_prove(&proof, NULL), 0);
	assert_int_equal(proof.err.code, ERR_OK);
	assert_int_equal(proof.opened, !proof.confined.files);
	assert_int_equal(proof.ran, !proof.confined.filter);
	assert_int_equal(proof.connected, !proof.confined.filter);
}

static uint64_t effective_capabilities(void)
{
	struct buf text = BUF_INIT;
	const char *line;
	uint64_t set = UINT64_MAX;

	if (file_read(AT_FDCWD, "/proc/self/status", 16384, &text, NULL) == 0) {
		line = strstr(buf_bytes(&text), "CapEff:");
		set = line ? strtoull(line + 7, NULL, 16) : UINT64_MAX;
	}
	buf_release(&text);
	return set;
}

/* A build with a sanitizer gives nothing up (confine.c), and says so. */
static int nothing_in_vain(void)
{
	struct confined confined;

	confine_here(&confined);
#if defined(__SANITIZE_ADDRESS__)
	return !confined.filter && !confined.capabilities && confined.filter_why ? 0 : 1;
#else
	return confined.filter && confined.capabilities && confined.files == (landlock_abi() > 0)
		       ? 0
		       : 1;
#endif
}

static void test_what_the_kernel_has_holds(void **state)
{
	(void)state;
	in_child(nothing_in_vain);
}

static int capabilities(void)
{
	/* before Landlock shuts /proc: of root, some; of others, none */
	const struct confine_place places[] = {
		{.fd = open("/proc", O_PATH | O_CLOEXEC), .write = false}};
	const struct confine_params params = {.places = places, .count = 1};
	const uint64_t admin = UINT64_C(1) << 21, kill = UINT64_C(1) << 5,
		       override = UINT64_C(1) << 1;
	uint64_t before = effective_capabilities();
	struct confined confined;
	uint64_t after;

	if (confine(&params, &confined, NULL) != 0)
		return 1;
	after = effective_capabilities();
	if (confined.capabilities && ((after & ~before) || (after & (admin | kill))))
		return 2;
	return (before & override) == (after & override) ? 0 : 3;
}

static void test_most_of_roots_rights_go(void **state)
{
	(void)state;
	in_child(capabilities);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_the_kernel_has_holds),
		cmocka_unit_test(test_it_has_nothing_of_the_users),
		cmocka_unit_test(test_it_can_do_its_own_work),
		cmocka_unit_test(test_a_place_to_read_is_not_written),
		cmocka_unit_test(test_what_cannot_be_had_is_said),
		cmocka_unit_test(test_doctors_proof),
		cmocka_unit_test(test_most_of_roots_rights_go),
	};

	return cmocka_run_group_tests(tests, open_world, close_world);
}
