/*
 * session.json: what a session was started with. Written by the client that made the session, read
 * by each keeper of it. Read strictly: an unknown key or a wrong type is an error, because a
 * misspelt limit must not silently be no limit.
 */
#ifndef FH_KEEPER_CONFIG_H
#define FH_KEEPER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/policy.h"

enum { CONFIG_FORMAT = 1, CONFIG_BYTES_MAX = 16 << 20 };

/* Every limit of a session, by the name under which it is reported when it is hit. */
struct limits {
	double wall_s;             /* a cell's wall time; > 0 */
	uint64_t output_bytes;     /* streams and displays of a cell */
	uint64_t background_bytes; /* output of a cell after its end */
	uint64_t queue;            /* cells that wait */
	uint64_t record_bytes;     /* journal and blobs together */
	uint64_t processes;        /* processes and threads */
	uint64_t files;            /* open files of a process */
	uint64_t file_bytes;       /* size of a file */
	uint64_t tmp_bytes;        /* private /tmp */
};

struct config {
	char *id;
	char *name;      /* alias, or NULL */
	char *python;    /* absolute path; NULL: the default one */
	char *workspace; /* absolute host path, any bytes */
	bool workspace_private;
	enum workspace_mode workspace_mode;
	enum tier tier; /* TIER_PARTIAL or TIER_NONE */
	bool ends_with_client;
	struct limits limits;
	struct json *notebook; /* {"metadata":{...}} of the notebook that is run, or NULL */
};

void limits_init(struct limits *limits);

/* The defaults; no strings. */
void config_init(struct config *config);

/* The limits as an object, for the `session` event and `status`. The caller owns it. */
struct json *limits_json(const struct limits *limits);

/* Reads dirfd/session.json. The caller releases *config, also after a failure. */
int config_read(int dirfd, struct config *config, struct err *err);

/* Reads what a client may choose of a session whose interpreter runs already (a spare): `name`,
 * `ends_with_client`, `notebook`, and those `limits` that this process enforces itself. Anything
 * else is refused. */
int config_choose(struct config *config, struct json *chosen, struct err *err);

/* Appends the text of session.json, made now, for a session of which `chosen` was chosen so. */
void config_write(struct buf *out, const struct config *config, const struct json *chosen);
void config_release(struct config *config);

#endif
