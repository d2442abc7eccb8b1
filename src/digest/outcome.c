/*
 * How a cell ended, in words. A model that reads "stopped" without the fate of the variables
 * defines everything again, or relies on what is gone; so each line says both.
 */
#include "digest/outcome.h"

#include <string.h>

#include "base/text.h"
#include "digest/figure.h"
#include "digest/loss.h"

enum { WORD_CHARS_MAX = 200 };

/* A word of the keeper's or an id: cut, and harmless on one line. */
static void put_word(struct buf *out, const char *word)
{
	size_t len = strlen(word);

	text_escape(out, word, text_prefix(word, len, WORD_CHARS_MAX), false, false);
}

/* `what`, then the reason in parentheses. */
static void put_reason(struct buf *out, const char *what, const char *reason)
{
	buf_append_string(out, what);
	if (!reason || !*reason)
		return;
	buf_append_string(out, " (");
	put_word(out, reason);
	buf_append_char(out, ')');
}

/* "limit files of 1,024"; the numbers are the keeper's, the name is one word. */
static void put_limit(struct buf *out, const struct json *limit)
{
	const char *name = json_get_string(limit, "name");
	const char *unit = json_get_string(limit, "unit");
	double value = json_get_double(limit, "value", 0);

	buf_append_string(out, "limit ");
	put_word(out, name ? name : "?");
	if (!(value > 0 && value < 1e18))
		return;
	buf_append_string(out, " of ");
	if (unit && strcmp(unit, "bytes") == 0)
		figure_bytes(out, (uint64_t)value);
	else if (unit && strcmp(unit, "s") == 0)
		figure_seconds(out, value);
	else
		figure_count(out, (uint64_t)value);
}

static void put_timeout(struct buf *out, const struct json *cell, const struct json *finished)
{
	const struct json *met = json_get(finished, "limit");
	double limit = json_get_double(met, "value", json_get_double(cell, "timeout", 0));
	int64_t duration_us = json_get_int(finished, "duration_us", 0);
	const char *name = json_get_string(met, "name");

	if (name && strcmp(name, "wall_s") != 0) {
		buf_append_string(out, "timed out: the cell was stopped at the ");
		put_limit(out, met);
		return;
	}
	buf_append_string(out, "timed out: the cell was stopped at its time limit");
	if (limit > 0) {
		buf_append_string(out, " of ");
		figure_seconds(out, limit);
	} else if (duration_us > 0) {
		buf_append_string(out, ", after ");
		figure_seconds(out, (double)(duration_us / 1000) / 1000);
	}
}

/* The cells that are lost with this one, and what of before did not come back. */
static void put_losses(struct buf *out, const struct json *finished)
{
	const struct json *cells = json_get(finished, "rolled_back");
	cleanup_buf struct buf words = BUF_INIT;

	if (json_type_of(cells) == JSON_ARRAY && json_length(cells) > 0) {
		buf_append_string(out, json_length(cells) == 1 ? "; lost as well: what cell "
							       : "; lost as well: what cells ");
		loss_names(out, cells);
		buf_append_string(out, " did");
	}
	if (loss_words(&words, json_get(finished, "lost"))) {
		buf_append_string(out, "; not restored: ");
		buf_append(out, buf_bytes(&words), words.len);
	}
}

void outcome_state(struct buf *out, const struct json *finished)
{
	const char *state = json_get_string(finished, "state");
	const char *recovers_to = json_get_string(finished, "recovers_to");

	if (!state)
		return;
	if (strcmp(state, "kept") == 0) {
		buf_append_string(out, "variables are kept");
	} else if (strcmp(state, "recovered") == 0 && recovers_to) {
		buf_append_string(out, "variables are as they were just after cell ");
		put_word(out, recovers_to);
		put_losses(out, finished);
	} else if (strcmp(state, "recovered") == 0 &&
		   json_length(json_get(finished, "rolled_back")) > 0) {
		/* No checkpoint was held: of what was there before nothing is left. */
		buf_append_string(out, "variables are as at the beginning of the session");
		put_losses(out, finished);
	} else if (strcmp(state, "recovered") == 0 || strcmp(state, "rolled_back") == 0) {
		buf_append_string(out, "variables are as they were just before this cell");
		put_losses(out, finished);
	} else if (strcmp(state, "reset") == 0) {
		buf_append_string(out, "variables are lost: the session starts empty");
	} else if (strcmp(state, "gone") == 0) {
		buf_append_string(out, "variables are lost: the session has ended");
	} else {
		buf_append_string(out, "state of the variables: ");
		put_word(out, state);
	}
}

