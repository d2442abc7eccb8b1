/*
 * What the limits of a box as a whole do to the code in it.
 */
#include "sandbox/box_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/members.h"

enum { MIB = 1 << 20 };

static int setup(void **state)
{
	struct kit *kit = mem_zalloc(sizeof(*kit));

	kit_init(kit);
	*state = kit;
	return 0;
}

static int teardown(void **state)
{
	kit_release(*state);
	free(*state);
	return 0;
}

/* False, with the reason said, where nothing but polling is to be had. */
static bool has_group(const struct kit *kit)
{
	if (box_limit_how(kit->box, BOX_MEMORY))
		return true;
	print_message("skipped: cannot simulate control groups as this user\n");
	return false;
}

static void test_memory(void **state)
{
	struct kit *kit = *state;
	struct box_usage usage;
	const char *out;

	kit->policy.memory_bytes_max = 64 * MIB;
	kit_start(kit);
	if (!has_group(kit)) {
		skip();
		return;
	}
	out = kit_output(kit, "head -c 400M /dev/zero | tail | wc -c; echo after");
	assert_non_null(strstr(out, "after"));
	box_read_usage(kit->box, &usage);
	assert_true(usage.memory_kills >= 1);
	assert_true(usage.memory_bytes <= 64 * MIB);
	/* The positive control: it is the limit that does it. */
	kit->policy.memory_bytes_max = 0;
	assert_int_equal(box_change_limits(kit->box, &kit->policy, NULL), 0);
	assert_string_equal(kit_output(kit, "head -c 100M /dev/zero | tail | wc -c"),
			    "104857600\n");
}

/* What lies in the box's own /tmp is memory as well. */
static void test_memory_of_tmp(void **state)
{
	struct kit *kit = *state;
	struct box_usage usage;

#ifdef __SANITIZE_ADDRESS__
	/* The kernel takes the largest process. */
	print_message("skipped: cannot simulate a small init with a sanitizer\n");
	skip();
#endif
	kit->policy.memory_bytes_max = 64 * MIB;
	kit_start(kit);
	if (!has_group(kit)) {
		skip();
		return;
	}
	kit_run(kit, "head -c 100M /dev/zero >/tmp/big");
	box_read_usage(kit->box, &usage);
	assert_true(usage.memory_kills >= 1);
}

static void test_processes(void **state)
{
	struct kit *kit = *state;
	struct box_usage usage;
	unsigned killed;
	const char *out;

	kit->policy.processes_max = 30;
	kit_start(kit);
	kit_run(kit, "for i in $(seq 100); do sleep 600 </dev/null >/dev/null 2>&1 & done");
	out = buf_bytes(&kit->out);
	assert_non_null(strstr(out, "ork")); /* cannot fork */
	box_read_usage(kit->box, &usage);
	assert_int_equal(usage.memory_kills, 0);
	assert_int_equal(box_kill_others(kit->box, NULL, 0, &killed, NULL), 0);
	assert_in_range(killed, 10, 30);
}

/* Without a group: what they use is found out by looking at them from outside. */
static void test_looking(void **state)
{
	struct kit *kit = *state;
	cleanup_members struct members members = MEMBERS_INIT;
	struct members_usage usage, again;
	int ends[2];
	char byte;
	pid_t pid, root;

	kit_start(kit);
	root = box_pid(kit->box);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = kit_spawn(kit, "sleep 600 & sleep 600 & echo x >&3; wait", ends[1]);
	close(ends[1]);
	assert_true(pid > 0);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	members_find(&members, &root, 1);
	assert_true(members.count >= 3); /* the init, the shell, and what that has started */
	members_read(&members, 0, 0, &usage);
	assert_true(usage.memory_bytes > MIB && usage.memory_bytes < UINT64_C(1) << 40);
	members_read(&members, 0, 1, &again); /* counted once what they share */
	assert_true(again.memory_bytes > 0 && again.memory_bytes < usage.memory_bytes);
	close(ends[0]);
}

