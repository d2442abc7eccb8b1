/*
 * What is inside a box and what is not. Each test says what fails inside; where the same would fail
 * outside as well, so that it would prove nothing, the positive control is beside it.
 */
#include "sandbox/box_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
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

static void make_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
	close(fd);
}

static void test_identity(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	assert_string_equal(kit_output(kit, "id -u; id -g; id -un; hostname; umask"),
			    "1000\n1000\nuser\nfumehood\n0022\n");
	assert_string_equal(
		kit_output(kit,
			   "grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -s '0\\t\\n' ' '"),
		"CapInh: CapPrm: CapEff: CapBnd: CapAmb: NoNewPrivs: 1 ");
	assert_string_equal(
		kit_output(kit, "grep -E '^(Cap|NoNewPrivs)' /proc/1/status | tr -s '0\\t\\n' ' '"),
		"CapInh: CapPrm: CapEff: CapBnd: CapAmb: NoNewPrivs: 1 ");
	assert_string_equal(kit_output(kit, "cat /etc/resolv.conf /etc/hostname"), "fumehood\n");
	assert_string_equal(kit_output(kit, "cat /etc/passwd | cut -d: -f1"), "user\nnobody\n");
}

static void test_root_listing(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	assert_string_equal(
		kit_output(kit,
			   "cd /; for f in *; do case $f in lib*|bin|sbin) ;; *) echo $f;; esac; "
			   "done | tr '\\n' ' '"),
		"dev etc home mnt proc run sys tmp usr var workspace ");
	assert_string_equal(kit_output(kit, "ls -A /home /sys /run /tmp /dev/shm | tr -d ' \\n'"),
			    "/dev/shm:/home:/run:/sys:/tmp:");
	assert_string_equal(kit_output(kit, "ls /mnt"), "data\n");
	assert_string_equal(
		kit_output(kit, "ls /dev | tr '\\n' ' '"),
		access("/dev/tty", F_OK) == 0
			? "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero "
			: "fd full null ptmx pts random shm stderr stdin stdout urandom zero ");
	assert_string_equal(
		kit_output(kit, "test -e /etc/shadow || test -e /etc/ssl/private || echo none"),
		"none\n");
}

static const char WRITABLE[] = "for d in / /usr /usr/bin /etc /dev /sys /proc /home /run /mnt /tmp "
			       "/dev/shm /workspace /mnt/data; do "
			       "touch $d/probe 2>/dev/null && echo $d; done | tr '\\n' ' '";

static void check_writable(struct kit *kit)
{
	cleanup_free char *path = mem_format("%s/probe", kit->dir);
	struct stat st;

	kit_start(kit);
	assert_string_equal(kit_output(kit, WRITABLE), "/tmp /dev/shm /workspace /mnt/data ");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(access("/tmp/probe", F_OK), -1);
	assert_int_equal(
		kit_run(kit, "chmod 777 /dev/null || chmod 777 /usr/bin/env || touch /dev/null"),
		256);
}

static void test_writable(void **state)
{
	check_writable(*state);
}

/* The same on a kernel without mount_setattr(2). */
static void test_writable_by_remounts(void **state)
{
	struct kit *kit = *state;

	kit->host.mount_setattr = false;
	check_writable(kit);
}

static void test_read_only_workspace(void **state)
{
	struct kit *kit = *state;

	kit->policy.workspace_mode = WORKSPACE_RO;
	kit_start(kit);
	assert_string_equal(kit_output(kit, WRITABLE), "/tmp /dev/shm ");
}

/* Whether every mount below the workspace is read-only too. In a child, which owns a mount
 * namespace. */
static int submount_is_read_only(bool mount_setattr)
{
	struct kit kit;
	cleanup_free char *sub = NULL;
	int status;

	kit_init(&kit);
	sub = mem_format("%s/a b", kit.dir);
	if (kit_enter_namespaces(CLONE_NEWNS) < 0 || mkdir(sub, 0755) < 0 ||
	    mount("tmpfs", sub, "tmpfs", 0, NULL) < 0)
		return 1;
	kit.policy.workspace_mode = WORKSPACE_RO;
	host_look(&kit.host);
	kit.host.mount_setattr = mount_setattr;
	kit_start(&kit);
	status = kit_run(
		&kit,
		"grep -q 'a.040b' /proc/self/mountinfo || exit 9; touch '/workspace/a b/probe'");
	box_free(kit.box);
	kit.box = NULL;
	umount(sub);
	kit_release(&kit);
	return status == 256 ? 0 : 2;
}

static int submount_new_kernel(void)
{
	return submount_is_read_only(true);
}

static int submount_old_kernel(void)
{
	return submount_is_read_only(false);
}

static void test_submounts(void **state)
{
	(void)state;
	kit_in_child(submount_new_kernel);
	kit_in_child(submount_old_kernel);
}

static const char *const PROC_FILES[] = {"/proc/sys/kernel/core_pattern",
					 "/proc/sys/vm/drop_caches",
					 "/proc/sysrq-trigger",
					 "/proc/irq/default_smp_affinity",
					 "/proc/sys/kernel/hostname",
					 "/proc/acpi/wakeup",
					 NULL};

