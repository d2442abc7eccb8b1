/*
 * From a session's configuration to its box: which Python, which paths, which tier.
 *
 * The zygote says which paths a guest must see; they become read-only parts of the box. An
 * environment that the session itself could write (a venv inside a writable workspace) is never
 * asked for a zygote: it starts cold, inside the box, and reach.h says what it must see. So does
 * tier none, whose guests have no namespaces to enter, and a Python whose zygote says that it
 * cannot give guests (a free-threaded one).
 *
 * All this is done by the spawner (spawner.h), for a session of its own that has nothing but a
 * configuration and what the pool says; the keeper prepares its own in the same way, to know
 * what will come of it.
 */
#include "keeper/building.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/paths.h"
#include "base/python.h"
#include "files/overlay.h"
#include "keeper/home.h"
#include "sandbox/report.h"

bool building_is_cold(const struct session *session)
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
	/* What to show is asked only where there will be no zygote to tell. */
	if (session->foreign || config->tier == TIER_DEGRADED ||
	    (config->workspace_mode != WORKSPACE_RO &&
	     reach_is_writable(config->python, config->workspace)))
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
	if (session_prepare_policy(session, err) != 0)
		return -1;
	return prepare_overlay(session, err);
}

int session_prepare_policy(struct session *session, struct err *err)
{
	policy_init(&session->policy);
	policy_wish_apply(&session->config.policy, &session->policy);
	if (policy_check_paths(session->policy.read, session->policy.write, err) != 0)
		return -1;
	if (session->config.tier == TIER_NONE) /* asked for by name */
		session->policy.floor = TIER_NONE;
	session->policy.workspace = session->config.workspace;
	session->policy.workspace_mode = session->config.workspace_mode;
	session->policy.workspace_private = session->config.workspace_private;
	return 0;
}

/* Which nursery this is: as long as it exists, its number is no other's. 0: none. */
ino_t building_family(int family)
{
	struct stat st;

	return family >= 0 && fstat(family, &st) == 0 ? st.st_ino : 0;
}

int building_make_tmp(struct session *session, struct err *err)
{
	int dirfd = home_dirfd(session);
	cleanup_free char *link = mem_format("/proc/self/fd/%d", dirfd);
	cleanup_free char *directory = realpath(link, NULL);

	if (!directory || (mkdirat(dirfd, "tmp", 0700) < 0 && errno != EEXIST))
		return err_sys(err, "the session's directory for temporary files");
	free(session->tmp);
	session->tmp = mem_format("%s/tmp", directory);
	session->policy.tmp = session->tmp;
	return 0;
}

struct box *building_make(struct session *session, struct err *err)
{
	enum tier tier = session->config.tier;
	int family = building_is_cold(session) ? BOX_WITHOUT_ZYGOTE : session->family;
	struct err why = ERR_INIT;
	struct box *box = NULL;

	collect_read_paths(session);
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
	if (building_make_tmp(session, err) != 0)
		return NULL;
	show_guest_folder(session);
	box = box_start(&session->policy, TIER_DEGRADED, BOX_WITHOUT_ZYGOTE, err);
	if (!box && err && err->code == ERR_SANDBOX && tier == TIER_FULL)
		report_no_tier(&why, err);
	return box;
}