/* A memfd is counted once, be it named by two descriptors of two processes and mapped as well. */
static void test_memfd(void **state)
{
	struct members_usage usage;
	cleanup_fd int fd = memfd_create("test", MFD_CLOEXEC);
	cleanup_fd int again = dup(fd);
	cleanup_members struct members members = MEMBERS_INIT;
	const size_t size = 64 * MIB;
	char byte, *bytes;
	int ready[2];
	pid_t root;

	(void)state;
	assert_true(fd >= 0 && again >= 0);
	assert_int_equal(posix_fallocate(fd, 0, (off_t)size), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	root = fork();
	if (root == 0) {
		bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		for (size_t i = 0; bytes != MAP_FAILED && i < size; i += 4096)
			bytes[i] = 1;
		(void)fork();
		(void)!write(ready[1], "r", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	members_find(&members, &root, 1);
	assert_int_equal(members.count, 2);
	members_read(&members, 0, 1, &usage);
	assert_in_range(usage.memory_bytes, size, size + size / 2);
	/* What is said to be stored adds to it. */
	members_read(&members, size, 1, &usage);
	assert_in_range(usage.memory_bytes, 2 * size, 2 * size + size / 2);
	for (size_t i = members.count; i-- > 0;)
		assert_int_equal(kill(members.pids[i], SIGKILL), 0);
	assert_int_equal(waitpid(root, NULL, 0), root);
	close(ready[0]);
	close(ready[1]);
}

/* A process that is no child of the init, as a guest of the zygote's is: it and what it has forked
 * are put into the group, and one that has ended is told of. */
static void test_adopt(void **state)
{
	struct kit *kit = *state;
	struct err err = ERR_INIT;
	pid_t outside, *child;
	int ends[2], ready[2], status;
	char byte;

	kit->policy.memory_bytes_max = 64 * MIB;
	kit_start(kit);
	if (!has_group(kit)) {
		skip();
		return;
	}
	child = mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(child, MAP_FAILED);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	outside = fork();
	if (outside == 0) {
		close(ends[1]);
		*child = fork();
		if (*child == 0)
			*child = getpid();
		(void)!write(ready[1], "r", 1);
		(void)!read(ends[0], &byte, 1);
		_exit(0);
	}
	close(ends[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(box_adopt(kit->box, outside, &err), 0);
	for (int i = 0; i < 2; i++) {
		cleanup_free char *path = mem_format("/proc/%d/cgroup", i ? *child : outside);
		cleanup_fd int fd = open(path, O_RDONLY);
		char text[4096] = "";

		assert_true(read(fd, text, sizeof(text) - 1) > 0);
		assert_non_null(strstr(text, "/fumehood-"));
	}
	close(ends[1]);
	assert_int_equal(waitpid(outside, &status, 0), outside);
	assert_int_equal(box_adopt(kit->box, outside, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	close(ready[0]);
	close(ready[1]);
	munmap(child, sizeof(*child));
}

static const char *how(const struct kit *kit)
{
	static char text[64];
	cleanup_json struct json *layers = box_layers(kit->box);

	text[0] = '\0';
	for (size_t i = 0; i < json_length(layers); i++) {
		const struct json *layer = json_at(layers, i);
		const char *word = json_get_string(layer, "how");

		if (strcmp(json_get_string(layer, "layer"), "memory limit") == 0 && word)
			snprintf(text, sizeof(text), "%s", word);
	}
	return text;
}

static void test_report(void **state)
{
	struct kit *kit = *state;
	const char *hard;

	kit_start(kit);
	hard = box_limit_how(kit->box, BOX_MEMORY);
	assert_string_equal(how(kit), hard ? hard : "soft: polling");
	assert_true(!hard || strncmp(hard, "hard: cgroup v", 14) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory_of_tmp, setup, teardown),
		cmocka_unit_test_setup_teardown(test_processes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_looking, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memfd, setup, teardown),
		cmocka_unit_test_setup_teardown(test_adopt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_report, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
