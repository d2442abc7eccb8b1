/*
 * fumehood doctor: groups of checks, one function each, and how they note what they find.
 *
 * A check does the thing itself wherever that takes milliseconds: a namespace is made, a file is
 * locked and exchanged, a figure is drawn. Figures that can only be read (a limit of the kernel,
 * the size of a disk) are shown with the need they are compared with.
 */
#ifndef FH_CLI_DOCTOR_H
#define FH_CLI_DOCTOR_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_WARNING, /* sessions run, and something is lost or near its end */
	DOCTOR_FAILED,  /* sessions cannot run */
};

struct doctor {
	struct json *checks; /* array of {group, check, status, ok, detail, effect, cure} */
	const char *group;   /* that of the checks being made */
	unsigned failed, warned;
};

/* Notes a check: what was found, what follows from it, what to do about it. The texts may hold any
 * bytes and are copied; `effect` and `cure` are left out of a check that is ok, and may be NULL
 * then. */
void doctor_note(struct doctor *doctor, enum doctor_status status, const char *check,
		 const char *detail, const char *effect, const char *cure);

/* The groups. */
void doctor_system(struct doctor *doctor);
void doctor_sandbox(struct doctor *doctor);
void doctor_programs(struct doctor *doctor);
void doctor_directories(struct doctor *doctor);
void doctor_disk(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
void doctor_python(struct doctor *doctor);
void doctor_environments(struct doctor *doctor);
void doctor_session(struct doctor *doctor);
void doctor_fonts(struct doctor *doctor);
void doctor_records(struct doctor *doctor);
void doctor_models(struct doctor *doctor);

/* --- doctor_ask.c: what several groups need --------------------------------------------------- */

enum { DOCTOR_ANSWER_BYTES_MAX = 64 << 10 };

/*
 * Runs a program (absolute path; NULL-terminated argv) for at most `wait_ms` and appends what it
 * prints, on both streams, without line feeds at its end. 0 when it ended with status 0; else -1
 * with a reason that has its last line. A program that takes longer is killed.
 */
int doctor_ask(const char *path, const char *const *argv, int wait_ms, struct buf *answer,
	       struct err *err);

/* Where a symlink points that leads nowhere: "PATH points to TARGET, which is not there", owned by
 * the caller; NULL when `path` is no such link. Of a directory its bin/python is looked at. */
char *doctor_dangling(const char *path);

/* The number in a file of one number, as in /proc/sys; `otherwise` when there is none ("max"). */
int64_t doctor_number(const char *path, int64_t otherwise);

/* Appends a size with its unit: "1.5 GiB". */
void doctor_put_size(struct buf *out, uint64_t bytes);

#endif
