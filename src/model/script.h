/*
 * The backend `script`: answers from a file, in the order of the requests. For tests and for
 * demonstrations without a model.
 *
 * One JSON object a line; blank lines are skipped:
 *
 *	{"text":"```python\nprint(1)\n```"}
 *	{"text":"…","reasoning":"first I …","finish":"length","delay_ms":200}
 *	{"text":"what came before it broke","error":"the connection was cut"}
 *	{"error":{"code":"busy","message":"again later"}}
 *
 * `finish` is `stop` (the default) or `length`; `delay_ms` (0 to 600000) passes before the first
 * piece; `error` fails the generation after the text, with ERR_GONE or the code that it names
 * (base/err.h). A member that is not known, or a wrong type, is an error that names the line.
 */
#ifndef FH_MODEL_SCRIPT_H
#define FH_MODEL_SCRIPT_H

#include "base/err.h"
#include "model/backend.h"

enum {
	SCRIPT_BYTES_MAX = 64 << 20,
	SCRIPT_ANSWERS_MAX = 100000,
	SCRIPT_DELAY_MS_MAX = 600 * 1000,
};

/* Reads the whole file. ERR_INVALID with the line's number, ERR_NOT_FOUND, ERR_LIMIT. A generation
 * for which no answer is left fails with ERR_GONE. */
struct backend *backend_script_new(const char *path, struct err *err);

#endif
