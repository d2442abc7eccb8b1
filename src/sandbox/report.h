/*
 * Report: what holds, what does not, what follows from it, and what to do about it; for people.
 */
#ifndef FH_SANDBOX_REPORT_H
#define FH_SANDBOX_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "sandbox/plan.h"

enum report_layer_id {
	LAYER_USER,
	LAYER_MOUNT,
	LAYER_PID,
	LAYER_NETWORK,
	LAYER_IPC,
	LAYER_UTS,
	LAYER_CGROUP,
	LAYER_PRIVILEGES,
	LAYER_NESTING,
	LAYER_LIMITS,
	LAYER_LANDLOCK,
	LAYER_SECCOMP,
	LAYER_MEMORY,
	LAYER_OWN_UID,
	LAYER_NURSERY,
	LAYER_COUNT
};

struct report_layer {
	const char *name;
	const char *effect; /* what is lost without it */
	const char *cure;
};

#define REPORT_BIT(layer) (UINT32_C(1) << (layer))

extern const struct report_layer REPORT_LAYER[LAYER_COUNT];

/* An array for the `session` event: each layer with `holds`, and `effect` and `cure` when it does
 * not. `held` is a set of REPORT_BIT(layer); `uid` the keeper's; `memory` says how memory is
 * limited (NULL: it is not). Two can have `how`: memory, and the zygote of an ordinary user where
 * Landlock keeps no signals in. The caller owns it. */
struct json *report_layers(uint32_t held, uid_t uid, const char *memory);

/* Fills *err (ERR_SANDBOX) for a step of the plan that failed with errno `sys`. Returns -1. */
int report_failure(const struct plan *plan, size_t step, int sys, struct err *err);

/* Fills *err (ERR_SANDBOX) for a clone3 that failed with `sys`, after finding out by trying which
 * of the namespaces it was. Returns -1. */
int report_refusal(uint64_t namespaces, int sys, struct err *err);

/* What to do about a failed step of this kind; constant text. */
const char *report_cure(const struct step *step, int sys);

/* Neither the full tier, for the reason in *full, nor the degraded one, for that in *err: which
 * gets both, the first one first, since it is what stands in the way. Returns -1. */
int report_no_tier(const struct err *full, struct err *err);

/* What to do about a namespace that clone3 refuses; constant text. */
const char *report_namespace_cure(uint64_t flag, int sys);

#endif
