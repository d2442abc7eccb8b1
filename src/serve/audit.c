/*
 * The audit log; see audit.h.
 */
#include "serve/audit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/paths.h"

static const char NAME[] = "audit.ndjson";
static const char OLD_NAME[] = "audit.1.ndjson";

static int open_file(struct audit *audit)
{
	struct stat st;

	audit->fd = openat(audit->dirfd, NAME,
			   O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (audit->fd < 0 || fstat(audit->fd, &st) != 0)
		return -1;
	audit->bytes = (uint64_t)st.st_size;
	return 0;
}

int audit_open(struct audit *audit, struct err *err)
{
	cleanup_free char *state = paths_state(err);

	if (!state)
		return -1;
	audit->dirfd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (audit->dirfd < 0 || open_file(audit) != 0)
		return err_sys(err, "cannot open %s/%s", state, NAME);
	return 0;
}

void audit_release(struct audit *audit)
{
	if (audit->fd >= 0)
		close(audit->fd);
	if (audit->dirfd >= 0)
		close(audit->dirfd);
	*audit = (struct audit)AUDIT_INIT;
}

static void turn_over(struct audit *audit)
{
	close(audit->fd);
	audit->fd = -1;
	(void)renameat(audit->dirfd, NAME, audit->dirfd, OLD_NAME);
	(void)open_file(audit);
}

int audit_write(struct audit *audit, const char *who, const char *method, const char *route,
		const char *session, int status, int64_t duration_us)
{
	cleanup_buf struct buf line = BUF_INIT;
	char time[CLOCK_TEXT_SIZE];

	if (audit->fd >= 0 && audit->bytes >= AUDIT_BYTES_MAX)
		turn_over(audit);
	if (audit->fd < 0)
		return -1;
	clock_format(clock_wall_us(), time);
	buf_printf(&line, "{\"t\":\"%s\",\"who\":", time);
	json_write_string(&line, who, strlen(who));
	buf_append_string(&line, ",\"method\":");
	json_write_string(&line, method, strlen(method));
	buf_append_string(&line, ",\"route\":");
	if (route)
		json_write_string(&line, route, strlen(route));
	else
		buf_append_string(&line, "null");
	if (session && session[0])
		buf_printf(&line, ",\"session\":\"%s\"", session);
	buf_printf(&line, ",\"status\":%d,\"ms\":%.3f}\n", status, (double)duration_us / 1000);
	if (write(audit->fd, buf_bytes(&line), line.len) != (ssize_t)line.len)
		return -1;
	audit->bytes += line.len;
	return 0;
}
