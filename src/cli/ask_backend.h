/*
 * Which backend an ask has: --script, else --url, else --model, else the settings (ask.url, then
 * ask.model), else the model of this machine that is the default.
 */
#ifndef FH_CLI_ASK_BACKEND_H
#define FH_CLI_ASK_BACKEND_H

#include "base/err.h"
#include "base/settings.h"
#include "model/backend.h"

struct ask_backend_options {
	const char *script, *url, *model, *key_env; /* NULL: not given */
};

/* ERR_USAGE for options that do not go together; ERR_NOT_FOUND, with what to do, when there is no
 * model. `cancel_fd`: readable, when waiting for a server of our own is to end. The caller frees
 * the backend. */
struct backend *ask_backend_new(const struct ask_backend_options *options,
				const struct settings *settings, int cancel_fd, struct err *err);

#endif
