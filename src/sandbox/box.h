/*
 * The box: seven namespaces, a root of its own, and a C init as PID 1.
 *
 * box_start() compiles the policy to a plan (every string and every byte that the child needs,
 * laid out before clone3), clones PID 1 into new user, mount, pid, net, ipc, uts and cgroup
 * namespaces, and waits for its "ready". Between clone3 and "ready" the child makes only raw
 * system calls: no malloc, no stdio, no locks. The parent opens the seven namespace descriptors
 * while PID 1 is still dumpable, because after box_seal() nobody can (setns by pidfd and
 * /proc/PID/ns are refused then), and a later guest has to enter too.
 *
 * Inside: / is a read-only tmpfs with /usr (and the links /bin, /lib ...), a few files of /etc
 * made or bound read-only, the policy's `read` paths, the workspace at /workspace and /mnt/data,
 * private /tmp, /dev (null zero full random urandom tty, own devpts and shm), and a /proc with
 * sys, irq, bus, fs, acpi, scsi read-only and sysrq-trigger, kcore, keys, timer_list and the
 * like hidden. The caller's uid is uid 1000 ("user") inside. No capability, no_new_privs.
 * max_*_namespaces is 0 inside, so nothing can be nested. With PDEATHSIG and end-of-file on its
 * socket, PID 1 dies with its keeper, and the kernel then kills everything in the box.
 *
 * Tier degraded: no namespace; the init is the subreaper, and Landlock and a stricter filter stand
 * between a program and everything else: no files but the system's, the environment's and its own,
 * no connection to anything, no signals to others. Refused below Landlock ABI 6, and to root where
 * other uids exist.
 *
 * Tier none: the same init without any namespace, as subreaper; it runs what it is told and
 * kills what descends from it.
 *
 * PID 1 (init.c) speaks fixed-size messages on a SEQPACKET socket, see init.h. Pids are those of
 * the box's own pid namespace.
 */
#ifndef FH_SANDBOX_BOX_H
#define FH_SANDBOX_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "sandbox/policy.h"
#include "sandbox/protect.h"

enum { BOX_NAMESPACES = 7 };

struct box; /* opaque; one per session */

/* For box_start(): no zygote gives guests to this box. */
enum { BOX_WITHOUT_ZYGOTE = -2 };

/* Builds the box. `family` is the user namespace of the zygote whose guests are to enter it
 * (nursery.h), -1: that of a zygote which is not confined. `tier` is what the caller asks for;
 * below the policy's floor it is refused, so whoever wants TIER_NONE lowers the floor by name.
 * ERR_SANDBOX when the kernel refuses: the text names the step, the reason and the cure. Blocks for
 * about 2 ms. The box dies with the calling thread, not only with the process (PR_SET_PDEATHSIG).
 */
struct box *box_start(const struct policy *policy, enum tier tier, int family, struct err *err);

/* Kills PID 1 and with it everything inside, waits until it is reaped, closes all. NULL is fine. */
void box_free(struct box *box);

enum tier box_tier(const struct box *box);

/* The layers that hold, for the `session` event: an array of {"layer":"mount
 * namespace","holds":true,...}, and for each missing one `effect` and `cure`. A memory limit that
 * nobody but the caller watches (box_read_usage()) has `how` "soft: polling". The caller owns it.
 */
struct json *box_layers(const struct box *box);

/* --- limits of the box as a whole: box_group.h ------------------------------------------------ */

/* What all in the box use together. */
struct box_usage {
	uint64_t memory_bytes;
	uint64_t memory_kills; /* processes killed for want of memory; 0 where nobody counts */
	uint64_t refusals;     /* processes and threads that could not be made; likewise */
	uint64_t cpu_us;
};

enum box_limit { BOX_MEMORY, BOX_PROCESSES, BOX_CPUS, BOX_LIMITS };

/* "hard: cgroup v1": the kernel holds the limit for the box as a whole; NULL: nobody does, so it
 * has to be watched with box_read_usage(). Constant text. */
const char *box_limit_how(const struct box *box, enum box_limit limit);

/* Puts a guest that came from outside (host pid `pid`), and what it has forked, under the limits of
 * the box: before it runs foreign code. ERR_GONE when it has ended. */
int box_adopt(struct box *box, pid_t pid, struct err *err);

/* A guest that came from outside, as its pidfd says and not as it says itself. */
struct box_guest {
	pid_t pid;      /* inside */
	pid_t host_pid; /* as we see it; what is in this process's /proc only */
	int status;     /* its /proc/PID/status, open; owned by the caller. -1: it cannot be had */
};

/* Meets the guest behind `pidfd` (borrowed), which must be a process of this box: finds its pids
 * and puts it under the limits (box_adopt()). ERR_ENGINE when it is no pidfd, or of a process
 * elsewhere; ERR_GONE when it has ended. */
