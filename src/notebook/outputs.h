/*
 * The outputs of a code cell, and the displays that are known by an id across cells.
 *
 * Adjacent streams of one name are one output. `clear` with `wait` takes effect when the next
 * output comes. Outputs with the same display id show the same thing, in whatever cells they
 * stand: they share one struct display, which holds it. An id is known as long as an output with
 * it exists.
 */
#ifndef FH_NOTEBOOK_OUTPUTS_H
#define FH_NOTEBOOK_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "notebook/emit.h"

struct output;

/* The display ids of a notebook. */
struct displays {
	void *tree;          /* of struct display, by id (tsearch) */
	uint64_t generation; /* how often the notebook was printed */
};

#define DISPLAYS_INIT \
	{ \
		.tree = NULL, .generation = 1 \
	}

/* The outputs of one cell. */
struct outputs {
	struct displays *displays; /* borrowed; outlives the outputs */
	struct output *first;
	struct output *last;
	bool clear_pending;
	bool changed; /* by this cell's events, or by an update from another cell; the owner resets
			 it */
};

void outputs_init(struct outputs *outputs, struct displays *displays);
void outputs_release(struct outputs *outputs);

void outputs_stream(struct outputs *outputs, bool is_stderr, const char *text, size_t len);

/* A line on stderr that is Fumehood's own: starts on a fresh line, and a pending clear stays
 * pending. */
void outputs_remark(struct outputs *outputs, const char *line);

/* A display (`is_result` false) or a result. `data`, `metadata` and `display_id` (a string) may
 * be NULL or of a wrong type, which counts as absent; they are shared, not copied. `count`: the
 * result's execution count, -1 for none. */
void outputs_display(struct outputs *outputs, bool is_result, struct json *data,
		     struct json *metadata, struct json *display_id, int64_t count);

/* What the guest reported: ename, evalue, traceback of the object `body`, wrong types converted. */
void outputs_error(struct outputs *outputs, const struct json *body);

/* An error of Fumehood's own; nothing is cleared for it. */
void outputs_failure(struct outputs *outputs, const char *ename, const char *evalue);

void outputs_clear(struct outputs *outputs, bool wait);

/* Shows new data in every output with this id. Returns whether there is one. */
bool displays_update(struct displays *displays, struct json *display_id, struct json *data,
		     struct json *metadata);

/* The array of outputs. `before` (may be NULL): outputs of a file that keep the schema, with joined
 * texts, which come first. `remark` (may be NULL): a line of Fumehood's own on stderr, an output of
 * its own behind all others. */
void outputs_emit(const struct outputs *outputs, const struct json *before, const char *remark,
		  struct emit *emit);

#endif
