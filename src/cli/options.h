/*
 * Command line options from a table.
 *
 * `--name VALUE`, `--name=VALUE`, `-x VALUE`, `-xVALUE`; flags take no value; options and other
 * words may be mixed; `--` ends the options; `-` alone is a word. An option may be given once,
 * unless it gathers a list. In a long name '_' is as good as '-'.
 * Values are bytes: paths and names are never decoded.
 */
#ifndef FH_CLI_OPTIONS_H
#define FH_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum option_kind {
	OPTION_FLAG,    /* bool */
	OPTION_TEXT,    /* const char *: borrowed from argv */
	OPTION_SECONDS, /* double > 0: "30", "0.5", "500ms", "2m", "1h", "3d" */
	OPTION_COUNT,   /* uint64_t: "10" */
	OPTION_SIZE,    /* uint64_t bytes: "512", "64K", "10M", "2G", "1T" (powers of 1,024) */
	OPTION_LIST,    /* struct option_list: may be given again */
	OPTION_PAIRS,   /* struct option_list: takes two values, may be given again */
};

/* Values in the order in which they were given; pairs stand one behind the other. */
struct option_list {
	const char **items; /* borrowed from argv; the array goes with options_release() */
	size_t count;
};

struct option {
	const char *name; /* without the dashes */
	char letter;      /* '\0': none */
	enum option_kind kind;
	void *value; /* where it goes; untouched when the option is not given */
};

struct options {
	const struct option *table;
	size_t count;
	bool help;          /* --help or -h was given; the rest was not looked at */
	const char **words; /* the other arguments, in order; NULL-terminated; the array is owned */
	size_t word_count;
	size_t words_before; /* how many of them stand before `--`; word_count without one */
};

/* Reads argv[1..argc-1]. ERR_USAGE with one sentence. The caller releases *options also after
 * failure. */
int options_read(struct options *options, const struct option *table, size_t count, int argc,
		 char **argv, struct err *err);
void options_release(struct options *options);
#define cleanup_options __attribute__((cleanup(options_release)))

/* The number behind "1.5h" in seconds; -1 when it is no such text. */
int options_seconds(const char *text, double *seconds);

/* The number behind "10M" in bytes; -1 when it is no such text or too large. */
int options_size(const char *text, uint64_t *bytes);

#endif
