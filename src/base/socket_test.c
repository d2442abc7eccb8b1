/*
 * Sockets: files that are left over, paths that are too long, messages with too many descriptors.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"

static char root[] = "/tmp/socket_test.XXXXXX";

static int set_up(void **state)
{
	(void)state;
	memcpy(root + sizeof(root) - 7, "XXXXXX", 6);
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return file_remove_tree(AT_FDCWD, root, NULL);
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void exchange(const char *dir, const char *name, int type)
{
	cleanup_free char *path = mem_format("%s/%s", dir, name);
	struct err err = ERR_INIT;
	cleanup_fd int listening = socket_listen(dir, name, type, &err);
	cleanup_fd int client = socket_connect(dir, name, type, &err);
	cleanup_fd int server = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	char text[8] = "";
	struct stat st;

	if (listening < 0 || client < 0)
		fail_msg("%s: %s", path, err.text);
	assert_true(server >= 0);
	assert_true(fcntl(listening, F_GETFL) & O_NONBLOCK);
	assert_false(fcntl(client, F_GETFL) & O_NONBLOCK);
	assert_int_equal(fcntl(listening, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(client, F_GETFD), FD_CLOEXEC);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(socket_peer_uid(server), geteuid());
	assert_int_equal(socket_send(client, "hello", 5, NULL, 0), 0);
	assert_int_equal(socket_receive(server, text, sizeof(text), NULL, NULL, NULL, 0), 5);
	assert_string_equal(text, "hello");
}

static void test_listen(void **state)
{
	(void)state;
	exchange(root, "s", SOCK_STREAM);
	exchange(root, "s", SOCK_SEQPACKET); /* over the file the first has left */
}

