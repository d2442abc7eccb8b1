/*
 * Starting sessions and finding the running ones.
 *
 * A session's keeper is found by its socket <runtime>/<id>.sock and nothing else: a pid or a file
 * proves nothing. If nobody listens, a keeper is started on the directory; of several that are
 * started at once the first takes the lock, and the others' clients are refused as busy and connect
 * to the first.
 *
 *	connect ── somebody listens ──> hello ──> ready
 *	   │                              └ the end instead: it was stopping. Again
 *	   └─ nobody ──> spawn ──> hello ──> ready
 *	                             └ refused as busy: another keeper starts or ends. Again
 *
 * The keeper is started as an orphan in a session of its own: it has no terminal, gets no Ctrl-C,
 * and is nobody's child to reap. What it writes to stderr (it should write nothing) goes to
 * keeper.log.
 */
#include "client/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/python.h"
#include "base/socket.h"
#include "client/policy.h"

enum { KEEPER_FD = 3, CONTEND_MS = 20000, LOG_TAIL_BYTES = 160, LOG_BYTES_MAX = 1 << 20 };

/* --- one keeper ------------------------------------------------------------------------------- */

static int connect_keeper(const char *id, struct err *err)
{
	cleanup_free char *runtime = paths_runtime(err);
	cleanup_free char *name = mem_format("%s.sock", id);

	return runtime ? socket_connect(runtime, name, SOCK_STREAM, err) : -1;
}

bool session_running(const char *id)
{
	cleanup_fd int fd = connect_keeper(id, NULL);

	return fd >= 0;
}

/* Starts a keeper; returns our end of the connection. */
static int spawn_keeper(const char *directory, struct err *err)
{
	cleanup_free char *program = paths_helper("fumehood-keeper", err);
	cleanup_free char *log_path = mem_format("%s/keeper.log", directory);
	cleanup_fd int log =
		open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	cleanup_fd int ours = -1;
	cleanup_fd int theirs = -1;
	const char *argv[] = {"fumehood-keeper", "--session", directory, "--fd", "3", NULL};
	struct child_params params = {.path = program,
				      .argv = argv,
				      .new_session = true,
				      .orphan = true,
				      .directory = "/"};
	struct child child;
	int pair[2];
	int fds[KEEPER_FD + 1];

	if (!program)
		return -1;
	if (socket_pair(SOCK_STREAM, pair, err) != 0)
		return -1;
	ours = pair[0];
	theirs = pair[1];
	fds[0] = -1;
	fds[1] = log;
	fds[2] = log;
	fds[KEEPER_FD] = theirs;
	params.fds = fds;
	params.fd_count = KEEPER_FD + 1;
	if (child_start(&params, &child, err) != 0)
		return err_wrap(err, "cannot start %s", program);
	return fd_take(&ours);
}

/* The last line of keeper.log: the only words of a keeper that crashed. */
static void add_last_words(const char *directory, struct err *err)
{
	cleanup_free char *path = mem_format("%s/keeper.log", directory);
	cleanup_buf struct buf text = BUF_INIT;
	const char *start, *end;

	if (!err || file_read(AT_FDCWD, path, LOG_BYTES_MAX, &text, NULL) != 0 || text.len == 0)
		return;
	end = buf_bytes(&text) + text.len;
	while (end > buf_bytes(&text) && end[-1] == '\n')
		end--;
	start = end;
	while (start > buf_bytes(&text) && start[-1] != '\n' && end - start < LOG_TAIL_BYTES)
		start--;
	err_set(err, err->code, "the keeper ended at its start: %.*s", (int)(end - start), start);
}

/* --- hello ------------------------------------------------------------------------------------ */

struct fh_session *session_new(int fd)
{
	struct fh_session *session = mem_zalloc(sizeof(*session));

	wire_init(&session->wire, fd);
	session->timeout_ms = -1;
	return session;
}

