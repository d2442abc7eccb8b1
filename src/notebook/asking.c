/*
 * Markdown about asks; see asking.h. A text is put either into a fence that is longer than any run
 * of backticks in it, or with a backslash before each character that Markdown, HTML or MathJax
 * could take for markup.
 */
#include "notebook/asking.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "journal/asked.h"
#include "notebook/meta.h"

enum { FENCE_MIN = 3 };

/* Text inside of a paragraph, on one line. */
static void put_plain(struct buf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < ' ') {
			buf_append_char(out, ' ');
			continue;
		}
		if (strchr("\\`*_{}[]<>()#+-!|~$&", text[i]))
			buf_append_char(out, '\\');
		buf_append_char(out, text[i]);
	}
}

/* Text inside of an HTML element, on one line. */
static void put_html(struct buf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '<')
			buf_append_string(out, "&lt;");
		else if (text[i] == '>')
			buf_append_string(out, "&gt;");
		else if (text[i] == '&')
			buf_append_string(out, "&amp;");
		else
			buf_append_char(out, (unsigned char)text[i] < ' ' ? ' ' : text[i]);
	}
}

static size_t longest_run(const char *text, size_t len, char of)
{
	size_t longest = 0, run = 0;

	for (size_t i = 0; i < len; i++) {
		run = text[i] == of ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

static void put_fence(struct buf *out, size_t count, const char *language)
{
	while (count-- > 0)
		buf_append_char(out, '`');
	buf_append_string(out, language);
	buf_append_char(out, '\n');
}

/* A fenced block with blank lines round it; nothing when there is no text. */
static void put_block(struct buf *out, const char *language, const char *text, size_t len)
{
	size_t run = longest_run(text, len, '`');
	size_t fence = run < FENCE_MIN ? FENCE_MIN : run + 1;

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len == 0)
		return;
	buf_append_char(out, '\n');
	put_fence(out, fence, language);
	buf_append(out, text, len);
	buf_append_char(out, '\n');
	put_fence(out, fence, "");
}

/* --- the question ----------------------------------------------------------------------------- */

void asking_question(struct buf *out, const struct json *ask, const struct json *verdict,
		     const char *cell)
{
	cleanup_buf struct buf words = BUF_INIT;
	size_t len = 0;
	const char *instruction = json_string(json_get(ask, "instruction"), &len);

	buf_append(out, instruction ? instruction : "", len);
	while (out->len > 0 && buf_bytes(out)[out->len - 1] == '\n')
		buf_truncate(out, out->len - 1);
	if (verdict)
		asked_verdict_words(&words, verdict);
	else
		buf_append_string(&words, "no answer: this ask has not finished");
	buf_append_string(out, "\n\n*\\[fumehood: ");
	put_plain(out, buf_bytes(&words), words.len);
	if (cell) {
		buf_append_string(out, ", by cell ");
		put_plain(out, cell, strlen(cell));
	}
	buf_append_string(out, "\\]*");
}

static void copy_member(struct json *to, const struct json *from, const char *key)
{
	if (json_get(from, key))
		json_set(to, key, json_copy(json_get(from, key)));
}

static struct json *metadata_of(struct json *ask, const char *tag)
{
	struct json *metadata = json_new_object(), *ours = json_new_object();

	json_set(ours, "ask", ask);
	json_set(metadata, "fumehood", ours);
	meta_add_tag(metadata, tag);
	return metadata;
}

struct json *asking_metadata(const struct json *ask, const struct json *verdict, const char *cell)
{
	static const char *const told[] = {"success", "confidence", "agreement", "attempt",
					   "message"};
	const char *id = json_get_string(ask, "ask");
	struct json *ours = json_new_object();

	json_set_string(ours, "id", id ? id : "");
	copy_member(ours, ask, "model");
	copy_member(ours, ask, "effort");
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		copy_member(ours, verdict, told[i]);
	if (cell)
		json_set_string(ours, "cell", cell);
	return metadata_of(ours, "ask");
}

/* --- attempts --------------------------------------------------------------------------------- */

/* The text behind a heading, its middle left out when it is long. */
static void put_text(struct buf *out, const struct json *finished, const char *key)
{
	cleanup_buf struct buf shown = BUF_INIT;
	size_t len = 0, head, tail;
	const char *text = json_string(json_get(finished, key), &len);

	if (!text || len == 0)
		return;
	head = text_prefix(text, len, ASKING_OUTPUT_CHARS_MAX / 2);
	tail = text_suffix(text, len, ASKING_OUTPUT_CHARS_MAX / 2);
	if (tail <= head) {
		text_escape(&shown, text, len, true, false);
	} else {
		text_escape(&shown, text, head, true, false);
		buf_printf(&shown, "\n[... %zu characters left out ...]\n",
			   text_count(text + head, tail - head));
		text_escape(&shown, text + tail, len - tail, true, false);
	}
	buf_printf(out, "\n%s:\n", key);
	put_block(out, "text", buf_bytes(&shown), shown.len);
}

/* "NameError: name 'x' is not defined (line 3: print(x))" */
static void put_error(struct buf *out, const struct json *error)
{
	static const char *const keys[] = {"ename", "evalue", "source"};
	const char *texts[3];
	cleanup_buf struct buf line = BUF_INIT, shown = BUF_INIT;
	int64_t number = json_get_int(error, "line", 0);

	for (size_t i = 0; i < 3; i++)
		texts[i] = json_get_string(error, keys[i]);
	if (!texts[0])
		return;
	buf_printf(&line, "%s: %s", texts[0], texts[1] ? texts[1] : "");
	if (number > 0)
		buf_printf(&line, " (line %lld%s%s)", (long long)number, texts[2] ? ": " : "",
			   texts[2] ? texts[2] : "");
	text_escape(&shown, buf_bytes(&line),
		    text_prefix(buf_bytes(&line), line.len, ASKING_OUTPUT_CHARS_MAX), true, false);
	put_block(out, "text", buf_bytes(&shown), shown.len);
}

void asking_attempt(struct buf *out, const struct json *code, const struct json *finished)
{
	cleanup_buf struct buf words = BUF_INIT;
	size_t len = 0;
	const char *text = json_string(code, &len);

	if (finished)
		asked_attempt_words(&words, finished);
	buf_append_string(out, "<details>\n<summary>attempt ");
	put_html(out, buf_bytes(&words), words.len);
	buf_append_string(out, "</summary>\n");
	if (text)
		put_block(out, "python", text, len);
	put_text(out, finished, "stdout");
	put_text(out, finished, "stderr");
	put_error(out, json_get(finished, "error"));
	buf_append_string(out, "\n</details>\n");
}

struct json *asking_attempts_metadata(const char *id)
{
	struct json *ours = json_new_object();

	json_set_string(ours, "id", id);
	return metadata_of(ours, "attempt");
}
