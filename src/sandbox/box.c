/*
 * The keeper's side: start, orders, reports.
 *
 * An order is answered by one INIT_DONE; what comes before it are reports of deaths, which are kept
 * in `exits` until box_next_exit() asks. Waiting is bounded: an init that does not answer is as
 * good as dead.
 *
 * The namespace descriptors are opened through /proc/PID/ns while the child builds its root: its
 * pid cannot be recycled before we reap it.
 */
#include "sandbox/box.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "sandbox/box_elsewhere.h"
#include "sandbox/box_impl.h"
#include "sandbox/box_private.h"
#include "sandbox/idmap.h"
#include "sandbox/init.h"
#include "sandbox/nursery.h"
#include "sandbox/plan.h"
#include "sandbox/report.h"
#include "sandbox/spawn.h"
#include "sandbox/uids.h"

/* More than the init's own bound on killing. */
enum { ANSWER_MS_MAX = INIT_KILL_MS_MAX + 3000 };

struct exit_report {
	pid_t pid;
	int status;
};

static_assert((int)BOX_NAMESPACES == (int)PLAN_NAMESPACES, "one descriptor for each namespace");

static int open_namespaces(struct box *box, struct err *err)
{
	for (size_t i = 0; i < BOX_NAMESPACES; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)box->init.pid,
			 PLAN_NAMESPACE[i].name);
		box->namespaces[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (box->namespaces[i] < 0)
			return err_sys(err, "sandbox: %s", path);
	}
	return 0;
}

/* What is inside is a mount that nobody has outside; while PID 1 can be looked into, it can be
 * had. */
static int open_overlay(struct box *box, struct err *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root/workspace", (int)box->init.pid);
	box->overlay = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return box->overlay < 0 ? err_sys(err, "sandbox: the overlay of the workspace") : 0;
}

static void add_limit(struct init_setup *setup, int resource, uint64_t value)
{
	assert(setup->limit_count < INIT_LIMITS_MAX);
	setup->limits[setup->limit_count].resource = resource;
	setup->limits[setup->limit_count].value = (rlim_t)value;
	setup->limit_count++;
}

static void prepare_init(struct init_setup *setup, const struct policy *policy,
			 const struct plan *plan, const struct box *box)
{
	*setup = (struct init_setup){
		.directory = box->workspace,
		.boxed = plan->namespaces != 0,
		.filter = plan->filter.count ? &plan->filter : NULL,
		.ruleset = -1,
	};
	/* A core file would hold everything the session knows. */
	add_limit(setup, RLIMIT_CORE, 0);
	/* Without a user namespace of its own the count is of all that the user runs. */
	if (policy->processes_max)
		add_limit(setup, RLIMIT_NPROC,
			  policy->processes_max +
				  (box->tier == TIER_DEGRADED ? host_tasks(plan->host.uid) : 0));
	if (policy->files_max)
		add_limit(setup, RLIMIT_NOFILE, policy->files_max);
	if (policy->file_bytes_max)
		add_limit(setup, RLIMIT_FSIZE, policy->file_bytes_max);
}

/* Waits until the init is ready; opens the namespaces meanwhile. */
static int await_ready(struct box *box, const struct plan *plan, struct err *err)
{
	struct err names_err = ERR_INIT;
	struct init_report report;
	int names = plan->namespaces ? open_namespaces(box, &names_err) : 0;

	if (spawn_wait(&box->init, &report) < 0)
		return err_set(err, ERR_SANDBOX, "sandbox: the box did not come up: %s",
			       strerror(errno));
	if (report.type != INIT_READY)
		return report_failure(plan, report.count, report.sys, err);
	if (names < 0) {
		if (err)
			*err = names_err;
		return -1;
	}
	return 0;
}

