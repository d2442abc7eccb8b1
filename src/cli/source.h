/*
 * What `fumehood run` runs: code of -c, of a file, of stdin, or a notebook.
 */
#ifndef FH_CLI_SOURCE_H
#define FH_CLI_SOURCE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "notebook/document.h"

enum { SOURCE_CODE_BYTES_MAX = 16 << 20 };

struct source {
	bool is_notebook;
	bool is_stdin;            /* the code came from stdin: nothing is left there for input() */
	struct buf code;          /* valid UTF-8, without a BOM */
	struct document document; /* is_notebook */
	char *directory;          /* of the file, owned; NULL: no file */
	char *path;               /* absolute, of a file with code, owned; NULL: none */
};

#define SOURCE_INIT \
	{ \
		.is_notebook = false, .is_stdin = false, .code = BUF_INIT, .directory = NULL, \
		.path = NULL \
	}

/* Reads it: `code` (of -c) or else the file `path` ("-": stdin; *.ipynb: a notebook). ERR_INVALID
 * for text that is no UTF-8, with the line. What had to be repaired in a notebook is said; if it is
 * broken and Jupyter has left a whole copy beside it (.~NAME), that one is taken, which is said. */
int source_read(struct source *source, const char *code, const char *path, struct err *err);
void source_release(struct source *source);
#define cleanup_source __attribute__((cleanup(source_release)))

/* Whether a file of this name is a notebook. */
bool source_is_notebook(const char *path);

/* Whether a code cell of a notebook is not to be run: it is blank or has this tag. */
bool source_skips(const struct document_cell *cell, const char *skip_tag);

#endif
