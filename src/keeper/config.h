/*
 * session.json: what a session was started with. Written by the client that made the session, read
 * by each keeper of it; of what is in it only limits and policy can change later (limits_change.c).
 * Read strictly: an unknown key or a wrong type is an error, because a misspelt limit must not
 * silently be no limit.
 */
#ifndef FH_KEEPER_CONFIG_H
#define FH_KEEPER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "keeper/limit_table.h"
#include "sandbox/policy.h"
#include "sandbox/policy_read.h"

enum { CONFIG_FORMAT = 1, CONFIG_BYTES_MAX = 16 << 20 };

struct config {
	char *id;
	char *name;      /* alias, or NULL */
	char *python;    /* absolute path; NULL: the default one */
	char *workspace; /* absolute host path, any bytes */
	bool workspace_private;
	enum workspace_mode workspace_mode;
	enum tier tier; /* TIER_FULL or TIER_NONE */
	bool ends_with_client;
	bool durability_power;     /* nothing is told before the disk has it */
	struct policy_wish policy; /* what is asked of the sandbox; its limits are in `limits` */
	struct limits limits;
	struct json *notebook; /* {"metadata":{...}} of the notebook that is run, or NULL */
	struct json *parent;   /* of a branch: {"session","seq","cell",...} (branch.h), or NULL */
};

/* "power" or "process". */
const char *durability_name(bool power);

/* The defaults; no strings. */
void config_init(struct config *config);

/* Reads dirfd/session.json. The caller releases *config, also after a failure. */
int config_read(int dirfd, struct config *config, struct err *err);

/* Reads what a client may choose of a session whose interpreter runs already (a spare): `name`,
 * `ends_with_client`, `durability`, `notebook`, `policy` with `net` alone, and those `limits` that
 * this process enforces itself. Anything else is refused. */
int config_choose(struct config *config, struct json *chosen, struct err *err);

/* Appends the text of session.json, made now, for a session of which `chosen` was chosen so. */
void config_write(struct buf *out, const struct config *config, const struct json *chosen);

/* Reads the member "policy" of session.json (config_policy.c). */
int config_read_policy(struct config *config, const struct json *value, struct err *err);

/* Sets members of "limits" and of "policy" (NULL: none) in dirfd/session.json, which is replaced
 * whole and durably (file.h). All else in it stays. May be called from another thread. ERR_CORRUPT
 * when it is no session.json any more. */
int config_rewrite(int dirfd, const struct json *limits, const struct json *policy,
		   struct err *err);

void config_release(struct config *config);

#endif
