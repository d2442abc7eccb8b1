/*
 * Doctor: space, and what takes it.
 *
 * What `fumehood gc` would free is found by its own code, told only to say. Space that a quota
 * forbids shows in the trial of the state directory (doctor_directories.c), since statvfs(3) does
 * not know it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/mem.h"
#include "base/paths.h"
#include "cli/doctor.h"
#include "client/store.h"

#define AGE_US_MAX (INT64_C(30) * 86400 * 1000000) /* as fumehood gc does without --older */

struct need {
	uint64_t bytes_few, bytes_none; /* a warning below the first, a failure below the second */
	uint64_t files_few, files_none;
};

static const struct need STATE_NEED = {UINT64_C(1) << 30, 4 << 20, 10000, 64};
/* The runtime directory may lie there, and programs that read pasted files. */
static const struct need TMP_NEED = {64 << 20, 0, 1000, 0};

static void check_space(struct doctor *doctor, const char *check, const char *path,
			const struct need *need, const char *cure)
{
	cleanup_buf struct buf detail = BUF_INIT;
	enum doctor_status status = DOCTOR_OK;
	struct statvfs fs;
	uint64_t bytes;
	bool counts_files; /* btrfs has no number of files that could run out */

	if (statvfs(path, &fs) != 0) {
		buf_printf(&detail, "%s: %s", path, strerror(errno));
		doctor_note(doctor, DOCTOR_WARNING, check, buf_bytes(&detail),
			    "nothing is known about its space", "see the message");
		return;
	}
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	counts_files = fs.f_files > 0;
	doctor_put_size(&detail, bytes);
	buf_append_string(&detail, " of ");
	doctor_put_size(&detail, (uint64_t)fs.f_blocks * fs.f_frsize);
	buf_append_string(&detail, " free");
	if (counts_files)
		buf_printf(&detail, ", room for %" PRIu64 " files", (uint64_t)fs.f_favail);
	if (bytes < need->bytes_few || (counts_files && fs.f_favail < need->files_few))
		status = DOCTOR_WARNING;
	if (bytes < need->bytes_none || (counts_files && fs.f_favail < need->files_none))
		status = DOCTOR_FAILED;
	doctor_note(doctor, status, check, buf_bytes(&detail),
		    status == DOCTOR_FAILED ? "no session can be kept"
					    : "what sessions write may not fit",
		    cure);
}

/* --- what sessions take ----------------------------------------------------------------------- */

struct tally {
	uint64_t bytes;
	unsigned count;
};

static void tally_removed(void *data, const struct store_entry *entry, uint64_t bytes,
			  const char *why)
{
	struct tally *tally = data;

	(void)entry;
	(void)why;
	tally->bytes += bytes;
	tally->count++;
}

static void check_sessions(struct doctor *doctor, uint64_t free_bytes)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_list struct store_list list = STORE_LIST_INIT;
	cleanup_buf struct buf detail = BUF_INIT;
	struct tally removable = {.bytes = 0};
	struct store_sweep sweep = {.age_us_max = AGE_US_MAX,
				    .bytes_max = UINT64_MAX,
				    .dry_run = true,
				    .removed = tally_removed,
				    .data = &removable};
	struct err err = ERR_INIT;
	uint64_t bytes = 0;
	bool worth;

	if (store_open(&store, &err) != 0 || store_list(&store, &list, &err) != 0 ||
	    store_sweep(&store, &sweep, &err) != 0) {
		doctor_note(doctor, DOCTOR_FAILED, "sessions", err.text, "no session can be found",
			    "see the message");
		return;
	}
	for (size_t i = 0; i < list.count; i++)
		bytes += store_bytes(&store, list.entries[i].config.id);
	buf_printf(&detail, "%zu sessions take ", list.count);
	doctor_put_size(&detail, bytes);
	buf_printf(&detail, "; fumehood gc would free ");
	doctor_put_size(&detail, removable.bytes);
	buf_printf(&detail, " (%u of them)", removable.count);
	worth = removable.count &&
		(removable.bytes > STATE_NEED.bytes_few || free_bytes < STATE_NEED.bytes_few);
	doctor_note(doctor, worth ? DOCTOR_WARNING : DOCTOR_OK, "sessions", buf_bytes(&detail),
		    "space is taken by what nobody has used for 30 days, or was left over",
		    "fumehood gc");
}

void doctor_disk(struct doctor *doctor)
{
	struct err err = ERR_INIT;
	cleanup_free char *state = paths_state(&err);
	struct statvfs fs;

	if (state) {
		check_space(doctor, "space for records", state, &STATE_NEED,
			    "fumehood gc, or make space on this file system");
		check_sessions(doctor,
			       statvfs(state, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : 0);
	} else {
		doctor_note(doctor, DOCTOR_FAILED, "space for records", err.text,
			    "no session can be kept", "fumehood doctor directories says more");
	}
	check_space(doctor, "space in /tmp", "/tmp", &TMP_NEED, "remove what lies in /tmp");
}
