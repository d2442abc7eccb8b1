/*
 * Unified differences; see patch.h.
 *
 * For each number of edits d the furthest point on each diagonal is kept, so that the way back can
 * be walked: (PATCH_EDITS_MAX + 1)^2 integers at most, 32 MB. Lines at both ends that are the same
 * are taken off first, so that most files need little.
 */
#include "files/patch.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"

struct line {
	const char *text;
	size_t len; /* with its LF */
};

struct lines {
	struct line *list;
	size_t count;
};

/* One line of the result: ' ' both, '-' old, '+' new. */
struct edit {
	char kind;
	struct line line;
};

struct edits {
	struct edit *list;
	size_t count, room;
};

static void split(const struct buf *text, struct lines *lines)
{
	const char *at = text ? buf_bytes(text) : "", *end = at + (text ? text->len : 0);
	size_t room = 0;

	*lines = (struct lines){.list = NULL};
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = stop ? (size_t)(stop + 1 - at) : (size_t)(end - at);

		if (lines->count == room) {
			room = room ? 2 * room : 64;
			lines->list = mem_resize(lines->list, room, sizeof(*lines->list));
		}
		lines->list[lines->count++] = (struct line){.text = at, .len = len};
		at += len;
	}
}

static bool same(const struct line *a, const struct line *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static void add(struct edits *edits, char kind, const struct line *line)
{
	if (edits->count == edits->room) {
		edits->room = edits->room ? 2 * edits->room : 64;
		edits->list = mem_resize(edits->list, edits->room, sizeof(*edits->list));
	}
	edits->list[edits->count++] = (struct edit){.kind = kind, .line = *line};
}

/* --- Myers --- */

struct search {
	const struct line *a, *b;
	long a_count, b_count;
	long *reach; /* of the d-th round: its diagonals -d..d, one round behind the other */
};

/* Where the diagonals of round d begin. */
static long *round_of(const struct search *search, long d)
{
	return search->reach + d * d + d; /* the sum of 2i + 1 for i < d, and d to the middle */
}

/* How far diagonal k is reached with d edits. */
static long step(const struct search *search, long d, long k)
{
	const long *before = d > 0 ? round_of(search, d - 1) : NULL;
	long x;

	if (d == 0)
		x = 0;
	else if (k == -d || (k != d && before[k - 1] < before[k + 1]))
		x = before[k + 1];
	else
		x = before[k - 1] + 1;
	while (x < search->a_count && x - k < search->b_count &&
	       same(&search->a[x], &search->b[x - k]))
		x++;
	return x;
}

/* The number of edits, or -1 beyond the bound. */
static long find(struct search *search)
{
	for (long d = 0; d <= PATCH_EDITS_MAX; d++) {
		search->reach = mem_resize(search->reach, (size_t)((d + 1) * (d + 1)),
					   sizeof(*search->reach));
		for (long k = -d; k <= d; k += 2) {
			long x = step(search, d, k);

			round_of(search, d)[k] = x;
			if (x >= search->a_count && x - k >= search->b_count)
				return d;
		}
	}
	return -1;
}

static void reverse(struct edits *edits, size_t from)
{
	for (size_t i = from, j = edits->count; i + 1 < j; i++) {
		struct edit swap = edits->list[i];

		edits->list[i] = edits->list[--j];
		edits->list[j] = swap;
	}
}

/* From the end to the start, so the edits come the wrong way round. */
static void walk_back(const struct search *search, long d, struct edits *edits)
{
	long x = search->a_count, y = search->b_count;
	size_t from = edits->count;

	for (; d >= 0; d--) {
		const long *before = d > 0 ? round_of(search, d - 1) : NULL;
		long k = x - y;
		bool down = d > 0 && (k == -d || (k != d && before[k - 1] < before[k + 1]));
		long was = d == 0 ? 0 : down ? before[k + 1] : before[k - 1];
		long start = d == 0 ? 0 : down ? was : was + 1;

		while (x > start) {
			add(edits, ' ', &search->a[--x]);
			y--;
		}
		if (d == 0)
			break;
		if (down)
			add(edits, '+', &search->b[--y]);
		else
			add(edits, '-', &search->a[--x]);
	}
	reverse(edits, from);
}

static void compare(const struct lines *old, const struct lines *new, struct edits *edits)
{
	size_t front = 0, back = 0;
	struct search search;
	long d;

	while (front < old->count &&
	       front < new->count &&same(&old->list[front], &new->list[front]))
		add(edits, ' ', &old->list[front++]);
	while (back < old->count - front &&
	       back < new->count - front &&same(&old->list[old->count - 1 - back],
						&new->list[new->count - 1 - back]))
		back++;
	search = (struct search){.a = old->list + front,
				 .b = new->list + front,
				 .a_count = (long)(old->count - front - back),
				 .b_count = (long)(new->count - front - back)};
	d = find(&search);
	if (d >= 0) {
		walk_back(&search, d, edits);
	} else {
		for (long i = 0; i < search.a_count; i++)
			add(edits, '-', &search.a[i]);
		for (long i = 0; i < search.b_count; i++)
			add(edits, '+', &search.b[i]);
	}
	free(search.reach);
	for (size_t i = old->count - back; i < old->count; i++)
		add(edits, ' ', &old->list[i]);
}

/* --- writing --- */

/* As git: in quotes with octal escapes where the name has anything unusual. */
static void put_name(struct buf *out, const char *side, const char *path)
{
	bool plain = true;

	for (const char *at = path; *at; at++)
		plain = plain && (unsigned char)*at > ' ' && (unsigned char)*at < 0x7f &&
			*at != '"' && *at != '\\';
	if (plain) {
		buf_printf(out, "%s%s", side, path);
		return;
	}
	buf_printf(out, "\"%s", side);
	for (const char *at = path; *at; at++) {
		unsigned char byte = (unsigned char)*at;

		if (byte == '"' || byte == '\\')
			buf_printf(out, "\\%c", byte);
		else if (byte < ' ' || byte >= 0x7f)
			buf_printf(out, "\\%03o", byte);
		else
			buf_append_char(out, *at);
	}
	buf_append_char(out, '"');
}

static void put_names(struct buf *out, const struct patch_file *file)
{
	buf_append_string(out, "--- ");
	if (file->old)
		put_name(out, "a/", file->path);
	else
		buf_append_string(out, "/dev/null");
	buf_append_string(out, "\n+++ ");
	if (file->new)
		put_name(out, "b/", file->path);
	else
		buf_append_string(out, "/dev/null");
	buf_append_char(out, '\n');
}

static void put_range(struct buf *out, char sign, size_t start, size_t count)
{
	/* An empty range is named by the line before it. */
	buf_printf(out, "%c%zu", sign, count ? start + 1 : start);
	if (count != 1)
		buf_printf(out, ",%zu", count);
}

/* The edits `from` to `to`; before them there are so many lines in the old and the new. */
static void put_hunk(struct buf *out, const struct edits *edits, size_t from, size_t to,
		     size_t old_at, size_t new_at)
{
	size_t old_count = 0, new_count = 0;

	for (size_t i = from; i < to; i++) {
		old_count += edits->list[i].kind != '+';
		new_count += edits->list[i].kind != '-';
	}
	buf_append_string(out, "@@ ");
	put_range(out, '-', old_at, old_count);
	buf_append_char(out, ' ');
	put_range(out, '+', new_at, new_count);
	buf_append_string(out, " @@\n");
	for (size_t i = from; i < to; i++) {
		const struct edit *edit = &edits->list[i];

		buf_append_char(out, edit->kind);
		buf_append(out, edit->line.text, edit->line.len);
		if (edit->line.text[edit->line.len - 1] != '\n')
			buf_append_string(out, "\n\\ No newline at end of file\n");
	}
}

/* The end of the hunk that begins with a change at `at`: PATCH_CONTEXT lines behind its last
 * change. */
static size_t hunk_end(const struct edits *edits, size_t at)
{
	size_t last = at;

	for (size_t i = at; i < edits->count && i - last <= 2 * PATCH_CONTEXT; i++)
		if (edits->list[i].kind != ' ')
			last = i;
	last += 1 + PATCH_CONTEXT;
	return last < edits->count ? last : edits->count;
}

static void put_hunks(struct buf *out, const struct edits *edits)
{
	size_t old_at = 0, new_at = 0, at = 0, counted = 0;

	while (at < edits->count) {
		size_t from, to;

		if (edits->list[at].kind == ' ') {
			at++;
			continue;
		}
		from = at - counted < PATCH_CONTEXT ? counted : at - PATCH_CONTEXT;
		to = hunk_end(edits, at);
		for (; counted < from; counted++) {
			old_at += edits->list[counted].kind != '+';
			new_at += edits->list[counted].kind != '-';
		}
		put_hunk(out, edits, from, to, old_at, new_at);
		for (; counted < to; counted++) {
			old_at += edits->list[counted].kind != '+';
			new_at += edits->list[counted].kind != '-';
		}
		at = to;
	}
}

static bool has_nul(const struct buf *text)
{
	return text && memchr(buf_bytes(text), '\0', text->len);
}

void patch_write(struct buf *out, const struct patch_file *file)
{
	struct lines old, new;
	struct edits edits = {.list = NULL};

	if (file->binary || has_nul(file->old) || has_nul(file->new)) {
		buf_append_string(out, "Binary files ");
		put_name(out, "a/", file->path);
		buf_append_string(out, " and ");
		put_name(out, "b/", file->path);
		buf_append_string(out, " differ\n");
		return;
	}
	split(file->old, &old);
	split(file->new, &new);
	compare(&old, &new, &edits);
	put_names(out, file);
	put_hunks(out, &edits);
	free(edits.list);
	free(old.list);
	free(new.list);
}
