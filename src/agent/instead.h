/*
 * What a program can use instead of a module that is not there.
 *
 * A small model that is told "pandas is not installed" writes `import pandas` once more: it has to
 * be told what to write instead. For the modules that models want most a table names what of the
 * standard library, or of other packages, does the same, in words of code. Which of these can be
 * imported the session itself tells: code that looks (instead_probe()) runs there behind the
 * program that failed, and prints what it has found (instead_read()).
 *
 * Pure.
 */
#ifndef FH_AGENT_INSTEAD_H
#define FH_AGENT_INSTEAD_H

#include <stdbool.h>

#include "base/buf.h"

enum { INSTEAD_NAME_MAX = 64 };

/* What was looked for and found in the session. */
struct instead {
	char *found;  /* names between blanks, " csv numpy "; owned; NULL: nobody has looked */
	bool network; /* programs can reach other machines */
};

void instead_release(struct instead *instead);

/* Writes into `name` the module that is missing by this exception, without what is behind a point
 * ("sklearn" of "No module named 'sklearn.svm'"; also of pandas' "Missing optional dependency
 * 'openpyxl'"). 0; -1: it is another exception, or no name. NULL for ename and evalue is fine. */
int instead_missing(const char *ename, const char *evalue, char name[static INSTEAD_NAME_MAX]);

/* Appends the code that looks. `module`: as of instead_missing(). */
void instead_probe(struct buf *code, const char *module);

/* Takes what that code has printed. -1: that is nothing of it; then *instead is as before. */
int instead_read(struct instead *instead, const char *printed);

/* Whether a module (without a point) that was missing is there all the same: then it is a part of
 * it that was not. `modules`: packages that are known to be installed where nobody has looked,
 * "numpy, pandas". */
bool instead_is_there(const struct instead *instead, const char *module, const char *modules);

/* Appends what to do without `module`, in one or two sentences. */
void instead_advice(struct buf *out, const struct instead *instead, const char *module,
		    const char *modules);

#endif
