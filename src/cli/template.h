/*
 * Paths with parameters in them: "out_{date}.ipynb", as Python's str.format() fills them.
 */
#ifndef FH_CLI_TEMPLATE_H
#define FH_CLI_TEMPLATE_H

#include <stdint.h>

#include "base/err.h"
#include "cli/parameters.h"

/* What papermill adds under the name `pm`. */
struct template_builtins {
	const char *run_uuid;
	int64_t now_us; /* pm[current_datetime_local], pm[current_datetime_utc] */
};

/*
 * The path with each {field} replaced, owned by the caller, or NULL: ERR_USAGE names a parameter
 * that is missing or a form that is not understood. A field is a name, then [key] or .key for parts
 * of a value; !r or !s; and a format, `:[[fill]align][sign][0][width][,][.precision][type]` for
 * text and numbers, or one of %Y %y %m %d %H %M %S %j %f %% for the times of `pm`. "{{" and "}}"
 * are braces.
 */
char *template_fill(const char *path, const struct parameters *parameters,
		    const struct template_builtins *builtins, struct err *err);

#endif
