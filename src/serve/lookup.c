/*
 * Jobs on worker threads, made of the client library's calls; see lookup.h.
 */
#include "serve/lookup.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "client/session.h"

enum { REMOVE_WAIT_MS = 5000 };

struct lookup *lookup_new(const char *word)
{
	struct lookup *lookup = mem_zalloc(sizeof(*lookup));

	snprintf(lookup->word, sizeof(lookup->word), "%s", word);
	lookup->fd = -1;
	return lookup;
}

static void lookup_free(struct lookup *lookup)
{
	json_free(lookup->create);
	json_free(lookup->list);
	json_free(lookup->entry);
	buf_release(&lookup->rest);
	free(lookup->name);
	free(lookup->hello);
	if (lookup->fd >= 0)
		close(lookup->fd);
	free(lookup);
}

/* --- finding ---------------------------------------------------------------------------------- */

static struct json *entry_json(const struct store_entry *entry)
{
	struct json *object = json_new_object();
	const char *name = entry->config.name;
	char created[CLOCK_TEXT_SIZE];

	clock_format(entry->config.created_us, created);
	json_set_string(object, "id", entry->config.id);
	json_set(object, "name", name ? json_new_string(name, strlen(name)) : NULL);
	json_set_string(object, "created", created);
	json_set_string(object, "durability", entry->config.durability_power ? "power" : "process");
	json_set(object, "running", json_new_bool(session_running(entry->config.id)));
	json_set(object, "ends_with_client", json_new_bool(entry->config.ends_with_client));
	json_set(object, "damaged", json_new_bool(entry->damaged));
	return object;
}

/* A keeper that was killed has left its socket. Whoever gets the session's lock knows that there is
 * none, and while it is held none begins. */
static void drop_socket(struct store *store, const char *id)
{
	cleanup_free char *runtime = paths_runtime(NULL);
	cleanup_free char *path = runtime ? mem_format("%s/%s.sock", runtime, id) : NULL;
	cleanup_fd int directory = store_open_directory(store, id, NULL);
	cleanup_fd int lock = -1;

	if (!path || directory < 0 || access(path, F_OK) != 0)
		return;
	lock = file_lock(directory, "lock", NULL);
	if (lock >= 0)
		(void)unlink(path);
}

static void clean(struct store *store, const struct store_list *list)
{
	const struct store_sweep sweep = {.age_us_max = -1, .bytes_max = UINT64_MAX};

	for (size_t i = 0; i < list->count; i++)
		if (!session_running(list->entries[i].config.id))
			drop_socket(store, list->entries[i].config.id);
	(void)store_sweep(store, &sweep, NULL);
}

static int list_all(struct lookup *lookup, struct err *err)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_list struct store_list list = STORE_LIST_INIT;

	if (store_open(&store, err) != 0 || store_list(&store, &list, err) != 0)
		return -1;
	if (lookup->clean)
		clean(&store, &list);
	lookup->list = json_new_array();
	for (size_t i = 0; i < list.count; i++)
		json_push(lookup->list, entry_json(&list.entries[i]));
	return 0;
}

/* Takes the connection out of a session object of the client library. */
static void take_connection(struct lookup *lookup, struct fh_session *session)
{
	memcpy(lookup->id, session->id, sizeof(lookup->id));
	lookup->hello = mem_string(session->hello);
	buf_consume(&session->wire.in, session->wire.taken);
	buf_append(&lookup->rest, buf_bytes(&session->wire.in), session->wire.in.len);
	lookup->fd = fd_take(&session->wire.fd);
	fh_close(session);
}

/* Whether a keeper has it or not, the session's record goes. */
static int stop_and_remove(struct lookup *lookup, struct store *store,
			   const struct store_entry *entry, struct err *err)
{
	struct fh_session *session;

	if (lookup->stop && lookup->running) {
		session = session_connect(entry, true, -1, NULL);
		if (session)
			(void)fh_stop(session, false, NULL);
		fh_close(session);
	}
	if (!lookup->remove)
		return 0;
	return store_remove(store, entry->config.id, lookup->stop ? REMOVE_WAIT_MS : 0, err);
}

