/*
 * Plan: the list of steps a policy compiles to.
 *
 * A plan is data: it can be printed before anything runs (what, why and what it needs of the
 * kernel), and it is complete: every string and number that a step uses is laid out in it, because
 * the process that runs it (apply.h) may neither allocate nor look anything up. Steps run in order
 * and the first that fails ends the box; there is no step that is "tried".
 *
 * Landlock and the system call filter are prepared here and applied by each program and guest for
 * itself, as the last thing before it runs foreign code: PID 1 has to reach what they may not.
 */
#ifndef FH_SANDBOX_PLAN_H
#define FH_SANDBOX_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/filter.h"
#include "sandbox/host.h"
#include "sandbox/policy.h"
#include "sandbox/protect.h"

enum step_kind {
	STEP_FORGET,  /* wipe the keeper's command line and environment (host) */
	STEP_ID_MAPS, /* options: files of /proc/self and their content */
	STEP_LOOPBACK,
	STEP_HOSTNAME, /* source: the name */
	STEP_PROPAGATION,
	STEP_ROOT,         /* options: a new tmpfs, in which all further targets lie */
	STEP_DIRECTORY,    /* target, mode */
	STEP_FILE,         /* target, source: its content */
	STEP_LINK,         /* target, source: its text */
	STEP_BIND,         /* target, source: a host path without symlinks */
	STEP_BIND_PROCESS, /* target: this process's own directory of /proc */
	STEP_BIND_INSIDE,  /* target, source: both in the new root; with what is mounted there */
	STEP_BIND_ITSELF,  /* target: makes part of a mount one of its own, with attributes */
	STEP_MOUNT,        /* target, source: type of the file system, options */
	STEP_OVERLAY,      /* target, options: layers by paths from the new root */
	STEP_UNMOUNT,      /* target: the mount there; the directory goes too */
	STEP_READ_ONLY,    /* target: this mount, not those on it */
	STEP_WRITE,        /* target: an existing file in the new root, source: what to write */
	STEP_PIVOT,
	STEP_NEW_SESSION,
	STEP_SUBREAPER,
	STEP_IDS,
	STEP_PARENT_DEATH, /* value: the signal */
	STEP_CLOSE,
	STEP_SECUREBITS,
	STEP_CAPABILITIES,
	STEP_NO_NEW_PRIVILEGES,
	STEP_PROVE_NO_NESTING,
	STEP_LANDLOCK,       /* attributes: what the ruleset handles, value: scopes */
	STEP_LANDLOCK_ALLOW, /* target, attributes: what is allowed beneath it */
	STEP_KIND_COUNT
};

struct step_option {
	const char *key, *value;
};

enum { STEP_OPTIONS_MAX = 4 };

struct step {
	enum step_kind kind;
	const char *what; /* "bind /usr read-only"; UTF-8, no control characters */
	const char *why;  /* half a sentence */
	const char *
		needs; /* of kernel and privileges, such as "CAP_SYS_ADMIN in the user namespace" */
	const char *source;
	const char *target;                           /* absolute, as seen inside */
	struct step_option options[STEP_OPTIONS_MAX]; /* ends at a NULL key */
	uint64_t attributes;                          /* MOUNT_ATTR_* or LANDLOCK_* */
	char **submounts; /* host paths below `source`; only on a kernel without mount_setattr(2) */
	mode_t mode;
	int value;
	/* of a mapped one: without the map it is of no use; it is the session's, which may be given
	 * to the box's uid instead */
	bool strict, own;
	bool mapped; /* bind: opened by the keeper and id-mapped (idmap.h), since the box may not */
	bool written; /* bind: of the policy's `write`; Landlock allows it */
	int mount;    /* that mount, owned by the plan; -1: the box opens `source` itself */
};

struct plan {
	struct step *steps;
	size_t count;
	uint64_t namespaces;  /* CLONE_NEW* for clone3(2) */
	struct filter filter; /* empty in tier none */
	struct host host;
	char *workspace;             /* real host path */
	struct protect_list protect; /* what is read-only in it */
	void **owned;                /* what the steps point to */
	size_t owned_count;
};

#define PLAN_INIT \
	{ \
		.steps = NULL, .count = 0, .namespaces = 0 \
	}

/* The name and flag of each namespace, in the order in which setns(2) must take them. */
struct plan_namespace {
	const char *name; /* as in /proc/PID/ns: "user", "mnt" ... */
	uint64_t flag;
};
enum { PLAN_NAMESPACES = 7 };
extern const struct plan_namespace PLAN_NAMESPACE[PLAN_NAMESPACES];

/* Compiles the policy for a box of `tier` (of any tier). Reads the file system (which
 * files of /etc there are, where symlinks lead) but changes nothing. ERR_NOT_FOUND, ERR_DENIED or
 * ERR_INVALID when the workspace or a path of `read` cannot be used. */
int plan_compile(struct plan *plan, const struct policy *policy, enum tier tier,
		 const struct host *host, struct err *err);

/* The plan of a nursery (nursery.h): as of a box, without a workspace and without a pid namespace.
 * `policy` gives what may be read and the size of /tmp. */
int plan_compile_nursery(struct plan *plan, const struct policy *policy, const struct host *host,
			 struct err *err);

/* A plan that proves the namespaces in `namespaces` (with the user namespace always) and no more:
 * what probe.c runs. */
void plan_compile_proof(struct plan *plan, uint64_t namespaces, const struct host *host);

void plan_release(struct plan *plan);

/* For plan.c and plan_mounts.c: appends a step. `what` is copied; `why` must be constant. */
struct step *plan_add(struct plan *plan, enum step_kind kind, const char *why, const char *what,
		      ...) __attribute__((format(printf, 4, 5)));

/* Keeps a string of malloc until the plan is released; returns it. */
char *plan_own(struct plan *plan, char *string);

/* Whether the box has other ids than the caller, who has to write its id maps then. */
bool plan_has_own_ids(const struct plan *plan);

/* A new tmpfs as the root under construction; to be followed by further targets. */
void plan_add_root(struct plan *plan);

/* The mounts of a box: everything visible between plan_add_root() and the pivot. */
int plan_add_mounts(struct plan *plan, const struct policy *policy, struct err *err);

struct visible;

/* What of the host is visible in a box: the system's first, `system_binds` of them, then what the
 * policy names. The caller releases *visible also after failure. */
int plan_find_visible(struct visible *visible, size_t *system_binds, const struct policy *policy,
		      struct err *err);

/* What the policy lets be written besides the workspace; refused as by policy_check_paths(). The
 * caller releases *written also after failure. */
int plan_find_written(struct visible *written, const struct policy *policy, struct err *err);

/* Those of a nursery. */
int plan_add_nursery_mounts(struct plan *plan, const struct policy *policy, struct err *err);

/* A new /proc without its masks. */
void plan_add_proc(struct plan *plan);

/* Writes 0 to the limits of namespaces inside. Needs the new /proc, still writable. */
void plan_add_limits(struct plan *plan);

#endif