/* What happened; false when it goes without saying. */
static bool put_event(struct buf *out, const char *status, const struct json *cell,
		      const struct json *finished)
{
	const char *reason = json_get_string(finished, "reason");
	const struct json *limit = json_get(finished, "limit");
	const char *name = json_get_string(limit, "name");
	cleanup_buf struct buf words = BUF_INIT;

	if (strcmp(status, "error") == 0 && limit) {
		buf_append_string(out, "error: it most likely comes from the ");
		put_limit(out, limit);
		return true;
	}
	if (strcmp(status, "ok") == 0 || strcmp(status, "error") == 0)
		return false;
	/* The name alone says too little. */
	if (reason && name && strcmp(reason, name) == 0) {
		put_limit(&words, limit);
		reason = buf_bytes(&words);
	}
	if (strcmp(status, "timeout") == 0)
		put_timeout(out, cell, finished);
	else if (strcmp(status, "interrupted") == 0)
		put_reason(out, "interrupted: the cell was stopped", reason);
	else if (strcmp(status, "died") == 0)
		put_reason(out, "died: the interpreter ended", reason);
	else if (strcmp(status, "cancelled") == 0)
		put_reason(out, "cancelled: the cell did not run", reason);
	else
		put_reason(out, status, reason);
	return true;
}

void outcome_line(struct buf *out, const struct json *cell, const struct json *finished)
{
	const char *status = json_get_string(finished, "status");
	const char *state = json_get_string(finished, "state");
	cleanup_buf struct buf line = BUF_INIT;
	bool said;
	bool kept;

	if (!status)
		return;
	said = put_event(&line, status, cell, finished);
	kept = state && strcmp(state, "kept") == 0;
	/* A cell that did not run changes nothing, and that variables are kept is news only after a
	 * stop. */
	if (state && !(kept && (!said || strcmp(status, "cancelled") == 0))) {
		if (said)
			buf_append_string(&line, "; ");
		if (strcmp(state, "rolled_back") == 0)
			buf_append_string(&line, "rolled back: ");
		outcome_state(&line, finished);
	}
	if (line.len > 0)
		buf_printf(out, "[%s]", buf_bytes(&line));
}

void outcome_truncated(struct buf *out, const struct json *body)
{
	const char *name = json_get_string(body, "name");
	const char *which = json_get_string(body, "limit");
	int64_t bytes = json_get_int(body, "bytes_dropped", 0);

	buf_printf(out, "[%.20s: ", name ? name : "output");
	figure_count(out, bytes > 0 ? (uint64_t)bytes : 0);
	buf_append_string(out, bytes == 1 ? " byte left out" : " bytes left out");
	if (which)
		buf_printf(out, ": over the limit %.40s]", which);
	else
		buf_append_string(out, ": over the cell's output limit]");
}

void outcome_fate(struct buf *out, const struct timeline_cell *cell)
{
	const char *how = NULL;

	if (!cell)
		return;
	if (cell->fate == TIMELINE_LOST)
		how = "lost later, when the interpreter died";
	else if (cell->fate == TIMELINE_ROLLED_BACK && cell->by &&
		 strcmp(cell->by, "rollback") == 0)
		how = "rolled back later";
	else if (cell->fate == TIMELINE_ROLLED_BACK && cell->by && strcmp(cell->by, "reset") == 0)
		how = "rolled back later by a reset";
	if (how)
		buf_printf(out, "[%s: what this cell did is not in the variables any more]", how);
}
