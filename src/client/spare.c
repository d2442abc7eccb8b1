/*
 * Starting a session that is ready already: the pool's spare (doc/protocol.md, "Starting a
 *keeper").
 *
 *	connect ──> "start" ──> hello: it is ours, by whatever id it has
 *	   │            └ refused, or the end: the ordinary way
 *	   └ nobody listens: the ordinary way
 *
 * Only what the ordinary way would do just the same is asked for here; so falling back is always
 * right, and only costs time. The session's directory is the keeper's work; ours is the name.
 */
#include "client/session.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"

enum { REMOVE_WAIT_MS = 5000 };

/* Hosts can be allowed when a box stands; nothing else of a policy can change then. */
static bool is_of_hosts_alone(const struct json *policy)
{
	return !policy || (json_length(policy) == 1 && json_has(policy, "net"));
}

bool spare_is_eligible(const struct config *config)
{
	return config->python && !config->workspace && !config->workspace_read_only &&
	       config->tier == CONFIG_TIER_FULL && is_of_hosts_alone(config->policy) &&
	       config_box_is_default(config);
}

void spare_write_request(struct buf *out, const struct config *config)
{
	cleanup_json struct json *request = json_new_object();

	json_set_string(request, "op", "start");
	json_set(request, "session", config_chosen(config));
	json_write(out, request);
	buf_append_char(out, '\n');
}

/* Connects to the spare of this Python; -1: there is none. */
static int connect_spare(const char *python, const char *state)
{
	cleanup_free char *runtime = paths_runtime(NULL);
	cleanup_free char *identity = mem_format("%s\n%s\n%s", python, state, FH_VERSION);
	cleanup_free char *name = NULL;
	char hex[HASH_HEX_SIZE];

	if (!runtime)
		return -1;
	hash_sha256(identity, strlen(identity), hex);
	name = mem_format("spare-%.16s.sock", hex);
	return socket_connect(runtime, name, SOCK_STREAM, NULL);
}

/* Fills in what the hello has told. */
static int take_identity(struct fh_session *session, const struct config *config, const char *state,
			 struct err *err)
{
	cleanup_json struct json *hello =
		json_parse(session->hello, strlen(session->hello), &JSON_LIMITS, err);
	const char *id = json_get_string(hello, "session");

	if (!hello)
		return -1;
	if (!id || !config_is_id(id))
		return err_set(err, ERR_CORRUPT, "the keeper's hello has no session");
	memcpy(session->id, id, sizeof(session->id));
	session->name = mem_string(config->name);
	session->directory = mem_format("%s/sessions/%s", state, id);
	return 0;
}

static struct fh_session *greet(int fd, const struct config *config, const char *state,
				int cancel_fd, struct err *err)
{
	cleanup_buf struct buf request = BUF_INIT;
	struct fh_session *session = session_new(fd);

	spare_write_request(&request, config);
	if (wire_send(&session->wire, buf_bytes(&request), request.len, -1, err) == 0 &&
	    session_wait_hello(session, cancel_fd, err) == 0 &&
	    take_identity(session, config, state, err) == 0)
		return session;
	fh_close(session);
	return NULL;
}

/* The name is given last, as to any session; if it is taken there is no session. */
static int give_name(struct fh_session *session, struct err *err)
{
	cleanup_store struct store store = STORE_INIT;

	if (store_open(&store, err) != 0)
		return -1;
	if (store_give_name(&store, session->name, session->id, err) == 0)
		return 0;
	fh_stop(session, false, NULL);
	(void)store_remove(&store, session->id, REMOVE_WAIT_MS, NULL);
	return -1;
}

static bool is_cancelled(int cancel_fd)
{
	struct pollfd cancel = {.fd = cancel_fd, .events = POLLIN};

	return cancel_fd >= 0 && poll(&cancel, 1, 0) > 0;
}

enum spare_outcome spare_start(const struct config *config, int cancel_fd,
			       struct fh_session **session, struct err *err)
{
	cleanup_free char *state = NULL;
	int fd;

	if (config->name && store_check_name(config->name, err) != 0)
		return SPARE_FAILED;
	state = paths_state(err);
	if (!state)
		return SPARE_FAILED;
	fd = connect_spare(config->python, state);
	if (fd < 0)
		return SPARE_NONE;
	*session = greet(fd, config, state, cancel_fd, err);
	if (!*session)
		return is_cancelled(cancel_fd) ? SPARE_FAILED : SPARE_NONE;
	if (config->name && give_name(*session, err) != 0) {
		fh_close(*session);
		*session = NULL;
		return SPARE_FAILED;
	}
	return SPARE_GIVEN;
}
