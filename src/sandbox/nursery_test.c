/*
 * What a program in a nursery can and cannot do, beside what it could outside; and that it can
 * enter a box whose user namespace is the nursery's child. The program is this test itself, called
 * with the name of what it shall try.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "sandbox/box.h"
#include "sandbox/landlock.h"
#include "sandbox/nursery.h"

static char own_path[4096], own_dir[4096];

/* --- what the program tries; its exit status says what it found --- */

enum { FOUND_NOTHING, FOUND, ENTERED = 42, REFUSED = 100 /* + the namespace */ };

enum { SOCKET = 3 };

static int try_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 ? FOUND : FOUND_NOTHING;
}

static int try_signal(const char *pid)
{
	return kill((pid_t)strtol(pid, NULL, 10), 0) == 0 ? FOUND : FOUND_NOTHING;
}

static int try_port(const char *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)strtol(port, NULL, 10)),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? FOUND
									      : FOUND_NOTHING;
}

/* The other processes in /proc. */
static int try_processes(void)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	int result = FOUND_NOTHING;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			result = FOUND;
	}
	if (dir)
		closedir(dir);
	return result;
}

/* Waits for the namespaces of a box, and goes in. */
static int try_enter(void)
{
	int fds[BOX_NAMESPACES];
	size_t count = BOX_NAMESPACES;
	char byte;
	int status;
	pid_t pid;

	if (socket_receive(SOCKET, &byte, 1, fds, &count, NULL, 0) != 1 || count != BOX_NAMESPACES)
		return 98;
	for (int i = 0; i < BOX_NAMESPACES; i++) {
		if (setns(fds[i], 0) < 0)
			return REFUSED + i;
	}
	if (setgid(1000) < 0 || setuid(1000) < 0)
		return 97;
	pid = fork();
	if (pid == 0)
		_exit(getppid() == 0 && chdir("/workspace") == 0 ? ENTERED : 96);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 95;
	return WEXITSTATUS(status);
}

static int try(const char *what, const char *argument)
{
	if (strcmp(what, "file") == 0)
		return try_file(argument);
	if (strcmp(what, "signal") == 0)
		return try_signal(argument);
	if (strcmp(what, "port") == 0)
		return try_port(argument);
	if (strcmp(what, "processes") == 0)
		return try_processes();
	if (strcmp(what, "identity") == 0)
		return getuid() == 1000 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
				       prctl(PR_CAPBSET_READ, 0, 0, 0, 0) == 0 &&
				       access("/proc/self/task", R_OK) == 0 &&
				       unshare(CLONE_NEWUSER) < 0
			       ? FOUND
			       : FOUND_NOTHING;
	return strcmp(what, "enter") == 0 ? try_enter() : 99;
}

/* --- the tests --- */

static void start(struct nursery *nursery, const char *what, const char *argument, int socket)
{
	const char *const argv[] = {own_path, what, argument, NULL};
	const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
	const char *const read[] = {own_dir, NULL};
	const int fds[] = {-1, -1, 2, socket};
	struct nursery_params params = {
		.read = read,
		.path = own_path,
		.argv = argv,
		.envp = envp,
		.fds = fds,
		.fd_count = 4,
	};
	struct err err = ERR_INIT;

	*nursery = (struct nursery)NURSERY_INIT;
	if (nursery_start(nursery, &params, &err) < 0)
		fail_msg("%s", err.text);
}

static int found(const char *what, const char *argument)
{
	struct nursery nursery;
	int status;

	start(&nursery, what, argument, -1);
	status = WEXITSTATUS(child_wait(&nursery.child));
	nursery_release(&nursery);
	return status;
}

static void test_files(void **state)
{
	char path[] = "/tmp/fumehood-nursery-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(try_file(path), FOUND);
	assert_int_equal(found("file", path), FOUND_NOTHING);
	assert_int_equal(found("file", "/etc/shadow"), FOUND_NOTHING);
	assert_int_equal(found("file", "/usr/bin/env"), FOUND);
	assert_int_equal(found("file", own_path), FOUND);
	unlink(path);
	close(fd);
}

static void test_processes(void **state)
{
	cleanup_free char *own = mem_format("%d", (int)getpid());

	(void)state;
	assert_int_equal(try_processes(), FOUND);
	assert_int_equal(found("processes", NULL), FOUND_NOTHING);
	assert_int_equal(try_signal(own), FOUND);
	if (landlock_abi() >= 6 || geteuid() == 0)
		assert_int_equal(found("signal", own), FOUND_NOTHING);
	assert_int_equal(found("identity", NULL), FOUND);
}

static void test_network(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_free char *port = NULL;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	port = mem_format("%d", ntohs(address.sin_port));
	assert_int_equal(try_port(port), FOUND);
	assert_int_equal(found("port", port), FOUND_NOTHING);
	close(fd);
}

static void test_failures(void **state)
{
	const char *const argv[] = {"/no/such", NULL};
	const int fds[] = {-1, -1, -1};
	struct nursery nursery = NURSERY_INIT;
	struct nursery_params params = {
		.path = argv[0], .argv = argv, .envp = argv + 1, .fds = fds, .fd_count = 3};
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(nursery_start(&nursery, &params, &err), -1);
	assert_non_null(strstr(err.text, "/no/such"));
	assert_int_equal(nursery.child.pid, -1);
	assert_int_equal(nursery.user_ns, -1);
}

/* Starts a program in `nursery`, and lets it try to enter a box beneath `family` (NULL: that same
 * nursery); its exit status. */
static int enter(const struct nursery *family)
{
	char dir[] = "/tmp/fumehood-nursery-XXXXXX";
	struct nursery nursery;
	struct policy policy;
	struct err err = ERR_INIT;
	struct box *box;
	int pair[2];
	int status;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(socket_pair(SOCK_SEQPACKET, pair, &err), 0);
	start(&nursery, "enter", NULL, pair[1]);
	policy_init(&policy);
	policy.workspace = dir;
	box = box_start(&policy, TIER_FULL, family ? family->user_ns : nursery.user_ns, &err);
	if (!box)
		fail_msg("%s", err.text);
	assert_int_equal(socket_send(pair[0], "x", 1, box_namespaces(box), BOX_NAMESPACES), 0);
	status = WEXITSTATUS(child_wait(&nursery.child));
	close(pair[0]);
	close(pair[1]);
	box_free(box);
	nursery_release(&nursery);
	assert_int_equal(file_remove_tree(AT_FDCWD, dir, &err), 0);
	return status;
}

/* A box is entered from the nursery that it was made beneath, and from no other. */
static void test_family(void **state)
{
	struct nursery other;

	(void)state;
	assert_int_equal(enter(NULL), ENTERED);
	start(&other, "identity", NULL, -1);
	assert_int_equal(WEXITSTATUS(child_wait(&other.child)), FOUND);
	assert_int_equal(enter(&other), REFUSED);
	nursery_release(&other);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),   cmocka_unit_test(test_processes),
		cmocka_unit_test(test_network), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_family),
	};
	ssize_t len;

	/* Not exit(): a sanitizer would look for leaks then, and in there it can see nothing. */
	if (argc > 1)
		_exit(try(argv[1], argc > 2 ? argv[2] : ""));
	len = readlink("/proc/self/exe", own_path, sizeof(own_path) - 1);
	if (len <= 0)
		return 1;
	memcpy(own_dir, own_path, (size_t)len);
	*strrchr(own_dir, '/') = '\0';
	return cmocka_run_group_tests(tests, NULL, NULL);
}