static int find_one(struct lookup *lookup, struct err *err)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_entry struct store_entry entry = STORE_ENTRY_INIT;
	struct fh_session *session;

	if (store_open(&store, err) != 0 || store_find(&store, lookup->word, &entry, err) != 0)
		return -1;
	memcpy(lookup->id, entry.config.id, sizeof(lookup->id));
	lookup->name = mem_string(entry.config.name);
	/* A beginning of an id finds nothing here: programs have the whole. */
	if (strcmp(lookup->id, lookup->word) != 0 &&
	    (!lookup->name || strcmp(lookup->name, lookup->word) != 0))
		return err_set(err, ERR_NOT_FOUND, "there is no session %s", lookup->word);
	lookup->entry = entry_json(&entry);
	lookup->running = json_get_bool(lookup->entry, "running", false);
	lookup->ends_with_client = entry.config.ends_with_client;
	if (entry.damaged && !lookup->remove)
		return err_set(err, ERR_CORRUPT, "the session's session.json is damaged");
	if (lookup->remove || lookup->stop)
		return stop_and_remove(lookup, &store, &entry, err);
	if (!lookup->start)
		return 0;
	session = session_connect(&entry, false, -1, err);
	if (!session)
		return -1;
	take_connection(lookup, session);
	return 0;
}

/* --- starting a new one ----------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum json_type type;
	bool trusted; /* only from a peer of our own uid */
} START_MEMBERS[] = {
	{"name", JSON_STRING, false},       {"timeout", JSON_DOUBLE, false},
	{"limits", JSON_OBJECT, false},     {"policy", JSON_OBJECT, false},
	{"durability", JSON_STRING, false}, {"notebook", JSON_OBJECT, false},
	{"workspace", JSON_STRING, true},   {"workspace_mode", JSON_STRING, true},
	{"python", JSON_STRING, true},      {"tier", JSON_STRING, true},
};
enum { START_MEMBER_COUNT = sizeof(START_MEMBERS) / sizeof(START_MEMBERS[0]) };

/* What the library has a number for; the others are members of a policy. */
static const char *const LIMITS[] = {"output_bytes", "background_bytes", "queue",
				     "record_bytes", "processes",        "files",
				     "file_bytes",   "tmp_bytes"};
enum { LIMIT_COUNT = sizeof(LIMITS) / sizeof(LIMITS[0]) };

struct start_check {
	bool trusted;
	struct err *err;
};

static int check_member(const char *key, size_t len, struct json *value, void *data)
{
	const struct start_check *check = data;
	enum json_type type = json_type_of(value);
	size_t i = 0;

	while (i < START_MEMBER_COUNT && strcmp(START_MEMBERS[i].name, key) != 0)
		i++;
	if (i == START_MEMBER_COUNT)
		return err_set(check->err, ERR_INVALID,
			       "a session has no member \"%.40s\": it has name, timeout, limits, "
			       "policy, durability, notebook, and over the Unix socket workspace, "
			       "workspace_mode, python and tier",
			       key);
	if (START_MEMBERS[i].trusted && !check->trusted)
		return err_set(check->err, ERR_DENIED,
			       "\"%s\" reaches into the host: it can be chosen over the Unix "
			       "socket only",
			       key);
	if (type == JSON_INT && START_MEMBERS[i].type == JSON_DOUBLE)
		return 0;
	if (type != START_MEMBERS[i].type || len != strlen(key))
		return err_set(check->err, ERR_INVALID, "\"%s\" is of another type", key);
	return 0;
}

static int check_limit(const char *key, size_t len, struct json *value, void *data)
{
	struct err *err = data;
	size_t i = 0;

	(void)len;
	while (i < LIMIT_COUNT && strcmp(LIMITS[i], key) != 0)
		i++;
	if (i == LIMIT_COUNT)
		return err_set(
			err, ERR_INVALID,
			"\"limits\" has no \"%.40s\" here; memory_bytes, disk_bytes, cpus and "
			"the like are members of \"policy\"",
			key);
	if (json_int(value, 0) <= 0)
		return err_set(err, ERR_INVALID, "limits.%s is a whole number above 0", key);
	return 0;
}

/* What of a policy someone may choose who is not the user: numbers, nothing that names a part of
 * the host, its variables or its network. */
static int check_policy(const char *key, size_t len, struct json *value, void *data)
{
	struct err *err = data;
	enum json_type type = json_type_of(value);

	(void)len;
	if (strcmp(key, "tier_floor") == 0 || type == JSON_INT || type == JSON_DOUBLE ||
	    type == JSON_BOOL)
		return 0;
	return err_set(err, ERR_DENIED,
		       "policy.%.40s reaches into the host: it can be chosen over the Unix socket "
		       "only",
		       key);
}

