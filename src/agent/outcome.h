/*
 * What became of a program: how it ended, what it printed, what it did to files.
 *
 * Outcomes are what programs are compared by. Two are the same when what was printed (blanks at the
 * ends of lines and empty lines at the end do not count) and the files are. Two are *alike* when
 * they differ only in how numbers are written (`9.0` and `9`, `1,250` and `1250`): that is told,
 * and decides between groups, but never counts as agreement (doc/decisions/080-*).
 */
#ifndef FH_AGENT_OUTCOME_H
#define FH_AGENT_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

enum {
	/* Of stdout and of stderr that is kept to compare, show and record; of what is beyond, the
	 * number of bytes counts. */
	OUTCOME_BYTES_MAX = 1 << 20,
	/* Numbers that differ by less than one part in so many are alike. */
	OUTCOME_PARTS = 1000000000,
};

enum outcome_status {
	OUTCOME_NONE, /* it has not run */
	OUTCOME_OK,
	OUTCOME_ERROR,
	OUTCOME_DIED,
	OUTCOME_TIMEOUT,
	OUTCOME_INTERRUPTED,
};

struct outcome {
	enum outcome_status status;
	struct buf out, err;           /* valid UTF-8 */
	uint64_t out_bytes, err_bytes; /* all of them */
	char *result;                  /* text/plain of the last expression's value; NULL: none */
	char *reason;                  /* why it died or was stopped; NULL */
	char *ename, *evalue;          /* of the exception; NULL */
	char *traceback;               /* its lines; NULL */
	int64_t line;                  /* of the program, where it failed; 0: not known */
	char *source;                  /* that line; NULL */
	struct json *files; /* [{"path","change","bytes","sha256"}], by path; NULL: none */
	char *not_undone;   /* files of a try that are not as before, names; NULL: none */
	char *cell;         /* its id in the session where it ran; NULL */
	int64_t duration_us;
};

#define OUTCOME_INIT \
	{ \
		.status = OUTCOME_NONE, .out = BUF_INIT, .err = BUF_INIT \
	}

void outcome_release(struct outcome *outcome); /* and makes it OUTCOME_INIT */
#define cleanup_outcome __attribute__((cleanup(outcome_release)))

/* Adds output, as much as is kept; cut at a code point. */
void outcome_add(struct outcome *outcome, bool is_stderr, const char *text, size_t len);

/* What it says: stdout, or where that is blank the value of the last expression. Borrowed. */
const char *outcome_text(const struct outcome *outcome, size_t *len);

/* Whether it printed nothing (but blanks), has no value and wrote no file. */
bool outcome_is_empty(const struct outcome *outcome);

/* Appends the text without blanks at the ends of lines (spaces, tabs, CR) and empty lines at the
 * end. */
void outcome_normalise(struct buf *out, const char *text, size_t len);

bool outcome_same(const struct outcome *a, const struct outcome *b);
bool outcome_alike(const struct outcome *a, const struct outcome *b);

/* As outcome_same and outcome_alike, of two texts. */
bool outcome_text_same(const char *a, size_t a_len, const char *b, size_t b_len);
bool outcome_text_alike(const char *a, size_t a_len, const char *b, size_t b_len);

/* Finds line and source of the failure in the traceback, whose frames of the program name the file
 * `<cell N>`; `code` is the program. The innermost frame counts. */
void outcome_locate(struct outcome *outcome, const char *code);

/* "ok", "error", "died", "timeout", "interrupted"; "" of OUTCOME_NONE. */
const char *outcome_status_name(enum outcome_status status);

#endif
