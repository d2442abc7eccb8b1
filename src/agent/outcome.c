/*
 * Outcomes of programs. See outcome.h.
 *
 * Comparing alike walks two normalised texts at once, token by token: where both have a number, the
 * values are compared, else the bytes.
 */
#include "agent/outcome.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void outcome_release(struct outcome *outcome)
{
	buf_release(&outcome->out);
	buf_release(&outcome->err);
	free(outcome->result);
	free(outcome->reason);
	free(outcome->ename);
	free(outcome->evalue);
	free(outcome->traceback);
	free(outcome->source);
	free(outcome->not_undone);
	free(outcome->cell);
	json_free(outcome->files);
	*outcome = (struct outcome)OUTCOME_INIT;
}

void outcome_add(struct outcome *outcome, bool is_stderr, const char *text, size_t len)
{
	struct buf *to = is_stderr ? &outcome->err : &outcome->out;
	uint64_t *bytes = is_stderr ? &outcome->err_bytes : &outcome->out_bytes;
	size_t room = *bytes > to->len ? 0 : OUTCOME_BYTES_MAX - to->len;
	size_t fits = len < room ? len : room;

	while (fits < len && fits > 0 && ((unsigned char)text[fits] & 0xc0) == 0x80)
		fits--;
	buf_append(to, text, fits);
	*bytes += len;
}

static bool is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isspace((unsigned char)text[i]))
			return false;
	return true;
}

const char *outcome_text(const struct outcome *outcome, size_t *len)
{
	const char *out = buf_bytes(&outcome->out);

	if (outcome->result && is_blank(out, outcome->out.len)) {
		*len = strlen(outcome->result);
		return outcome->result;
	}
	*len = outcome->out.len;
	return out;
}

bool outcome_is_empty(const struct outcome *outcome)
{
	size_t len;
	const char *text = outcome_text(outcome, &len);

	return is_blank(text, len) && outcome->out_bytes == outcome->out.len &&
	       json_length(outcome->files) == 0;
}

static bool is_margin(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

void outcome_normalise(struct buf *out, const char *text, size_t len)
{
	size_t end = out->len; /* behind the last byte that is no blank */
	size_t begin = end;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '\n') {
			/* Blanks of this line go; line ends stay until the text's end is known. */
			while (out->len > begin && is_margin(buf_bytes(out)[out->len - 1]))
				buf_truncate(out, out->len - 1);
			buf_append_char(out, '\n');
			begin = out->len;
			continue;
		}
		buf_append_char(out, c);
		if (!is_margin(c))
			end = out->len;
	}
	buf_truncate(out, end);
}

bool outcome_text_same(const char *a, size_t a_len, const char *b, size_t b_len)
{
	cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;

	outcome_normalise(&left, a, a_len);
	outcome_normalise(&right, b, b_len);
	return left.len == right.len && memcmp(buf_bytes(&left), buf_bytes(&right), left.len) == 0;
}

/* A number as people and programs write it: sign, digits with commas between groups of three, a
 * fraction, an exponent. Returns its length, 0: there is none. */
static size_t read_number(const char *text, double *value)
{
	enum { NUMBER_BYTES_MAX = 64 };
	char digits[NUMBER_BYTES_MAX + 1];
	size_t used = 0, i = 0;
	char *end;

	if (text[i] == '-' || text[i] == '+')
		digits[used++] = text[i++];
	if (!isdigit((unsigned char)text[i]))
		return 0;
	for (; used < NUMBER_BYTES_MAX; i++) {
		bool group = text[i] == ',' && isdigit((unsigned char)text[i + 1]) &&
			     isdigit((unsigned char)text[i + 2]) &&
			     isdigit((unsigned char)text[i + 3]) &&
			     !isdigit((unsigned char)text[i + 4]);

		if (isdigit((unsigned char)text[i]))
			digits[used++] = text[i];
		else if (!group)
			break;
	}
	if (text[i] == '.' && isdigit((unsigned char)text[i + 1]))
		do
			digits[used++] = text[i++];
		while (isdigit((unsigned char)text[i]) && used < NUMBER_BYTES_MAX);
	if (used >= NUMBER_BYTES_MAX || isdigit((unsigned char)text[i]))
		return 0;
	digits[used] = '\0';
	*value = strtod(digits, &end);
	return *end == '\0' ? i : 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || ((unsigned char)c & 0x80);
}

