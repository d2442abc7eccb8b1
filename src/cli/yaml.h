/*
 * YAML, read by PyYAML inside a session.
 *
 * Fumehood has no YAML parser of its own: the language has more corners than parameters are worth,
 * and a parser that differs in one of them is worse than none. The text is read where Python code
 * runs, in a sandboxed session, because an environment need not be trusted.
 */
#ifndef FH_CLI_YAML_H
#define FH_CLI_YAML_H

#include "base/err.h"
#include "cli/begin.h"
#include "cli/parameters.h"

/*
 * Reads one document as papermill does (safe loader; dates stay text; an empty text is null) into
 * *value, owned by the caller. The session has the Python and the tier of `options`. `what` names
 * the text in messages. ERR_UNSUPPORTED when there is no PyYAML, ERR_INVALID with PyYAML's words.
 */
int yaml_read(const char *text, size_t len, const char *what, const struct begin_options *options,
	      struct json **value, struct err *err);

#endif