int session_wait_hello(struct fh_session *session, int cancel_fd, struct err *err)
{
	cleanup_json struct json *message = NULL;
	enum message_kind kind;
	const char *line;
	size_t len;
	int got;

	session->wire.cancel_fd = cancel_fd;
	got = wire_line(&session->wire, -1, &line, &len, err);
	session->wire.cancel_fd = -1;
	if (got < 0)
		return -1;
	kind = message_kind(line, len, &message);
	if (kind == MESSAGE_REFUSED)
		return message_refusal(message, err);
	/* The hello was held for the disk (--durability power), which has refused meanwhile. */
	if (kind == MESSAGE_EVENT && json_get_string(message, "message"))
		return err_set(err, ERR_IO, "%s", json_get_string(message, "message"));
	if (kind != MESSAGE_HELLO || json_get_int(message, "protocol", 0) != 1)
		return err_set(err, ERR_UNSUPPORTED,
			       "the keeper does not speak version 1 of the protocol; "
			       "stop the session with the version of Fumehood that started it");
	session->hello = mem_copy(line, len);
	session->hello_seq = (uint64_t)json_get_int(message, "last_seq", 0);
	return 0;
}

static void short_sleep(void)
{
	struct timespec pause = {.tv_sec = 0, .tv_nsec = 10000000};

	nanosleep(&pause, NULL);
}

/* Whether a keeper that somebody else has started is about to end. One that could not start its
 * session tells that to all who come; but it is the answer to who asked for that start, and for us
 * things may have changed since. */
static bool is_ending(enum err_code code)
{
	return code == ERR_GONE || code == ERR_ENGINE || code == ERR_SANDBOX ||
	       code == ERR_NOT_FOUND || code == ERR_IO;
}

struct fh_session *session_connect(const struct store_entry *entry, bool running_only,
				   int cancel_fd, struct err *err)
{
	int64_t until = clock_monotonic_us() + (int64_t)CONTEND_MS * 1000;

	for (;;) {
		struct err why = ERR_INIT;
		struct fh_session *session = NULL;
		int fd = connect_keeper(entry->config.id, &why);
		bool spawned = false;
		bool again;

		if (fd < 0 && why.code != ERR_NOT_FOUND)
			goto fail;
		if (fd < 0 && running_only) {
			err_set(&why, ERR_NOT_FOUND, "the session is not running");
			goto fail;
		}
		if (fd < 0) {
			fd = spawn_keeper(entry->directory, &why);
			spawned = true;
		}
		if (fd < 0)
			goto fail;
		session = session_new(fd);
		memcpy(session->id, entry->config.id, sizeof(session->id));
		session->name = mem_string(entry->config.name);
		session->directory = mem_string(entry->directory);
		if (session_wait_hello(session, cancel_fd, &why) == 0)
			return session;
		fh_close(session);
		again = spawned ? why.code == ERR_BUSY : is_ending(why.code);
		if (spawned && why.code == ERR_GONE)
			add_last_words(entry->directory, &why);
		if (again && clock_monotonic_us() < until) {
			short_sleep();
			continue;
		}
	fail:
		if (err)
			*err = why;
		return NULL;
	}
}

/* --- the public calls ------------------------------------------------------------------------- */

FH_PUBLIC void fh_start_params_init(struct fh_start_params *params)
{
	*params = (struct fh_start_params){
		.tier = FH_TIER_SANDBOX,
		.wall_s_max = 300,
		.ends_with_client = true,
		.cancel_fd = -1,
	};
}

/* The JSON object of a parameter, if it is given. */
static int read_object(const char *text, const char *name, struct json **object, struct err *err)
{
	if (!text)
		return 0;
	*object = json_parse(text, strlen(text), &JSON_LIMITS, err);
	if (!*object)
		return err_wrap(err, "%s", name);
	if (json_type_of(*object) != JSON_OBJECT)
		return err_set(err, ERR_USAGE, "%s is a JSON object", name);
	return 0;
}

