/*
 * Fuzzes the fold: lines of a journal, damaged ones left out, give a notebook that is JSON, that
 * document_read() takes with the same number of cells, and that does not depend on when it was
 * printed; both with cells that were rolled back and without them.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "journal/event.h"
#include "notebook/document.h"
#include "notebook/notebook.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fold(struct notebook *notebook, const char *at, size_t size, bool each)
{
	const char *end = at + size;

	while (at < end) {
		const char *feed = memchr(at, '\n', (size_t)(end - at));
		const char *stop = feed != NULL ? feed : end;
		cleanup_event struct event event = EVENT_INIT;
		cleanup_buf struct buf form = BUF_INIT;

		if (event_parse(at, (size_t)(stop - at), &event, NULL) == 0)
			notebook_apply(notebook, &event);
		if (each)
			notebook_write(notebook, &form);
		at = stop + 1;
	}
}

static void check(struct notebook *notebook, const struct buf *form)
{
	cleanup_buf struct buf joined = BUF_INIT;
	cleanup_json struct json *json = NULL;
	struct json_limits limits = JSON_LIMITS;
	struct document document;
	struct err err = ERR_INIT;

	if (document_read(buf_bytes(form), form->len, &document, &err) < 0) {
		assert(err.code ==
		       ERR_LIMIT); /* the file is some levels deeper than an event may be */
		return;
	}
	assert(document.cell_count == notebook_cell_count(notebook));
	document_release(&document);
	notebook_write_joined(notebook, NOTEBOOK_AS_SAID, &joined);
	json = json_parse(buf_bytes(&joined), joined.len, &limits, &err);
	assert(json_length(json_get(json, "cells")) == notebook_cell_count(notebook));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct notebook *live = notebook_new();
	struct notebook *late = notebook_new();
	cleanup_buf struct buf live_form = BUF_INIT;
	cleanup_buf struct buf late_form = BUF_INIT;

	fold(live, (const char *)data, size, true);
	fold(late, (const char *)data, size, false);
	notebook_write(live, &live_form);
	notebook_write(late, &late_form);
	assert(live_form.len == late_form.len);
	assert(memcmp(buf_bytes(&live_form), buf_bytes(&late_form), late_form.len) == 0);
	check(live, &live_form);
	notebook_set_rolled_back(live, NOTEBOOK_KEEP);
	buf_clear(&live_form);
	notebook_write(live, &live_form);
	check(live, &live_form);
	notebook_free(live);
	notebook_free(late);
	return 0;
}
