/*
 * What settings.c (table, values), settings_read.c (the file) and settings_schema.c share.
 */
#ifndef FH_BASE_SETTINGS_IMPL_H
#define FH_BASE_SETTINGS_IMPL_H

#include "base/settings.h"

/* What strings are allowed, as regular expressions that ECMA-262 and Python read alike. setting_is
 * functions check the same by hand; test/flow/test_config.py compares them. */
#define SETTING_PYTHON_PATTERN "^(/[^\\u0000]*|[^/~\\u0000][^/\\u0000]*)$"
#define SETTING_MODULE_PATTERN "^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*$"
#define SETTING_PATH_PATTERN "^/[^\\u0000]*$"

/* Whether the value is one that the file may have for this setting. */
bool setting_fits(enum setting_id id, const struct json *value);

/* Takes the value, which fits; the caller's reference goes over. */
void setting_put(struct settings *settings, enum setting_id id, struct json *value,
		 enum setting_source source);

#endif
