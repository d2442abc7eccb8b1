/*
 * The spawner itself: one poll over the keeper's orders, the pool's connections and its own
 * children; see spawner.h.
 *
 * It is a copy of the keeper from before its loop and its threads. `session` is its own, with a
 * directory, a configuration and what becomes of them in building.c: no clients, no record, no
 * engine. Everything it is asked for goes through one table; an order of another size or a word
 * that is none ends it, because then somebody else speaks.
 *
 * It is never interrupted by a signal: what ends a session is the keeper's to decide.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "journal/unborn.h"
#include "keeper/building.h"
#include "keeper/session.h"
#include "keeper/spare.h"
#include "keeper/spawner_protocol.h"
#include "sandbox/box_elsewhere.h"

enum { POLL_KEEPER, POLL_CHILDREN, POLL_RELAYS };
enum { POLL_COUNT = POLL_RELAYS + 2 * SPAWNER_RELAYS_MAX };

struct serving {
	int socket;
	int children; /* a signalfd */
	struct session *session;
	bool prepared;
	struct err prepare_err;
	struct spawner_relay relays[SPAWNER_RELAYS_MAX];
	unsigned next_relay; /* the oldest makes way */
	int early;           /* the keeper's end of a relay that it has not asked for yet; or -1 */
	struct spawner_net net;
	struct spawner_branches branches;
};

/* What goes back besides the answer. */
struct given {
	int fds[SPAWNER_BOX_FDS];
	size_t count;
	bool owned; /* to be closed when they have been sent */
};

typedef int handler(struct serving *serving, const struct spawner_order *order, int fd,
		    struct spawner_answer *answer, struct given *given);

static int give(struct given *given, int fd)
{
	if (fd < 0)
		return -1;
	given->fds[0] = fd;
	given->count = 1;
	given->owned = true;
	return 0;
}

static int no_box(struct err *err)
{
	return err_set(err, ERR_GONE, "sandbox: there is no box");
}

/* --- the configuration --------------------------------------------------------------------------
 */

static int prepare(struct serving *serving, const struct spawner_order *order, int fd,
		   struct spawner_answer *answer, struct given *given)
{
	struct session *session = serving->session;
	struct err *err = &serving->prepare_err;

	(void)order;
	(void)fd;
	(void)answer;
	(void)given;
	if (serving->prepared) /* once: what is in the directory later has other writers */
		return 0;
	serving->prepared = true;
	if ((!session->spare && config_read(session->dirfd, &session->config, err) != 0) ||
	    session_prepare(session, err) != 0)
		return -1;
	/* It will ask for that when it is confined. What stands in the way it hears then. */
	if (!building_is_cold(session))
		serving->early = spawner_relay_open(&serving->relays[0], session->config.python,
						    session->spare != NULL, NULL);
	return 0;
}

/* --- the pool -----------------------------------------------------------------------------------
 */

static int open_pool(struct serving *serving, const struct spawner_order *order, int fd,
		     struct spawner_answer *answer, struct given *given)
{
	struct spawner_relay *relay = &serving->relays[serving->next_relay];

	(void)fd;
	if (serving->early >= 0)
		return give(given, fd_take(&serving->early));
	for (size_t i = 0; i < SPAWNER_RELAYS_MAX; i++)
		if (serving->relays[i].pool < 0)
			relay = &serving->relays[i];
	serving->next_relay = (serving->next_relay + 1) % SPAWNER_RELAYS_MAX;
	spawner_relay_close(relay);
	return give(given, spawner_relay_open(relay, serving->session->config.python, order->join,
					      &answer->err));
}

/* --- the box ------------------------------------------------------------------------------------
 */