int box_meet(struct box *box, int pidfd, struct box_guest *guest, struct err *err);

/* With a group about 10 us, else about 20 us for each process in the box. */
void box_read_usage(const struct box *box, struct box_usage *usage);

/* Puts memory_bytes_max, processes_max and cpus of this policy in force for the box. ERR_BUSY where
 * more memory is in use already. */
int box_change_limits(struct box *box, const struct policy *policy, struct err *err);

/* PID 1: its pidfd (readable at its death), host pid, and the keeper's end of the socket
 * (readable when a report waits). Borrowed. */
int box_pidfd(const struct box *box);
pid_t box_pid(const struct box *box);
int box_socket(const struct box *box);

/* Descriptors of the namespaces in the order setns(2) must take them: user first, then mnt, pid,
 * net, ipc, uts, cgroup. Borrowed; NULL below the tier full, and where another process has built
 * the box (box_elsewhere.h). */
const int *box_namespaces(const struct box *box);

/* What a guest that does not come from PID 1 has to apply to itself before it runs foreign code:
 * the system call filter as a sealed memfd of struct sock_filter, and the Landlock ruleset.
 * Borrowed; -1 in tier none, without Landlock, and where another process has built the box. */
int box_filter(const struct box *box);
int box_ruleset(const struct box *box);

/* What it joins the box's control group by, writing "0" to each; returns how many, 0: there is no
 * such way, and box_meet() moves it. Borrowed; they move nothing that is not of this box. */
size_t box_tasks(const struct box *box, const int **fds);

/* Makes a pipe the box's, so that what is inside can open it again by /proc/self/fd (/dev/stdout
 * and the like); nothing where the box has the caller's own uid. box_exec() does it by itself. */
void box_give(const struct box *box, int fd);

/* Path of the workspace as the guest sees it: "/workspace", in tier none the host path.
 * Borrowed. */
const char *box_workspace(const struct box *box);

/* An overlay workspace as it is inside, as a directory to be used from outside; -1: it is no
 * overlay. Borrowed. */
int box_overlay(const struct box *box);

/* What is read-only in the workspace although that is not (protect.h). Borrowed. */
const struct protect_list *box_protected(const struct box *box);

/* Makes PID 1 non-dumpable: to be called after the first guest is in and before it runs foreign
 * code. */
int box_seal(struct box *box, struct err *err);

/* Starts a program inside as a child of PID 1 (a cold guest, any other engine): fds[i] becomes
 * descriptor i (-1: /dev/null), at most 15 of them, all others are closed; rlimits of the policy
 * apply; argv[0] is the path; new session; working directory = workspace; all signals unblocked and
 * default. *pid is its pid inside. When execve fails, its errno comes back here. */
int box_exec(struct box *box, const char *const *argv, const char *const *envp, const int *fds,
	     size_t fd_count, pid_t *pid, struct err *err);

/* Sends a signal to the process group `pgid` (above 1) inside. ESRCH is no error. */
int box_signal(struct box *box, pid_t pgid, int signal, struct err *err);

/* Lowers a resource limit (RLIMIT_*, soft and hard, see setrlimit(2)) of every process inside that
 * has more, and so of what they start. Programs started later by box_exec() still get the policy's.
 * ERR_IO with EAGAIN when processes were made faster than they could be met. */
int box_lower_limit(struct box *box, int resource, uint64_t limit, struct err *err);

/* Stops and kills everything inside but PID 1 and the `keep_count` pids in `keep` (at most 256),
 * repeating until none is left (bounded: 2 s, then ERR_TIMEOUT), and reaps it. *killed counts them
 * (NULL: not wanted). What is kept may be stopped for that time and is continued. Reports of deaths
 * met meanwhile are kept for box_next_exit(). In tier none it reaches what descends from the init.
 */
int box_kill_others(struct box *box, const pid_t *keep, size_t keep_count, unsigned *killed,
		    struct err *err);

/* Gives a process inside, and all that it starts from now on, a brand (from 1), by which
 * box_kill_brand() tells whose they are; another, higher one can take its place. A process that has
 * none, or whose forebears had none, is of brand 0. ERR_IO: not where a limit on RLIMIT_RTTIME
 * below 2^62 us is in force (setrlimit(2)). */
int box_brand(struct box *box, pid_t pid, uint32_t brand, struct err *err);

/* As box_kill_others(), of those of this brand only. All others are not even stopped. */
int box_kill_brand(struct box *box, uint32_t brand, const pid_t *keep, size_t keep_count,
		   unsigned *killed, struct err *err);

/* The next reaped child of PID 1 without blocking: 1 and *pid, *status (as waitpid), 0 none, -1
 * PID 1 is gone. */
int box_next_exit(struct box *box, pid_t *pid, int *status, struct err *err);

#endif