/* The parameters as a config; paths are made absolute. The strings are owned by the config. */
static int read_params(const struct fh_start_params *params, struct config *config, struct err *err)
{
	if (!(params->wall_s_max > 0))
		return err_set(err, ERR_USAGE, "wall_s_max is more than 0 seconds");
	if (params->python && params->python[0] != '/')
		return err_set(err, ERR_USAGE, "python is an absolute path, not %s",
			       params->python);
	if (params->workspace_overlay && (!params->workspace || params->workspace_read_only))
		return err_set(
			err, ERR_USAGE,
			"workspace_overlay needs a workspace, and one that is not read-only");
	if (params->workspace) {
		config->workspace = realpath(params->workspace, NULL);
		if (!config->workspace)
			return err_sys(err, "cannot use %s as workspace", params->workspace);
	}
	if (read_object(params->notebook_metadata, "notebook_metadata", &config->notebook_metadata,
			err) != 0 ||
	    read_object(params->policy_json, "policy_json", &config->policy, err) != 0 ||
	    policy_take_variables(config->policy, err) != 0)
		return -1;
	config->name = mem_string(params->name);
	/* Here and not by the keeper: a spare session is found by the Python's path. */
	config->python = params->python ? mem_string(params->python) : python_default(err);
	if (!config->python)
		return -1;
	config->workspace_read_only = params->workspace_read_only;
	config->workspace_overlay = params->workspace_overlay;
	config->tier = params->tier == FH_TIER_NONE       ? CONFIG_TIER_NONE
		       : params->tier == FH_TIER_DEGRADED ? CONFIG_TIER_DEGRADED
							  : CONFIG_TIER_FULL;
	config->wall_s_max = params->wall_s_max;
	config->output_bytes_max = params->output_bytes_max;
	config->limits = params->limits;
	config->ends_with_client = params->ends_with_client;
	config->durability_power = params->durability_power;
	config->keeps_rolled_back = params->notebook_keeps_rolled_back;
	return 0;
}

/* The ordinary way: a directory, and a keeper started on it. */
static struct fh_session *start_keeper(const struct config *config, int cancel_fd, struct err *err)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_entry struct store_entry entry = STORE_ENTRY_INIT;
	struct fh_session *session;

	if (store_open(&store, err) != 0 || store_create(&store, config, &entry, err) != 0)
		return NULL;
	session = session_connect(&entry, false, cancel_fd, err);
	if (!session)
		store_remove(&store, entry.config.id, 5000, NULL);
	return session;
}

/* The name is an entry of a folder that no keeper syncs. */
static int sync_name(const struct config *config, struct err *err)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_fd int folder = -1;

	if (!config->name || !config->durability_power)
		return 0;
	if (store_open(&store, err) != 0)
		return -1;
	folder = openat(store.names_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || fsync(folder) != 0)
		return err_sys(err, "cannot sync the names of sessions");
	return 0;
}

FH_PUBLIC struct fh_session *fh_start(const struct fh_start_params *params, struct fh_error *error)
{
	cleanup_config struct config config = CONFIG_INIT;
	struct fh_session *session = NULL;
	enum spare_outcome spare = SPARE_NONE;
	struct err err = ERR_INIT;

	if (read_params(params, &config, &err) != 0) {
		error_give(error, &err);
		return NULL;
	}
	if (!params->without_spare && spare_is_eligible(&config))
		spare = spare_start(&config, params->cancel_fd, &session, &err);
	if (spare == SPARE_NONE) {
		err = (struct err)ERR_INIT;
		session = start_keeper(&config, params->cancel_fd, &err);
	}
	if (session && sync_name(&config, &err) != 0) {
		char id[HASH_ID_SIZE];

		memcpy(id, session->id, sizeof(id));
		(void)fh_stop(session, false, NULL);
		fh_close(session);
		session = NULL;
		(void)fh_remove(id, NULL);
	}
	if (!session)
		error_give(error, &err);
	return session;
}

FH_PUBLIC void fh_open_params_init(struct fh_open_params *params)
{
	*params = (struct fh_open_params){.running_only = false, .cancel_fd = -1};
}

/* The last event now: the hello of a session that runs already was written when it became ready. */
static int read_present(struct fh_session *session, struct err *err)
{
	static const char request[] = "{\"op\":\"status\"}";
	cleanup_json struct json *reply = NULL;

	if (session_call(session, request, sizeof(request) - 1, &reply, err) != 0)
		return -1;
	session->hello_seq = (uint64_t)json_get_int(reply, "last_seq", (int64_t)session->hello_seq);
	return 0;
}

FH_PUBLIC struct fh_session *fh_open(const char *name, const struct fh_open_params *params,
				     struct fh_error *error)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_entry struct store_entry entry = STORE_ENTRY_INIT;
	struct fh_open_params defaults;
	struct fh_session *session = NULL;
	struct err err = ERR_INIT;

	fh_open_params_init(&defaults);
	if (!params)
		params = &defaults;
	if (store_open(&store, &err) == 0 && store_find(&store, name, &entry, &err) == 0)
		session = session_connect(&entry, params->running_only, params->cancel_fd, &err);
	if (session && read_present(session, &err) != 0) {
		fh_close(session);
		session = NULL;
	}
	if (!session)
		error_give(error, &err);
	return session;
}
