/*
 * Doctor: pools that cannot start, and sessions that ended without having been told to.
 *
 * A session that was stopped has `stopped` as its journal's last event. One whose last event is
 * another and that nobody listens for has died: killed, crashed, or with the machine. Nothing of
 * its record is lost; it is said because its variables are. What a keeper that crashed had to say
 * is in its keeper.log.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "client/session.h"
#include "pool/pool.h"

enum { TAIL_BYTES = 4096, NAMES_MAX = 5 };
#define DAY_US (INT64_C(86400) * 1000000)

/* --- pools ------------------------------------------------------------------------------------ */

static void check_pools(struct doctor *doctor)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *pools = pool_list(&err);
	cleanup_free char *detail = NULL;
	bool all_well = true;

	if (!pools) {
		doctor_note(doctor, DOCTOR_WARNING, "pools", err.text, "nothing is known of them",
			    "fumehood doctor directories says more");
		return;
	}
	for (size_t i = 0; i < json_length(pools); i++) {
		const struct json *pool = json_at(pools, i);
		const char *python = json_get_string(pool, "python");
		const char *state = json_get_string(pool, "state");
		const char *spare = json_get_string(pool, "spare");
		bool failed = state && strcmp(state, "failed") == 0;
		bool resting = spare && strcmp(spare, "resting") == 0;
		cleanup_free char *cure = mem_format("fumehood pool stop '%s'; fumehood doctor "
						     "python; the pool's log is in the runtime "
						     "directory",
						     python ? python : "");
		cleanup_free char *what =
			mem_format("%s: %s", python ? python : "?",
				   failed ? "its zygote fails" : "its spare sessions die");

		if (!failed && !resting)
			continue;
		all_well = false;
		doctor_note(doctor, DOCTOR_WARNING, "pools", what,
			    failed ? "sessions with this Python do not start"
				   : "sessions with this Python start slower",
			    cure);
	}
	detail = mem_format("%zu run", json_length(pools));
	if (all_well)
		doctor_note(doctor, DOCTOR_OK, "pools", detail, NULL, NULL);
}

/* --- sessions --------------------------------------------------------------------------------- */

/* Names for a sentence: the first few, then how many more. */
struct names {
	struct buf text;
	size_t count;
};

static void names_add(struct names *names, const struct store_entry *entry, const char *words)
{
	const char *name = entry->config.name ? entry->config.name : entry->config.id;

	if (names->count++ < NAMES_MAX)
		buf_printf(&names->text, "%s%s%s%s", names->count > 1 ? ", " : "", name,
			   *words ? ": " : "", words);
}

/* Notes them, or that there are none; empties them. */
static void names_note(struct names *names, struct doctor *doctor, const char *check,
		       const char *effect, const char *cure)
{
	cleanup_free char *detail =
		names->count > NAMES_MAX
			? mem_format("%zu: %s and %zu more", names->count, buf_bytes(&names->text),
				     names->count - NAMES_MAX)
		: names->count ? mem_format("%zu: %s", names->count, buf_bytes(&names->text))
			       : mem_string("none");

	doctor_note(doctor, names->count ? DOCTOR_WARNING : DOCTOR_OK, check, detail, effect, cure);
	buf_release(&names->text);
}

/* The last bytes of a file; empty when there are none. */
static void read_tail(int dirfd, const char *name, struct buf *out)
{
	cleanup_fd int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t got;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	got = pread(fd, buf_reserve(out, TAIL_BYTES), TAIL_BYTES,
		    st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0);
	if (got > 0)
		buf_added(out, (size_t)got);
	while (out->len && buf_bytes(out)[out->len - 1] == '\n')
		buf_truncate(out, out->len - 1);
}

static const char *last_line(const struct buf *text)
{
	const char *feed = memrchr(buf_bytes(text), '\n', text->len);

	return feed ? feed + 1 : buf_bytes(text);
}

/* Whether the journal ends as that of a session does which was told to stop. */
static bool was_stopped(int dirfd)
{
	cleanup_buf struct buf tail = BUF_INIT;
	cleanup_json struct json *event = NULL;
	const char *line, *type;

	read_tail(dirfd, "journal.ndjson", &tail);
	line = last_line(&tail);
	event = json_parse(line, tail.len - (size_t)(line - buf_bytes(&tail)), &JSON_LIMITS, NULL);
	type = json_get_string(event, "type");
	return type && strcmp(type, "stopped") == 0;
}

struct findings {
	struct names damaged, died, crashed, future;
};

static void look_at(struct store *store, const struct store_entry *entry, struct findings *findings)
{
	cleanup_fd int dirfd = store_open_directory(store, entry->config.id, NULL);
	cleanup_buf struct buf log = BUF_INIT;
	cleanup_fd int lock = -1;

	if (dirfd < 0)
		return; /* removed just now */
	if (entry->config.created_us > clock_wall_us() + DAY_US)
		names_add(&findings->future, entry, "");
	if (entry->damaged) {
		names_add(&findings->damaged, entry, "");
		return;
	}
	read_tail(dirfd, "keeper.log", &log);
	if (log.len)
		names_add(&findings->crashed, entry, last_line(&log));
	/* Its keeper holds the lock from before its socket is there until its last event is
	 * written. */
	lock = file_lock(dirfd, "lock", NULL);
	if (lock >= 0 && !log.len && !was_stopped(dirfd))
		names_add(&findings->died, entry, "");
}

static void check_sessions(struct doctor *doctor)
{
	cleanup_store struct store store = STORE_INIT;
	cleanup_list struct store_list list = STORE_LIST_INIT;
	struct findings findings = {.damaged = {.count = 0}};
	struct err err = ERR_INIT;

	if (store_open(&store, &err) != 0 || store_list(&store, &list, &err) != 0) {
		doctor_note(doctor, DOCTOR_FAILED, "sessions", err.text, "no session can be found",
			    "fumehood doctor directories says more");
		return;
	}
	for (size_t i = 0; i < list.count; i++)
		look_at(&store, &list.entries[i], &findings);
	names_note(&findings.died, doctor, "sessions that died",
		   "their variables are lost; files, journal and notebook are whole",
		   "fumehood log NAME shows the end, fumehood run -s NAME goes on, fumehood gc "
		   "NAME removes");
	names_note(&findings.crashed, doctor, "keepers that crashed",
		   "variables are lost; this is a fault of Fumehood's",
		   "report keeper.log in the session's directory; fumehood run -s NAME goes on");
	names_note(&findings.damaged, doctor, "damaged sessions",
		   "session.json cannot be read, so they cannot be used",
		   "fumehood export ID -o FILE saves the notebook, fumehood gc ID removes");
	names_note(&findings.future, doctor, "times to come",
		   "they were made at a time that the clock has not reached: it was set back, or "
		   "was wrong then; fumehood gc goes by it",
		   "timedatectl set-ntp true");
}

void doctor_records(struct doctor *doctor)
{
	check_pools(doctor);
	check_sessions(doctor);
}