static void test_long_path(void **state)
{
	cleanup_free char *dir = NULL;
	char part[90];
	struct err err = ERR_INIT;
	char name[120];

	(void)state;
	memset(part, 'p', sizeof(part) - 1);
	part[sizeof(part) - 1] = '\0';
	dir = mem_format("%s/%s/%s", root, part, part);
	assert_int_equal(file_make_dirs(dir, 0700, NULL), 0);
	exchange(dir, "socket", SOCK_SEQPACKET);
	exchange(dir, "socket", SOCK_STREAM);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(socket_listen(dir, name, SOCK_STREAM, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(socket_connect("/none", part, SOCK_STREAM, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_in_use(void **state)
{
	struct err err = ERR_INIT;
	cleanup_fd int first = socket_listen(root, "s", SOCK_STREAM, &err);
	cleanup_free char *file = mem_format("%s/file", root);

	(void)state;
	assert_true(first >= 0);
	assert_int_equal(socket_listen(root, "s", SOCK_STREAM, &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	assert_int_equal(socket_listen(root, "s", SOCK_SEQPACKET, &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	/* What is no socket is not removed. */
	close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(socket_listen(root, "file", SOCK_STREAM, &err), -1);
	assert_int_equal(access(file, F_OK), 0);
	assert_int_equal(socket_listen("/none", "s", SOCK_STREAM, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_nobody_listens(void **state)
{
	struct err err = ERR_INIT;
	int fd = socket_listen(root, "s", SOCK_STREAM, &err);

	(void)state;
	close(fd);
	assert_int_equal(socket_connect(root, "s", SOCK_STREAM, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	err = (struct err)ERR_INIT;
	assert_int_equal(socket_connect(root, "none", SOCK_STREAM, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* What somebody has put in the place of a socket is not spoken to, even where it would answer. */
static void test_planted(void **state)
{
	static const char *const names[] = {"link", "dangling", "loop", "fifo", "file", "folder"};
	cleanup_fd int listening = socket_listen(root, "real", SOCK_STREAM, NULL);
	cleanup_fd int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int client = socket_connect(root, "real", SOCK_STREAM, NULL);
	int before = count_fds();

	(void)state;
	assert_true(listening >= 0 && client >= 0);
	assert_int_equal(symlinkat("real", dir, "link"), 0);
	assert_int_equal(symlinkat("none", dir, "dangling"), 0);
	assert_int_equal(symlinkat("loop", dir, "loop"), 0);
	assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
	assert_int_equal(mkdirat(dir, "folder", 0700), 0);
	assert_int_equal(file_replace(dir, "file", "x", 1, 0600, NULL), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct err err = ERR_INIT;

		assert_int_equal(socket_connect(root, names[i], SOCK_STREAM, &err), -1);
		if (err.code != ERR_DENIED || !strstr(err.text, "is no socket"))
			fail_msg("%s: %s", names[i], err.text);
	}
	assert_int_equal(count_fds(), before);
}

/* As root: a socket on which another user listens. */
static void test_of_another_user(void **state)
{
	struct err err = ERR_INIT;
	int ends[2], status;
	char byte;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
		return;
	}
	assert_int_equal(chmod(root, 0777), 0);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		if (setresuid(12345, 12345, 12345) != 0 ||
		    socket_listen(root, "theirs", SOCK_STREAM, NULL) < 0 ||
		    write(ends[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(socket_connect(root, "theirs", SOCK_STREAM, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_non_null(strstr(err.text, "has uid 12345"));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(ends[0]);
	close(ends[1]);
}

static void test_messages(void **state)
{
	bool truncated = true;
	char text[8] = "";
	int fds[2];

	(void)state;
	assert_int_equal(socket_pair(SOCK_SEQPACKET, fds, NULL), 0);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(socket_send(fds[0], "one", 3, NULL, 0), 0);
	assert_int_equal(socket_send(fds[0], "two and more", 12, NULL, 0), 0);
	assert_int_equal(socket_receive(fds[1], text, 8, NULL, NULL, &truncated, 0), 3);
	assert_false(truncated);
	assert_memory_equal(text, "one", 3);
	assert_int_equal(socket_receive(fds[1], text, 8, NULL, NULL, &truncated, 0), 8);
	assert_true(truncated);
	assert_int_equal(socket_receive(fds[1], text, 8, NULL, NULL, &truncated, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close(fds[0]);
	assert_int_equal(socket_receive(fds[1], text, 8, NULL, NULL, &truncated, 0), 0);
	assert_int_equal(socket_send(fds[1], "x", 1, NULL, 0), -1);
	assert_int_equal(errno, EPIPE);
	close(fds[1]);
	assert_int_equal(socket_peer_uid(fds[1]), (uid_t)-1);
}

static void test_descriptors(void **state)
{
	int before = count_fds();
	int many[SOCKET_FDS_MAX];
	int got[SOCKET_FDS_MAX];
	bool truncated;
	char text[8];
	int fds[2];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(socket_pair(SOCK_SEQPACKET, fds, NULL), 0);
	for (size_t i = 0; i < SOCKET_FDS_MAX; i++)
		many[i] = null;
	for (size_t room = 0; room <= SOCKET_FDS_MAX; room++) {
		size_t count = room;

		assert_int_equal(socket_send(fds[0], "x", 1, many, SOCKET_FDS_MAX), 0);
		assert_int_equal(socket_receive(fds[1], text, 8, got, &count, &truncated, 0), 1);
		assert_int_equal(count, room);
		assert_int_equal(truncated, room < SOCKET_FDS_MAX);
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(fcntl(got[i], F_GETFD), FD_CLOEXEC);
			close(got[i]);
		}
	}
	/* Nobody asked for any. */
	assert_int_equal(socket_send(fds[0], "x", 1, many, 3), 0);
	assert_int_equal(socket_receive(fds[1], text, 8, NULL, NULL, NULL, 0), 1);
	close(fds[0]);
	close(fds[1]);
	close(null);
	assert_int_equal(count_fds(), before);
}

/* More descriptors than any of ours would send, and some with an empty message. */
static void test_hostile_descriptors(void **state)
{
	enum { HOSTILE = 250 };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(HOSTILE * sizeof(int))];
	} control = {.bytes = {0}};
	int before = count_fds();
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct iovec part = {.iov_base = (char[]){'x'}, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
	int got[SOCKET_FDS_MAX];
	bool truncated = false;
	size_t count;
	char text[8];
	int fds[2];

	(void)state;
	assert_int_equal(socket_pair(SOCK_SEQPACKET, fds, NULL), 0);
	message.msg_controllen = sizeof(control);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(HOSTILE * sizeof(int));
	for (size_t i = 0; i < HOSTILE; i++)
		memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &null, sizeof(int));
	assert_int_equal(sendmsg(fds[0], &message, 0), 1);
	part.iov_len = 0;
	assert_int_equal(sendmsg(fds[0], &message, 0), 0);

	count = 4;
	assert_int_equal(socket_receive(fds[1], text, 8, got, &count, &truncated, 0), 1);
	assert_int_equal(count, 4);
	assert_true(truncated);
	for (size_t i = 0; i < count; i++)
		close(got[i]);
	count = 4;
	assert_int_equal(socket_receive(fds[1], text, 8, got, &count, &truncated, 0), 0);
	assert_int_equal(count, 0);
	close(fds[0]);
	close(fds[1]);
	close(null);
	assert_int_equal(count_fds(), before);
}

#define SOCKET_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SOCKET_TEST(test_listen),
		SOCKET_TEST(test_long_path),
		SOCKET_TEST(test_in_use),
		SOCKET_TEST(test_nobody_listens),
		SOCKET_TEST(test_planted),
		SOCKET_TEST(test_of_another_user),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_hostile_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
