/*
 * Running programs. See program.h.
 *
 * What a cell becomes is a fold over its events. When everything is to end, a box is stopped, and a
 * cell of the user's session is killed, whose interpreter then wakes as it was before; that is
 * waited for, so that the session is left in order.
 *
 * Files are read through the keeper. A try has undone them before anyone can look: then the program
 * is tried once more with a line behind it that tells their hashes.
 */
#include "agent/program.h"

#include <string.h>

#include "agent/cell.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

enum {
	BOX_OUTPUT_BYTES_MAX = 4 << 20, /* the rest is dropped at once */
	FILES_MAX = 100,
	PART_BYTES = 1 << 20,
};
/* Of the files of a program, together, that are read to compare them. */
#define FILES_BYTES_MAX ((uint64_t)64 << 20)

/* --- boxes ------------------------------------------------------------------------------------ */

static void end_box(struct runner *runner)
{
	if (runner->box)
		runner->boxes->end(runner->boxes->context, runner->box);
	runner->box = NULL;
	runner->box_used = false;
}

static int make_box(struct runner *runner, struct err *err)
{
	char limits[64];
	struct fh_error error = FH_ERROR_INIT;

	if (runner->box && !runner->box_used)
		return 0;
	end_box(runner);
	runner->box = runner->boxes->start(runner->boxes->context, runner->hub->cancel_fd, err);
	if (!runner->box)
		return -1;
	snprintf(limits, sizeof(limits), "{\"output_bytes\":%d}", BOX_OUTPUT_BYTES_MAX);
	fh_free(fh_limits(runner->box, limits, &error));
	if (error.code == FH_OK && fh_events(runner->box, fh_hello_seq(runner->box), &error) == 0)
		return 0;
	end_box(runner);
	return err_set(err, (enum err_code)error.code, "a box for a program: %s", error.text);
}

void runner_prepare(struct runner *runner)
{
	struct err err = ERR_INIT;

	if (runner->boxes && !hub_ended(runner->hub))
		make_box(runner, &err);
}

void runner_release(struct runner *runner)
{
	end_box(runner);
}

/* --- files ------------------------------------------------------------------------------------ */

/* Reads a file of the workspace whole; -1: it is not there any more, or not to be read. */
static int read_file(struct fh_session *session, const char *path, uint64_t bytes, struct buf *out)
{
	struct fh_error error = FH_ERROR_INIT;

	do {
		cleanup_buf struct buf request = BUF_INIT;
		cleanup_json struct json *answer = NULL;
		char *reply = NULL;
		size_t len = 0, before = out->len;
		const char *data;

		buf_append_string(&request, "{\"op\":\"read_file\",\"path\":");
		json_write_string(&request, path, strlen(path));
		buf_printf(&request, ",\"offset\":%zu,\"length\":%d}", out->len, PART_BYTES);
		if (fh_call(session, buf_bytes(&request), request.len, &reply, &error) != 0)
			return -1;
		answer = json_parse(reply, strlen(reply), &JSON_LIMITS, NULL);
		fh_free(reply);
		data = json_string(json_get(answer, "data"), &len);
		if (!data || hash_base64_decode(out, data, len) != 0)
			return -1;
		if (out->len == before)
			break;
	} while (out->len < bytes);
	return 0;
}

static void hash_file(struct fh_session *session, struct json *file, uint64_t *left)
{
	cleanup_buf struct buf bytes = BUF_INIT;
	const char *path = json_get_string(file, "path");
	uint64_t size = (uint64_t)json_get_int(file, "bytes", 0);
	char hex[HASH_HEX_SIZE];

	json_set(file, "sha256", NULL);
	if (!path || strcmp(json_get_string(file, "change"), "deleted") == 0 || size > *left ||
	    read_file(session, path, size, &bytes) != 0)
		return;
	*left -= bytes.len < *left ? bytes.len : *left;
	hash_sha256(buf_bytes(&bytes), bytes.len, hex);
	json_set_string(file, "sha256", hex);
}

/* Where the program has run for good, or in a box that still shows what it has done. */
static void hash_files(struct fh_session *session, struct outcome *outcome)
{
	uint64_t left = FILES_BYTES_MAX;

	for (size_t i = 0; i < json_length(outcome->files) && i < FILES_MAX; i++)
		hash_file(session, json_at(outcome->files, i), &left);
}

/* What stands behind a program to print hash and size of its files, after a mark; "-" for one that
 * is not there. */
static void write_hashing(struct buf *code, const struct outcome *outcome, const char *mark)
{
	buf_printf(code,
		   "\nimport hashlib as _h, os as _o, sys as _s\n"
		   "_b = '/workspace/' if _o.path.isdir('/workspace') else ''\n"
		   "_s.stdout.write('\\n%s' + ' '.join('%%s:%%d' %% (_h.sha256(open(_b + _p, 'rb')"
		   ".read()).hexdigest(), _o.path.getsize(_b + _p)) if _o.path.isfile(_b + _p) "
		   "else '-' for _p in [",
		   mark);
	for (size_t i = 0; i < json_length(outcome->files); i++) {
		const char *path = json_get_string(json_at(outcome->files, i), "path");

		if (i)
			buf_append_string(code, ", ");
		json_write_string(code, path, strlen(path));
	}
	buf_append_string(code, "]))\n");
}

