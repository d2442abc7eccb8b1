/*
 * The client side: find the pool of a Python, or start it.
 *
 * A pool holds the lock pool-<id>.lock as long as its socket file is there. So: connect; if nobody
 * listens, take the lock; who has it starts the pool and passes the lock on to it as an open
 * descriptor (flock(2) belongs to the open file description, so nothing is ever unlocked in
 * between). Who does not get the lock waits for the one who did. Two keepers that start at the same
 * time thus make one pool, and a keeper that dies half-way leaves no lock behind.
 *
 * The pool lives on after its keeper, so it gets only the variables it needs, not the keeper's
 * whole environment.
 */
#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/socket.h"
#include "guest/protocol.h"
#include "pool/command.h"

enum {
	START_WAIT_MS = 10 * 1000, /* exec and listen: 3 ms on an idle machine */
	CONNECT_PAUSE_US = 2000,   /* between looks for a pool that another keeper is starting */
	STATUS_WAIT_MS = 2000,
	STOP_WAIT_MS = 6000, /* an order under way, then a zygote that must be killed: 4 s */
	REPORT_BYTES_MAX = 512,
};

void pool_names_init(struct pool_names *names, const char *python)
{
	cleanup_free char *identity = mem_format("%s\n%d\n%s", python, GUEST_PROTOCOL, FH_VERSION);
	char hex[HASH_HEX_SIZE];

	hash_sha256(identity, strlen(identity), hex);
	snprintf(names->id, sizeof(names->id), "%.16s", hex);
	snprintf(names->socket, sizeof(names->socket), "pool-%s.sock", names->id);
	snprintf(names->lock, sizeof(names->lock), "pool-%s.lock", names->id);
	snprintf(names->log, sizeof(names->log), "pool-%s.log", names->id);
}

static int left_ms(int64_t until_us)
{
	int64_t left = (until_us - clock_monotonic_us() + 999) / 1000;

	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* Waits until `fd` can be read: 1, 0 when the time is over. */
static int await_readable(int fd, int64_t until_us)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int ready;

	do {
		ready = poll(&wait, 1, left_ms(until_us));
	} while (ready < 0 && errno == EINTR);
	return ready > 0;
}

/* ---- start ---- */

/* Reads what the started pool reports. 0 when it listens. */
static int read_report(int fd, struct err *err)
{
	int64_t until_us = clock_monotonic_us() + START_WAIT_MS * INT64_C(1000);
	char report[REPORT_BYTES_MAX + 1] = "";
	size_t len = 0;

	while (len < REPORT_BYTES_MAX) {
		ssize_t count;

		if (!await_readable(fd, until_us))
			return err_set(err, ERR_TIMEOUT, "fumehood-pool did not listen within %d s",
				       START_WAIT_MS / 1000);
		count = read(fd, report + len, REPORT_BYTES_MAX - len);
		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			break;
		len += (size_t)count;
	}
	if (strcmp(report, "ok") == 0)
		return 0;
	return err_set(err, ERR_ENGINE, "fumehood-pool could not be started: %s",
		       len > 0 ? report : "it ended without a word");
}

/* Copies "NAME=value" of those variables that decide where things are, or are meant for a pool;
 * NULL-terminated. The other settings are not: what one user of a pool wants is not for all. Those
 * of the sanitizers mean something to a build with them only: where the pool and its spares report
 * to. */
static void choose_environment(char *variables[], size_t max)
{
	static const char *const names[] = {"PATH",
					    "HOME",
					    "XDG_RUNTIME_DIR",
					    "XDG_STATE_HOME",
					    "XDG_CONFIG_HOME",
					    "FUMEHOOD_LIBEXEC",
					    "FUMEHOOD_CONFIG",
					    "FUMEHOOD_POOL_IDLE_S",
					    "ASAN_OPTIONS",
					    "LSAN_OPTIONS",
					    "UBSAN_OPTIONS"};
	size_t count = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && count + 1 < max; i++) {
		const char *value = getenv(names[i]);

		if (value)
			variables[count++] = mem_format("%s=%s", names[i], value);
	}
	variables[count] = NULL;
}