/* What the plan, now carried out, has put in place. */
static uint32_t layers_of(const struct plan *plan, const struct policy *policy)
{
	uint32_t layers = 0;

	if (policy->processes_max && policy->files_max && policy->file_bytes_max)
		layers |= REPORT_BIT(LAYER_LIMITS);
	if (plan->filter.count)
		layers |= REPORT_BIT(LAYER_SECCOMP) | REPORT_BIT(LAYER_NESTING);
	if (plan->filter.count && plan->host.landlock_abi)
		layers |= REPORT_BIT(LAYER_LANDLOCK);
	if (!plan->namespaces)
		return layers;
	layers |= REPORT_BIT(LAYER_USER) | REPORT_BIT(LAYER_MOUNT) | REPORT_BIT(LAYER_PID) |
		  REPORT_BIT(LAYER_NETWORK) | REPORT_BIT(LAYER_IPC) | REPORT_BIT(LAYER_UTS) |
		  REPORT_BIT(LAYER_CGROUP) | REPORT_BIT(LAYER_PRIVILEGES) |
		  REPORT_BIT(LAYER_NESTING);
	if (plan_has_own_ids(plan))
		layers |= REPORT_BIT(LAYER_OWN_UID);
	if (plan->host.family >= 0 || plan->host.without_zygote)
		layers |= REPORT_BIT(LAYER_NURSERY);
	return layers;
}

static int give_order_with(struct box *box, const struct init_order *order, const int *fds,
			   size_t fd_count, const char *what, struct err *err);

/* Where the init cannot join it is moved later, box_group_move_init(). */
static void join_group(struct box *box)
{
	struct init_order order = {.type = INIT_JOIN};
	struct box_group *group = &box->group;

	if (group->tasks_count > 0)
		group->init_moved = give_order_with(box, &order, group->tasks, group->tasks_count,
						    "join its control group", NULL) == 0;
}

static int start(struct box *box, const struct plan *plan, const struct policy *policy,
		 struct err *err)
{
	struct init_setup setup;

	box->workspace = mem_string(plan->namespaces ? "/workspace" : plan->workspace);
	prepare_init(&setup, policy, plan, box);
	if (spawn_plan(plan, &setup, &box->init) < 0)
		return report_refusal(plan->namespaces, errno, err);
	box->group.init = box->init.pid;
	box_group_open(&box->group, policy, box->lease.uid); /* while the init builds its root */
	if (await_ready(box, plan, err) < 0)
		return -1;
	if (policy->workspace_mode == WORKSPACE_OVERLAY && open_overlay(box, err) < 0)
		return -1;
	if (plan->namespaces)
		box_group_open_stores(&box->group);
	join_group(box);
	box->layers = layers_of(plan, policy);
	if (plan->filter.count == 0)
		return 0;
	box->filter = filter_memfd(&plan->filter);
	return box->filter < 0 ? err_sys(err, "sandbox: memfd") : 0;
}

/* Root's sessions run under uids of their own. Where there are none, as in a container that has but
 * one, the caller's own will do: it is not root's outside. */
static int take_uid(struct box *box, struct host *host, struct err *err)
{
	struct err why = ERR_INIT;

	if (host->uid != 0 || host->box_uid != 0)
		return 0;
	if (uid_lease_take(&box->lease, UID_OF_SESSION, UIDS_DIR, &why) < 0) {
		if (why.code == ERR_UNSUPPORTED)
			return 0;
		if (err)
			*err = why;
		return -1;
	}
	host->box_uid = box->lease.uid;
	host->box_gid = box->lease.uid;
	host->outer_uid = box->lease.uid;
	host->outer_gid = box->lease.uid;
	return 0;
}

static int choose_ids(struct box *box, struct host *host, struct err *err)
{
	if (take_uid(box, host, err) < 0)
		return -1;
	return host->family >= 0 ? nursery_adopt(host, host->family, err) : 0;
}

static int build(struct box *box, struct host *host, const struct policy *policy, struct err *err)
{
	struct plan plan = PLAN_INIT;
	int result = -1;

	if ((box->tier != TIER_FULL || choose_ids(box, host, err) == 0) &&
	    plan_compile(&plan, policy, box->tier, host, err) == 0 &&
	    (!plan_has_own_ids(&plan) || idmap_prepare(&plan, err) == 0))
		result = start(box, &plan, policy, err);
	box->protect = plan.protect;
	plan.protect = (struct protect_list)PROTECT_LIST_INIT;
	plan_release(&plan);
	return result;
}

