/*
 * Asking a session. See ask.h.
 */
#include "cli/ask.h"

#include "base/mem.h"
#include "cli/say.h"

enum { TIMEOUT_MS = 30000 };

int ask_open(struct ask *ask, const char *session, bool start, struct err *err)
{
	struct fh_open_params params;
	struct fh_error error = FH_ERROR_INIT;
	char title[16];

	if (found_open(&ask->found, session, err) != 0)
		return -1;
	fh_open_params_init(&params);
	params.running_only = !start;
	ask->session = fh_open(ask->found.entry.config.id, &params, &error);
	if (!ask->session && error.code == FH_NOT_FOUND)
		return err_set(err, ERR_NOT_FOUND,
			       "the session %s is not running; fumehood restart %s starts it",
			       session, found_title(&ask->found.entry, title));
	if (!ask->session)
		return say_take(err, &error);
	fh_set_timeout(ask->session, TIMEOUT_MS);
	return 0;
}

void ask_release(struct ask *ask)
{
	fh_close(ask->session);
	json_free(ask->answer);
	found_release(&ask->found);
}

int ask_take(struct ask *ask, char *reply, const struct fh_error *error, bool json)
{
	cleanup_free char *taken = reply;
	cleanup_buf struct buf line = BUF_INIT;
	struct err err = ERR_INIT;

	if (!taken)
		return say_error(error);
	if (json) {
		buf_printf(&line, "%s\n", taken);
		return say_out(buf_bytes(&line), line.len);
	}
	ask->answer = json_parse(taken, strlen(taken), &JSON_LIMITS, &err);
	if (!ask->answer)
		return say_err(&err);
	return -1;
}

int ask_text(struct source *source, const char *word, struct err *err)
{
	bool from_stdin = strcmp(word, "-") == 0;

	return source_read(source, from_stdin ? NULL : word, "-", err);
}
