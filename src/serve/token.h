/*
 * Tokens: who may do what over TCP.
 *
 * <state>/tokens/<id>.json (0600, its folder 0700) holds one token: its name, its scopes, the
 * prefix of the names of the sessions it may touch, when it ends, and SHA-256 of its text. The text
 * itself (256 random bits) is told once, to who creates it, and is nowhere afterwards. A file a
 * token: creating and revoking are one system call, and nothing can be torn.
 *
 * The daemon looks at the folder's time before each check and reads it anew when it has changed, so
 * a token that is revoked is refused from the next request on.
 */
#ifndef FH_SERVE_TOKEN_H
#define FH_SERVE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

enum scope {
	SCOPE_READ = 1,   /* events, texts, notebooks, files; nothing is changed */
	SCOPE_RUN = 2,    /* run code and what belongs to it */
	SCOPE_FILES = 4,  /* write files */
	SCOPE_MANAGE = 8, /* start, stop and remove sessions, change limits */
	SCOPE_METRICS = 16,
	SCOPE_ALL = 31,
};

enum {
	TOKEN_TEXT_SIZE = 3 + 2 * (HASH_ID_SIZE - 1) + 1, /* "fh_" and 52 characters, NUL */
	TOKEN_ID_SIZE = 13,
	TOKEN_NAME_BYTES_MAX = 128,
	TOKENS_MAX = 10000,
};

struct token {
	char id[TOKEN_ID_SIZE]; /* 12 of a-z 2-7 */
	char name[TOKEN_NAME_BYTES_MAX + 1];
	char prefix[TOKEN_NAME_BYTES_MAX + 1]; /* "": all sessions */
	char sha256[HASH_HEX_SIZE];
	unsigned scopes;
	int64_t created_us;
	int64_t expires_us;    /* wall clock; INT64_MAX: never */
	uint64_t sessions_max; /* that run at once; 0: as the daemon has it */

	bool in_memory; /* of this process alone: it has no file */

	/* Of the daemon: what it may still do at this moment. */
	double allowance;
	int64_t allowance_us;
};

struct tokens {
	struct token *items;
	size_t count;
	char *path;
	int fd; /* the folder */
	struct timespec changed;
};

#define TOKENS_INIT \
	{ \
		.items = NULL, .count = 0, .path = NULL, .fd = -1 \
	}

/* Opens the folder, made if it is missing, and reads it. The caller releases it, also after
 * failure. */
int tokens_open(struct tokens *tokens, struct err *err);
void tokens_release(struct tokens *tokens);
#define cleanup_tokens __attribute__((cleanup(tokens_release)))

/* Reads the folder anew if it may have changed. Files that are no token are passed over. */
void tokens_refresh(struct tokens *tokens);

/* The token with this text that has not ended, or NULL. Takes as long whatever the text is. */
struct token *tokens_check(struct tokens *tokens, const char *text, size_t len);

/* Fills *token and `text` and writes its file; without `keep` the token is of this process
 * alone. */
int tokens_create(struct tokens *tokens, struct token *token, bool keep,
		  char text[static TOKEN_TEXT_SIZE], struct err *err);

/* The token with this id or name. ERR_NOT_FOUND; ERR_INVALID when several have the name. */
const struct token *tokens_find(const struct tokens *tokens, const char *word, struct err *err);
int tokens_revoke(struct tokens *tokens, const struct token *token, struct err *err);

/* "read,run" and back. ERR_USAGE names the scopes that there are. Pure. */
int scopes_read(const char *text, unsigned *scopes, struct err *err);
void scopes_write(struct buf *out, unsigned scopes);

/* Reads the text of a token's file. -1 when it is none. Pure. */
int token_read(const char *bytes, size_t len, struct token *token);
void token_write(struct buf *out, const struct token *token);

#endif
