/*
 * From configuration to an interpreter in a box: pool, policy, box, engine.
 *
 * The zygote says which paths a guest must see; they become read-only parts of the box. An
 * environment that the session itself could write (a venv inside a writable workspace) is never
 * asked for a zygote: it starts cold, inside the box, and reach.h says what it must see. So does
 * tier none, whose guests have no namespaces to enter, and a Python whose zygote says that it
 * cannot give guests (a free-threaded one).
 */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/paths.h"
#include "base/python.h"
#include "engine/python/python.h"
#include "files/overlay.h"
#include "keeper/files.h"
#include "keeper/monitor.h"
#include "keeper/guard.h"
#include "keeper/net.h"
#include "keeper/pool_wait.h"
#include "keeper/session.h"

static bool is_cold(const struct session *session)
{
	/* A zygote cannot be confined where a box cannot be built. */
	bool degraded = session->config.tier == TIER_DEGRADED ||
			(session->box && box_tier(session->box) == TIER_DEGRADED);

	return session->config.tier == TIER_NONE || degraded || session->foreign ||
	       session->reach.writable || json_get_bool(session->environment, "cold", false);
}

/*
 * Paths for the policy: those of the environment, and where there is no zygote to ask those that
 * were found without it and our own folder. Strings stay with their owners, and a new pool brings a
 * new environment: so this is done before each box.
 */
static void collect_read_paths(struct session *session)
{
	const struct json *paths = json_get(session->environment, "paths");
	char **asked = session->config.policy.lists[POLICY_READ];
	size_t count = json_length(paths), used = 0, asked_count = 0;

	while (asked && asked[asked_count])
		asked_count++;
	free(session->read_paths);
	session->read_paths = mem_zalloc((count + session->reach.count + asked_count + 2) *
					 sizeof(*session->read_paths));
	for (size_t i = 0; i < count; i++) {
		const char *path = json_string(json_at(paths, i), NULL);

		if (path && path[0] == '/')
			session->read_paths[used++] = path;
	}
	if (!session->environment) {
		for (size_t i = 0; i < session->reach.count; i++)
			session->read_paths[used++] = session->reach.paths[i];
		session->read_paths[used++] = session->guest_folder;
	}
	for (size_t i = 0; asked && asked[i]; i++)
		session->read_paths[used++] = asked[i];
	session->policy.read = session->read_paths;
}

/* Of a guest that starts cold after all: a copy of the zygote would bring its own code along. */
static void show_guest_folder(struct session *session)
{
	size_t used = 0;

	while (session->read_paths[used] && session->read_paths[used] != session->guest_folder)
		used++;
	session->read_paths[used] = session->guest_folder; /* there is room: collect_read_paths() */
}

/* Where the interpreter is, and whether it must not become a zygote. In tier none a session may
 * write whatever the user may, and there is no box. */
static void find_python(struct session *session)
{
	const struct config *config = &session->config;

	if (config->tier == TIER_NONE) {
		session->python = mem_string(config->python);
		return;
	}
	session->python = reach_inside(config->python, config->workspace);
	session->foreign = python_is_made(config->python);
	if (config->workspace_mode != WORKSPACE_RO || session->foreign)
		reach_find(&session->reach, config->python, config->workspace);
	for (char **path = config->policy.lists[POLICY_WRITE];
	     path && *path && !session->reach.writable; path++) {
		struct reach reach = REACH_INIT;

		reach_find(&reach, config->python, *path);
		if (reach.writable) {
			reach_release(&session->reach);
			session->reach = reach;
		} else {
			reach_release(&reach);
		}
	}
}