/* Numbers only; a policy of the user's may have any, so any will do that are some. */
static int take_limits(struct policy *policy, const struct spawner_limits *limits, struct err *err)
{
	if (!isfinite(limits->cpus) || limits->cpus < 0 || !isfinite(limits->cpu_s))
		return err_set(err, ERR_INVALID, "sandbox: limits that are no numbers");
	policy->processes_max = limits->processes;
	policy->files_max = limits->files;
	policy->file_bytes_max = limits->file_bytes;
	policy->tmp_bytes_max = limits->tmp_bytes;
	policy->memory_bytes_max = limits->memory_bytes;
	policy->disk_bytes_max = limits->disk_bytes;
	policy->disk_inodes_max = limits->disk_inodes;
	policy->cpus = limits->cpus;
	policy->cpu_s_max = limits->cpu_s;
	return 0;
}

static void tell_how(const struct box *box, struct spawner_answer *answer)
{
	for (int limit = 0; limit < BOX_LIMITS; limit++) {
		const char *how = box_limit_how(box, (enum box_limit)limit);

		answer->how[limit] = !how                       ? SPAWNER_NOBODY
				     : strstr(how, "cgroup v2") ? SPAWNER_CGROUP_V2
								: SPAWNER_CGROUP_V1;
	}
}

static void tell_box(const struct session *session, struct spawner_answer *answer,
		     struct given *given)
{
	struct spawner_built *built = &answer->built;
	struct box_parts parts;

	box_give_parts(session->box, &parts);
	built->tier = parts.tier;
	built->uid = parts.uid;
	built->box_uid = parts.box_uid;
	built->layers = parts.layers;
	built->init_pid = parts.init_pid;
	built->overlay = parts.overlay >= 0;
	built->memory_bytes_max = parts.memory_bytes_max;
	built->degraded_for = session->tier_reason != NULL;
	snprintf(built->reason, sizeof(built->reason), "%s",
		 session->tier_reason ? session->tier_reason : "");
	snprintf(built->workspace, sizeof(built->workspace), "%s", parts.workspace);
	tell_how(session->box, answer);
	given->fds[SPAWNER_FD_SOCKET] = parts.socket;
	given->fds[SPAWNER_FD_PIDFD] = parts.pidfd;
	given->fds[SPAWNER_FD_OVERLAY] = built->overlay ? parts.overlay : parts.socket;
	given->count = SPAWNER_BOX_FDS;
	given->owned = false;
}

static void end_box(struct session *session)
{
	box_free(session->box);
	session->box = NULL;
}

static int build(struct serving *serving, const struct spawner_order *order, int fd,
		 struct spawner_answer *answer, struct given *given)
{
	struct session *session = serving->session;
	struct err *err = &answer->err;

	(void)fd;
	end_box(session);
	if (take_limits(&session->policy, &order->limits, err) != 0 ||
	    (order->packages && session_show_packages(session, err) != 0))
		return -1;
	session->box = building_make(session, err);
	if (!session->box)
		return -1;
	/* What starts cold is the init's child: it is where the init is. */
	if (building_is_cold(session) && box_adopt(session->box, box_pid(session->box), err) != 0) {
		end_box(session);
		return -1;
	}
	tell_box(session, answer, given);
	return 0;
}

static int meet(struct serving *serving, const struct spawner_order *order, int fd,
		struct spawner_answer *answer, struct given *given)
{
	struct box *box = serving->session->box;

	(void)order;
	if (!box)
		return no_box(&answer->err);
	if (fd < 0)
		return err_set(&answer->err, ERR_INVALID, "sandbox: no pidfd");
	if (box_meet(box, fd, &answer->guest, &answer->err) != 0)
		return -1;
	tell_how(box, answer);
	if (answer->guest.status >= 0)
		give(given, answer->guest.status);
	return 0;
}

static int read_usage(struct serving *serving, const struct spawner_order *order, int fd,
		      struct spawner_answer *answer, struct given *given)
{
	(void)order;
	(void)fd;
	(void)given;
	if (!serving->session->box)
		return no_box(&answer->err);
	box_read_usage(serving->session->box, &answer->usage);
	return 0;
}

