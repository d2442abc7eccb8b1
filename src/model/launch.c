/*
 * See launch.h. Both ends are here: launch() in the owner, launch_run() in what it starts.
 */
#include "model/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "sandbox/landlock.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

enum { LOG_BYTES_MAX = 64 << 20, FIRST_WORD = 3, FAILED = 126 };

int launch(const struct json *argv, const char *folder, int log, struct child *child,
	   struct err *err)
{
	cleanup_free char *program = paths_helper("fumehood-ask", err);
	cleanup_free char *parent = mem_format("%ld", (long)getpid());
	size_t count = json_length(argv);
	cleanup_free const char **words = mem_resize(NULL, count + FIRST_WORD + 1, sizeof(*words));
	const int fds[] = {-1, log, log};
	const struct child_params params = {
		.path = program, .argv = words, .fds = fds, .fd_count = 3, .directory = folder};

	if (!program)
		return -1;
	words[0] = LAUNCH_NAME;
	words[1] = parent;
	words[2] = folder;
	for (size_t i = 0; i < count; i++)
		words[FIRST_WORD + i] = json_string(json_at(argv, i), NULL);
	words[FIRST_WORD + count] = NULL;
	return child_start(&params, child, err);
}

/* --- the other end ---------------------------------------------------------------------------- */

static int fail(const char *what)
{
	dprintf(STDERR_FILENO, "fumehood: %s: %s\n", what, strerror(errno));
	return FAILED;
}

static int allow(int ruleset, int abi, const char *path, uint64_t rights)
{
	cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	return landlock_allow(ruleset, fd, rights & landlock_handled(abi));
}

static int restrict_files(const char *folder)
{
	int abi = landlock_abi();
	uint64_t scopes =
		abi >= LANDLOCK_ABI_SCOPES ? LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT : 0;
	cleanup_fd int ruleset = -1;

	if (abi == 0)
		return 0;
	ruleset = landlock_create(landlock_handled(abi), scopes);
	if (ruleset < 0 || allow(ruleset, abi, "/", LANDLOCK_READ) != 0 ||
	    allow(ruleset, abi, "/dev", LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_IOCTL_DEV) !=
		    0 ||
	    allow(ruleset, abi, folder, LANDLOCK_READ | LANDLOCK_CHANGE) != 0)
		return -1;
	return landlock_restrict(ruleset);
}

#ifdef ARCH
#define ANSWER(number, action) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, (action))

/* No connections, no sockets but Unix ones, nothing that goes round this (io_uring) or into other
 * processes. */
static int restrict_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		/* x32 */
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		ANSWER(SYS_connect, SECCOMP_RET_ERRNO | EACCES),
		ANSWER(SYS_ptrace, SECCOMP_RET_ERRNO | EPERM),
		ANSWER(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM),
		ANSWER(SYS_process_vm_writev, SECCOMP_RET_ERRNO | EPERM),
		ANSWER(SYS_pidfd_getfd, SECCOMP_RET_ERRNO | EPERM),
		ANSWER(SYS_io_uring_setup, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0U, &program) == 0)
		return 0;
	return errno == ENOSYS || errno == EINVAL ? 0 : -1;
}
#else
static int restrict_calls(void)
{
	return 0;
}
#endif

/* The first that goes when memory is short; a log that stays small; no core of 2 GB. */
static void set_limits(void)
{
	const struct rlimit none = {0, 0}, log = {LOG_BYTES_MAX, LOG_BYTES_MAX};
	cleanup_fd int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (score >= 0)
		(void)file_write_all(score, "500", 3, NULL);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)setrlimit(RLIMIT_FSIZE, &log);
	(void)signal(SIGXFSZ, SIG_IGN);
}

/* Beginnings of what the server is given of the environment: what libraries for processors and
 * graphics cards read, and wishes to llama.cpp (LLAMA_ARG_N_GPU_LAYERS). No secret of another
 * program, such as OPENAI_API_KEY. */
static const char *const PASSED_ON[] = {
	"PATH=",  "HOME=", "LANG=", "LC_",   "TMPDIR=", "LD_LIBRARY_PATH=", "XDG_", "FUMEHOOD_",
	"PYTHON", "LLAMA_", "GGML_", "CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "VK_", "OMP_",
	"GOMP_",  "KMP_",  "MKL_",  "OPENBLAS_",
};

static bool is_passed_on(const char *entry)
{
	for (size_t i = 0; i < sizeof(PASSED_ON) / sizeof(*PASSED_ON); i++)
		if (strncmp(entry, PASSED_ON[i], strlen(PASSED_ON[i])) == 0)
			return true;
	return false;
}

static void clean_environment(void)
{
	/* With these nobody could ask it: the user's own server has them. */
	static const char *const names[] = {"LLAMA_API_KEY", "LLAMA_ARG_API_KEY",
					    "LLAMA_ARG_API_PREFIX", "LLAMA_ARG_SSL_KEY_FILE",
					    "LLAMA_ARG_SSL_CERT_FILE"};
	char **kept = environ;

	for (char **entry = environ; *entry; entry++)
		if (is_passed_on(*entry))
			*kept++ = *entry;
	*kept = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unsetenv(names[i]);
}

int launch_run(int argc, char **argv)
{
	if (argc <= FIRST_WORD)
		return fail("arguments are missing");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		return fail("prctl");
	if (getppid() != (pid_t)strtol(argv[1], NULL, 10))
		return FAILED; /* it has died in between */
	set_limits();
	clean_environment();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || restrict_files(argv[2]) != 0 ||
	    restrict_calls() != 0)
		return fail("cannot confine the model's server");
	execv(argv[FIRST_WORD], argv + FIRST_WORD);
	return fail(argv[FIRST_WORD]);
}