static bool is_near(double a, double b)
{
	double size = fmax(fabs(a), fabs(b));

	return fabs(a - b) <= size / OUTCOME_PARTS;
}

bool outcome_text_alike(const char *a, size_t a_len, const char *b, size_t b_len)
{
	cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;
	const char *l, *l_end, *r, *r_end;

	outcome_normalise(&left, a, a_len);
	outcome_normalise(&right, b, b_len);
	l = buf_bytes(&left), l_end = l + left.len;
	r = buf_bytes(&right), r_end = r + right.len;
	for (bool word = false; l < l_end && r < r_end; word = is_word(l[-1])) {
		double x = 0, y = 0;
		size_t x_len = word ? 0 : read_number(l, &x), y_len = word ? 0 : read_number(r, &y);

		if (x_len && y_len) {
			if (!is_near(x, y) && (x_len != y_len || memcmp(l, r, x_len) != 0))
				return false;
			l += x_len;
			r += y_len;
		} else if (*l++ != *r++) {
			return false;
		}
	}
	return l == l_end && r == r_end;
}

static bool files_same(const struct outcome *a, const struct outcome *b)
{
	size_t count = json_length(a->files);

	if (count != json_length(b->files))
		return false;
	for (size_t i = 0; i < count; i++)
		if (!json_equal(json_at(a->files, i), json_at(b->files, i)))
			return false;
	return true;
}

static bool compare(const struct outcome *a, const struct outcome *b,
		    bool (*texts)(const char *, size_t, const char *, size_t))
{
	size_t a_len, b_len;
	const char *a_text = outcome_text(a, &a_len), *b_text = outcome_text(b, &b_len);

	/* Of output that was not kept nothing is known but how much it was. */
	if (a->out_bytes - a->out.len != b->out_bytes - b->out.len)
		return false;
	return a->status == b->status && files_same(a, b) && texts(a_text, a_len, b_text, b_len);
}

bool outcome_same(const struct outcome *a, const struct outcome *b)
{
	return compare(a, b, outcome_text_same);
}

bool outcome_alike(const struct outcome *a, const struct outcome *b)
{
	return compare(a, b, outcome_text_alike);
}

/* The line of the program's last frame in the traceback; 0: none. */
static int64_t last_frame(const char *traceback)
{
	static const char MARK[] = "File \"<cell ";
	int64_t line = 0;

	for (const char *at = traceback; (at = strstr(at, MARK)) != NULL; at += sizeof(MARK) - 1) {
		const char *behind = strstr(at, "\", line ");
		const char *end = strchr(at, '\n');

		if (behind && (!end || behind < end))
			line = strtoll(behind + strlen("\", line "), NULL, 10);
	}
	return line > 0 ? line : 0;
}

void outcome_locate(struct outcome *outcome, const char *code)
{
	int64_t line = outcome->traceback ? last_frame(outcome->traceback) : 0;

	for (int64_t i = 1; code && i < line; i++) {
		code = strchr(code, '\n');
		code = code ? code + 1 : NULL;
	}
	if (!line || !code)
		return;
	while (*code == ' ' || *code == '\t')
		code++;
	outcome->line = line;
	free(outcome->source);
	outcome->source = mem_copy(code, strcspn(code, "\r\n"));
}

const char *outcome_status_name(enum outcome_status status)
{
	static const char *const names[] = {
		[OUTCOME_NONE] = "",           [OUTCOME_OK] = "ok",
		[OUTCOME_ERROR] = "error",     [OUTCOME_DIED] = "died",
		[OUTCOME_TIMEOUT] = "timeout", [OUTCOME_INTERRUPTED] = "interrupted",
	};

	return names[status];
}