/* Starts the pool with the lock that `lock` holds, and waits until it listens. */
static int start_pool(const char *python, int lock, struct err *err)
{
	cleanup_free char *program = paths_helper("fumehood-pool", err);
	cleanup_fd int in = -1, out = -1;
	const char *const argv[] = {program, "--python", python, "--started", NULL};
	char *variables[16];
	int ends[2], failed;

	if (!program)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, "a pipe to fumehood-pool cannot be made");
	in = ends[0];
	out = ends[1];
	choose_environment(variables, sizeof(variables) / sizeof(variables[0]));
	{
		const int fds[] = {-1, -1, -1, [POOL_FD_REPORT] = out, [POOL_FD_LOCK] = lock};
		const struct child_params params = {
			.path = program,
			.argv = argv,
			.envp = (const char *const *)variables,
			.fds = fds,
			.fd_count = sizeof(fds) / sizeof(fds[0]),
			.new_session = true,
			.orphan = true,
			.directory = "/",
		};
		struct child child;

		failed = child_start(&params, &child, err);
	}
	for (size_t i = 0; variables[i]; i++)
		free(variables[i]);
	if (failed)
		return err_wrap(err, "fumehood-pool cannot be started");
	close(fd_take(&out));
	return read_report(in, err);
}

/* Connects when a pool is there; else starts one if the lock is free. -1 with ERR_BUSY: somebody
 * else has the lock. */
static int connect_or_start(const char *python, const char *directory, int dirfd, struct err *err)
{
	struct err missing = ERR_INIT;
	struct pool_names names;
	cleanup_fd int lock = -1;
	int fd;

	pool_names_init(&names, python);
	fd = socket_connect(directory, names.socket, SOCK_SEQPACKET, &missing);
	if (fd >= 0)
		return fd;
	if (missing.code != ERR_NOT_FOUND) {
		if (err)
			*err = missing;
		return -1;
	}
	lock = file_lock(dirfd, names.lock, err);
	if (lock < 0)
		return -1;
	/* We have it, so nobody listens now: a pool keeps the lock while it does. */
	if (start_pool(python, lock, err) < 0)
		return -1;
	return socket_connect(directory, names.socket, SOCK_SEQPACKET, err);
}

int pool_connect(const char *python, struct err *err)
{
	int64_t until_us = clock_monotonic_us() + START_WAIT_MS * INT64_C(1000);
	const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_US * 1000};
	cleanup_free char *directory = paths_runtime(err);
	cleanup_fd int dirfd = -1;

	if (!directory)
		return -1;
	if (python[0] != '/')
		return err_set(err, ERR_INVALID, "the path of the Python must be absolute, not %s",
			       python);
	dirfd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, "the directory %s cannot be opened", directory);
	for (;;) {
		struct err last = ERR_INIT;
		int fd = connect_or_start(python, directory, dirfd, &last);

		if (fd >= 0)
			return fd;
		if (last.code == ERR_BUSY && clock_monotonic_us() < until_us) {
			nanosleep(&pause, NULL); /* it is being started, or ends just now */
			continue;
		}
		if (err)
			*err = last;
		return -1;
	}
}

/* ---- messages ---- */

/* The next message of one of the wanted types (0: no second one); others are skipped. Its body goes
 * to `body`, a descriptor that comes with it to *given if that is -1 (may be NULL). Returns the
 * type. */
static int await_message(int fd, uint8_t first, uint8_t second, int64_t until_us, struct buf *body,
			 int *given, struct err *err)
{
	for (;;) {
		int fds[SOCKET_FDS_MAX];
		size_t fd_count = SOCKET_FDS_MAX;
		bool truncated = false, wanted;
		struct guest_header header;
		ssize_t len;

		if (!await_readable(fd, until_us))
			return err_set(err, ERR_TIMEOUT, "the pool did not answer in time");
		buf_clear(body);
		len = socket_receive(fd, buf_reserve(body, GUEST_MESSAGE_BYTES_MAX),
				     GUEST_MESSAGE_BYTES_MAX, fds, &fd_count, &truncated,
				     MSG_DONTWAIT);
		if (len < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (len <= 0)
			return err_set(err, ERR_GONE, "the pool has ended; connect again");
		buf_added(body, (size_t)len);
		memset(&header, 0, sizeof(header));
		memcpy(&header, buf_bytes(body), body->len < sizeof(header) ? 0 : sizeof(header));
		wanted = !truncated && body->len >= sizeof(header) &&
			 (header.type == first || (second && header.type == second));
		for (size_t i = 0; i < fd_count; i++) {
			if (wanted && given && *given < 0)
				*given = fds[i];
			else
				close(fds[i]);
		}
		if (truncated || body->len < sizeof(header))
			return err_set(err, ERR_INVALID,
				       "a message of the pool has a wrong length");
		buf_consume(body, sizeof(header));
		if (wanted)
			return header.type;
	}
}

/* The last line of `text` that says something, and its length. */
static const char *last_line(const char *text, size_t *len)
{
	size_t end = strlen(text), start;

	while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r' || text[end - 1] == ' '))
		end--;
	for (start = end; start > 0 && text[start - 1] != '\n'; start--)
		;
	*len = end - start;
	return text + start;
}

struct json *pool_environment(int fd, int timeout_ms, int *family, struct err *err)
{
	int64_t until_us = clock_monotonic_us() + timeout_ms * INT64_C(1000);
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_json struct json *body = NULL;
	const char *message, *words, *line;
	size_t len;
	int type;

	if (family)
		*family = -1;
	type = await_message(fd, ZYGOTE_READY, ZYGOTE_FAILED, until_us, &text, family, err);
	if (type < 0)
		return NULL;
	body = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, err);
	if (!body)
		return NULL;
	if (type == ZYGOTE_READY)
		return mem_take(body);
	message = json_get_string(body, "message");
	words = json_get_string(body, "stderr");
	line = last_line(words ? words : "", &len);
	/* A struct err holds one sentence. Python's own last line is the best part of a traceback;
	 * the rest is in the log. */
	err_set(err, ERR_ENGINE, "%s%s%.*s", message ? message : "the zygote failed",
		len > 0 ? ": " : "", (int)len, line);
	return NULL;
}

