/*
 * An interpreter in a box: pool, box, engine, each when it is needed. The spawner does what needs
 * rights (spawner.h), by what building.c says.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/python/python.h"
#include "keeper/building.h"
#include "keeper/checkpoints.h"
#include "keeper/home.h"
#include "keeper/files.h"
#include "keeper/monitor.h"
#include "keeper/guard.h"
#include "keeper/net.h"
#include "keeper/pool_wait.h"
#include "keeper/session.h"
#include "keeper/spawner.h"

/*
 * A box whose PID 1 has died is of no use any more, nor is an engine that was in it. The pidfd
 * tells only when all in the box is gone; the socket closes before the first of them is killed, so
 * a guest's death never comes before it.
 */
bool session_box_is_alive(const struct session *session)
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
	checkpoints_clear(session->checkpoints, "box");
	if (session->engine)
		session->engine->ops->free(session->engine);
	session->engine = NULL;
	if (!home_is_shared(session))
		session_release_box(session);
	else if (session->left_home)
		session->box = NULL;
}

void session_release_box(struct session *session)
{
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

	return building_is_cold(session) ? memcmp(built, now, sizeof(*built)) == 0
					 : built->tmp_bytes == now->tmp_bytes;
}

/* --- starting -----------------------------------------------------------------------------------
 */

static int pool_want(void *data, struct err *err);

int session_make_engine(struct session *session, struct err *err)
{
	struct python_params params = {
		.loop = session->loop,
		.box = session->box,
		.guests = session->guests,
		.policy = &session->policy,
		.brand = session->brand,
		.python = session->python,
		.cold_script = session->cold_script,
		.pool_fd = session->pool_fd,
		.pool_want = building_is_cold(session) ? NULL : pool_want,
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

/* The mount of an overlay is another one in each box. */
void session_watch_workspace(struct session *session)
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
	set_guard(session);
	if (session_place_packages(session, err) != 0)
		return -1;
	session->box = spawner_build(session->spawner, session, err);
	if (session->pool_fd >= 0 && building_is_cold(session)) /* as it turns out */
		close(fd_take(&session->pool_fd));
	session->built_family = building_family(session->family);
	session->built_limits = session->box_limits;
	if (session->box && box_tier(session->box) == TIER_DEGRADED &&
	    building_make_tmp(session, err) != 0)
		return -1;
	if (!session->box || net_box_started(session, err) != 0 ||
	    session_make_engine(session, err) != 0 ||
	    session->engine->ops->start(session->engine, err) != 0)
		return explain(session, err);
	session_watch_workspace(session); /* while the interpreter comes up */
	home_share(session);
	return 0;
}

/* Whether guests of the zygote that there is now can enter the box that there is. Another zygote
 * has another nursery, and a box has but one parent. */
static bool box_is_of_family(const struct session *session)
{
	return session->built_family == building_family(session->family);
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
	    python_wants_pool(session->engine)) {
		if (home_is_shared(session)) {
			close(fd);
			err_set(&why, ERR_ENGINE,
				"the zygote that this box was made for has ended, and the box is "
				"shared with other sessions: go back to a checkpoint, or stop the "
				"others");
			python_pool_given(session->engine, -1, &why);
			return;
		}
		session_release_engine(session);
	}
	if (session->engine) {
		python_pool_given(session->engine, fd, err);
		return;
	}
	if (fd >= 0 && building_is_cold(session)) {
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
	session->pool_wait = pool_wait_new(session->loop, session->spawner, session->config.python,
					   session->spare != NULL, pool_came, session, err);
	return session->pool_wait ? 0 : -1;
}

/* Others live in the box: it stays as it is. */
static int start_in_shared_box(struct session *session, struct err *err)
{
	if (!session->engine) { /* of the box before this one */
		session_watch_workspace(session);
		if (session_make_engine(session, err) != 0)
			return -1;
	}
	return session->engine->ops->start(session->engine, err);
}

int session_start_engine(struct session *session, struct err *err)
{
	if (session->back.number)
		return back_start(session, err);
	if (home_is_shared(session) && session_box_is_alive(session))
		return start_in_shared_box(session, err);
	if (home_is_shared(session) && !home_may_build(session))
		return 0;
	take_limits(session);
	if (session->engine && session_box_is_alive(session) && box_fits(session) &&
	    !monitor_box_is_full(session->monitor))
		return session->engine->ops->start(session->engine, err);
	session_release_engine(session);
	if (building_is_cold(session) || session->pool_fd >= 0)
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
