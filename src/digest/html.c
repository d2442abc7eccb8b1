/*
 * HTML to text in one pass. A tag ends at the first '>' outside quotes, as browsers do it; a '<'
 * that begins no tag is text. What is never closed reaches to the end, so each byte is looked at a
 * bounded number of times whatever the input.
 */
#include "digest/html.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { NAME_MAX_LEN = 15, REFERENCE_MAX = 10 };

struct html {
	struct screen *out;
	const char *at;
	const char *end;
	unsigned pre;      /* open <pre> */
	bool line_started; /* something stands on the line of the result */
	bool blank;        /* white space was passed and not yet written */
};

struct tag {
	char name[NAME_MAX_LEN + 1]; /* lower case; "" when longer, which is none that matters */
	bool closes;
};

static const char *const BLOCKS[] = {
	"address", "article", "aside", "blockquote", "br",     "caption", "dd",      "details",
	"div",     "dl",      "dt",    "figcaption", "figure", "footer",  "form",    "h1",
	"h2",      "h3",      "h4",    "h5",         "h6",     "header",  "hr",      "li",
	"main",    "nav",     "ol",    "p",          "pre",    "section", "summary", "table",
	"tbody",   "tfoot",   "thead", "tr",         "ul",
};

static const char *const HIDDEN[] = {"script", "style", "template", "title"};

static const struct {
	const char *name;
	uint32_t point;
} REFERENCES[] = {
	{"amp", '&'},      {"lt", '<'},        {"gt", '>'},      {"quot", '"'},
	{"apos", '\''},    {"nbsp", ' '},      {"times", 0xd7},  {"deg", 0xb0},
	{"plusmn", 0xb1},  {"micro", 0xb5},    {"middot", 0xb7}, {"ndash", 0x2013},
	{"mdash", 0x2014}, {"hellip", 0x2026}, {"bull", 0x2022}, {"rarr", 0x2192},
	{"larr", 0x2190},  {"le", 0x2264},     {"ge", 0x2265},   {"ne", 0x2260},
	{"copy", 0xa9},    {"euro", 0x20ac},
};

