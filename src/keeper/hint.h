/*
 * Which limit an error of the session's code most likely comes from.
 */
#ifndef FH_KEEPER_HINT_H
#define FH_KEEPER_HINT_H

#include "base/json.h"

/* The name of the limit, by exception, message and traceback of an `error` event; NULL: none. These
 * are the guest's words, so it is a hint and nothing else. Constant text. */
const char *hint_of_error(const struct json *error);

#endif
