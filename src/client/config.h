/*
 * session.json: what a session is, written once by the client that makes it and read by its keeper.
 *
 * The form is in doc/protocol.md ("Starting a keeper"). A workspace path is bytes: when it is no
 * UTF-8 it goes in base64, because JSON has no place for it otherwise.
 */
#ifndef FH_CLIENT_CONFIG_H
#define FH_CLIENT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <fumehood.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

/* By the names that the file has for them. Full: the strongest that the machine allows, and no
 * weaker than the policy's floor. */
enum config_tier { CONFIG_TIER_FULL, CONFIG_TIER_DEGRADED, CONFIG_TIER_NONE, CONFIG_TIERS };

struct config {
	char id[HASH_ID_SIZE];
	char *name;         /* NULL: none */
	int64_t created_us; /* wall clock */
	char *python;       /* NULL: the keeper's default */
	char *workspace;    /* absolute path, any bytes */
	char *parent;       /* of a branch: the id of the session that it was made of; else NULL */
	bool workspace_private;
	bool workspace_read_only, workspace_overlay;
	enum config_tier tier;
	double wall_s_max;         /* 0: the keeper's default */
	uint64_t output_bytes_max; /* 0: the keeper's default */
	struct fh_limits limits;
	bool ends_with_client;
	bool durability_power;
	struct json *policy;            /* what is asked of the sandbox: object or NULL */
	struct json *notebook_metadata; /* object or NULL */
	bool keeps_rolled_back;         /* of the notebook: cells that were rolled back */
};

#define CONFIG_INIT \
	{ \
		.id = "", .name = NULL, .created_us = 0, .python = NULL, .workspace = NULL, \
		.parent = NULL, .workspace_private = false, .workspace_read_only = false, \
		.tier = CONFIG_TIER_FULL, .wall_s_max = 0, .output_bytes_max = 0, .limits = {0}, \
		.ends_with_client = false, .durability_power = false, .policy = NULL, \
		.notebook_metadata = NULL, .keeps_rolled_back = false \
	}

enum { CONFIG_BYTES_MAX = 4 << 20 };

void config_release(struct config *config); /* frees the members, all owned by the config */
#define cleanup_config __attribute__((cleanup(config_release)))

/* Whether `id` has the form of a session's id: 26 of a-z and 2-7. */
bool config_is_id(const char *id);

/* Whether no limit is set that the box is built with. */
bool config_box_is_default(const struct config *config);

/* What may be chosen of a spare session, for the request "start". The caller owns it. */
struct json *config_chosen(const struct config *config);

/* Appends the file's text. */
void config_write(struct buf *out, const struct config *config);

/* Reads the file's text into *config, which must be CONFIG_INIT. Fields it does not know are passed
 * over: a later version's sessions can still be listed. ERR_CORRUPT when it is no session.json. */
int config_read(const char *bytes, size_t len, struct config *config, struct err *err);

#endif
