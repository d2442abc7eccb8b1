/*
 * The state machine of warmer.h. All of it runs on the loop; a single timer serves whatever the
 * state waits for: the gap before a start, the zygote's READY, its answer.
 */
#include "pool/warmer.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "guest/protocol.h"
#include "pool/fingerprint.h"
#include "pool/log.h"

struct warmer {
	uv_loop_t *loop;
	struct tuning *tuning;
	char *script;
	rlim_t files_soft;
	const struct warmer_events *events;
	void *data;

	enum warmth state;
	struct zygote *zygote;    /* in STARTING and READY */
	const char *doomed;       /* why we killed it; NULL: we did not */
	struct fingerprint print; /* of the environment that `zygote` has imported */
	uint64_t list;            /* which modules it was told to import: tuning's generation */
	bool busy;
	bool stale;        /* the environment has changed, but an order is under way */
	bool leaving;      /* its socket has ended, its process not yet */
	unsigned failures; /* deaths in a row */
	uint64_t generation;
	int64_t start_us, ready_us, failed_us;
	struct buf message;
	char *reason;
	struct err start_err; /* why the last one could not be started */
	uv_timer_t timer;
};

static void begin(struct warmer *warmer);

uint64_t warmer_gap_ms(int64_t now_us, int64_t last_start_us)
{
	int64_t passed_ms = (now_us - last_start_us) / 1000;

	if (last_start_us == 0 || passed_ms >= WARMER_START_GAP_MS)
		return 0;
	return passed_ms < 0 ? WARMER_START_GAP_MS : (uint64_t)(WARMER_START_GAP_MS - passed_ms);
}

static void put_header(struct buf *out, uint8_t type)
{
	const struct guest_header header = {.type = type};

	buf_append(out, &header, sizeof(header));
}

void warmer_write_failed(struct buf *out, const char *message, const char *words, size_t words_len)
{
	/* Escapes make a byte up to six; halving ends below any limit, since `message` is short. */
	for (;; words += words_len - words_len / 2, words_len /= 2) {
		cleanup_json struct json *body = json_new_object();

		buf_clear(out);
		put_header(out, ZYGOTE_FAILED);
		json_set(body, "message", json_new_string(message, strnlen(message, 4096)));
		json_set(body, "stderr", json_new_string(words, words_len));
		json_write(out, body);
		if (out->len - sizeof(struct guest_header) <= GUEST_INLINE_BYTES_MAX ||
		    words_len == 0)
			return;
	}
}

static void on_time(uv_timer_t *timer);

static void set_timer(struct warmer *warmer, uint64_t ms)
{
	uv_timer_start(&warmer->timer, on_time, ms, 0);
}

static void drop_zygote(struct warmer *warmer)
{
	if (warmer->zygote)
		zygote_retire(warmer->zygote);
	warmer->zygote = NULL;
	warmer->doomed = NULL;
	warmer->stale = false;
	warmer->leaving = false;
	uv_timer_stop(&warmer->timer);
}

/* Gives up for now. The zygote's last words are still in it when there is one. */
static void give_up(struct warmer *warmer, const char *reason)
{
	const struct buf *words = warmer->zygote ? zygote_words(warmer->zygote) : NULL;

	free(warmer->reason);
	warmer->reason = mem_string(reason);
	warmer_write_failed(&warmer->message, reason, words ? buf_bytes(words) : "",
			    words ? words->len : 0);
	pool_log("no zygote: %s%s%s", reason, words && words->len ? "; it said:\n" : "",
		 words ? buf_bytes(words) : "");
	drop_zygote(warmer);
	warmer->state = WARM_FAILED;
	warmer->failed_us = clock_monotonic_us();
	warmer->events->settled(warmer->data);
}

/* Starts a zygote as soon as the gap allows it. */
static void begin_soon(struct warmer *warmer)
{
	uint64_t gap_ms = warmer_gap_ms(clock_monotonic_us(), warmer->start_us);

	if (gap_ms == 0) {
		begin(warmer);
		return;
	}
	warmer->state = WARM_WAITING;
	set_timer(warmer, gap_ms);
}

