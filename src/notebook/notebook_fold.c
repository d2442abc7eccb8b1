/*
 * Folds event lines from stdin into a notebook on stdout; a tool for tests, not installed.
 *
 *   notebook_fold [--joined] [--each] [--keep] < journal.ndjson > notebook.ipynb
 *
 * --joined writes the form that nbformat.read() gives; --each also prints the notebook after
 * every event, into nothing, so that the cache of printed cells is exercised as a live session
 * does it; --keep keeps cells that were rolled back.
 */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "journal/event.h"
#include "notebook/notebook.h"

static int fold_line(struct notebook *notebook, const char *line, size_t len)
{
	cleanup_event struct event event = EVENT_INIT;
	struct err err = ERR_INIT;

	if (event_parse(line, len, &event, &err) < 0) {
		fprintf(stderr, "notebook_fold: %s\n", err.text);
		return -1;
	}
	notebook_apply(notebook, &event);
	return 0;
}

static int fold(struct notebook *notebook, const struct buf *input, bool each)
{
	const char *at = buf_bytes(input);
	const char *end = at + input->len;

	while (at < end) {
		const char *feed = memchr(at, '\n', (size_t)(end - at));
		const char *stop = feed != NULL ? feed : end;
		cleanup_buf struct buf unused = BUF_INIT;

		if (fold_line(notebook, at, (size_t)(stop - at)) < 0)
			return -1;
		if (each)
			notebook_write(notebook, &unused);
		at = stop + 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	cleanup_buf struct buf input = BUF_INIT;
	cleanup_buf struct buf output = BUF_INIT;
	struct notebook *notebook = notebook_new();
	bool joined = false;
	bool each = false;
	int status = 1;

	for (int i = 1; i < argc; i++) {
		joined = joined || strcmp(argv[i], "--joined") == 0;
		each = each || strcmp(argv[i], "--each") == 0;
		if (strcmp(argv[i], "--keep") == 0)
			notebook_set_rolled_back(notebook, NOTEBOOK_KEEP);
	}
	for (;;) {
		size_t got = fread(buf_reserve(&input, 1 << 16), 1, 1 << 16, stdin);

		if (got == 0)
			break;
		buf_added(&input, got);
	}
	if (fold(notebook, &input, each) == 0) {
		if (joined)
			notebook_write_joined(notebook, NOTEBOOK_AS_SAID, &output);
		else
			notebook_write(notebook, &output);
		if (fwrite(buf_bytes(&output), 1, output.len, stdout) == output.len)
			status = 0;
	}
	notebook_free(notebook);
	return status;
}
