/*
 * Errors: one caller-owned struct, filled once, readable without freeing anything.
 *
 * A function that can fail takes `struct err *err` last and answers 0/-1 (or a pointer/NULL).
 * `err` may be NULL; it is untouched on success. What the user's code does wrong is an event of
 * the journal, never a struct err; what we do wrong ourselves is an assert.
 *
 * One table (err.c) maps a code to its name in the session protocol, the exit status of the CLI,
 * the HTTP status, the JSON-RPC code and whether trying again can help.
 */
#ifndef FH_BASE_ERR_H
#define FH_BASE_ERR_H

#include <stdbool.h>

enum err_code {
	ERR_OK = 0,
	ERR_USAGE,       /* the command line is wrong */
	ERR_INVALID,     /* a message, file or value is not of the right form */
	ERR_DUPLICATE,   /* an id is taken */
	ERR_NOT_FOUND,   /* no such session, cell, blob, file */
	ERR_BUSY,        /* someone else owns it now, or the queue is full */
	ERR_DENIED,      /* permission, or the policy forbids it */
	ERR_UNSUPPORTED, /* this kernel, engine or version cannot do it */
	ERR_LIMIT,       /* a named limit was met */
	ERR_NO_SPACE,    /* the disk is full */
	ERR_TIMEOUT,     /* it took too long */
	ERR_CORRUPT,     /* a file of ours is damaged */
	ERR_GONE,        /* the other side has closed, died or stopped */
	ERR_SANDBOX,     /* the box could not be built as the policy demands */
	ERR_ENGINE,      /* the interpreter could not be started */
	ERR_IO,          /* a system call failed; `sys` has errno */
	ERR_INTERNAL,    /* a bug of ours, met in a release build */
	ERR_CODE_COUNT
};

struct err {
	enum err_code code;
	int sys;        /* errno of the failed system call, or 0 */
	char text[256]; /* a sentence that says what to do; UTF-8, cut at a code point */
};

/* Scope initialiser: `struct err err = ERR_INIT;` */
#define ERR_INIT {.code = ERR_OK, .sys = 0, .text = ""}

/* Fills *err. Always returns -1, so a failing function can end with `return err_set(...)`. */
int err_set(struct err *err, enum err_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* As err_set, with the code that fits errno (ENOSPC/EDQUOT no_space, ENOENT not_found, EACCES and
 * EPERM denied, else io) and ": <strerror>" appended. Reads errno at entry. Returns -1. */
int err_sys(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts context in front of the text: "context: text". Keeps code and sys. Returns -1. */
int err_wrap(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The code's name in the session protocol, such as "no_space". Never NULL. */
const char *err_name(enum err_code code);

/* The code whose protocol name is `name`; ERR_INTERNAL when there is none. */
enum err_code err_from_name(const char *name);

/* Exit status of the CLI for this code: 2 for usage, 125 for every fault of Fumehood's. */
int err_exit_status(enum err_code code);

/* HTTP status (RFC 9110) for this code, 400..599. */
int err_http_status(enum err_code code);

/* JSON-RPC 2.0 error code (negative) for this code. */
int err_jsonrpc(enum err_code code);

/* Whether the same request can succeed later without any change. */
bool err_retry(enum err_code code);

#endif
