/*
 * fumehood sandbox: what its parts share.
 */
#ifndef FH_CLI_SANDBOX_H
#define FH_CLI_SANDBOX_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/policy_options.h"
#include "sandbox/policy_read.h"

/* What the command line says; strings are borrowed. */
struct sandbox_options {
	struct policy_options policy;
	const char *workspace;   /* DIR[:rw|:ro]; NULL: a private one */
	const char *const *argv; /* what is to run, NULL-terminated; NULL: nothing */
	double timeout_s;        /* 0: none */
	bool terminal;
	bool json;
};

/* A policy that is ready to be compiled, and what it stands on. */
struct sandbox_policy {
	struct policy policy;
	struct policy_wish wish;
	char *workspace; /* absolute path */
	bool private;    /* ... that was made here, and is removed */
	char *tmp;       /* a folder for the tier `degraded`; NULL: not made */
};

#define SANDBOX_POLICY_INIT \
	{ \
		.wish = POLICY_WISH_INIT, .workspace = NULL, .private = false, .tmp = NULL \
	}

/* Reads the options. A workspace that was not named is an empty folder that is made now. The caller
 * releases it also after a failure. */
int sandbox_policy_make(struct sandbox_policy *made, const struct sandbox_options *options,
			struct err *err);

/* The folder for temporary files that the tier `degraded` needs. */
int sandbox_policy_make_tmp(struct sandbox_policy *made, struct err *err);

/* Removes what was made. */
void sandbox_policy_release(struct sandbox_policy *made);
#define cleanup_sandbox_policy __attribute__((cleanup(sandbox_policy_release)))

/* fumehood sandbox run: the exit status. */
int sandbox_run(const struct sandbox_options *options);

#endif