/* Reads one of what it prints into the file; where the next one is. NULL: it is of another form. */
static const char *take_hash(struct json *file, const char *at)
{
	char hex[HASH_HEX_SIZE], *end;

	if (*at == '-') {
		json_set_string(file, "change", "deleted");
		return at + 1;
	}
	snprintf(hex, sizeof(hex), "%.64s", at);
	if (!hash_is_hex(hex) || at[strlen(hex)] != ':')
		return NULL;
	json_set_string(file, "sha256", hex);
	json_set_int(file, "bytes", strtoll(at + strlen(hex) + 1, &end, 10));
	return end;
}

/* --- tries ------------------------------------------------------------------------------------ */

static int try_code(struct runner *runner, const char *code, bool live, struct outcome *outcome,
		    struct err *err)
{
	struct cell cell = {
		.hub = runner->hub,
		.session = runner->session,
		.timeout_s = runner->timeout_s,
		.input = runner->input,
		.try_only = true,
		.files_back = runner->files_back,
		.output = live ? runner->output : NULL,
		.context = runner->context,
	};

	return cell_run(&cell, code, outcome, err);
}

/* Tries the program once more to learn what its files were. */
static int try_hashes(struct runner *runner, const char *code, struct outcome *outcome,
		      struct err *err)
{
	static const char MARK[] = "fumehood-hashes: ";
	cleanup_outcome struct outcome again = OUTCOME_INIT;
	cleanup_buf struct buf whole = BUF_INIT;
	const char *at;

	for (size_t i = 0; i < json_length(outcome->files); i++)
		json_set(json_at(outcome->files, i), "sha256", NULL);
	buf_append_string(&whole, code);
	write_hashing(&whole, outcome, MARK);
	if (try_code(runner, buf_bytes(&whole), false, &again, err) != 0)
		return -1;
	at = strstr(buf_bytes(&again.out), MARK);
	if (again.status != OUTCOME_OK || !at)
		return 0;
	at += strlen(MARK);
	for (size_t i = 0; at && i < json_length(outcome->files); i++) {
		at = take_hash(json_at(outcome->files, i), at);
		at += at && *at == ' ';
	}
	return 0;
}

/* --- programs --------------------------------------------------------------------------------- */

static int run_in_box(struct runner *runner, const char *code, struct outcome *outcome,
		      struct err *err)
{
	struct cell cell = {
		.hub = runner->hub,
		.timeout_s = runner->timeout_s,
		.input = runner->input,
		.output = runner->output,
		.context = runner->context,
	};

	if (make_box(runner, err) != 0) {
		/* ERR_GONE: it was cancelled, or its keeper has died. */
		outcome->status = OUTCOME_INTERRUPTED;
		return err->code == ERR_GONE && hub_wait(runner->hub, -1, 0, err) == 0 &&
				       runner->hub->cancelled
			       ? 0
			       : -1;
	}
	runner->box_used = true;
	cell.session = runner->box;
	if (cell_run(&cell, code, outcome, err) != 0) {
		/* A box that is gone is the program's doing: the user's session is another one. */
		if (err->code != ERR_GONE)
			return -1;
		outcome->status = OUTCOME_DIED;
		free(outcome->reason);
		outcome->reason = mem_string("its box has gone");
		end_box(runner);
		return 0;
	}
	if (hub_ended(runner->hub))
		end_box(runner);
	else if (outcome->status == OUTCOME_OK)
		hash_files(runner->box, outcome);
	return 0;
}

int runner_run(struct runner *runner, const char *code, struct outcome *outcome, struct err *err)
{
	if (runner->boxes)
		return run_in_box(runner, code, outcome, err);
	if (try_code(runner, code, true, outcome, err) != 0)
		return -1;
	if (outcome->status == OUTCOME_OK && json_length(outcome->files) > 0 &&
	    json_length(outcome->files) <= FILES_MAX && !hub_ended(runner->hub))
		return try_hashes(runner, code, outcome, err);
	return 0;
}

int runner_check(struct runner *runner, const char *code, const char *check,
		 struct outcome *outcome, struct err *err)
{
	struct cell cell = {
		.hub = runner->hub, .session = runner->box, .timeout_s = runner->timeout_s};
	cleanup_buf struct buf whole = BUF_INIT;

	if (runner->boxes && runner->box)
		return cell_run(&cell, check, outcome, err);
	buf_printf(&whole, "%s\n%s\n", code, check);
	return try_code(runner, buf_bytes(&whole), false, outcome, err);
}

int runner_look(struct runner *runner, const char *code, struct outcome *outcome, struct err *err)
{
	struct cell cell = {
		.hub = runner->hub, .session = runner->box, .timeout_s = runner->timeout_s};

	if (!runner->boxes)
		return try_code(runner, code, false, outcome, err);
	if (!runner->box || cell_run(&cell, code, outcome, err) == 0)
		return 0;
	/* Another box is made when it is needed. */
	if (err->code != ERR_GONE)
		return -1;
	end_box(runner);
	return 0;
}

int runner_keep(struct runner *runner, const char *code, const char *metadata,
		struct outcome *outcome, struct err *err)
{
	struct cell cell = {
		.hub = runner->hub,
		.session = runner->session,
		.timeout_s = runner->timeout_s,
		.input = runner->input,
		.metadata = metadata,
		.output = runner->output,
		.context = runner->context,
	};

	if (cell_run(&cell, code, outcome, err) != 0)
		return -1;
	if (outcome->status == OUTCOME_OK && !hub_ended(runner->hub))
		hash_files(runner->session, outcome);
	return 0;
}

int runner_check_kept(struct runner *runner, const char *check, struct outcome *outcome,
		      struct err *err)
{
	return try_code(runner, check, false, outcome, err);
}
