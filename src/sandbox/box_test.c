/* Box: starting programs, descriptors, signals, clearing, sealing, limits, tiers. */
#include "sandbox/box_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static int set_up(void **state)
{
	static struct kit kit;

	kit_init(&kit);
	*state = &kit;
	return 0;
}

static int tear_down(void **state)
{
	kit_release(*state);
	return 0;
}

static void test_exec(void **state)
{
	struct kit *kit = *state;
	const char *const argv[] = {"/bin/sh", "-c",       "printf '%s|' \"$@\" \"$X\" \"$(pwd)\"",
				    "sh",      "a b",      "c\nd",
				    "'\"\\",   "\xff\xfe", "",
				    NULL};
	const char *const envp[] = {"X=1 2", NULL};
	char text[128];
	int pair[2];
	ssize_t size;
	pid_t pid;

	kit_start(kit);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(
		box_exec(kit->box, argv, envp, (int[]){pair[0], pair[1], pair[1]}, 3, &pid, NULL),
		0);
	assert_true(pid > 1);
	assert_int_equal(kit_wait(kit, pid), 0);
	size = read(pair[0], text, sizeof(text) - 1);
	assert_true(size > 0);
	text[size] = '\0';
	assert_string_equal(text, "a b|c\nd|'\"\\|\xff\xfe||1 2|/workspace|");
	close(pair[0]);
	close(pair[1]);
}

static void test_statuses(void **state)
{
	struct kit *kit = *state;
	int status;

	kit_start(kit);
	status = kit_run(kit, "exit 3");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	status = kit_run(kit, "kill -9 $$");
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* A new session, whose leader it is; signals as a program expects them. */
	assert_string_equal(
		kit_output(kit, "cut -d' ' -f1,5,6 /proc/$$/stat | tr ' ' '\\n' | uniq | wc -l"),
		"1\n");
	assert_string_equal(
		kit_output(kit, "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '0\\n\\t '"),
		"SigBlk:SigIgn:");
}

/* Descriptors arrive in the order given, whatever their numbers, and no others do. */
static void test_descriptors(void **state)
{
	struct kit *kit = *state;
	const char *const argv[] = {"/bin/sh", "-c",
				    "for i in 0 1 2 3 4 5; do echo $i >&$i; done; "
				    "ls /proc/self/fd >&0",
				    NULL};
	int pairs[6][2];
	int fds[6];
	pid_t pid;

	kit_start(kit);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(pipe2(pairs[i], O_CLOEXEC), 0);
		/* The highest first: each number is another's target. */
		fds[5 - i] = pairs[i][1];
	}
	assert_int_equal(box_exec(kit->box, argv, NULL, fds, 6, &pid, NULL), 0);
	assert_int_equal(kit_wait(kit, pid), 0);
	for (size_t i = 0; i < 6; i++) {
		char text[64] = "";
		ssize_t size;

		close(pairs[i][1]);
		size = read(pairs[i][0], text, sizeof(text) - 1);
		assert_true(size > 0);
		text[size] = '\0';
		/* ls has one more for the directory that it reads. */
		if (i == 5)
			assert_string_equal(text, "0\n0\n1\n2\n3\n4\n5\n6\n");
		else
			assert_int_equal(text[0], '0' + (int)(5 - i));
		close(pairs[i][0]);
	}
}