static int check_word(const struct json *body, const char *key, const char *one, const char *other,
		      const char *third, struct err *err)
{
	const char *text = json_get_string(body, key);

	if (!text || strcmp(text, one) == 0 || strcmp(text, other) == 0 ||
	    (third && strcmp(text, third) == 0))
		return 0;
	return err_set(err, ERR_INVALID, "\"%s\" is %s%s%s or %s", key, one, third ? ", " : "",
		       third ? third : "", other);
}

int lookup_check_start(const struct json *body, bool trusted, struct err *err)
{
	struct start_check check = {trusted, err};

	if (json_type_of(body) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "the body is a JSON object");
	if (json_each(body, check_member, &check) != 0 ||
	    json_each(json_get(body, "limits"), check_limit, err) != 0 ||
	    (!trusted && json_each(json_get(body, "policy"), check_policy, err) != 0) ||
	    check_word(body, "durability", "process", "power", NULL, err) != 0 ||
	    check_word(body, "tier", "full", "none", "degraded", err) != 0 ||
	    check_word(body, "workspace_mode", "rw", "ro", "overlay", err) != 0)
		return -1;
	if (json_has(body, "timeout") && !(json_get_double(body, "timeout", 0) > 0))
		return err_set(err, ERR_INVALID, "\"timeout\" is a number of seconds above 0");
	if (json_has(body, "name"))
		return store_check_name(json_get_string(body, "name"), err);
	return 0;
}

static bool is_word(const struct json *body, const char *key, const char *word)
{
	const char *text = json_get_string(body, key);

	return text && strcmp(text, word) == 0;
}

static int start_new(struct lookup *lookup, struct err *err)
{
	const struct json *body = lookup->create;
	const struct json *limits = json_get(body, "limits");
	cleanup_buf struct buf policy = BUF_INIT;
	cleanup_buf struct buf notebook = BUF_INIT;
	struct fh_start_params params;
	struct fh_error error = FH_ERROR_INIT;
	struct fh_session *session;
	uint64_t *const numbers[] = {&params.output_bytes_max,  &params.limits.background_bytes,
				     &params.limits.queue,      &params.limits.record_bytes,
				     &params.limits.processes,  &params.limits.files,
				     &params.limits.file_bytes, &params.limits.tmp_bytes};

	fh_start_params_init(&params);
	params.ends_with_client = false;
	params.name = json_get_string(body, "name");
	params.workspace = json_get_string(body, "workspace");
	params.workspace_read_only = is_word(body, "workspace_mode", "ro");
	params.workspace_overlay = is_word(body, "workspace_mode", "overlay");
	params.python = json_get_string(body, "python");
	params.tier = is_word(body, "tier", "none")       ? FH_TIER_NONE
		      : is_word(body, "tier", "degraded") ? FH_TIER_DEGRADED
							  : FH_TIER_SANDBOX;
	params.wall_s_max = json_get_double(body, "timeout", params.wall_s_max);
	params.durability_power = is_word(body, "durability", "power");
	for (size_t i = 0; i < LIMIT_COUNT; i++)
		*numbers[i] = (uint64_t)json_get_int(limits, LIMITS[i], 0);
	if (json_has(body, "policy")) {
		json_write(&policy, json_get(body, "policy"));
		params.policy_json = buf_bytes(&policy);
	}
	if (json_has(body, "notebook")) {
		json_write(&notebook, json_get(body, "notebook"));
		params.notebook_metadata = buf_bytes(&notebook);
	}
	session = fh_start(&params, &error);
	if (!session)
		return err_set(err, (enum err_code)error.code, "%s", error.text);
	take_connection(lookup, session);
	return 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void work(uv_work_t *request)
{
	struct lookup *lookup = request->data;
	int outcome;

	if (lookup->create)
		outcome = start_new(lookup, &lookup->err);
	else if (lookup->all)
		outcome = list_all(lookup, &lookup->err);
	else
		outcome = find_one(lookup, &lookup->err);
	if (outcome != 0 && lookup->err.code == ERR_OK)
		lookup->err.code = ERR_INTERNAL;
}

static void work_ended(uv_work_t *request, int status)
{
	struct lookup *lookup = request->data;

	if (status != 0)
		err_set(&lookup->err, ERR_BUSY, "the daemon is about to end");
	if (lookup->done)
		lookup->done(lookup->data, lookup);
	lookup_free(lookup);
}

void lookup_queue(uv_loop_t *loop, struct lookup *lookup,
		  void (*done)(void *data, struct lookup *lookup), void *data)
{
	lookup->done = done;
	lookup->data = data;
	lookup->work.data = lookup;
	if (uv_queue_work(loop, &lookup->work, work, work_ended) != 0)
		abort(); /* only for a NULL callback */
}