struct box *box_start_on(const struct host *host, const struct policy *policy, enum tier tier,
			 struct err *err)
{
	struct host own = *host;
	struct box *box;

	if (tier < policy->floor) {
		err_set(err, ERR_SANDBOX, "sandbox: tier %s is below the policy's floor, %s",
			tier_name(tier), tier_name(policy->floor));
		return NULL;
	}
	box = box_new(tier, host->uid);
	if (build(box, &own, policy, err) < 0) {
		box_free(box);
		return NULL;
	}
	return box;
}

struct box *box_start(const struct policy *policy, enum tier tier, int family, struct err *err)
{
	struct host host;

	host_look(&host);
	host.family = family < 0 ? -1 : family;
	host.without_zygote = family == BOX_WITHOUT_ZYGOTE;
	return box_start_on(&host, policy, tier, err);
}

/* --- orders --- */

static int gone(struct err *err)
{
	return err_set(err, ERR_GONE, "sandbox: the init of the box is gone");
}

/* Takes one report off the socket: 1 and *report, 0 when there is none within `timeout_ms`, -1 when
 * the init is gone. */
static int take_report(const struct box *box, int timeout_ms, struct init_report *report)
{
	struct pollfd fd = {.fd = box->init.socket, .events = POLLIN};
	int ready = poll(&fd, 1, timeout_ms);

	if (ready < 0)
		return errno == EINTR ? 0 : -1;
	if (ready == 0)
		return 0;
	return recv(box->init.socket, report, sizeof(*report), MSG_DONTWAIT) ==
			       (ssize_t)sizeof(*report)
		       ? 1
		       : -1;
}

static void keep_exit(struct box *box, const struct init_report *report)
{
	struct exit_report entry = {.pid = report->pid, .status = report->status};

	buf_append(&box->exits, &entry, sizeof(entry));
}

/* Sends the order and waits for its INIT_DONE. */
static int give_order(struct box *box, const struct init_order *order, const int *fds,
		      size_t fd_count, struct init_report *done, struct err *err)
{
	int64_t end = clock_monotonic_us() + ANSWER_MS_MAX * INT64_C(1000);

	if (socket_send(box->init.socket, order, sizeof(*order), fds, fd_count) < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			return gone(err);
		return err_sys(err, "sandbox: order to the init");
	}
	for (;;) {
		int64_t left_us = end - clock_monotonic_us();
		int got = left_us < 0 ? 0 : take_report(box, (int)(left_us / 1000) + 1, done);

		if (got < 0)
			return gone(err);
		if (left_us < 0)
			return err_set(err, ERR_TIMEOUT,
				       "sandbox: the init of the box does not answer");
		if (got > 0 && done->type == INIT_DONE)
			return 0;
		if (got > 0)
			keep_exit(box, done);
	}
}

/* As give_order, and the answer must be success. */
static int give_order_with(struct box *box, const struct init_order *order, const int *fds,
			   size_t fd_count, const char *what, struct err *err)
{
	struct init_report done;

	if (give_order(box, order, fds, fd_count, &done, err) < 0)
		return -1;
	errno = done.sys;
	return done.sys ? err_sys(err, "sandbox: %s", what) : 0;
}

static int give_simple_order(struct box *box, const struct init_order *order, const char *what,
			     struct err *err)
{
	return give_order_with(box, order, NULL, 0, what, err);
}

int box_seal(struct box *box, struct err *err)
{
	struct init_order order = {.type = INIT_SEAL};

	return give_simple_order(box, &order, "seal", err);
}

int box_signal(struct box *box, pid_t pgid, int signal, struct err *err)
{
	struct init_order order = {.type = INIT_SIGNAL, .pid = pgid, .signal = signal};

	return give_simple_order(box, &order, "signal", err);
}

