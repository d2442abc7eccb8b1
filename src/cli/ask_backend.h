/*
 * Which backend an ask has: --script, else --url, else --model, else the settings (ask.url, then
 * ask.model), else the model of this machine that is the default.
 */
#ifndef FH_CLI_ASK_BACKEND_H
#define FH_CLI_ASK_BACKEND_H

#include <stdint.h>

#include "base/err.h"
#include "base/settings.h"
#include "model/backend.h"

struct ask_backend_options {
	const char *script, *url, *model, *key_env; /* NULL: not given */
};

/* Until when it is waited for a server that loads its model, and what ends that. */
struct ask_patience {
	int cancel_fd; /* readable: at once. -1: none */
	/* Monotonic; NULL or 0: none. A server of ours is started when it is first asked, so this
	 * is looked at as long as the backend lives, and may be changed meanwhile. */
	const int64_t *deadline_us;
};

/* ERR_USAGE for options that do not go together; ERR_NOT_FOUND, with what to do, when there is no
 * model; ERR_TIMEOUT, when a server of --url was still loading at the deadline. The caller frees
 * the backend. */
struct backend *ask_backend_new(const struct ask_backend_options *options,
				const struct settings *settings,
				const struct ask_patience *patience, struct err *err);

#endif
