/*
 * Layers as overlayfs leaves them, made by hand: what is a change, what is applied, and what a
 * session may leave there to be met by us.
 */
#include "files/overlay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/protect.h"

struct place {
	char *top, *lower;
	int session, below, upper;
	struct overlay overlay;
	struct overlay_diff diff;
	char told[4096];
};

static void put(int root, const char *path, const char *text)
{
	cleanup_free char *part = mem_string(path);
	cleanup_fd int fd = -1;

	for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdirat(root, part, 0755);
		*slash = '/';
	}
	fd = openat(root, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
}

static void whiteout(int root, const char *path)
{
	assert_int_equal(mknodat(root, path, S_IFCHR, makedev(0, 0)), 0);
}

static void open_layers(struct place *place)
{
	struct err err = ERR_INIT;

	overlay_diff_release(&place->diff);
	overlay_release(&place->overlay);
	if (overlay_open(&place->overlay, place->session, place->lower, &err) != 0 ||
	    overlay_compare(&place->overlay, &place->diff, &err) != 0)
		fail_msg("%s", err.text);
}

static int set_up(void **state)
{
	struct place *place = mem_zalloc(sizeof(*place));
	/* Not in /tmp, which may be a tmpfs without user attributes. */
	char name[] = "/var/tmp/fumehood-overlay-XXXXXX";
	cleanup_free char *session = NULL;

	assert_non_null(mkdtemp(name));
	place->top = mem_string(name);
	place->lower = mem_format("%s/lower", name);
	session = mem_format("%s/session", name);
	assert_int_equal(mkdir(place->lower, 0755), 0);
	assert_int_equal(mkdir(session, 0700), 0);
	place->session = open(session, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	place->below = open(place->lower, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(place->below, "same", "same\n");
	put(place->below, "edited", "old\n");
	put(place->below, "gone", "gone\n");
	put(place->below, "d/inner", "1\n");
	put(place->below, "d/kept", "2\n");
	put(place->below, "o/hidden", "3\n");
	assert_int_equal(overlay_prepare(place->session, NULL), 0);
	place->upper = openat(place->session, "overlay/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	place->overlay = (struct overlay)OVERLAY_INIT;
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	overlay_diff_release(&place->diff);
	overlay_release(&place->overlay);
	close(place->session);
	close(place->below);
	close(place->upper);
	assert_int_equal(file_remove_tree(AT_FDCWD, place->top, NULL), 0);
	free(place->top);
	free(place->lower);
	free(place);
	return 0;
}

/* Until the clock that stamps files has gone on. */
static void await_tick(void)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_REALTIME, &begin);
	do {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec < begin.tv_sec ||
		 (now.tv_sec == begin.tv_sec && now.tv_nsec <= begin.tv_nsec));
}

/* All changes as text, in their order. */
static void expect(const struct place *place, const char *text)
{
	cleanup_buf struct buf out = BUF_INIT;

	for (size_t i = 0; i < place->diff.count; i++) {
		const struct overlay_item *item = &place->diff.items[i];

		buf_printf(&out, "%s%s %s\n", overlay_change_name(item->change),
			   item->stale ? "!" : "", item->path);
	}
	assert_string_equal(buf_bytes(&out), text);
}

static void tell(void *data, const struct overlay_item *item, enum overlay_held held)
{
	struct place *place = data;
	size_t len = strlen(place->told);

	snprintf(place->told + len, sizeof(place->told) - len, "%d %s\n", (int)held, item->path);
}

static int apply(struct place *place, const char *const *paths, bool force, struct err *err)
{
	const struct overlay_apply how = {.paths = paths,
					  .force = force,
					  .protect = PROTECT_DEFAULT,
					  .tell = tell,
					  .data = place};

	place->told[0] = '\0';
	return overlay_apply(&place->overlay, &place->diff, &how, err);
}

static void expect_file(const struct place *place, const char *path, const char *text)
{
	cleanup_buf struct buf out = BUF_INIT;

	if (file_read(place->below, path, 100, &out, NULL) != 0)
		fail_msg("%s is not there", path);
	assert_string_equal(buf_bytes(&out), text);
}

static void make_changes(const struct place *place)
{
	cleanup_fd int folder = -1;

	put(place->upper, "same", "same\n"); /* copied up, and not changed after all */
	put(place->upper, "edited", "new\n");
	put(place->upper, "fresh", "f\n");
	whiteout(place->upper, "gone");
	whiteout(place->upper, "never"); /* was there once, and is nowhere now */
	put(place->upper, "d/inner", "11\n");
	put(place->upper, "o/own", "4\n");
	folder = openat(place->upper, "o", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fsetxattr(folder, "user.overlay.opaque", "y", 1, 0) != 0)
		fail_msg("user attributes: %s", strerror(errno));
}

static void changes(void **state)
{
	struct place *place = *state;

	open_layers(place);
	expect(place, "");
	make_changes(place);
	open_layers(place);
	expect(place, "changed edited\nadded fresh\nremoved gone\nchanged d/inner\nadded o/own\n"
		      "removed o/hidden\n");
	assert_int_equal(place->diff.items[0].bytes_before, 4);
}

static void applied(void **state)
{
	static const char *const one[] = {"d", NULL};
	static const char *const none[] = {"nothing", NULL};
	struct place *place = *state;
	struct err err = ERR_INIT;

	make_changes(place);
	open_layers(place);
	assert_int_equal(apply(place, none, false, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(apply(place, one, false, &err), 0);
	assert_string_equal(place->told, "0 d/inner\n");
	expect_file(place, "d/inner", "11\n");
	expect_file(place, "edited", "old\n");
	assert_int_equal(apply(place, NULL, false, &err), 0);
	expect_file(place, "edited", "new\n");
	expect_file(place, "fresh", "f\n");
	expect_file(place, "d/kept", "2\n");
	assert_int_equal(faccessat(place->below, "gone", F_OK, 0), -1);
	assert_int_equal(faccessat(place->below, "o/hidden", F_OK, 0), -1);
	open_layers(place);
	expect(place, "");
	/* What was applied is no change by somebody else. */
	put(place->upper, "edited", "newer\n");
	open_layers(place);
	expect(place, "changed edited\n");
	assert_int_equal(overlay_discard(place->session, &err), 0);
	open_layers(place);
	expect(place, "");
}

static void changed_meanwhile(void **state)
{
	struct place *place = *state;
	struct err err = ERR_INIT;

	make_changes(place);
	await_tick();
	put(place->below, "edited", "theirs\n");
	open_layers(place);
	assert_true(place->diff.items[0].stale);
	assert_int_equal(apply(place, NULL, false, &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	assert_string_equal(place->told, "1 edited\n");
	expect_file(place, "edited", "theirs\n");
	expect_file(place, "gone", "gone\n"); /* nothing at all was applied */
	assert_int_equal(apply(place, NULL, true, &err), 0);
	expect_file(place, "edited", "new\n");
}

/* What the session made to lead us astray. */
static void games(void **state)
{
	struct place *place = *state;
	cleanup_free char *outside = mem_format("%s/outside", place->top);
	cleanup_free char *planted = mem_format("%s/planted", outside);
	struct err err = ERR_INIT;
	struct stat st;

	assert_int_equal(mkdir(outside, 0755), 0);
	assert_int_equal(symlinkat("/etc/passwd", place->upper, "absolute"), 0);
	assert_int_equal(symlinkat("../../outside", place->upper, "d2"), 0);
	assert_int_equal(symlinkat("edited", place->upper, "fine"), 0);
	assert_int_equal(symlinkat(outside, place->below, "into"), 0); /* the person's own */
	put(place->upper, "into/planted", "x");
	assert_int_equal(mkfifoat(place->upper, "fifo", 0644), 0);
	put(place->upper, ".git/hooks/post-commit", "x");
	put(place->upper, "setuid", "x");
	assert_int_equal(fchmodat(place->upper, "setuid", 04755, 0), 0);
	open_layers(place);
	assert_int_equal(apply(place, NULL, true, &err), 0);
	assert_non_null(strstr(place->told, "4 absolute\n"));
	assert_non_null(strstr(place->told, "4 d2\n"));
	assert_non_null(strstr(place->told, "3 fifo\n"));
	assert_non_null(strstr(place->told, "5 .git/hooks/post-commit\n"));
	assert_int_equal(faccessat(place->below, "absolute", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(faccessat(place->below, "fifo", F_OK, 0), -1);
	expect_file(place, "setuid", "x");
	assert_int_equal(fstatat(place->below, "setuid", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(access(planted, F_OK), -1); /* nothing went through it */
	assert_int_equal(fstatat(place->below, "fine", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
}

/* What takes another's place is not done by the way. */
static void replaces(void **state)
{
	struct place *place = *state;
	struct err err = ERR_INIT;

	put(place->upper, "d", "a file now\n");
	open_layers(place);
	expect(place, "changed d\n");
	assert_int_equal(apply(place, NULL, false, &err), -1);
	expect_file(place, "d/inner", "1\n");
	assert_int_equal(apply(place, NULL, true, &err), 0);
	expect_file(place, "d", "a file now\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(changes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(applied, set_up, tear_down),
		cmocka_unit_test_setup_teardown(changed_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(games, set_up, tear_down),
		cmocka_unit_test_setup_teardown(replaces, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