int box_lower_limit(struct box *box, int resource, uint64_t limit, struct err *err)
{
	struct init_order order = {.type = INIT_LOWER, .resource = resource, .bytes = limit};

	return give_simple_order(box, &order, "lower a limit", err);
}

int box_kill_others(struct box *box, const pid_t *keep, size_t keep_count, unsigned *killed,
		    struct err *err)
{
	return box_kill_brand(box, INIT_ALL, keep, keep_count, killed, err);
}

int box_brand(struct box *box, pid_t pid, uint32_t brand, struct err *err)
{
	const struct init_order order = {.type = INIT_BRAND, .pid = pid, .brand = brand};

	return give_simple_order(box, &order, "tell interpreters apart", err);
}

int box_kill_brand(struct box *box, uint32_t brand, const pid_t *keep, size_t keep_count,
		   unsigned *killed, struct err *err)
{
	struct init_order order = {
		.type = INIT_KILL, .count = (uint32_t)keep_count, .brand = brand};
	struct init_report done;

	if (keep_count > INIT_KEEP_MAX)
		return err_set(err, ERR_LIMIT, "sandbox: more than %d processes to spare",
			       INIT_KEEP_MAX);
	for (size_t i = 0; i < keep_count; i++)
		order.pids[i] = keep[i];
	if (give_order(box, &order, NULL, 0, &done, err) < 0)
		return -1;
	errno = done.sys;
	if (done.sys)
		return err_sys(err, "sandbox: clear the box");
	if (killed)
		*killed = done.count;
	if (done.left)
		return err_set(err, ERR_TIMEOUT, "sandbox: %u processes would not die", done.left);
	return 0;
}