static int change_limits(struct serving *serving, const struct spawner_order *order, int fd,
			 struct spawner_answer *answer, struct given *given)
{
	struct session *session = serving->session;

	(void)fd;
	(void)given;
	if (take_limits(&session->policy, &order->limits, &answer->err) != 0)
		return -1;
	if (!session->box)
		return no_box(&answer->err);
	return box_change_limits(session->box, &session->policy, &answer->err);
}

static int end(struct serving *serving, const struct spawner_order *order, int fd,
	       struct spawner_answer *answer, struct given *given)
{
	(void)order;
	(void)fd;
	(void)answer;
	(void)given;
	end_box(serving->session);
	return 0;
}

/* --- hosts --------------------------------------------------------------------------------------
 */

static int do_listen(struct serving *serving, const struct spawner_order *order, int fd,
		     struct spawner_answer *answer, struct given *given)
{
	(void)fd;
	answer->port = order->port;
	return give(given, spawner_net_listen(serving->session, &answer->port, &answer->err));
}

static int take_rules(struct serving *serving, const struct spawner_order *order, int fd,
		      struct spawner_answer *answer, struct given *given)
{
	(void)order;
	(void)given;
	return spawner_net_rules(&serving->net, fd, &answer->err);
}

static int look_up(struct serving *serving, const struct spawner_order *order, int fd,
		   struct spawner_answer *answer, struct given *given)
{
	int found = -1;

	(void)fd;
	answer->refusal = spawner_net_lookup(&serving->net, &order->target, &found, &answer->err);
	give(given, found);
	return answer->err.code == ERR_OK ? 0 : -1;
}

static int check(struct serving *serving, const struct spawner_order *order, int fd,
		 struct spawner_answer *answer, struct given *given)
{
	(void)fd;
	(void)given;
	answer->refusal = spawner_net_check(&serving->net, order);
	return 0;
}

static int dial(struct serving *serving, const struct spawner_order *order, int fd,
		struct spawner_answer *answer, struct given *given)
{
	int host = -1;

	(void)fd;
	answer->refusal = spawner_net_dial(&serving->net, order, &host);
	give(given, host);
	return 0;
}

/* --- branches -----------------------------------------------------------------------------------
 */

static int branch(struct serving *serving, const struct spawner_order *order, int fd,
		  struct spawner_answer *answer, struct given *given)
{
	(void)fd;
	return give(given, spawner_branch_begin(&serving->branches, serving->session->dirfd, order,
						&answer->err));
}

static int part(struct serving *serving, const struct spawner_order *order, int fd,
		struct spawner_answer *answer, struct given *given)
{
	(void)fd;
	(void)given;
	return spawner_branch_end(&serving->branches, order, &answer->err);
}

/* --- the end of the session ---------------------------------------------------------------------
 */

static int let_go(struct serving *serving, const struct spawner_order *order, int fd,
		  struct spawner_answer *answer, struct given *given)
{
	struct session *session = serving->session;
	cleanup_free char *runtime = paths_runtime(NULL);
	cleanup_free char *path =
		runtime ? mem_format("%s/%s.sock", runtime, session->config.id) : NULL;

	(void)fd;
	(void)answer;
	(void)given;
	if (path)
		unlink(path);
	if (order->unborn && session->spare && unborn_is(session->dirfd))
		spare_remove(session->spare);
	return 0;
}

/* --- serving ------------------------------------------------------------------------------------
 */

static handler *const HANDLERS[SPAWNER_OPS] = {
	[SPAWNER_PREPARE] = prepare, [SPAWNER_POOL] = open_pool,   [SPAWNER_BUILD] = build,
	[SPAWNER_MEET] = meet,       [SPAWNER_USAGE] = read_usage, [SPAWNER_LIMITS] = change_limits,
	[SPAWNER_END] = end,         [SPAWNER_LISTEN] = do_listen, [SPAWNER_RULES] = take_rules,
	[SPAWNER_LOOKUP] = look_up,  [SPAWNER_CHECK] = check,      [SPAWNER_DIAL] = dial,
	[SPAWNER_RELEASE] = let_go,  [SPAWNER_BRANCH] = branch,    [SPAWNER_PART] = part,
};

