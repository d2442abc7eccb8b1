/*
 * `fumehood model` in the program fumehood-ask (ask_main.c): its words, one function each.
 */
#ifndef FH_CLI_MODEL_VERB_H
#define FH_CLI_MODEL_VERB_H

#include <stdbool.h>

#include "base/err.h"
#include "base/settings.h"
#include "cli/command.h"
#include "model/catalog.h"

extern const struct command COMMAND_MODEL;

struct model_options {
	bool json, no_engine;
	const char *from, *sha256, *as; /* NULL: not given */
};

/* argv[0] is "model". Exit status. */
int model_verb(int argc, char **argv);

/* One word each; `name` is what was given behind it, or NULL. Exit status. */
int model_list(const struct model_options *options, const char *name);
int model_path(const struct model_options *options, const char *name);
int model_remove(const struct model_options *options, const char *name);
int model_status(const struct model_options *options, const char *name);
int model_stop(const struct model_options *options, const char *name);
int model_pull(const struct model_options *options, const char *name);
int model_engine(const struct model_options *options, const char *name);
int model_use(const struct model_options *options, const char *name);
int model_test(const struct model_options *options, const char *name);
int model_findings(const struct model_options *options, const char *name); /* of the doctor */

/* Settings and catalog, as every word needs them; both are to be released in any case. */
struct model_house {
	struct settings settings;
	struct catalog catalog;
};

int model_house_open(struct model_house *house, struct err *err);
void model_house_release(struct model_house *house);
#define cleanup_model_house __attribute__((cleanup(model_house_release)))

/* The named model (NULL or "": that of the settings, else the default): its file's path, owned by
 * the caller; ERR_NOT_FOUND says how to get one. */
char *model_file(const struct model_house *house, const char *name, struct err *err);

#endif