static void test_proc_not_writable(void **state)
{
	struct kit *kit = *state;
	size_t opened = 0;

	kit_start(kit);
	for (size_t i = 0; PROC_FILES[i]; i++) {
		cleanup_free char *script = mem_format("exec 3>%s", PROC_FILES[i]);
		int fd = open(PROC_FILES[i], O_WRONLY | O_CLOEXEC);

		/* Opening alone does nothing to any of them. */
		opened += fd >= 0;
		if (fd >= 0)
			close(fd);
		assert_int_not_equal(kit_run(kit, script), 0);
	}
	if (geteuid() == 0)
		assert_true(opened >= 3);
	assert_int_not_equal(kit_run(kit, "chmod 0 /proc/meminfo"), 0);
	/* What programs read is there. */
	kit_output(kit, "cat /proc/meminfo /proc/cpuinfo /proc/uptime /proc/self/maps "
			"/proc/sys/kernel/pid_max");
}

static void test_proc_hidden(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	assert_string_equal(
		kit_output(kit, "for f in kcore keys timer_list sched_debug latency_stats kmsg "
				"slabinfo kpagecount sysrq-trigger; do cat /proc/$f 2>/dev/null && "
				"echo $f; done; true"),
		"");
}

static void test_processes(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	assert_string_equal(kit_output(kit, "cd /proc; set -- [0-9]*; echo $#"), "2\n");
}

/* Every mount is one of ours, none is writable that should not be, and none is shared with the
 * host. */
static void test_mounts(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	assert_string_equal(
		kit_output(kit,
			   "cut -d' ' -f5 /proc/self/mountinfo | grep -vE '^/($|usr|lib|bin|sbin|"
			   "tmp$|etc/|dev|proc|workspace$|mnt/data$)'; true"),
		"");
	assert_string_equal(kit_output(kit,
				       "cut -d' ' -f5,6 /proc/self/mountinfo | grep -vE ' ro,' | "
				       "cut -d' ' -f1 | sort | tr '\\n' ' '"),
			    "/dev/pts /dev/shm /mnt/data /proc /tmp /workspace ");
	assert_string_equal(kit_output(kit, "grep -v nosuid /proc/self/mountinfo; true"), "");
	assert_string_equal(
		kit_output(kit,
			   "cut -d' ' -f5,6 /proc/self/mountinfo | grep -vE '^/dev|nodev'; true"),
		"");
	assert_string_equal(
		kit_output(kit, "grep -E 'shared:|master:|unbindable' /proc/self/mountinfo; true"),
		"");
	/* Above / there is /. */
	kit_output(kit, "test \"$(ls -a /)\" = \"$(ls -a /..)\" && test $(stat -c %i /) = $(stat "
			"-c %i /..)");
}

static void test_nothing_nests(void **state)
{
	static const char *const options[] = {"-U", "-m", "-n", "-i", "-p", "-u", "-C", "-Ur"};
	struct kit *kit = *state;

	if (access("/usr/bin/unshare", X_OK) < 0) {
		print_message("skipped: no /usr/bin/unshare\n");
		skip();
	}
	kit_start(kit);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		cleanup_free char *script = mem_format("unshare %s true", options[i]);

		assert_int_not_equal(kit_run(kit, script), 0);
	}
	assert_int_equal(
		WEXITSTATUS(kit_run(kit, "mount -t tmpfs x /tmp 2>/dev/null && exit 9; exit 5")),
		5);
	assert_string_equal(kit_output(kit, "cat /proc/sys/user/max_user_namespaces"), "0\n");
	assert_string_equal(kit_output(kit, "cat /proc/sys/user/max_inotify_instances"), "64\n");
}

static int listen_on(int domain, const struct sockaddr *address, socklen_t size)
{
	int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, address, size), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