/* Where an overlay keeps its changes. The kernel wants a path. */
static int prepare_overlay(struct session *session, struct err *err)
{
	char link[64], path[PATH_MAX];
	ssize_t len;

	if (session->config.workspace_mode != WORKSPACE_OVERLAY)
		return 0;
	if (overlay_prepare(session->dirfd, err) != 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", session->dirfd);
	len = readlink(link, path, sizeof(path));
	if (len < 0 || (size_t)len >= sizeof(path))
		return err_sys(err, "the session's directory");
	session->overlay = mem_format("%.*s/" OVERLAY_FOLDER, (int)len, path);
	session->policy.overlay = session->overlay;
	return 0;
}

int session_prepare(struct session *session, struct err *err)
{
	cleanup_free char *guest_folder = paths_helper("python", err);

	session->pool_fd = -1;
	if (!guest_folder)
		return -1;
	if (!session->config.python)
		session->config.python = python_default(err);
	if (!session->config.python)
		return -1;
	find_python(session);
	session->cold_script = mem_format("%s/fumehood_guest/cold.py", guest_folder);
	session->guest_folder = mem_take(guest_folder);
	policy_init(&session->policy);
	policy_wish_apply(&session->config.policy, &session->policy);
	if (policy_check_paths(session->policy.read, session->policy.write, err) != 0)
		return -1;
	if (session->config.tier == TIER_NONE) /* asked for by name */
		session->policy.floor = TIER_NONE;
	session->policy.workspace = session->config.workspace;
	session->policy.workspace_mode = session->config.workspace_mode;
	session->policy.workspace_private = session->config.workspace_private;
	return prepare_overlay(session, err);
}

/*
 * A box whose PID 1 has died is of no use any more, nor is an engine that was in it. The pidfd
 * tells only when all in the box is gone; the socket closes before the first of them is killed, so
 * a guest's death never comes before it.
 */
static bool box_is_alive(const struct session *session)
{
	struct pollfd ends[2] = {{.events = POLLIN}, {.events = 0}};

	if (!session->box)
		return false;
	ends[0].fd = box_pidfd(session->box);
	ends[1].fd = box_socket(session->box);
	return poll(ends, 2, 0) == 0;
}

void session_release_engine(struct session *session)
{
	pool_wait_free(session->pool_wait);
	session->pool_wait = NULL;
	if (session->engine)
		session->engine->ops->free(session->engine);
	session->engine = NULL;
	net_box_ended(session);
	box_free(session->box);
	session->box = NULL;
}

/* --- limits of the box --------------------------------------------------------------------------
 */

/* Puts in force what has been asked for since the last start. */
static void take_limits(struct session *session)
{
	struct limits *limits = &session->box_limits;
	struct limits before = *limits;

	limits_take_box(limits, &session->config.limits, true);
	if (memcmp(&before, limits, sizeof(before)) != 0)
		session->limits_taken = true;
	session->policy.processes_max = limits->processes;
	session->policy.files_max = limits->files;
	session->policy.file_bytes_max = limits->file_bytes;
	session->policy.tmp_bytes_max = limits->tmp_bytes;
	session_take_limits(session);
}

/* The box was built with these limits, as far as it matters: a guest that comes from the pool
 * brings its own, all but the size of /tmp. */
static bool box_fits(const struct session *session)
{
	const struct limits *built = &session->built_limits, *now = &session->box_limits;

	return is_cold(session) ? memcmp(built, now, sizeof(*built)) == 0
				: built->tmp_bytes == now->tmp_bytes;
}

/* --- starting -----------------------------------------------------------------------------------
 */

static int pool_want(void *data, struct err *err);

static int engine_make(struct session *session, struct err *err)
{
	struct python_params params = {
		.loop = session->loop,
		.box = session->box,
		.policy = &session->policy,
		.python = session->python,
		.cold_script = session->cold_script,
		.pool_fd = session->pool_fd,
		.pool_want = is_cold(session) ? NULL : pool_want,
		.events = &SESSION_ENGINE_EVENTS,
		.data = session,
	};

	session->engine = python_new(&params, err);
	if (!session->engine)
		return -1;
	session->pool_fd = -1;
	return 0;
}

/* A start that has failed, of a Python that is the session's own: the most likely reason is that it
 * is part of an environment which leads out of the workspace. */
static int explain(const struct session *session, struct err *err)
{
	cleanup_free char *why = mem_string(err->text);

	if (!session->reach.writable || err->code != ERR_NOT_FOUND)
		return -1;
	return err_set(err, err->code,
		       "%s. It lies in the workspace, so it runs inside the box, where it does not "
		       "find what it was made from: make the environment again from a Python "
		       "outside of the workspace, or place it elsewhere",
		       why);
}

/* Which nursery this is: as long as it exists, its number is no other's. 0: none. */
static ino_t family_number(int family)
{
	struct stat st;

	return family >= 0 && fstat(family, &st) == 0 ? st.st_ino : 0;
}

/* A directory for temporary files beside the workspace: /tmp is everybody's without a mount
 * namespace. */
static int make_tmp(struct session *session, struct err *err)
{
	cleanup_free char *link = mem_format("/proc/self/fd/%d", session->dirfd);
	cleanup_free char *directory = realpath(link, NULL);

	if (!directory || (mkdirat(session->dirfd, "tmp", 0700) < 0 && errno != EEXIST))
		return err_sys(err, "the session's directory for temporary files");
	free(session->tmp);
	session->tmp = mem_format("%s/tmp", directory);
	session->policy.tmp = session->tmp;
	return 0;
}

/* The strongest box that there can be, no weaker than the policy's floor. What stood in the way of
 * a full one goes into the `session` event. */
static struct box *build_box(struct session *session, struct err *err)
{
	enum tier tier = session->config.tier;
	int family = is_cold(session) ? BOX_WITHOUT_ZYGOTE : session->family;
	struct err why = ERR_INIT;
	struct box *box = NULL;

	free(session->tier_reason);
	session->tier_reason = NULL;
	if (tier != TIER_DEGRADED)
		box = box_start(&session->policy, tier, family, &why);
	if (box)
		return box;
	if (tier == TIER_NONE || session->policy.overlay ||
	    (tier == TIER_FULL &&
	     (why.code != ERR_SANDBOX || session->policy.floor > TIER_DEGRADED))) {
		if (err)
			*err = why;
		return NULL;
	}
	session->tier_reason = mem_string(tier == TIER_FULL ? why.text : "asked for");
	if (make_tmp(session, err) != 0)
		return NULL;
	show_guest_folder(session);
	return box_start(&session->policy, TIER_DEGRADED, BOX_WITHOUT_ZYGOTE, err);
}

/* The mount of an overlay is another one in each box. */
static void watch_workspace(struct session *session)
{
	if (session->config.workspace_mode == WORKSPACE_OVERLAY) {
		watch_close(session->watch);
		session->watch = files_watch_at(box_overlay(session->box));
	} else if (!session->watch && session->config.workspace_mode == WORKSPACE_RW) {
		session->watch = files_watch(session->config.workspace);
	}
}

/* Before the first box, in which what is there now is read-only. */
static void set_guard(struct session *session)
{
	if (!session->guard && session->config.tier != TIER_NONE &&
	    session->config.workspace_mode == WORKSPACE_RW && !session->config.workspace_private &&
	    session->policy.protect)
		session->guard = guard_new(session->config.workspace, session->policy.protect);
}

/* Builds the box, for which the environment is known now, and starts an interpreter in it. */
static int start_in_new_box(struct session *session, struct err *err)
{
	collect_read_paths(session);
	set_guard(session);
	if (session_place_packages(session, err) != 0)
		return -1;
	session->box = build_box(session, err);
	if (session->pool_fd >= 0 && is_cold(session)) /* as it turns out */
		close(fd_take(&session->pool_fd));
	session->built_family = family_number(session->family);
	session->built_limits = session->box_limits;
	if (!session->box || net_box_started(session, err) != 0 || engine_make(session, err) != 0 ||
	    session->engine->ops->start(session->engine, err) != 0)
		return explain(session, err);
	watch_workspace(session); /* while the interpreter comes up */
	return 0;
}

/* Whether guests of the zygote that there is now can enter the box that there is. Another zygote
 * has another nursery, and a box has but one parent. */
static bool box_is_of_family(const struct session *session)
{
	return session->built_family == family_number(session->family);
}

/* The pool is warm, or there will be none: for the first box, or for an engine that waits. */
static void pool_came(void *data, int fd, struct json *environment, int family,
		      const struct err *err)
{
	struct session *session = data;
	struct err why = ERR_INIT;

	session->pool_wait = NULL;
	if (environment) {
		json_free(session->environment);
		session->environment = environment;
		if (session->family >= 0)
			close(session->family);
		session->family = family;
	}
	if (session->engine && fd >= 0 && !box_is_of_family(session) &&
	    python_wants_pool(session->engine))
		session_release_engine(session);
	if (session->engine) {
		python_pool_given(session->engine, fd, err);
		return;
	}
	if (fd >= 0 && is_cold(session)) {
		close(fd);
		fd = -1;
	} else if (fd < 0) {
		SESSION_ENGINE_EVENTS.failed(session, err);
		return;
	}
	session->pool_fd = fd;
	if (start_in_new_box(session, &why) != 0)
		SESSION_ENGINE_EVENTS.failed(session, &why);
}

static int pool_want(void *data, struct err *err)
{
	struct session *session = data;

	pool_wait_free(session->pool_wait);
	session->pool_wait = pool_wait_new(session->loop, session->config.python,
					   session->spare != NULL, pool_came, session, err);
	return session->pool_wait ? 0 : -1;
}

int session_start_engine(struct session *session, struct err *err)
{
	take_limits(session);
	if (session->engine && box_is_alive(session) && box_fits(session) &&
	    !monitor_box_is_full(session->monitor))
		return session->engine->ops->start(session->engine, err);
	session_release_engine(session);
	if (is_cold(session) || session->pool_fd >= 0)
		return start_in_new_box(session, err);
	return pool_want(session, err);
}

struct json *session_versions(const struct session *session)
{
	struct json *versions = json_new_object();
	const struct json *hello = session->hello;

	json_set_string(versions, "fumehood", FH_VERSION);
	json_set(versions, "python", json_keep(json_get(hello, "python")));
	json_set(versions, "implementation", json_keep(json_get(hello, "implementation")));
	json_set(versions, "shell", json_keep(json_get(hello, "shell")));
	json_set(versions, "modules", json_keep(json_get(hello, "modules")));
	return versions;
}
