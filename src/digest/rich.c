/*
 * Rich outputs as text. A value of `data` is a string, a link to a blob that was too large to come
 * along, or any JSON; each form is tried in the order of the header until one gives something to be
 * seen.
 */
#include "digest/rich.h"

#include <string.h>

#include "base/json.h"
#include "digest/figure.h"
#include "digest/html.h"
#include "digest/image.h"

enum { MIME_CHARS_MAX = 80 };

static bool is_link(const struct json *value)
{
	return json_type_of(value) == JSON_OBJECT && json_get_string(value, "$blob") &&
	       json_get_int(value, "bytes", -1) >= 0;
}

/* The string of this form, or NULL. */
static const char *form(const struct json *data, const char *mime, size_t *len)
{
	return json_string(json_get(data, mime), len);
}

/* Whether the text is one line in angle brackets, which tells the object's kind and not its value.
 * With an image any such line is one. */
static bool names_object(const char *text, size_t len, bool with_image)
{
	while (len > 0 && text[len - 1] == '\n')
		len--;
	if (len < 2 || text[0] != '<' || text[len - 1] != '>' || memchr(text, '\n', len))
		return false;
	return with_image || strncmp(text, "<Figure ", 8) == 0 ||
	       memmem(text, len, " object at 0x", 13) ||
	       (len > 8 && memcmp(text + len - 8, " object>", 8) == 0);
}

static uint64_t value_bytes(const struct json *value, bool base64)
{
	cleanup_buf struct buf text = BUF_INIT;
	size_t len;
	const char *string = json_string(value, &len);

	if (is_link(value))
		return (uint64_t)json_get_int(value, "bytes", 0);
	if (string)
		return base64 ? image_bytes(string, len) : len;
	json_write(&text, value);
	return text.len;
}

static bool is_text(const char *mime)
{
	return strncmp(mime, "text/", 5) == 0 || strstr(mime, "json") || strstr(mime, "xml") ||
	       strstr(mime, "javascript");
}

/* `[mime WxH, size: path]`, as far as each is known. */
static void mention(const struct json *data, const char *mime, const char *path, struct screen *out)
{
	cleanup_buf struct buf line = BUF_INIT;
	const struct json *value = json_get(data, mime);
	size_t len = 0;
	const char *base64 = json_string(value, &len);
	uint32_t width;
	uint32_t height;

	buf_printf(&line, "[%.*s", MIME_CHARS_MAX, mime);
	if (base64 && !is_text(mime) && image_size(base64, len, &width, &height))
		buf_printf(&line, " %ux%u", width, height);
	buf_append_string(&line, ", ");
	figure_bytes(&line, value_bytes(value, !is_text(mime)));
	if (path)
		buf_printf(&line, ": %s", path);
	buf_append_char(&line, ']');
	screen_write(out, buf_bytes(&line), line.len);
}

static void image(const struct event *event, const char *mime, const char *extension,
		  uint64_t number, struct screen *out)
{
	cleanup_buf struct buf path = BUF_INIT;

	if (event->cell)
		buf_printf(&path, "images/%s-%llu.%s", event->cell, (unsigned long long)number,
			   extension);
	mention(json_get(event->body, "data"), mime, event->cell ? buf_bytes(&path) : NULL, out);
}

static bool write_html(const struct json *data, struct screen *out)
{
	size_t len;
	const char *html = form(data, "text/html", &len);

	if (html)
		html_text(html, len, out);
	return !screen_is_empty(out);
}

static bool write_string(const struct json *data, const char *mime, struct screen *out)
{
	size_t len;
	const char *text = form(data, mime, &len);

	if (text)
		screen_write(out, text, len);
	return !screen_is_empty(out);
}

static bool write_json(const struct json *data, struct screen *out)
{
	cleanup_buf struct buf text = BUF_INIT;
	const struct json *value = json_get(data, "application/json");

	if (!value || is_link(value))
		return false;
	json_write(&text, value);
	screen_write(out, buf_bytes(&text), text.len);
	return true;
}

struct search {
	const struct json *data;
	struct screen *out;
	bool mentions; /* the second round: say what there is */
};

static int visit(const char *mime, size_t mime_len, struct json *value, void *opaque)
{
	struct search *search = opaque;

	(void)value;
	if (strlen(mime) != mime_len)
		return 0;
	if (search->mentions) {
		mention(search->data, mime, NULL, search->out);
		return 1;
	}
	if (strncmp(mime, "text/", 5) != 0 || strcmp(mime, "text/html") == 0)
		return 0;
	return write_string(search->data, mime, search->out);
}

/* Forms that are left when no usual one gave anything. */
static void write_other(const struct json *data, struct screen *out)
{
	struct search search = {.data = data, .out = out};

	if (json_type_of(data) != JSON_OBJECT || json_each(data, visit, &search))
		return;
	search.mentions = true;
	(void)json_each(data, visit, &search);
}

void rich_text(const struct event *event, uint64_t image_number, struct screen *out)
{
	const struct json *data = json_get(event->body, "data");
	const char *extension = NULL;
	const char *mime = event_image(event, &extension);
	const char *markdown;
	const char *plain;
	size_t markdown_len;
	size_t plain_len;
	bool plain_says;

	markdown = form(data, "text/markdown", &markdown_len);
	plain = form(data, "text/plain", &plain_len);
	plain_says = plain && plain_len > 0 && !names_object(plain, plain_len, mime != NULL);
	if (mime) {
		image(event, mime, extension, image_number, out);
		if (markdown || plain_says) {
			screen_puts(out, "\n");
			(void)write_string(data, markdown ? "text/markdown" : "text/plain", out);
		}
		return;
	}
	if ((markdown && write_string(data, "text/markdown", out)) ||
	    (plain_says && write_string(data, "text/plain", out)))
		return;
	if (write_string(data, "text/latex", out) || write_html(data, out) ||
	    write_json(data, out) || write_string(data, "text/plain", out))
		return;
	/* An empty text is a form as well: nothing to be seen is then the right answer. */
	if (!plain && !markdown)
		write_other(data, out);
}
