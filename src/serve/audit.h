/*
 * The audit log: <state>/audit.ndjson, one line a request: who, what, when, which session, with
 * what outcome. Never code, output, names of files or a token.
 *
 *	{"t":"…","who":"unix","method":"POST","route":"/v1/sessions/{}/run","session":"…",
 *	 "status":200,"ms":12.4}
 *
 * Above 16 MiB it becomes audit.1.ndjson, and an earlier one goes.
 */
#ifndef FH_SERVE_AUDIT_H
#define FH_SERVE_AUDIT_H

#include <stdint.h>

#include "base/err.h"

enum { AUDIT_BYTES_MAX = 16 << 20 };

struct audit {
	int dirfd, fd;
	uint64_t bytes;
};

#define AUDIT_INIT \
	{ \
		.dirfd = -1, .fd = -1 \
	}

int audit_open(struct audit *audit, struct err *err);
void audit_release(struct audit *audit);

/* `route` and `session` may be NULL. A line that cannot be written is passed over: the daemon goes
 * on, and counts it (returns -1). */
int audit_write(struct audit *audit, const char *who, const char *method, const char *route,
		const char *session, int status, int64_t duration_us);

#endif