void box_give(const struct box *box, int fd)
{
	struct stat st;

	if (box->lease.uid != 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		(void)!fchown(fd, box->lease.uid, box->lease.uid);
}

static size_t count_strings(const char *const *strings)
{
	size_t count = 0;

	while (strings && strings[count])
		count++;
	return count;
}

/* A memfd of struct init_strings; the pointers are the child's to fill in. */
static int pack_strings(const char *const *argv, const char *const *envp, uint64_t *bytes,
			struct err *err)
{
	struct init_strings head = {.argc = count_strings(argv), .envc = count_strings(envp)};
	size_t pointers = (size_t)(head.argc + head.envc + 2) * sizeof(char *);
	cleanup_fd int fd = memfd_create("exec", MFD_CLOEXEC);
	cleanup_buf struct buf buf = BUF_INIT;

	if (fd < 0)
		return err_sys(err, "sandbox: memfd");
	buf_append(&buf, &head, sizeof(head));
	memset(buf_reserve(&buf, pointers), 0, pointers);
	buf_added(&buf, pointers);
	for (size_t i = 0; i < head.argc; i++)
		buf_append(&buf, argv[i], strlen(argv[i]) + 1);
	for (size_t i = 0; i < head.envc; i++)
		buf_append(&buf, envp[i], strlen(envp[i]) + 1);
	*bytes = buf.len;
	if (file_write_all(fd, buf_bytes(&buf), buf.len, err) < 0)
		return -1;
	return fd_take(&fd);
}

int box_exec(struct box *box, const char *const *argv, const char *const *envp, const int *fds,
	     size_t fd_count, pid_t *pid, struct err *err)
{
	struct init_order order = {.type = INIT_EXEC};
	int sent[INIT_FDS_MAX + 1];
	struct init_report done;
	cleanup_fd int strings = -1;
	cleanup_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert(argv && argv[0]);
	if (fd_count > INIT_FDS_MAX)
		return err_set(err, ERR_LIMIT, "sandbox: more than %d descriptors", INIT_FDS_MAX);
	if (null < 0)
		return err_sys(err, "sandbox: /dev/null");
	strings = pack_strings(argv, envp, &order.bytes, err);
	if (strings < 0 || box_group_move_init(&box->group, err) < 0)
		return -1;
	sent[0] = strings;
	for (size_t i = 0; i < fd_count; i++) {
		sent[i + 1] = fds[i] < 0 ? null : fds[i];
		box_give(box, sent[i + 1]);
	}
	if (give_order(box, &order, sent, fd_count + 1, &done, err) < 0)
		return -1;
	errno = done.sys;
	if (done.sys)
		return err_sys(err, "sandbox: start %.150s", argv[0]);
	*pid = done.pid;
	return 0;
}

int box_next_exit(struct box *box, pid_t *pid, int *status, struct err *err)
{
	struct init_report report;
	struct exit_report entry;

	while (box->exits.len < sizeof(entry)) {
		int got = take_report(box, 0, &report);

		if (got < 0)
			return gone(err);
		if (got == 0)
			return 0;
		if (report.type == INIT_EXITED)
			keep_exit(box, &report);
	}
	memcpy(&entry, buf_bytes(&box->exits), sizeof(entry));
	buf_consume(&box->exits, sizeof(entry));
	*pid = entry.pid;
	*status = entry.status;
	return 1;
}

/* --- the rest --- */

/* Without a pid namespace the kernel kills nothing but the init: it is asked to clear up first. */
static void end_init(struct box *box)
{
	if (box->group.elsewhere)
		box->group.elsewhere->end(box->group.elsewhere_data);
	else if (box->tier != TIER_FULL && box->init.pidfd >= 0)
		(void)box_kill_others(box, NULL, 0, NULL, NULL);
	spawn_end(&box->init);
}

void box_free(struct box *box)
{
	if (!box)
		return;
	end_init(box);
	for (size_t i = 0; i < BOX_NAMESPACES; i++) {
		if (box->namespaces[i] >= 0)
			close(box->namespaces[i]);
	}
	if (box->filter >= 0)
		close(box->filter);
	if (box->overlay >= 0)
		close(box->overlay);
	protect_list_release(&box->protect);
	uid_lease_release(&box->lease);
	box_group_close(&box->group);
	buf_release(&box->exits);
	free(box->workspace);
	free(box);
}

enum tier box_tier(const struct box *box)
{
	return box->tier;
}

struct json *box_layers(const struct box *box)
{
	const char *memory = box_limit_how(box, BOX_MEMORY);

	if (!memory && box->group.memory_bytes_max)
		memory = "soft: polling";
	return report_layers(box->layers, box->uid, memory);
}

const char *box_limit_how(const struct box *box, enum box_limit limit)
{
	return box_group_how(&box->group, limit);
}

int box_adopt(struct box *box, pid_t pid, struct err *err)
{
	return box_group_move(&box->group, pid, err);
}

int box_meet(struct box *box, int pidfd, struct box_guest *guest, struct err *err)
{
	if (box->group.elsewhere)
		return box->group.elsewhere->meet(box->group.elsewhere_data, pidfd, guest, err);
	return box_guest_meet(box, pidfd, guest, err);
}

void box_read_usage(const struct box *box, struct box_usage *usage)
{
	box_group_read(&box->group, usage);
}

int box_change_limits(struct box *box, const struct policy *policy, struct err *err)
{
	return box_group_change(&box->group, policy, err);
}

int box_pidfd(const struct box *box)
{
	return box->init.pidfd;
}

pid_t box_pid(const struct box *box)
{
	return box->init.pid;
}

int box_socket(const struct box *box)
{
	return box->init.socket;
}

const int *box_namespaces(const struct box *box)
{
	return box->namespaces[0] >= 0 ? box->namespaces : NULL;
}

int box_filter(const struct box *box)
{
	return box->filter;
}

int box_ruleset(const struct box *box)
{
	return box->init.ruleset;
}

size_t box_tasks(const struct box *box, const int **fds)
{
	*fds = box->group.tasks;
	return box->group.for_guests ? box->group.tasks_count : 0;
}

const char *box_workspace(const struct box *box)
{
	return box->workspace;
}

int box_overlay(const struct box *box)
{
	return box->overlay;
}

const struct protect_list *box_protected(const struct box *box)
{
	return &box->protect;
}