/* The zygote is dead or useless; its life counts as one failure of a row. */
static void count_failure(struct warmer *warmer, const char *reason)
{
	if (++warmer->failures >= WARMER_FAILURES_MAX) {
		give_up(warmer, reason);
		return;
	}
	pool_log("%s; failure %u in a row", reason, warmer->failures);
	drop_zygote(warmer);
	begin_soon(warmer);
}

static void on_ended(void *data, const char *reason)
{
	struct warmer *warmer = data;
	cleanup_free char *why = mem_string(warmer->doomed ? warmer->doomed : reason);
	bool unread = zygote_left_unread(warmer->zygote);

	if (warmer->state == WARM_READY &&
	    clock_monotonic_us() - warmer->ready_us >= WARMER_SOUND_MS * INT64_C(1000))
		warmer->failures = 0;
	warmer->leaving = true; /* for who asks from inside the event */
	if (warmer->busy) {
		warmer->busy = false;
		warmer->events->lost(warmer->data, why, unread);
	}
	if (warmer->state != WARM_CLOSED)
		count_failure(warmer, why);
}

/* Kills a zygote that keeps us waiting. on_ended() does the rest; `why` is a literal. */
static void doom(struct warmer *warmer, const char *why)
{
	warmer->doomed = why;
	zygote_kill(warmer->zygote);
}

static void on_time(uv_timer_t *timer)
{
	struct warmer *warmer = timer->data;

	if (warmer->state == WARM_WAITING)
		begin(warmer);
	else if (warmer->state == WARM_STARTING && !warmer->zygote)
		give_up(warmer, warmer->start_err.text);
	else if (warmer->state == WARM_STARTING)
		doom(warmer, "the zygote was not ready in time");
	else if (warmer->busy)
		doom(warmer, "the zygote gave no answer in time");
}

/* Watches what only the zygote itself knows: its path and prefixes. */
static void watch_environment(struct warmer *warmer, const struct json *body)
{
	static const char *const prefixes[] = {"prefix", "base_prefix"};
	const struct json *paths = json_get(body, "paths");

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		const char *prefix = json_get_string(body, prefixes[i]);

		if (prefix && prefix[0] == '/')
			fingerprint_add_prefix(&warmer->print, prefix);
	}
	for (size_t i = 0; i < json_length(paths); i++) {
		const char *path = json_string(json_at(paths, i), NULL);

		if (path && path[0] == '/')
			fingerprint_add(&warmer->print, path);
	}
}

static int log_skipped(const char *key, size_t key_len, struct json *value, void *data)
{
	const char *reason = json_string(value, NULL);

	(void)key_len;
	(void)data;
	pool_log("not imported: %s: %s", key, reason ? reason : "without a reason");
	return 0;
}

static void on_ready(struct warmer *warmer, const void *bytes, size_t len)
{
	const char *text = (const char *)bytes + sizeof(struct guest_header);
	struct err err = ERR_INIT;
	cleanup_json struct json *body =
		json_parse(text, len - sizeof(struct guest_header), &JSON_LIMITS, &err);

	if (json_type_of(body) != JSON_OBJECT ||
	    json_get_int(body, "protocol", 0) != GUEST_PROTOCOL) {
		give_up(warmer, body ? "the zygote speaks another protocol" : err.text);
		return;
	}
	watch_environment(warmer, body);
	buf_clear(&warmer->message);
	buf_append(&warmer->message, bytes, len);
	uv_timer_stop(&warmer->timer);
	warmer->state = WARM_READY;
	warmer->ready_us = clock_monotonic_us();
	pool_log("zygote %d is ready after %lld ms", (int)zygote_pid(warmer->zygote),
		 (long long)(warmer->ready_us - warmer->start_us) / 1000);
	json_each(json_get(body, "skipped"), log_skipped, NULL);
	warmer->events->settled(warmer->data);
}