/* A port on the host's loopback is not the box's; its own loopback is up. */
static void test_network(void **state)
{
	struct kit *kit = *state;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int listener = listen_on(AF_INET, (struct sockaddr *)&address, size);
	int control = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_free char *script = NULL;

	getsockname(listener, (struct sockaddr *)&address, &size);
	assert_int_equal(connect(control, (struct sockaddr *)&address, size), 0);
	script = mem_format("exec 3<>/dev/tcp/127.0.0.1/%d", ntohs(address.sin_port));
	kit_start(kit);
	assert_string_equal(kit_output(kit, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"),
			    "lo\n");
	if (access("/bin/bash", X_OK) == 0) {
		const char *const argv[] = {"/bin/bash", "-c", script, NULL};
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		pid_t pid;

		assert_int_equal(
			box_exec(kit->box, argv, NULL, (int[]){null, null, null}, 3, &pid, NULL),
			0);
		assert_int_equal(WEXITSTATUS(kit_wait(kit, pid)), 1);
		close(null);
	}
	close(control);
	close(listener);
}

static void test_memory_files(void **state)
{
	struct kit *kit = *state;

	kit->policy.tmp_bytes_max = 1 << 20;
	kit->policy.tmp_inodes_max = 50;
	kit_start(kit);
	assert_int_not_equal(
		kit_run(kit, "dd if=/dev/zero of=/tmp/big bs=64k count=17 2>/dev/null"), 0);
	assert_string_equal(kit_output(kit, "stat -c %s /tmp/big; rm /tmp/big"), "1048576\n");
	assert_int_not_equal(kit_run(kit, "for i in $(seq 60); do : >/dev/shm/$i || exit 1; done"),
			     0);
	assert_int_equal(WEXITSTATUS(kit_run(
				 kit, "cp /bin/true /tmp/t && /tmp/t && cp /bin/true /dev/shm/t && "
				      "/dev/shm/t 2>/dev/null; exit $?")),
			 1);
}

static void test_devices(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	assert_string_equal(
		kit_output(kit,
			   "echo x >/dev/null; head -c4 /dev/zero | wc -c; "
			   "head -c4 /dev/urandom | wc -c; echo y >/dev/stdout; echo z >/dev/fd/1; "
			   "echo 2>/dev/null >/dev/full || echo full"),
		"4\n4\ny\nz\nfull\n");
	assert_int_not_equal(kit_run(kit, "mknod /tmp/d c 1 3"), 0);
	if (access("/usr/bin/script", X_OK) == 0)
		assert_non_null(strstr(kit_output(kit, "script -qc tty /dev/null </dev/null"),
				       "/dev/pts/0"));
}

/* Only what the policy names is visible, at its own place, through the symlinks that the host has.
 */
static void test_environment(void **state)
{
	struct kit *kit = *state;
	char top[] = "/tmp/fumehood-env-XXXXXX";
	cleanup_free char *real = NULL;
	cleanup_free char *tool = NULL;
	cleanup_free char *secret = NULL;
	cleanup_free char *link = NULL;
	cleanup_free char *script = NULL;

	assert_non_null(mkdtemp(top));
	real = mem_format("%s/versions/3 11.7/bin", top);
	tool = mem_format("%s/tool", real);
	secret = mem_format("%s/versions/secret", top);
	link = mem_format("%s/current", top);
	assert_int_equal(file_make_dirs(real, 0755, NULL), 0);
	make_file(tool, "#!/bin/sh\necho tool\n", 0755);
	make_file(secret, "secret\n", 0644);
	assert_int_equal(symlink("versions/3 11.7", link), 0);
	kit->policy.read = (const char *const[]){link, "/no/such", "/usr/share", NULL};
	kit_start(kit);
	script = mem_format(
		"%s/bin/tool; ls %s/versions; '%s/tool'; cat %s 2>/dev/null; "
		"touch %s/bin/x 2>/dev/null || echo ro; rm -rf %s/bin 2>/dev/null; ls %s/bin/",
		link, top, real, secret, link, link, link);
	assert_string_equal(kit_output(kit, script), "tool\n3 11.7\ntool\nro\ntool\n");
	assert_int_equal(file_remove_tree(AT_FDCWD, top, NULL), 0);
}

static void test_real_python(void **state)
{
	static const char prefix[] = "/root/.pyenv/versions/3.11.7";
	struct kit *kit = *state;

	if (access("/root/.pyenv/versions/3.11.7/bin/python", X_OK) < 0) {
		print_message("skipped: no Python outside /usr that this user may run\n");
		skip();
	}
	kit->policy.read = (const char *const[]){prefix, NULL};
	kit_start(kit);
	assert_string_equal(
		kit_output(kit,
			   "/root/.pyenv/versions/3.11.7/bin/python -c 'import ssl, sqlite3, os, "
			   "ctypes; print(os.listdir(\"/root\"), os.listdir(\"/root/.pyenv\"))'"),
		"['.pyenv'] ['versions']\n");
}

static void test_odd_workspace(void **state)
{
	struct kit *kit = *state;
	static const char *const names[] = {"a b",      "new\nline",        "quote'\"`$(x)",
					    "\xff\xfe", "back\\slash\\040", "-n"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cleanup_free char *path = mem_format("%s/%s", kit->dir, names[i]);
		cleanup_free char *file = mem_format("%s/file", path);

		assert_int_equal(mkdir(path, 0755), 0);
		kit->policy.workspace = path;
		kit->policy.read = (const char *const[]){path, NULL};
		kit->host.mount_setattr = i % 2 == 0;
		kit_start(kit);
		kit_output(kit, "echo x >file");
		assert_int_equal(access(file, F_OK), 0);
		box_free(kit->box);
		kit->box = NULL;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_identity),
		TEST(test_root_listing),
		TEST(test_writable),
		TEST(test_writable_by_remounts),
		TEST(test_read_only_workspace),
		TEST(test_submounts),
		TEST(test_proc_not_writable),
		TEST(test_proc_hidden),
		TEST(test_processes),
		TEST(test_mounts),
		TEST(test_nothing_nests),
		TEST(test_network),
		TEST(test_memory_files),
		TEST(test_devices),
		TEST(test_environment),
		TEST(test_real_python),
		TEST(test_odd_workspace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