/* ---- list and stop ---- */

static int send_command(int fd, uint8_t type, struct err *err)
{
	const struct guest_header header = {.type = type};

	if (socket_send(fd, &header, sizeof(header), NULL, 0) < 0)
		return err_sys(err, "the pool cannot be told anything");
	return 0;
}

/* The socket files of pools in `directory`, as glob(3) gives them. */
static int find_pools(const char *directory, glob_t *found, struct err *err)
{
	cleanup_free char *pattern = mem_format("%s/pool-*.sock", directory);
	int failed = glob(pattern, GLOB_NOSORT, NULL, found);

	if (failed && failed != GLOB_NOMATCH)
		return err_set(err, ERR_IO, "the directory %s cannot be read", directory);
	return 0;
}

/* Says `type` to the pool at the socket file `name`. The connection, or -1. */
static int connect_and_say(const char *directory, const char *name, uint8_t type, struct err *err)
{
	cleanup_fd int fd = socket_connect(directory, name, SOCK_SEQPACKET, err);

	if (fd < 0 || send_command(fd, type, err) < 0)
		return -1;
	return fd_take(&fd);
}

struct json *pool_list(struct err *err)
{
	cleanup_free char *directory = paths_runtime(err);
	struct json *list;
	glob_t found = {.gl_pathc = 0};

	if (!directory || find_pools(directory, &found, err) < 0) {
		globfree(&found);
		return NULL;
	}
	list = json_new_array();
	for (size_t i = 0; i < found.gl_pathc; i++) {
		int64_t until_us = clock_monotonic_us() + STATUS_WAIT_MS * INT64_C(1000);
		cleanup_buf struct buf text = BUF_INIT;
		/* A file that nobody listens at is what a killed pool has left: not in the list. */
		cleanup_fd int fd = connect_and_say(directory, strrchr(found.gl_pathv[i], '/') + 1,
						    POOL_LIST, NULL);
		struct json *status = NULL;

		if (fd >= 0 && await_message(fd, POOL_STATUS, 0, until_us, &text, NULL, NULL) >= 0)
			status = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
		if (status)
			json_push(list, status);
	}
	globfree(&found);
	return list;
}

/* Ends the pool at the socket file `name` and waits for its end. 1, 0 when there is none. */
static int stop_one(const char *directory, const char *name, struct err *err)
{
	int64_t until_us = clock_monotonic_us() + STOP_WAIT_MS * INT64_C(1000);
	struct err why = ERR_INIT;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_fd int fd = connect_and_say(directory, name, POOL_STOP, &why);

	if (fd < 0 && why.code == ERR_NOT_FOUND)
		return 0;
	/* No message has type 0xff: this reads on to the end of file, which comes when all is
	 * ended. */
	if (fd >= 0)
		await_message(fd, 0xff, 0, until_us, &text, NULL, &why);
	if (why.code == ERR_GONE)
		return 1;
	if (err)
		*err = why;
	return -1;
}

int pool_stop(const char *python, unsigned *stopped, struct err *err)
{
	cleanup_free char *directory = paths_runtime(err);
	struct pool_names names;
	glob_t found = {.gl_pathc = 0};
	int result = 0;

	*stopped = 0;
	if (!directory)
		return -1;
	if (python) {
		pool_names_init(&names, python);
		result = stop_one(directory, names.socket, err);
		*stopped = result > 0;
		return result < 0 ? -1 : 0;
	}
	if (find_pools(directory, &found, err) < 0)
		result = -1;
	for (size_t i = 0; result >= 0 && i < found.gl_pathc; i++) {
		result = stop_one(directory, strrchr(found.gl_pathv[i], '/') + 1, err);
		*stopped += result > 0;
	}
	globfree(&found);
	return result < 0 ? -1 : 0;
}