static void on_failed(struct warmer *warmer, const void *bytes, size_t len)
{
	const char *text = (const char *)bytes + sizeof(struct guest_header);
	cleanup_json struct json *body =
		json_parse(text, len - sizeof(struct guest_header), &JSON_LIMITS, NULL);
	const char *message = json_get_string(body, "message");

	give_up(warmer, message ? message : "the zygote failed without saying why");
}

static void renew(struct warmer *warmer)
{
	warmer->failures = 0;
	drop_zygote(warmer);
	begin_soon(warmer);
}

static void on_answer(struct warmer *warmer, const void *bytes, size_t len)
{
	uv_timer_stop(&warmer->timer);
	warmer->busy = false;
	warmer->failures = 0;
	if (warmer->stale)
		renew(warmer);
	warmer->events->answered(warmer->data, bytes, len);
}

/* What does not fit the state is ignored: a zygote is trusted, but a late answer is no reason to
 * stumble. */
static void on_message(void *data, const void *bytes, size_t len)
{
	struct warmer *warmer = data;
	struct guest_header header;

	if (len < sizeof(header) || warmer->doomed)
		return;
	memcpy(&header, bytes, sizeof(header));
	if (header.flags & GUEST_FLAG_MEMFD) {
		pool_log("a message of the zygote is too large to be passed on");
		doom(warmer, "the zygote said more than fits into a message");
	} else if (warmer->state == WARM_STARTING && header.type == ZYGOTE_READY) {
		on_ready(warmer, bytes, len);
	} else if (warmer->state == WARM_STARTING && header.type == ZYGOTE_FAILED) {
		on_failed(warmer, bytes, len);
	} else if (warmer->busy &&
		   (header.type == ZYGOTE_ENTERED || header.type == ZYGOTE_REFUSED)) {
		on_answer(warmer, bytes, len);
	}
}

/* The path `levels` above an absolute path; "/" at least. */
static char *ancestor(const char *path, unsigned levels)
{
	size_t len = strlen(path);

	while (levels-- > 0 && len > 0) {
		while (len > 0 && path[len - 1] != '/')
			len--;
		while (len > 0 && path[len - 1] == '/')
			len--;
	}
	return len > 0 ? mem_copy(path, len) : mem_string("/");
}

/* Watches what is known before the zygote runs; so a package that is installed meanwhile counts as
 * a change. */
static void watch_files(struct warmer *warmer)
{
	cleanup_free char *prefix = ancestor(warmer->tuning->python, 2);
	cleanup_free char *folder = ancestor(warmer->script, 1);

	fingerprint_release(&warmer->print);
	fingerprint_add(&warmer->print, warmer->tuning->python);
	fingerprint_add_package(&warmer->print, folder);
	fingerprint_add_prefix(&warmer->print, prefix);
}

/* Starts a zygote now. If that is impossible, the timer tells it: events never come from inside a
 * call. */
static void begin(struct warmer *warmer)
{
	struct zygote_params params = {
		.loop = warmer->loop,
		.python = warmer->tuning->python,
		.script = warmer->script,
		.files_soft = warmer->files_soft,
		.message = on_message,
		.ended = on_ended,
		.data = warmer,
	};

	assert(!warmer->zygote);
	watch_files(warmer);
	tuning_refresh(warmer->tuning);
	warmer->list = warmer->tuning->generation;
	params.modules = warmer->tuning->modules;
	warmer->generation++;
	warmer->start_us = clock_monotonic_us();
	warmer->state = WARM_STARTING;
	warmer->zygote = zygote_start(&params, &warmer->start_err);
	set_timer(warmer, warmer->zygote ? WARMER_READY_MS_MAX : 0);
	if (warmer->zygote)
		pool_log("zygote %d is started", (int)zygote_pid(warmer->zygote));
}

/* What a zygote of now would have otherwise, or NULL. */
static const char *what_changed(struct warmer *warmer)
{
	tuning_refresh(warmer->tuning);
	return warmer->list != warmer->tuning->generation ? "the list of modules"
							  : fingerprint_changed(&warmer->print);
}

