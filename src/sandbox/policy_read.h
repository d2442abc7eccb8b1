/*
 * A policy as JSON: what a person, or a program, asks of a sandbox.
 *
 * A policy file says what differs from the defaults, no more; the same object is part of
 * session.json, and of the op `policy`. One table names every member: reading, the description of
 * what is in force, the JSON Schema for editors and the messages all come from it. Read strictly,
 * because a misspelt limit must not silently be no limit. Format: fumehood-policy(5).
 *
 * Pure: whether a path exists is asked where it is used (policy_check_paths()).
 */
#ifndef FH_SANDBOX_POLICY_READ_H
#define FH_SANDBOX_POLICY_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/policy.h"

/* In the order of the manual page. */
enum policy_member {
	POLICY_TIER_FLOOR,
	POLICY_READ,
	POLICY_WRITE,
	POLICY_NET,
	POLICY_ENV,
	POLICY_PROTECT,
	POLICY_MEMORY_BYTES,
	POLICY_SWAP,
	POLICY_PROCESSES,
	POLICY_FILES,
	POLICY_FILE_BYTES,
	POLICY_DISK_BYTES,
	POLICY_DISK_INODES,
	POLICY_TMP_BYTES,
	POLICY_TMP_INODES,
	POLICY_CPUS,
	POLICY_CPU_S,
	POLICY_MEMBER_COUNT
};

enum policy_kind {
	POLICY_IS_TIER,      /* "full" or "degraded" */
	POLICY_IS_PATHS,     /* array of absolute paths */
	POLICY_IS_RULES,     /* array of rules of hosts (hosts.h) */
	POLICY_IS_VARIABLES, /* object: name -> string, or null: the caller's */
	POLICY_IS_PATTERNS,  /* array of patterns (protect.h); "..." stands for the usual ones */
	POLICY_IS_COUNT,     /* whole number from `min` to `max` */
	POLICY_IS_NUMBER,    /* number above 0, at most `max` */
	POLICY_IS_BOOL,
};

struct policy_info {
	const char *key;
	enum policy_kind kind;
	bool nullable; /* null: no limit */
	int64_t min, max;
	size_t offset;     /* in struct policy */
	const char *about; /* one line */
};

extern const struct policy_info POLICY_INFO[POLICY_MEMBER_COUNT];

enum {
	POLICY_BYTES_MAX = 1 << 20, /* of a file */
	POLICY_LIST_MAX = 256,      /* paths of a list, variables */
	POLICY_PATH_BYTES_MAX = 4095,
	POLICY_PATTERN_BYTES_MAX = 255,
	POLICY_NAME_BYTES_MAX = 128,      /* of a variable */
	POLICY_VALUE_BYTES_MAX = 1 << 16, /* execve(2) takes no more than 128 KiB in one string */
};

/* What is asked for: members that are not there stay as they are. */
struct policy_wish {
	struct json *json;                 /* an object, owned; NULL: nothing is asked for */
	char **lists[POLICY_MEMBER_COUNT]; /* of lists, NULL-terminated; of `env` "NAME=value" */
};

#define POLICY_WISH_INIT \
	{ \
		.json = NULL, .lists = { NULL } \
	}

void policy_wish_release(struct policy_wish *wish);
#define cleanup_wish __attribute__((cleanup(policy_wish_release)))

/*
 * Reads an object. *wish must be POLICY_WISH_INIT; the caller releases it also after a failure.
 * `source` ("/home/u/policy.json", "session.json") begins each message. A variable that is null is
 * checked and then left out: who reads for its caller puts the value in before. ERR_INVALID,
 * ERR_LIMIT.
 */
int policy_wish_read(struct policy_wish *wish, const struct json *object, const char *source,
		     struct err *err);

/* Reads the text of a file into a new object, checked as above; NULL on failure. The caller owns
 * it. */
struct json *policy_parse(const char *bytes, size_t len, const char *source, struct err *err);

/* Puts what is asked for into *policy, which borrows the lists. */
void policy_wish_apply(const struct policy_wish *wish, struct policy *policy);

/* Takes over what `from` asks for, in place of what `wish` asked of the same members; empties it. A
 * policy that borrows from `wish` has to be given its lists anew. */
void policy_wish_merge(struct policy_wish *wish, struct policy_wish *from);

/* The member of this name; POLICY_MEMBER_COUNT: there is none. */
enum policy_member policy_member_of(const char *key);

/* ERR_INVALID: there is no such member; names the one that was most likely meant. */
int policy_unknown(const char *key, const char *source, struct err *err);

/* All members as they are in `policy`: an object of the same form, owned by the caller. The values
 * of variables, which may be secrets, are null. */
struct json *policy_describe(const struct policy *policy);

/* Appends what is allowed: "a whole number from 1 to 9". */
void policy_write_allowed(struct buf *out, enum policy_member member);

/* Appends the JSON Schema (draft 2020-12) of the file, indented, with LF at the end. */
void policy_write_schema(struct buf *out);

#endif
