/*
 * Parameters of a notebook, as papermill has them: names with values, in order, and the Python
 * source that assigns them.
 *
 * A value is JSON with one addition: a float that JSON cannot write is the object
 * {PARAMETERS_FLOAT: "nan"} ("inf", "-inf"). Pure functions: no file, no clock, no process.
 */
#ifndef FH_CLI_PARAMETERS_H
#define FH_CLI_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define PARAMETERS_FLOAT "fumehood:float"

struct parameter {
	char *name;         /* owned; UTF-8 */
	struct json *value; /* owned; NULL is None */
};

struct parameters {
	struct parameter *list;
	size_t count;
};

#define PARAMETERS_INIT \
	{ \
		.list = NULL, .count = 0 \
	}

void parameters_release(struct parameters *parameters);
#define cleanup_parameters __attribute__((cleanup(parameters_release)))

/* Sets one; a name that is there keeps its place. `value` is taken. */
void parameters_set(struct parameters *parameters, const char *name, struct json *value);

/* Sets every member of an object, as dict.update() does. ERR_INVALID when it is no object or a key
 * holds NUL; null is an empty object. */
int parameters_merge(struct parameters *parameters, const struct json *object, struct err *err);

/* NULL with *found false when there is none of this name. Borrowed. */
const struct json *parameters_get(const struct parameters *parameters, const char *name,
				  bool *found);

/*
 * The value that the text of `-p NAME TEXT` has for papermill: True, False, None; what Python's
 * int() takes; what its float() takes; else the text. Python's rules hold, so " 1_000 " is 1000,
 * "007" is 7, "1e5" and "nan" are floats. The text is valid UTF-8. The caller owns the value.
 */
struct json *parameters_infer(const char *text, size_t len);

/*
 * Reads the text of a file or of -y: 1 and *value, owned by the caller, when it is JSON; 0 when it
 * is not, so that it can only be YAML. Numbers are what they are in Python. Empty text gives null.
 */
int parameters_parse(const char *text, size_t len, struct json **value);

/* The values that a YAML reader printed as JSON, with PARAMETERS_FLOAT where it is needed. */
struct json *parameters_from_python(const char *text, size_t len, struct err *err);

/* Every name must be a name in Python. ERR_USAGE names the one that is not. */
int parameters_check(const struct parameters *parameters, struct err *err);

/* Appends the source of the cell: a comment line, then a line for each parameter, as papermill's
 * PythonTranslator prints them. */
void parameters_source(const struct parameters *parameters, struct buf *out);

/* Appends a value, or a text, as that source has it: "a\tb", ["x"], float('nan'). */
void parameters_value_source(const struct json *value, struct buf *out);
void parameters_text_source(const char *text, size_t len, struct buf *out);

/* All of them as a JSON object for the notebook's metadata; floats that JSON cannot write are
 * strings there. The caller owns it. */
struct json *parameters_json(const struct parameters *parameters);

/* Whether the source of a cell assigns this name at the start of a line. */
bool parameters_assigned(const char *source, size_t len, const char *name);

#endif