/* READY: whether it still is what the disk says. An order under way is finished first. */
static void ask_ready(struct warmer *warmer)
{
	const char *changed = warmer->stale ? NULL : what_changed(warmer);

	if (changed) {
		pool_log("%s has changed: a new zygote is needed", changed);
		warmer->stale = true;
	}
	if (warmer->stale && !warmer->busy)
		renew(warmer);
}

static void ask_failed(struct warmer *warmer)
{
	const char *changed = what_changed(warmer);

	if (changed) {
		pool_log("%s has changed: trying again", changed);
		warmer->failures = 0;
		begin_soon(warmer);
	} else if (clock_monotonic_us() - warmer->failed_us >= WARMER_RETRY_MS * INT64_C(1000)) {
		/* One more try, not three: most likely it fails again, and somebody waits. */
		warmer->failures = WARMER_FAILURES_MAX - 1;
		begin_soon(warmer);
	}
}

enum warmth warmer_ask(struct warmer *warmer)
{
	assert(warmer->state != WARM_CLOSED);
	if (warmer->state == WARM_READY)
		ask_ready(warmer);
	else if (warmer->state == WARM_FAILED)
		ask_failed(warmer);
	else if (warmer->state == WARM_COLD)
		begin_soon(warmer);
	/* One that is about to go is no use to who asks now; its successor will be. */
	if (warmer->state == WARM_READY && (warmer->stale || warmer->leaving || warmer->doomed))
		return WARM_STARTING;
	return warmer->state;
}

enum warmth warmer_state(const struct warmer *warmer)
{
	return warmer->state;
}

int warmer_family(const struct warmer *warmer)
{
	return warmer->state == WARM_READY ? zygote_family(warmer->zygote) : -1;
}

const struct buf *warmer_message(const struct warmer *warmer)
{
	return &warmer->message;
}

const char *warmer_reason(const struct warmer *warmer)
{
	return warmer->reason;
}

pid_t warmer_pid(const struct warmer *warmer)
{
	return warmer->zygote ? zygote_pid(warmer->zygote) : 0;
}

uint64_t warmer_generation(const struct warmer *warmer)
{
	return warmer->generation;
}

bool warmer_busy(const struct warmer *warmer)
{
	return warmer->busy;
}

int warmer_enter(struct warmer *warmer, const void *bytes, size_t len, const int *fds,
		 size_t fd_count)
{
	assert(warmer->state == WARM_READY && !warmer->busy);
	if (zygote_send(warmer->zygote, bytes, len, fds, fd_count) < 0) {
		/* The loop will see the end of the socket too, and then of the process. */
		if (errno == EPIPE || errno == ECONNRESET)
			warmer->leaving = true;
		return -1;
	}
	warmer->busy = true;
	set_timer(warmer, WARMER_ANSWER_MS_MAX);
	return 0;
}

struct warmer *warmer_new(uv_loop_t *loop, struct tuning *tuning, const char *script,
			  rlim_t files_soft, const struct warmer_events *events, void *data)
{
	struct warmer *warmer = mem_zalloc(sizeof(*warmer));

	warmer->loop = loop;
	warmer->tuning = tuning;
	warmer->script = mem_string(script);
	warmer->files_soft = files_soft;
	warmer->events = events;
	warmer->data = data;
	fingerprint_init(&warmer->print);
	uv_timer_init(loop, &warmer->timer);
	warmer->timer.data = warmer;
	return warmer;
}

void warmer_close(struct warmer *warmer)
{
	if (warmer->state == WARM_CLOSED)
		return;
	drop_zygote(warmer);
	warmer->busy = false;
	warmer->state = WARM_CLOSED;
	uv_close((uv_handle_t *)&warmer->timer, NULL);
}

void warmer_free(struct warmer *warmer)
{
	if (!warmer)
		return;
	assert(warmer->state == WARM_CLOSED);
	fingerprint_release(&warmer->print);
	buf_release(&warmer->message);
	free(warmer->reason);
	free(warmer->script);
	free(warmer);
}
