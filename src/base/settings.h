/*
 * Settings: what a user can set once and for all in a file or by environment variables.
 *
 * One table names every key; reading, printing, the JSON Schema for editors and the messages all
 * come from it. Nothing here knows what a setting is good for: who uses one asks for its value.
 *
 *	command line > environment > file > default
 *
 * The first of these is the caller's; here are the other three. Format: fumehood-config(5).
 */
#ifndef FH_BASE_SETTINGS_H
#define FH_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* In the order of `fumehood config`. */
enum setting_id {
	SETTING_PYTHON,
	SETTING_PRELOAD,
	SETTING_TIMEOUT,
	SETTING_DURABILITY,
	SETTING_SPARE,
	SETTING_LIMITS_OUTPUT_BYTES,
	SETTING_LIMITS_BACKGROUND_BYTES,
	SETTING_LIMITS_QUEUE,
	SETTING_LIMITS_RECORD_BYTES,
	SETTING_LIMITS_PROCESSES,
	SETTING_LIMITS_FILES,
	SETTING_LIMITS_FILE_BYTES,
	SETTING_LIMITS_TMP_BYTES,
	SETTING_LIMITS_CHECKPOINTS,
	SETTING_LIMITS_MEMORY_BYTES,
	SETTING_LIMITS_DISK_BYTES,
	SETTING_LIMITS_DISK_INODES,
	SETTING_LIMITS_CPUS,
	SETTING_LIMITS_CPU_S,
	SETTING_POOL_IDLE_S,
	SETTING_TEXT_MAX_CHARS,
	SETTING_NOTEBOOK_ROLLED_BACK,
	SETTING_ASK_MODEL,
	SETTING_ASK_URL,
	SETTING_ASK_EFFORT,
	SETTING_LLAMA_SERVER,
	SETTING_LLAMA_CONTEXT,
	SETTING_LLAMA_THREADS,
	SETTING_LLAMA_IDLE_S,
	SETTING_COUNT
};

enum setting_kind {
	SETTING_IS_PYTHON,  /* string: an absolute path, or a name without '/' */
	SETTING_IS_MODULES, /* array of modules, or object: "default" or absolute path -> array */
	SETTING_IS_SECONDS, /* number above 0, at most `max` */
	SETTING_IS_NUMBER,  /* likewise, of something else than seconds */
	SETTING_IS_COUNT,   /* whole number from `min` to `max` */
	SETTING_IS_BOOL,
	SETTING_IS_CHOICE, /* one of `choices` */
	SETTING_IS_TEXT,   /* string of 1 to `max` bytes without control characters */
};

struct setting_info {
	const char *key; /* "name" or "group.name", the latter for {"group":{"name":...}} */
	enum setting_kind kind;
	bool or_null; /* JSON's null is allowed as well: no limit */
	int64_t min, max;
	const char *fallback;       /* the default as JSON text; "null": who uses it decides */
	const char *variable;       /* of the environment; NULL: none */
	const char *about;          /* one line */
	const char *const *choices; /* NULL-terminated, for SETTING_IS_CHOICE */
};

extern const struct setting_info SETTINGS[SETTING_COUNT];

enum setting_source { SETTING_FROM_DEFAULT, SETTING_FROM_FILE, SETTING_FROM_ENVIRONMENT };

struct setting {
	struct json *value; /* NULL: JSON's null, as a default or where it is allowed */
	enum setting_source source;
};

struct settings {
	struct setting items[SETTING_COUNT];
	char *file; /* absolute path of where the file is looked for; NULL: nowhere */
	bool file_read;
};

enum {
	SETTINGS_BYTES_MAX = 1 << 20,
	SETTING_MODULES_MAX = 64,
	SETTING_MODULE_BYTES_MAX = 128,
	SETTING_TEXT_BYTES_MAX = 1024,
};

/* The defaults. */
void settings_init(struct settings *settings);
void settings_release(struct settings *settings);
#define cleanup_settings __attribute__((cleanup(settings_release)))

/*
 * The process's settings: defaults, then the file, then the environment. *settings need not be
 * initialised; the caller releases it also after a failure. A default file that is not there is
 * none; everything else that is wrong is an error that names file and line, or the variable, the
 * key, and what is allowed.
 */
int settings_load(struct settings *settings, struct err *err);

/* Where the file is: $FUMEHOOD_CONFIG (*named becomes true; it must be an absolute path; empty: no
 * file), else $XDG_CONFIG_HOME/fumehood/config.json, else ~/.config/fumehood/config.json. *path is
 * owned by the caller, NULL for no file. */
int settings_path(char **path, bool *named, struct err *err);

/* Takes what the text of a file says over the present values; pure. `file` names it in errors.
 * After a failure some values may have been taken. ERR_INVALID. */
int settings_read(struct settings *settings, const char *bytes, size_t len, const char *file,
		  struct err *err);

/* Takes a variable's value: JSON as in the file, strings without quotes; for a bool 0 and 1 as
 * well. An empty one is as good as none. Only for settings that have a variable; pure. */
int settings_read_variable(struct settings *settings, enum setting_id id, const char *text,
			   struct err *err);

/* Values. The kind must fit. Text and JSON are borrowed; NULL is JSON's null. */
int64_t settings_count(const struct settings *settings, enum setting_id id); /* null: 0 */
double settings_seconds(const struct settings *settings, enum setting_id id);
double settings_number(const struct settings *settings, enum setting_id id); /* null: 0 */
bool settings_bool(const struct settings *settings, enum setting_id id);
const char *settings_text(const struct settings *settings, enum setting_id id);
const struct json *settings_json(const struct settings *settings, enum setting_id id);

/* Whether file or environment have set it. */
bool settings_given(const struct settings *settings, enum setting_id id);

/* "default", "file", "environment". */
const char *setting_source_name(enum setting_source source);

/* Appends what is allowed: "a whole number from 1 to 9". */
void setting_write_allowed(struct buf *out, enum setting_id id);

/* The JSON Schema (draft 2020-12) of the file, indented, with LF at the end. */
void settings_write_schema(struct buf *out);

#endif
