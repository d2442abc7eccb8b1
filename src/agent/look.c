/*
 * Looking at a session. See look.h.
 *
 * Files and variables are asked of the keeper; what was asked before, and what is installed, stands
 * in the journal, which is read beside it.
 */
#include "agent/look.h"

#include <fcntl.h>
#include <string.h>

#include "agent/describe.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "journal/cursor.h"

enum {
	CALL_TIMEOUT_MS = 10000,
	VARIABLES_MAX = 40,
	CODE_BYTES_MAX = 2000, /* of an earlier program that is told */
	OUTPUT_CHARS_MAX = 300,
};

static void earlier_release(struct look_earlier *earlier)
{
	free(earlier->instruction);
	free(earlier->code);
	free(earlier->output);
	*earlier = (struct look_earlier){.instruction = NULL};
}

void look_release(struct look *look)
{
	buf_release(&look->workspace);
	buf_release(&look->variables);
	buf_release(&look->files);
	buf_release(&look->modules);
	for (size_t i = 0; i < look->earlier_count; i++)
		earlier_release(&look->earlier[i]);
	look->earlier_count = 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static struct json *call(struct fh_session *session, const char *request, struct fh_error *error)
{
	char *reply = NULL;
	struct json *answer;

	if (fh_call(session, request, strlen(request), &reply, error) != 0)
		return NULL;
	answer = json_parse(reply, strlen(reply), &JSON_LIMITS, NULL);
	fh_free(reply);
	return answer;
}

/* The first bytes of a file into `out`. */
static void read_head(struct fh_session *session, const char *name, struct buf *out)
{
	cleanup_buf struct buf request = BUF_INIT;
	cleanup_json struct json *answer = NULL;
	struct fh_error error = FH_ERROR_INIT;
	size_t len = 0;
	const char *data;

	buf_append_string(&request, "{\"op\":\"read_file\",\"path\":");
	json_write_string(&request, name, strlen(name));
	buf_printf(&request, ",\"length\":%d}", DESCRIBE_HEAD_BYTES);
	answer = call(session, buf_bytes(&request), &error);
	data = json_string(json_get(answer, "data"), &len);
	if (data && hash_base64_decode(out, data, len) != 0)
		buf_clear(out);
}

static void look_at_files(struct look *look, struct fh_session *session)
{
	struct fh_error error = FH_ERROR_INIT;
	cleanup_json struct json *answer =
		call(session, "{\"op\":\"list_files\",\"max\":1000}", &error);
	const struct json *entries = json_get(answer, "entries");
	struct describe_file files[DESCRIBE_FILES_MAX];
	struct buf heads[DESCRIBE_HEADS_MAX];
	size_t count = 0, headed = 0, more = 0;

	for (size_t i = 0; i < json_length(entries); i++) {
		const struct json *entry = json_at(entries, i);
		const char *name = json_get_string(entry, "name");
		const char *type = json_get_string(entry, "type");
		struct describe_file *file = &files[count];

		if (!name || !type || name[0] == '.' ||
		    (strcmp(type, "file") != 0 && strcmp(type, "folder") != 0))
			continue;
		if (count == DESCRIBE_FILES_MAX) {
			more++;
			continue;
		}
		*file = (struct describe_file){
			.name = name,
			.bytes = (uint64_t)json_get_int(entry, "bytes", 0),
			.folder = strcmp(type, "folder") == 0,
		};
		if (!file->folder && headed < DESCRIBE_HEADS_MAX && file->bytes) {
			heads[headed] = (struct buf)BUF_INIT;
			read_head(session, name, &heads[headed]);
			file->head = buf_bytes(&heads[headed]);
			file->head_len = heads[headed++].len;
		}
		count++;
	}
	describe_files(&look->workspace, files, count, more, LOOK_WORKSPACE_BYTES);
	describe_names(&look->files, files, count);
	for (size_t i = 0; i < headed; i++)
		buf_release(&heads[i]);
}

/* --- variables -------------------------------------------------------------------------------- */

static int look_at_variables(struct look *look, struct fh_session *session, struct err *err)
{
	struct fh_error error = FH_ERROR_INIT;
	char *text = fh_variables(session, NULL, VARIABLES_MAX, &error);
	cleanup_json struct json *answer = NULL;

	if (!text && error.code == FH_GONE)
		return err_set(err, ERR_GONE, "%s", error.text);
	if (!text) /* busy, or it takes too long */
		return 0;
	answer = json_parse(text, strlen(text), &JSON_LIMITS, NULL);
	fh_free(text);
	describe_variables(&look->variables, answer, LOOK_VARIABLES_BYTES);
	return 0;
}

/* --- the past --------------------------------------------------------------------------------- */

/* The ask that is read just now. */
struct reading {
	char *ask;
	struct look_earlier now;
};

static void put_text(char **to, const struct json *body, const char *key, size_t bytes_max)
{
	const char *text = json_get_string(body, key);
	size_t len = text ? strlen(text) : 0;

	free(*to);
	*to = text && len <= bytes_max ? mem_string(text) : NULL;
}

static void take_attempt(struct reading *reading, const struct json *body)
{
	const char *status = json_get_string(body, "status");
	const char *text = json_get_string(body, "stdout");
	const char *value = json_get_string(body, "result");

	if (!status || strcmp(status, "ok") != 0)
		return;
	if ((!text || !*text) && value)
		text = value;
	free(reading->now.output);
	reading->now.output =
		text ? mem_copy(text, text_prefix(text, strlen(text), OUTPUT_CHARS_MAX)) : NULL;
}

static void take_verdict(struct look *look, struct reading *reading, const struct json *body)
{
	struct look_earlier *at;

	if (!json_get_bool(body, "success", false) || !reading->now.instruction)
		return;
	if (look->earlier_count == LOOK_EARLIER_MAX) {
		earlier_release(&look->earlier[0]);
		memmove(look->earlier, look->earlier + 1,
			(LOOK_EARLIER_MAX - 1) * sizeof(look->earlier[0]));
		look->earlier_count--;
	}
	at = &look->earlier[look->earlier_count++];
	*at = reading->now;
	reading->now = (struct look_earlier){.instruction = NULL};
}

static int append_module(const char *key, size_t len, struct json *value, void *data)
{
	struct buf *out = data;

	(void)value;
	if (out->len)
		buf_append_string(out, ", ");
	buf_append(out, key, len);
	return 0;
}

static void take_event(struct look *look, struct reading *reading, const struct event *event)
{
	const char *ask = json_get_string(event->body, "ask");

	if (event->type == EVENT_SESSION) {
		buf_clear(&look->modules);
		json_each(json_get(json_get(event->body, "versions"), "modules"), append_module,
			  &look->modules);
	} else if (event->type == EVENT_ASK && ask) {
		free(reading->ask);
		reading->ask = mem_string(ask);
		earlier_release(&reading->now);
		put_text(&reading->now.instruction, event->body, "instruction", CODE_BYTES_MAX);
	} else if (!ask || !reading->ask || strcmp(ask, reading->ask) != 0) {
		return;
	} else if (event->type == EVENT_CODE) {
		put_text(&reading->now.code, event->body, "code", CODE_BYTES_MAX);
	} else if (event->type == EVENT_ATTEMPT) {
		take_attempt(reading, event->body);
	} else if (event->type == EVENT_VERDICT) {
		take_verdict(look, reading, event->body);
	}
}

/* What cannot be read is not told: the past is a help, not a condition. */
static void look_at_past(struct look *look, const char *directory)
{
	cleanup_fd int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct cursor *cursor = dirfd >= 0 ? cursor_open(dirfd, 0, NULL) : NULL;
	struct reading reading = {.ask = NULL};
	enum cursor_step step;

	if (!cursor)
		return;
	do {
		cleanup_event struct event event = EVENT_INIT;

		step = cursor_next(cursor, &event, NULL);
		if (step == CURSOR_EVENT)
			take_event(look, &reading, &event);
	} while (step == CURSOR_EVENT || step == CURSOR_DAMAGED);
	cursor_free(cursor);
	free(reading.ask);
	earlier_release(&reading.now);
}

int look_at(struct look *look, struct fh_session *session, bool fresh, struct err *err)
{
	fh_set_timeout(session, CALL_TIMEOUT_MS);
	look_at_files(look, session);
	look_at_past(look, fh_directory(session));
	return fresh ? 0 : look_at_variables(look, session, err);
}