static bool is_in(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void put(struct html *html, const char *text, size_t len)
{
	if (html->blank && html->line_started)
		screen_puts(html->out, " ");
	html->blank = false;
	html->line_started = true;
	screen_write(html->out, text, len);
}

static void new_line(struct html *html)
{
	if (html->line_started)
		screen_puts(html->out, "\n");
	html->line_started = false;
	html->blank = false;
}

/* Passes a comment, <!doctype>, <?...>: anything that begins with <! or <?. */
static void pass_declaration(struct html *html)
{
	size_t left = (size_t)(html->end - html->at);
	const char *close;

	if (left >= 4 && memcmp(html->at, "<!--", 4) == 0) {
		close = memmem(html->at + 4, left - 4, "-->", 3);
		html->at = close ? close + 3 : html->end;
		return;
	}
	close = memchr(html->at, '>', left);
	html->at = close ? close + 1 : html->end;
}

/* Passes a tag: html->at is behind its '<' and possible '/', on a letter. */
static void pass_tag(struct html *html, struct tag *tag)
{
	size_t len = 0;
	char quote = 0;

	while (html->at < html->end && *html->at != '>' && *html->at != '/' &&
	       !is_space(*html->at)) {
		char c = *html->at++;

		if (len < NAME_MAX_LEN)
			tag->name[len] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
		len++;
	}
	tag->name[len <= NAME_MAX_LEN ? len : 0] = '\0';
	while (html->at < html->end) {
		char c = *html->at++;

		if (quote ? c == quote : c == '"' || c == '\'')
			quote = quote ? 0 : c;
		else if (!quote && c == '>')
			break;
	}
}

/* Passes everything up to the closing tag of a hidden element. */
static void pass_hidden(struct html *html, const char *name)
{
	size_t name_len = strlen(name);

	while (html->at < html->end) {
		const char *open = memchr(html->at, '<', (size_t)(html->end - html->at));

		if (!open) {
			html->at = html->end;
			return;
		}
		html->at = open + 1;
		if ((size_t)(html->end - html->at) > name_len && *html->at == '/' &&
		    strncasecmp(html->at + 1, name, name_len) == 0) {
			const char *close = memchr(html->at, '>', (size_t)(html->end - html->at));

			html->at = close ? close + 1 : html->end;
			return;
		}
	}
}

static void apply_tag(struct html *html, const struct tag *tag)
{
	if (!tag->closes && is_in(tag->name, HIDDEN, sizeof(HIDDEN) / sizeof(HIDDEN[0]))) {
		pass_hidden(html, tag->name);
		return;
	}
	if (strcmp(tag->name, "td") == 0 || strcmp(tag->name, "th") == 0) {
		html->blank = false;
		if (!tag->closes && html->line_started)
			put(html, " | ", 3);
		return;
	}
	if (!is_in(tag->name, BLOCKS, sizeof(BLOCKS) / sizeof(BLOCKS[0])))
		return;
	new_line(html);
	if (strcmp(tag->name, "li") == 0 && !tag->closes) {
		screen_puts(html->out, "- ");
	} else if (strcmp(tag->name, "pre") == 0) {
		if (!tag->closes)
			html->pre++;
		else if (html->pre > 0)
			html->pre--;
	}
}

/* Whether a tag or declaration began at html->at; if so it was passed and applied. */
static bool take_tag(struct html *html)
{
	const char *next = html->at + 1;
	struct tag tag = {0};

	if (next < html->end && (*next == '!' || *next == '?')) {
		pass_declaration(html);
		return true;
	}
	tag.closes = next < html->end && *next == '/';
	next += tag.closes ? 1 : 0;
	if (next >= html->end || !is_letter(*next))
		return false;
	html->at = next;
	pass_tag(html, &tag);
	apply_tag(html, &tag);
	return true;
}

static uint32_t number(const char *text, size_t len)
{
	unsigned base = 10;
	uint32_t value = 0;

	if (len > 0 && (*text == 'x' || *text == 'X')) {
		base = 16;
		text++;
		len--;
	}
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		unsigned digit = c >= '0' && c <= '9'         ? (unsigned)(c - '0')
				 : is_letter(c) && base == 16 ? ((unsigned)c | 0x20) - 'a' + 10
							      : 99;

		if (digit >= base)
			return 0;
		value = value * base + digit;
		if (value > 0x10ffff)
			return 0;
	}
	return value;
}

/* Whether a character reference stood at html->at; if so it was written. */
static bool take_reference(struct html *html)
{
	const char *name = html->at + 1;
	size_t left = (size_t)(html->end - name);
	const char *semicolon = memchr(name, ';', left < REFERENCE_MAX ? left : REFERENCE_MAX);
	cleanup_buf struct buf text = BUF_INIT;
	uint32_t point = 0;
	size_t len;

	if (!semicolon || semicolon == name)
		return false;
	len = (size_t)(semicolon - name);
	if (*name == '#')
		point = number(name + 1, len - 1);
	for (size_t i = 0; point == 0 && i < sizeof(REFERENCES) / sizeof(REFERENCES[0]); i++)
		if (strlen(REFERENCES[i].name) == len && memcmp(name, REFERENCES[i].name, len) == 0)
			point = REFERENCES[i].point;
	if (point == 0)
		return false;
	html->at = semicolon + 1;
	text_put(&text, point == 0xa0 ? ' ' : point);
	put(html, buf_bytes(&text), text.len);
	return true;
}

/* Writes text up to the next white space, '<' or '&', at least one byte. */
static void take_text(struct html *html)
{
	const char *from = html->at++;

	while (html->at < html->end && *html->at != '<' && *html->at != '&' && !is_space(*html->at))
		html->at++;
	put(html, from, (size_t)(html->at - from));
}

static void take_space(struct html *html)
{
	char c = *html->at++;

	if (html->pre == 0) {
		html->blank = true;
		return;
	}
	if (c == '\n') {
		screen_puts(html->out, "\n");
		html->line_started = false;
	} else if (c != '\r') {
		put(html, &c, 1);
	}
}

void html_text(const char *text, size_t len, struct screen *out)
{
	struct html html = {.out = out, .at = text, .end = text + len};

	while (html.at < html.end) {
		if (is_space(*html.at))
			take_space(&html);
		else if (*html.at == '<' && take_tag(&html))
			continue;
		else if (*html.at == '&' && take_reference(&html))
			continue;
		else
			take_text(&html);
	}
}
