/*
 * Choosing a backend. See ask_backend.h.
 */
#include "cli/ask_backend.h"

#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/local.h"
#include "model/openai.h"
#include "model/script.h"

enum { LOADING_TRIES = 60, LOADING_WAIT_MS = 1000 };

static struct backend *openai_new(const char *url, const char *model, const char *key_env,
				  const struct ask_patience *patience, struct err *err)
{
	struct backend *backend = NULL;
	struct err why = ERR_INIT;
	const char *key = getenv(key_env ? key_env : "OPENAI_API_KEY");
	const struct backend_openai_params params = {
		.base_url = url,
		.model = model,
		.key = key,
	};

	if (key_env && !key) {
		err_set(err, ERR_USAGE, "the variable %s of --key-env is not set", key_env);
		return NULL;
	}
	/* A server that is just loading its model is waited for. */
	for (unsigned i = 0; i < LOADING_TRIES; i++) {
		struct pollfd cancelled = {.fd = patience->cancel_fd, .events = POLLIN};
		int64_t deadline_us = patience->deadline_us ? *patience->deadline_us : 0;
		int wait_ms = (int)clock_left_ms(deadline_us, LOADING_WAIT_MS);

		backend = backend_openai_new(&params, &why);
		if (backend || why.code != ERR_BUSY)
			break;
		if (poll(&cancelled, 1, wait_ms) != 0)
			break;
		if (wait_ms == 0) {
			err_set(err, ERR_TIMEOUT,
				"the time was over (--time), and the model's server was still "
				"loading: ask again in a while, or give more time (%.200s)",
				why.text);
			return NULL;
		}
	}
	if (!backend)
		*err = why;
	return backend;
}

static struct backend *local_new(const char *model, const struct settings *settings,
				 const struct ask_patience *patience, struct err *err)
{
	struct backend_local_params params = {.model = model,
					      .cancel_fd = patience->cancel_fd,
					      .deadline_us = patience->deadline_us};

	backend_local_take(&params, settings);
	return backend_local_new(&params, err);
}

struct backend *ask_backend_new(const struct ask_backend_options *options,
				const struct settings *settings,
				const struct ask_patience *patience, struct err *err)
{
	const char *url = options->url, *model = options->model;

	if (options->script && (url || model)) {
		err_set(err, ERR_USAGE, "--script goes without --url and --model");
		return NULL;
	}
	if (options->script && options->key_env) {
		err_set(err, ERR_USAGE, "--key-env goes with --url");
		return NULL;
	}
	if (options->script)
		return backend_script_new(options->script, err);
	/* A model that is named on the command line is one of this machine, unless a server is
	 * named there, too. */
	if (!url && !model)
		url = settings_text(settings, SETTING_ASK_URL);
	if (!model)
		model = settings_text(settings, SETTING_ASK_MODEL);
	if (options->key_env && !url) {
		err_set(err, ERR_USAGE, "--key-env goes with --url");
		return NULL;
	}
	if (url)
		return openai_new(url, model, options->key_env, patience, err);
	return local_new(model, settings, patience, err);
}
