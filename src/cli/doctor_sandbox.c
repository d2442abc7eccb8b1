/*
 * Doctor: the layers of the sandbox, what Landlock of this kernel can do, and whether there is a
 * weaker tier to fall back on. Each by doing it, in a process or a box that is thrown away.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/doctor.h"
#include "sandbox/box.h"
#include "sandbox/landlock.h"
#include "sandbox/confine.h"
#include "sandbox/policy.h"
#include "sandbox/probe.h"
#include "sandbox/report.h"

static bool check_layers(struct doctor *doctor)
{
	struct probe probes[PROBES_MAX];
	size_t count = probe_run(probes);
	bool all = true;

	for (size_t i = 0; i < count; i++) {
		all = all && probes[i].holds;
		doctor_note(doctor, probes[i].holds ? DOCTOR_OK : DOCTOR_FAILED, probes[i].name,
			    probes[i].detail, probes[i].effect, probes[i].cure);
	}
	return all;
}

/* What is lost below LANDLOCK_ABI_SCOPES: the zygote of root has a uid of its own, whose signals
 * reach nobody else. */
static void check_landlock(struct doctor *doctor)
{
	const struct report_layer *layer = &REPORT_LAYER[LAYER_LANDLOCK];
	struct probe_landlock found;
	bool scopes;
	cleanup_free char *detail = NULL;

	if (!probe_landlock(&found)) {
		doctor_note(doctor, DOCTOR_WARNING, layer->name, found.detail, layer->effect,
			    layer->cure);
		return;
	}
	scopes = found.abi >= LANDLOCK_ABI_SCOPES;
	detail = mem_format("ABI %d%s, mended errata %#x", found.abi,
			    scopes ? "" : ", which keeps files in but no signals (ABI 6 would)",
			    found.errata);
	doctor_note(doctor, scopes || geteuid() == 0 ? DOCTOR_OK : DOCTOR_WARNING, layer->name,
		    detail,
		    "what packages do while a pool imports them can send signals to your processes",
		    "use Linux 6.12 or later; on Debian 12: apt-get install -t bookworm-backports "
		    "linux-image-amd64");
}

/* A box of the weaker tier, if there can be one. */
static bool try_degraded(struct err *err)
{
	char folder[] = "/tmp/fumehood-doctor-XXXXXX";
	struct policy policy;
	struct box *box;

	if (!mkdtemp(folder)) {
		err_sys(err, "a folder in /tmp");
		return false;
	}
	policy_init(&policy);
	policy.workspace = folder;
	box = box_start(&policy, TIER_DEGRADED, BOX_WITHOUT_ZYGOTE, err);
	box_free(box);
	(void)rmdir(folder);
	return box != NULL;
}

/* It is wanted where the layers above cannot be built, or when it is asked for. */
static void check_degraded(struct doctor *doctor, bool full)
{
	struct err err = ERR_INIT;
	cleanup_free char *detail = NULL;
	bool works = try_degraded(&err);

	detail = works ? mem_format("can be had where namespaces cannot")
		       : mem_format("%s%s", full ? "not here, nor is it needed: " : "", err.text);
	doctor_note(doctor, works || full ? DOCTOR_OK : DOCTOR_FAILED, "tier degraded", detail,
		    "without namespaces no session can start",
		    "allow user namespaces, see above; or use Linux 6.12 or later");
}

/* The keeper, which reads what guests say. */
static void check_keeper(struct doctor *doctor)
{
	struct confine_proof proof = {.opened = true};
	struct err err = ERR_INIT;
	bool tried = confine_prove(&proof, &err) == 0 && proof.err.code == ERR_OK;
	const struct confined *held = &proof.confined;
	bool good = tried && !proof.opened && !proof.ran && !proof.connected && held->scoped;
	cleanup_free char *detail = NULL;

	if (!tried)
		detail = mem_string(err.code != ERR_OK ? err.text : proof.err.text);
	else
		detail = mem_format("confined, it opens %s, runs %s, makes %s%s",
				    proof.opened ? "files" : "no file",
				    proof.ran ? "programs" : "no program",
				    proof.connected ? "sockets" : "no socket",
				    held->scoped ? "" : "; Landlock here keeps no signals in");
	doctor_note(
		doctor, good ? DOCTOR_OK : DOCTOR_WARNING, "keeper", detail,
		"a mistake in how it reads what a session says would be a way to your account",
		"use a kernel with Landlock, switched on (lsm=landlock,...), and seccomp: Linux "
		"6.12 or later");
}

void doctor_sandbox(struct doctor *doctor)
{
	bool full = check_layers(doctor);

	check_landlock(doctor);
	check_degraded(doctor, full);
	check_keeper(doctor);
}
