/*
 * Landlock comes before the filter, which knows nothing of it, and capabilities before both: what
 * is left of them is what the rules are made with.
 *
 * A build with a sanitizer is not confined: its runtime looks for leaks by a process that traces
 * this one, and writes reports where it is told to. It says so like a kernel that lacks something.
 */
#include "sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/filter.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static const char OF_A_SANITIZER[] = "this is a build with a sanitizer, which needs more";

/*
 * Of root's: to use files of another user's (DAC_*, FOWNER, FSETID), to become that user for it
 * (SETUID, SETGID: only file system ids, the filter refuses the others), to give a pipe away
 * (CHOWN), and to have as many pipes as before (SYS_RESOURCE).
 */
#define KEPT \
	(UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_DAC_OVERRIDE | \
	 UINT64_C(1) << CAP_DAC_READ_SEARCH | UINT64_C(1) << CAP_FOWNER | \
	 UINT64_C(1) << CAP_FSETID | UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID | \
	 UINT64_C(1) << CAP_SYS_RESOURCE)

static int keep_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data) < 0)
		return -1;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].permitted &= (uint32_t)(kept >> (32 * i));
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return (int)syscall(SYS_capset, &head, data);
}

/* --- files --------------------------------------------------------------------------------------
 */

static int allow(int ruleset, int abi, const struct confine_place *place)
{
	uint64_t rights = LANDLOCK_READ_FILE | LANDLOCK_READ_DIR;
	struct stat st;

	if (fstat(place->fd, &st) < 0)
		return -1;
	if (place->write)
		rights |= LANDLOCK_CHANGE;
	if (!S_ISDIR(st.st_mode))
		rights &= LANDLOCK_OF_FILES;
	return landlock_allow(ruleset, place->fd, rights & landlock_handled(abi));
}

static int restrict_files(const struct confine_params *params, struct confined *confined)
{
	int abi = confined->landlock_abi;
	bool files = !params->without_files;
	uint64_t scopes = abi >= 6 ? LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT : 0;
	/* A right that no folder of ours needs is given up in any case. */
	uint64_t handled = files ? landlock_handled(abi) : LANDLOCK_EXECUTE | LANDLOCK_MAKE_CHAR;
	cleanup_fd int ruleset = landlock_create(handled, scopes);

	if (ruleset < 0)
		return -1;
	for (size_t i = 0; files && i < params->count; i++)
		if (allow(ruleset, abi, &params->places[i]) < 0)
			return -1;
	if (landlock_restrict(ruleset) < 0)
		return -1;
	confined->files = files;
	confined->files_why = params->without_files;
	confined->scoped = scopes != 0;
	return 0;
}

/* --- all of it ----------------------------------------------------------------------------------
 */

static int restrict_calls(struct confined *confined)
{
	struct filter filter;

	filter_compile(&filter, FILTER_KEEPER);
	if (filter_apply(&filter) == 0) {
		confined->filter = true;
		return 0;
	}
	confined->filter_why = "the kernel has no system call filters (CONFIG_SECCOMP_FILTER)";
	return errno == ENOSYS || errno == EINVAL ? 0 : -1;
}

int confine(const struct confine_params *params, struct confined *confined, struct err *err)
{
	*confined = (struct confined){.landlock_abi = landlock_abi()};
	if (SANITIZED) {
		confined->files_why = confined->filter_why = OF_A_SANITIZER;
		return 0;
	}
	if (keep_capabilities(KEPT) < 0)
		return err_sys(err, "sandbox: give up capabilities");
	confined->capabilities = true;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, "sandbox: no_new_privs");
	confined->files_why = "the kernel has no Landlock, or it is switched off";
	if (confined->landlock_abi > 0 && restrict_files(params, confined) < 0)
		return err_sys(err, "sandbox: Landlock of this process");
	if (restrict_calls(confined) < 0)
		return err_sys(err, "sandbox: filter of this process");
	return 0;
}

static void add_layer(struct json *layers, const char *name, bool holds, const char *how,
		      const char *effect)
{
	struct json *layer = json_new_object();

	json_set_string(layer, "layer", name);
	json_set(layer, "holds", json_new_bool(holds));
	if (how)
		json_set_string(layer, holds ? "how" : "why", how);
	if (!holds)
		json_set_string(layer, "effect", effect);
	json_push(layers, layer);
}

struct json *confined_layers(const struct confined *confined)
{
	struct json *layers = json_new_array();
	cleanup_free char *abi = mem_format("Landlock ABI %d", confined->landlock_abi);

	add_layer(layers, "files", confined->files, confined->files ? abi : confined->files_why,
		  "a mistake in it is a way to all files of the user");
	add_layer(layers, "signals and abstract sockets", confined->scoped,
		  confined->scoped ? abi : "Landlock knows them since Linux 6.12",
		  "abstract sockets that a guest hands over can be used");
	add_layer(layers, "system call filter", confined->filter, confined->filter_why,
		  "a mistake in it is a way to programs and connections");
	add_layer(layers, "capabilities", confined->capabilities, NULL,
		  "a mistake in it has all rights of root");
	return layers;
}