static void test_no_program(void **state)
{
	struct kit *kit = *state;
	const char *const missing[] = {"/no/such", NULL};
	const char *const directory[] = {"/usr", NULL};
	struct err err = ERR_INIT;
	pid_t pid = -7;
	int status;
	int many[16] = {0};

	kit_start(kit);
	assert_int_equal(box_exec(kit->box, missing, NULL, NULL, 0, &pid, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "/no/such"));
	assert_int_equal(box_exec(kit->box, directory, NULL, NULL, 0, &pid, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(box_exec(kit->box, missing, NULL, many, 16, &pid, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	assert_int_equal(pid, -7);
	/* No report of a death comes for what never was a program. */
	assert_int_equal(box_next_exit(kit->box, &pid, &status, NULL), 0);
	assert_string_equal(kit_output(kit, "echo alive"), "alive\n");
}

static void test_signal_group(void **state)
{
	struct kit *kit = *state;
	struct err err = ERR_INIT;
	int pair[2];
	pid_t pid;
	int status;

	kit_start(kit);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid = kit_spawn(kit, "sleep 100 & sleep 100 & wait", pair[1]);
	close(pair[1]);
	assert_int_equal(box_signal(kit->box, pid, SIGTERM, NULL), 0);
	status = kit_wait(kit, pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	/* Both of its children had the pipe. */
	assert_true(kit_closes(pair[0]));
	close(pair[0]);
	assert_int_equal(box_signal(kit->box, pid, SIGTERM, &err), 0);
	assert_int_equal(box_signal(kit->box, 1, SIGKILL, &err), -1);
	assert_int_equal(box_signal(kit->box, 0, SIGKILL, &err), -1);
	assert_int_equal(box_signal(kit->box, -1, SIGKILL, &err), -1);
	assert_string_equal(kit_output(kit, "echo alive"), "alive\n");
}

/* Waits for a line that the script writes to descriptor 3 when all it starts has been started. */
static void await_line(int fd)
{
	char byte;

	do
		assert_int_equal(read(fd, &byte, 1), 1);
	while (byte != '\n');
}

/* Daemons in sessions of their own and processes that have stopped themselves are killed; what is
 * spared goes on. */
static void test_kill_others(void **state)
{
	struct kit *kit = *state;
	int pair[2];
	int kept_pair[2];
	unsigned killed = 0;
	pid_t kept;
	pid_t pid;

	kit_start(kit);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(pipe2(kept_pair, O_CLOEXEC), 0);
	kept = kit_spawn(kit, "read x <&3; exit 7", kept_pair[0]);
	pid = kit_spawn(kit,
			"for i in 1 2 3; do (setsid sh -c 'sleep 1000' &); done; "
			"sh -c 'kill -STOP $$' & trap '' TERM INT HUP; echo >&3; sleep 1000",
			pair[1]);
	close(pair[1]);
	await_line(pair[0]);
	assert_int_equal(box_kill_others(kit->box, &kept, 1, &killed, NULL), 0);
	/* The shell, its sleep, three daemons and the one that stops; some may not have been forked
	 * yet, and a daemon's shell may have become its sleep or be there beside it. */
	assert_in_range(killed, 5, 12);
	assert_true(kit_closes(pair[0]));
	close(pair[0]);
	assert_true(WIFSIGNALED(kit_wait(kit, pid)));
	assert_int_equal(box_kill_others(kit->box, &kept, 1, &killed, NULL), 0);
	assert_int_equal(killed, 0);
	assert_int_equal(write(kept_pair[1], "\n", 1), 1);
	assert_int_equal(WEXITSTATUS(kit_wait(kit, kept)), 7);
	close(kept_pair[0]);
	close(kept_pair[1]);
}

/* Of two families, each with a daemon, one is killed; the other is not even stopped. */
static void test_kill_brand(void **state)
{
	static const char script[] = "read x <&3; (setsid sh -c 'echo >&3; sleep 1000' &); "
				     "read x <&3; exit 7";
	struct kit *kit = *state;
	unsigned killed = 0;
	int pairs[2][2];
	pid_t pids[2];

	kit_start(kit);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]), 0);
		pids[i] = kit_spawn(kit, script, pairs[i][1]);
		close(pairs[i][1]);
	}
	assert_int_equal(box_brand(kit->box, pids[0], 0, NULL), -1);
	assert_int_equal(box_brand(kit->box, 1, 5, NULL), -1);
	assert_int_equal(box_brand(kit->box, pids[0], 5, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(write(pairs[i][0], "\n", 1), 1);
		await_line(pairs[i][0]);
	}
	assert_int_equal(box_kill_brand(kit->box, 4, NULL, 0, &killed, NULL), 0);
	assert_int_equal(killed, 0);
	assert_int_equal(box_kill_brand(kit->box, 5, NULL, 0, &killed, NULL), 0);
	assert_in_range(killed, 2, 4); /* the shell, its daemon, whose sleep may be there or not */
	assert_true(kit_closes(pairs[0][0]));
	assert_true(WIFSIGNALED(kit_wait(kit, pids[0])));
	assert_int_equal(write(pairs[1][0], "\n", 1), 1);
	assert_int_equal(WEXITSTATUS(kit_wait(kit, pids[1])), 7);
	/* Its daemon lives, and has the other end. */
	assert_int_equal(recv(pairs[1][0], &(char){0}, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(box_kill_brand(kit->box, 0, NULL, 0, &killed, NULL), 0);
	assert_true(kit_closes(pairs[1][0]));
	for (int i = 0; i < 2; i++)
		close(pairs[i][0]);
}

/*
 * A bomb, run inside by this very program: as an ordinary user every process forks for ever,
 * against the limit. Root has no limit on processes, so there a fixed number of processes fork and
 * end all the time: whoever kills those one by one is always late.
 */
static void explode(void)
{
	for (int i = 0; i < 30 && fork() > 0; i++)
		continue;
	if (write(3, "\n", 1) != 1)
		_exit(1);
	for (;;) {
		if (fork() > 0 && getenv("HOP"))
			_exit(0);
	}
}

static void clear_bomb(struct kit *kit, const char *program, const pid_t *keep, size_t keep_count)
{
	const char *const argv[] = {program, "explode", NULL};
	const char *const envp[] = {geteuid() == 0 ? "HOP=1" : NULL, NULL};
	unsigned killed = 0;
	int pair[2];
	pid_t pid;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	assert_int_equal(
		box_exec(kit->box, argv, envp, (int[]){-1, -1, -1, pair[1]}, 4, &pid, NULL), 0);
	close(pair[1]);
	await_line(pair[0]);
	assert_int_equal(box_kill_others(kit->box, keep, keep_count, &killed, NULL), 0);
	assert_true(killed >= 1);
	while (read(pair[0], (char[64]){0}, 64) > 0)
		continue;
	close(pair[0]);
	kit_wait(kit, pid);
	assert_int_equal(box_kill_others(kit->box, keep, keep_count, &killed, NULL), 0);
	assert_int_equal(killed, 0);
}

/* Those that outrun the rounds are stopped with all, and the others go on behind it. */
static void test_fork_bomb_of_a_brand(void **state)
{
	struct kit *kit = *state;
	cleanup_free char *program = realpath("/proc/self/exe", NULL);
	cleanup_free char *script = mem_format("read x <&3; %s exec %s explode",
					       geteuid() == 0 ? "HOP=1" : "", program);
	unsigned killed = 0;
	int pair[2], kept_pair[2];
	pid_t pid, kept;

	kit->policy.processes_max = 100;
	kit->policy.read = (const char *const[]){program, NULL};
	kit_start(kit);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pipe2(kept_pair, O_CLOEXEC), 0);
	kept = kit_spawn(kit, "read x <&3; exit 7", kept_pair[0]);
	pid = kit_spawn(kit, script, pair[1]);
	close(pair[1]);
	assert_int_equal(box_brand(kit->box, pid, 1, NULL), 0);
	assert_int_equal(write(pair[0], "\n", 1), 1);
	await_line(pair[0]);
	assert_int_equal(box_kill_brand(kit->box, 1, NULL, 0, &killed, NULL), 0);
	assert_true(killed >= 1);
	while (read(pair[0], (char[64]){0}, 64) > 0)
		continue;
	close(pair[0]);
	assert_int_equal(box_kill_brand(kit->box, 1, NULL, 0, &killed, NULL), 0);
	assert_int_equal(killed, 0);
	assert_int_equal(write(kept_pair[1], "\n", 1), 1);
	assert_int_equal(WEXITSTATUS(kit_wait(kit, kept)), 7);
	close(kept_pair[0]);
	close(kept_pair[1]);
}

static void test_fork_bomb(void **state)
{
	struct kit *kit = *state;
	cleanup_free char *program = realpath("/proc/self/exe", NULL);
	int pair[2];
	pid_t kept;

	kit->policy.processes_max = 100;
	kit->policy.read = (const char *const[]){program, NULL};
	kit_start(kit);
	clear_bomb(kit, program, NULL, 0);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	kept = kit_spawn(kit, "read x <&3; exit 7", pair[0]);
	clear_bomb(kit, program, &kept, 1);
	assert_int_equal(write(pair[1], "\n", 1), 1);
	assert_int_equal(WEXITSTATUS(kit_wait(kit, kept)), 7);
	close(pair[0]);
	close(pair[1]);
}

static void test_keep_limit(void **state)
{
	struct kit *kit = *state;
	pid_t keep[300] = {0};
	struct err err = ERR_INIT;
	unsigned killed;

	kit_start(kit);
	assert_int_equal(box_kill_others(kit->box, keep, 300, &killed, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
}

/* Enters the box as a guest does; returns what `sh` says there, as an exit status. */
static int enter(const int *namespaces)
{
	pid_t pid;
	int status;

	for (size_t i = 0; i < BOX_NAMESPACES; i++) {
		if (setns(namespaces[i], 0) < 0)
			return 100 + (int)i;
	}
	/* Root's box has other ids than this process. */
	if (setgid(1000) < 0 || setuid(1000) < 0)
		return 97;
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c",
		      "cd /workspace && test $$ -gt 1 && test \"$(hostname)\" = fumehood && "
		      "test \"$(id -u)\" = 1000",
		      (char *)NULL);
		_exit(99);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 98;
	return WEXITSTATUS(status);
}

static int enter_in_child(const int *namespaces)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(enter(namespaces));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* How many descriptors PID 1 has open, seen when it is surely done with the order before. */
static const char *count_init_descriptors(struct kit *kit)
{
	int pair[2];
	pid_t pid;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid = kit_spawn(kit, "read x <&3; ls /proc/1/fd | wc -l >count", pair[0]);
	assert_int_equal(box_signal(kit->box, pid, 0, NULL), 0);
	assert_int_equal(write(pair[1], "\n", 1), 1);
	assert_int_equal(kit_wait(kit, pid), 0);
	close(pair[0]);
	close(pair[1]);
	return kit_output(kit, "cat count");
}

/* PID 1 shows nothing of the keeper; the descriptors that were opened before the seal still let a
 * guest in. */
static void test_seal(void **state)
{
	struct kit *kit = *state;
	const int *namespaces;

	setenv("FUMEHOOD_SECRET", "hidden", 1);
	kit->host.landlock_abi = 0; /* it would hide PID 1 before the seal does */
	kit_start(kit);
	namespaces = box_namespaces(kit->box);
	assert_int_equal(enter_in_child(namespaces), 0);
	/* As much of the name as fits where the command line was. */
	kit_output(kit, "tr -d '\\0' </proc/1/cmdline");
	assert_true(kit->out.len > 0);
	assert_memory_equal(buf_bytes(&kit->out), "fumehood-init", kit->out.len);
	assert_string_equal(kit_output(kit, "tr -d '\\0' </proc/1/environ"), "");
	assert_string_equal(count_init_descriptors(kit), "2\n");
	assert_int_equal(box_seal(kit->box, NULL), 0);
	assert_string_equal(
		kit_output(kit,
			   "for f in environ maps mem auxv syscall; do cat /proc/1/$f 2>/dev/null "
			   "&& echo open; done; ls /proc/1/root/ 2>/dev/null; "
			   "readlink /proc/1/exe /proc/1/fd/0 /proc/1/cwd; cat /proc/1/comm"),
		"fumehood-init\n");
	assert_int_equal(enter_in_child(namespaces), 0);
	unsetenv("FUMEHOOD_SECRET");
}

static void test_limits(void **state)
{
	struct kit *kit = *state;

	kit->policy.processes_max = 77;
	kit->policy.files_max = 33;
	kit->policy.file_bytes_max = 4096 * 512;
	kit_start(kit);
	assert_string_equal(
		kit_output(kit, "ulimit -Hn; ulimit -n; ulimit -c; ulimit -f; "
				"grep processes /proc/self/limits | tr -s ' ' | cut -d' ' -f3,4"),
		"33\n33\n0\n4096\n77 77\n");
	/* Its signal is 25, SIGXFSZ. */
	assert_true(WTERMSIG(kit_run(kit, "exec dd if=/dev/zero of=big bs=1M count=8")) == SIGXFSZ);
	assert_string_equal(kit_output(kit, "stat -c %s big"), "2097152\n");
}

static void test_layers(void **state)
{
	struct kit *kit = *state;
	struct json *layers;
	size_t missing = 0;

	kit_start(kit);
	layers = box_layers(kit->box);
	assert_true(json_length(layers) >= 10);
	for (size_t i = 0; i < json_length(layers); i++) {
		const struct json *layer = json_at(layers, i);
		bool holds = json_get_bool(layer, "holds", false);

		assert_non_null(json_get_string(layer, "layer"));
		assert_int_equal(holds, !json_get_string(layer, "effect"));
		assert_int_equal(holds, !json_get_string(layer, "cure"));
		missing += !holds;
	}
	/* Surely the zygote, which is nobody's; where they are not to be had, the limit of memory
	 * and Landlock. */
	assert_in_range(missing, 1, 3);
	json_free(layers);
	assert_int_equal(box_tier(kit->box), TIER_FULL);
	assert_string_equal(box_workspace(kit->box), "/workspace");
}

static void test_tiers_refused(void **state)
{
	struct kit *kit = *state;
	struct err err = ERR_INIT;

	assert_null(box_start(&kit->policy, TIER_NONE, -1, &err));
	assert_int_equal(err.code, ERR_SANDBOX);
	kit->policy.floor = TIER_FULL;
	assert_null(box_start(&kit->policy, TIER_DEGRADED, -1, &err));
	assert_int_equal(err.code, ERR_SANDBOX);
}

/* Without namespaces: the same orders, on what descends from the init and on nothing else. */
static void test_none(void **state)
{
	struct kit *kit = *state;
	int pair[2];
	unsigned killed = 0;
	pid_t stranger = fork();
	int status;

	if (stranger == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	kit->policy.floor = TIER_NONE;
	kit_start(kit);
	assert_null(box_namespaces(kit->box));
	assert_string_equal(box_workspace(kit->box), kit->dir);
	assert_memory_equal(kit_output(kit, "pwd"), kit->dir, strlen(kit->dir));
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	kit_spawn(kit,
		  "for i in 1 2 3; do (setsid sh -c 'sleep 1000' &); done; echo >&3; sleep 1000",
		  pair[1]);
	await_line(pair[0]);
	assert_int_equal(box_kill_others(kit->box, NULL, 0, &killed, NULL), 0);
	assert_true(killed >= 4);
	kit_spawn(kit, "(setsid sh -c 'trap \"\" HUP TERM; echo >&3; sleep 1000' &)", pair[1]);
	await_line(pair[0]);
	close(pair[1]);
	box_free(kit->box);
	kit->box = NULL;
	assert_true(kit_closes(pair[0]));
	close(pair[0]);
	assert_int_equal(waitpid(stranger, &status, WNOHANG), 0);
	kill(stranger, SIGKILL);
	waitpid(stranger, &status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_exec),         TEST(test_statuses),
		TEST(test_descriptors),  TEST(test_no_program),
		TEST(test_signal_group), TEST(test_kill_others),
		TEST(test_kill_brand),   TEST(test_fork_bomb_of_a_brand),
		TEST(test_fork_bomb),    TEST(test_keep_limit),
		TEST(test_seal),         TEST(test_limits),
		TEST(test_layers),       TEST(test_tiers_refused),
		TEST(test_none),
	};

	if (argc > 1 && strcmp(argv[1], "explode") == 0)
		explode();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
