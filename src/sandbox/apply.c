/*
 * The steps that are no mounts, and the one loop over all of them (mounts: apply_mount.c).
 */
#include "sandbox/apply.h"

#include <errno.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sandbox/apply_mount.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"

enum { CAPABILITIES_MAX = 64 };

static const char NAME[] = "fumehood-init";

/* The copied strings are this process's own memory by now (copy on write): the keeper keeps its. */
static int forget(const struct host *host)
{
	char *args = (char *)host->arg_start; // NOLINT(performance-no-int-to-ptr)
	char *env = (char *)host->env_start;  // NOLINT(performance-no-int-to-ptr)
	size_t size = host->arg_end - host->arg_start;

	memset(args, 0, size);
	memcpy(args, NAME, size < sizeof(NAME) ? size - 1 : sizeof(NAME));
	if (host->env_end > host->env_start)
		memset(env, 0, host->env_end - host->env_start);
	return prctl(PR_SET_NAME, NAME, 0, 0, 0);
}

/* The keeper writes them: only who is privileged outside may map another id than its own. */
static int await_id_maps(int socket)
{
	char go;

	if (recv(socket, &go, sizeof(go), 0) == (ssize_t)sizeof(go))
		return (int)syscall(SYS_setgroups, 0, NULL);
	errno = ECANCELED;
	return -1;
}

static int write_id_maps(const struct step *step)
{
	for (size_t i = 0; i < STEP_OPTIONS_MAX && step->options[i].key; i++) {
		if (apply_write(AT_FDCWD, step->options[i].key, step->options[i].value) < 0)
			return -1;
	}
	return 0;
}

static int bring_up_loopback(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int result;

	if (fd < 0)
		return -1;
	result = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return result;
}

static int set_hostname(const char *name)
{
	static const char domain[] = "(none)";

	if (syscall(SYS_sethostname, name, strlen(name)) < 0)
		return -1;
	return (int)syscall(SYS_setdomainname, domain, strlen(domain));
}

static int become_user(void)
{
	if (kernel_set_ids(KERNEL_ID) < 0)
		return -1;
	/* Dumpable until the keeper seals it: the keeper opens the namespaces through /proc, and
	 * the first guest enters them. */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* Closes all but `socket`; from then on its other end is held by the parent alone, so a hang-up
 * means that the parent has died, perhaps before PDEATHSIG was set. */
static int close_others(int socket)
{
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};

	kernel_close_range(0, (unsigned)socket - 1);
	kernel_close_range((unsigned)socket + 1, ~0U);
	if (poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLHUP | POLLERR)))
		kernel_exit(1);
	return 0;
}

static int lock_securebits(void)
{
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			     SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

	return prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
}

static int drop_capabilities(void)
{
	unsigned long cap = 0;

	while (cap < CAPABILITIES_MAX && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
		cap++;
	/* EINVAL: behind the last capability that this kernel has. */
	if (cap < CAPABILITIES_MAX && (cap == 0 || errno != EINVAL))
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	return kernel_drop_capabilities();
}

/* Fails closed: if a user namespace can be made, the limits did not take. */
static int prove_no_nesting(void)
{
	if (syscall(SYS_unshare, CLONE_NEWUSER) == 0) {
		errno = EEXIST;
		return -1;
	}
	return 0;
}

static int run_process_step(const struct step *step, const struct plan *plan, int socket)
{
	switch (step->kind) {
	case STEP_FORGET:
		return forget(&plan->host);
	case STEP_ID_MAPS:
		return plan_has_own_ids(plan) ? await_id_maps(socket) : write_id_maps(step);
	case STEP_LOOPBACK:
		return bring_up_loopback();
	case STEP_HOSTNAME:
		return set_hostname(step->source);
	case STEP_NEW_SESSION:
		return setsid() < 0 ? -1 : 0;
	case STEP_SUBREAPER:
		return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	case STEP_IDS:
		return become_user();
	case STEP_PARENT_DEATH:
		return prctl(PR_SET_PDEATHSIG, (unsigned long)step->value, 0, 0, 0);
	case STEP_CLOSE:
		return close_others(socket);
	case STEP_SECUREBITS:
		return lock_securebits();
	case STEP_CAPABILITIES:
		return drop_capabilities();
	case STEP_NO_NEW_PRIVILEGES:
		return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	case STEP_PROVE_NO_NESTING:
		return prove_no_nesting();
	case STEP_PROPAGATION:
	case STEP_ROOT:
	case STEP_DIRECTORY:
	case STEP_FILE:
	case STEP_LINK:
	case STEP_BIND:
	case STEP_BIND_PROCESS:
	case STEP_BIND_ITSELF:
	case STEP_BIND_INSIDE:
	case STEP_OVERLAY:
	case STEP_UNMOUNT:
	case STEP_MOUNT:
	case STEP_READ_ONLY:
	case STEP_WRITE:
	case STEP_PIVOT:
	case STEP_LANDLOCK:
	case STEP_LANDLOCK_ALLOW:
	case STEP_KIND_COUNT:
		break;
	}
	errno = ENOSYS;
	return -1;
}

static int run_landlock_step(const struct step *step, int *ruleset)
{
	uint64_t rights = step->attributes;
	struct stat st;
	int path, result;

	if (step->kind == STEP_LANDLOCK) {
		*ruleset = landlock_create(rights, (uint64_t)step->value);
		return *ruleset < 0 ? -1 : 0;
	}
	path = open(step->target, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (path < 0)
		return -1;
	if (fstat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		rights &= LANDLOCK_OF_FILES;
	result = landlock_allow(*ruleset, path, rights);
	close(path);
	return result;
}

int apply_plan(const struct plan *plan, int socket, struct applied *applied)
{
	int root = -1;

	applied->ruleset = -1;
	umask(022);
	for (size_t i = 0; i < plan->count; i++) {
		const struct step *step = &plan->steps[i];
		int result;

		applied->failed = i;
		if (step->kind == STEP_LANDLOCK || step->kind == STEP_LANDLOCK_ALLOW)
			result = run_landlock_step(step, &applied->ruleset);
		else if (step->kind >= STEP_PROPAGATION && step->kind <= STEP_PIVOT)
			result = apply_mount_step(step, plan, &root);
		else
			result = run_process_step(step, plan, socket);
		if (result < 0)
			return -1;
	}
	return 0;
}
