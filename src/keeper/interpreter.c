/*
 * From configuration to an interpreter in a box: pool, policy, box, engine.
 *
 * The zygote says which paths a guest must see; they become read-only parts of the box. An
 * environment that the session itself could write (a venv inside a writable workspace) is never
 * asked for a zygote: it starts cold, inside the box. So does tier none, whose guests have no
 * namespaces to enter.
 */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/paths.h"
#include "engine/python/python.h"
#include "keeper/session.h"
#include "pool/pool.h"

enum { ENVIRONMENT_TIMEOUT_MS = 120 * 1000, POOL_TRIES_MAX = 3 };

/* The part of `path` behind `folder`/, or NULL when it is not beneath it. */
static const char *path_beneath(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	while (len > 1 && folder[len - 1] == '/')
		len--;
	return strncmp(path, folder, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static bool is_cold(const struct session *session)
{
	const struct config *config = &session->config;

	return config->tier == TIER_NONE || (config->workspace_mode == WORKSPACE_RW &&
					     path_beneath(config->python, config->workspace));
}

/* A pool that ends before it has said anything is replaced by another one, a few times. */
static int pool_connect_again(void *data, struct err *err)
{
	struct session *session = data;
	struct err why = ERR_INIT;

	for (int tries = 0; tries < POOL_TRIES_MAX; tries++) {
		struct json *environment;
		const char *python = session->config.python;
		int fd = session->spare ? pool_join(python, err) : pool_connect(python, err);

		if (fd < 0)
			return -1;
		environment = pool_environment(fd, ENVIRONMENT_TIMEOUT_MS, &why);
		if (environment) {
			json_free(session->environment);
			session->environment = environment;
			return fd;
		}
		close(fd);
		if (why.code != ERR_GONE)
			break;
	}
	if (err)
		*err = why;
	return err_wrap(err, "%s", session->config.python);
}

/* The interpreter's path as it is inside the box. */
static char *python_inside(const struct session *session)
{
	const struct config *config = &session->config;
	const char *rest = path_beneath(config->python, config->workspace);

	if (config->tier == TIER_NONE || !rest)
		return mem_string(config->python);
	return mem_format("/workspace/%s", rest);
}

/*
 * Paths for the policy: those of the environment, and for a cold start our own folder. Strings stay
 * with their owners, and a new pool brings a new environment: so this is done before each box.
 */
static void collect_read_paths(struct session *session)
{
	const struct json *paths = json_get(session->environment, "paths");
	size_t count = json_length(paths), used = 0;

	free(session->read_paths);
	session->read_paths = mem_zalloc((count + 2) * sizeof(*session->read_paths));
	for (size_t i = 0; i < count; i++) {
		const char *path = json_string(json_at(paths, i), NULL);

		if (path && path[0] == '/')
			session->read_paths[used++] = path;
	}
	if (!session->environment)
		session->read_paths[used++] = session->guest_folder;
	session->policy.read = session->read_paths;
}

int session_prepare(struct session *session, struct err *err)
{
	const struct limits *limits = &session->config.limits;
	cleanup_free char *guest_folder = paths_helper("python", err);

	session->pool_fd = -1;
	if (!guest_folder)
		return -1;
	if (!session->config.python)
		session->config.python = pool_default_python(err);
	if (!session->config.python)
		return -1;
	if (!is_cold(session)) {
		session->pool_fd = pool_connect_again(session, err);
		if (session->pool_fd < 0)
			return -1;
	}
	session->python = python_inside(session);
	session->cold_script = mem_format("%s/fumehood_guest/cold.py", guest_folder);
	session->guest_folder = mem_take(guest_folder);
	policy_init(&session->policy);
	if (session->config.tier == TIER_NONE) /* asked for by name */
		session->policy.floor = TIER_NONE;
	session->policy.workspace = session->config.workspace;
	session->policy.workspace_mode = session->config.workspace_mode;
	session->policy.processes_max = limits->processes;
	session->policy.files_max = limits->files;
	session->policy.file_bytes_max = limits->file_bytes;
	session->policy.tmp_bytes_max = limits->tmp_bytes;
	return 0;
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
	if (session->engine)
		session->engine->ops->free(session->engine);
	session->engine = NULL;
	box_free(session->box);
	session->box = NULL;
}

static int engine_make(struct session *session, struct err *err)
{
	struct python_params params = {
		.loop = session->loop,
		.box = session->box,
		.policy = &session->policy,
		.python = session->python,
		.cold_script = session->cold_script,
		.pool_fd = session->pool_fd,
		.pool_connect = is_cold(session) ? NULL : pool_connect_again,
		.events = &SESSION_ENGINE_EVENTS,
		.data = session,
	};

	session->engine = python_new(&params, err);
	if (!session->engine)
		return -1;
	session->pool_fd = -1;
	return 0;
}

int session_start_engine(struct session *session, struct err *err)
{
	if (!box_is_alive(session)) {
		session_release_engine(session);
		collect_read_paths(session);
		session->box = box_start(&session->policy, session->config.tier, err);
		if (!session->box || engine_make(session, err) != 0)
			return -1;
	}
	return session->engine->ops->start(session->engine, err);
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