static void carry_out(struct serving *serving, const struct spawner_order *order, int fd)
{
	static struct spawner_answer answer; /* large, and one at a time */
	struct given given = {.count = 0};
	int status = -1;

	memset(&answer, 0, sizeof(answer));
	if (order->op != SPAWNER_PREPARE && !serving->prepared)
		err_set(&answer.err, ERR_INVALID, "the spawner knows no configuration yet");
	else if (order->op != SPAWNER_PREPARE && serving->prepare_err.code != ERR_OK)
		answer.err = serving->prepare_err;
	else
		status = HANDLERS[order->op](serving, order, fd, &answer, &given);
	if (order->op == SPAWNER_PREPARE)
		return;
	if (status != 0 && answer.err.code == ERR_OK)
		err_set(&answer.err, ERR_INTERNAL, "the spawner has failed without a word");
	(void)socket_send(serving->socket, &answer, sizeof(answer), given.fds, given.count);
	for (size_t i = 0; given.owned && i < given.count; i++)
		close(given.fds[i]);
}

/* False: the keeper has gone, or somebody else speaks. */
static bool take_order(struct serving *serving)
{
	static struct spawner_order order;
	cleanup_fd int fd = -1;
	size_t count = 1;
	bool truncated = false;
	ssize_t got =
		socket_receive(serving->socket, &order, sizeof(order), &fd, &count, &truncated, 0);

	if (got < 0 && errno == EINTR)
		return true;
	if (count == 0)
		fd = -1;
	if (got != (ssize_t)sizeof(order) || truncated || order.op >= SPAWNER_OPS)
		return false;
	carry_out(serving, &order, fd);
	return true;
}

static void reap(struct serving *serving)
{
	struct signalfd_siginfo info;

	while (read(serving->children, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	spawner_net_reap(&serving->net);
}

static void wait_and_relay(struct serving *serving, struct pollfd *fds)
{
	fds[POLL_KEEPER] = (struct pollfd){.fd = serving->socket, .events = POLLIN};
	fds[POLL_CHILDREN] = (struct pollfd){.fd = serving->children, .events = POLLIN};
	for (int i = 0; i < SPAWNER_RELAYS_MAX; i++) {
		fds[POLL_RELAYS + 2 * i].fd = serving->relays[i].pool;
		fds[POLL_RELAYS + 2 * i + 1].fd = serving->relays[i].keeper;
		fds[POLL_RELAYS + 2 * i].events = fds[POLL_RELAYS + 2 * i + 1].events = POLLIN;
	}
	while (poll(fds, POLL_COUNT, -1) < 0 && errno == EINTR)
		;
	for (int i = 0; i < SPAWNER_RELAYS_MAX; i++) {
		if (fds[POLL_RELAYS + 2 * i].revents)
			spawner_relay_pool(&serving->relays[i], serving->session);
		if (serving->relays[i].pool >= 0 && fds[POLL_RELAYS + 2 * i + 1].revents)
			spawner_relay_keeper(&serving->relays[i], serving->session);
	}
	if (fds[POLL_CHILDREN].revents)
		reap(serving);
}

void spawner_serve(int socket, struct session *session)
{
	struct serving serving = {
		.socket = socket, .early = -1, .session = session, .net = {.hosts = HOSTS_INIT}};
	struct pollfd fds[POLL_COUNT];
	sigset_t set;

	for (size_t i = 0; i < SPAWNER_RELAYS_MAX; i++)
		serving.relays[i] = (struct spawner_relay){.pool = -1, .keeper = -1};
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	serving.children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (serving.children < 0)
		return;
	do
		wait_and_relay(&serving, fds);
	while (!fds[POLL_KEEPER].revents || take_order(&serving));
	end_box(session);
	spawner_branches_end(&serving.branches);
}
