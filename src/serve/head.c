/*
 * The strict look at a request's head; see head.h.
 */
#include "serve/head.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"

/* RFC 9110 §5.6.2. */
static bool is_token_char(unsigned char c)
{
	return c > ' ' && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

static bool is_value_char(unsigned char c)
{
	return c == '\t' || (c >= ' ' && c != 0x7f);
}

static size_t token_length(const char *at, const char *end)
{
	const char *start = at;

	while (at < end && is_token_char((unsigned char)*at))
		at++;
	return (size_t)(at - start);
}

/* The request line; *at goes behind it. */
static int parse_line(const char **at, const char *end, struct head *head, const char **why)
{
	static const char version[] = " HTTP/1.1\r\n";
	const char *p = *at;
	const char *start;

	head->method = (struct slice){p, token_length(p, end)};
	p += head->method.len;
	if (head->method.len == 0 || p == end || *p != ' ') {
		*why = "the request line does not begin with a method and one blank";
		return 400;
	}
	start = ++p;
	while (p < end && (unsigned char)*p > ' ' && (unsigned char)*p < 0x7f)
		p++;
	head->target = (struct slice){start, (size_t)(p - start)};
	if ((size_t)(p - *at) > HEAD_LINE_BYTES_MAX) {
		*why = "the request line is longer than 8 KiB";
		return 414;
	}
	if (head->target.len == 0 || (size_t)(end - p) < sizeof(version) - 1) {
		*why = "the request line has no target and version";
		return 400;
	}
	if (memcmp(p, version, sizeof(version) - 1) != 0) {
		*why = "only HTTP/1.1 is spoken here, and lines end with CR LF";
		return memcmp(p, " HTTP/", 6) == 0 && memcmp(p + 9, "\r\n", 2) == 0 ? 505 : 400;
	}
	*at = p + sizeof(version) - 1;
	return 0;
}

static struct slice trim(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct slice){at, (size_t)(end - at)};
}

static int parse_field(const char **at, const char *end, struct head *head, const char **why)
{
	const char *p = *at;
	struct head_field *field;
	const char *start;

	if (head->field_count == HEAD_FIELDS_MAX) {
		*why = "the request has more than 100 header fields";
		return 431;
	}
	field = &head->fields[head->field_count++];
	field->name = (struct slice){p, token_length(p, end)};
	p += field->name.len;
	if (field->name.len == 0 || p == end || *p != ':') {
		*why = "a header field does not begin with a name and a colon";
		return 400;
	}
	start = ++p;
	while (p < end && is_value_char((unsigned char)*p))
		p++;
	if (end - p < 2 || p[0] != '\r' || p[1] != '\n') {
		*why = "a header field has a control character or no CR LF at its end";
		return 400;
	}
	field->value = trim(start, p);
	*at = p + 2;
	return 0;
}

int head_parse(const char *bytes, size_t len, struct head *head, const char **why)
{
	const char *at = bytes;
	const char *end = bytes + len;
	int status;

	head->field_count = 0;
	*why = "";
	status = parse_line(&at, end, head, why);
	while (status == 0 && at < end && *at != '\r')
		status = parse_field(&at, end, head, why);
	if (status != 0)
		return status;
	if (end - at != 2 || at[0] != '\r' || at[1] != '\n') {
		*why = "the head does not end with an empty line";
		return 400;
	}
	return 0;
}

const struct slice *head_find(const struct head *head, const char *name, bool *repeated)
{
	const struct slice *found = NULL;

	if (repeated)
		*repeated = false;
	for (size_t i = 0; i < head->field_count; i++) {
		if (!slice_is_word(&head->fields[i].name, name))
			continue;
		if (!found)
			found = &head->fields[i].value;
		else if (repeated)
			*repeated = true;
	}
	return found;
}

bool head_lists(const struct slice *value, const char *word)
{
	const char *at = value->at;
	const char *end = at + value->len;

	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *stop = comma ? comma : end;
		struct slice item = trim(at, stop);

		if (slice_is_word(&item, word))
			return true;
		at = comma ? comma + 1 : end;
	}
	return false;
}

bool slice_is(const struct slice *slice, const char *text)
{
	return slice->len == strlen(text) && memcmp(slice->at, text, slice->len) == 0;
}

bool slice_is_word(const struct slice *slice, const char *text)
{
	return slice->len == strlen(text) && strncasecmp(slice->at, text, slice->len) == 0;
}

/* --- the target ------------------------------------------------------------------------------- */

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Decodes from `at` to `end` into *to, ends it with NUL and moves *to behind that. -1 for a bad
 * escape or a byte that may not be there. */
static int decode(const char *at, const char *end, bool query, char **to, size_t *len)
{
	char *start = *to;

	while (at < end) {
		char c = *at++;

		if (c == '+' && query) {
			c = ' ';
		} else if (c == '%') {
			int high = end - at >= 2 ? hex_value(at[0]) : -1;
			int low = high >= 0 ? hex_value(at[1]) : -1;

			if (low < 0)
				return -1;
			c = (char)(high * 16 + low);
			at += 2;
			if (c == '\0' || (c == '/' && !query))
				return -1;
		}
		*(*to)++ = c;
	}
	*len = (size_t)(*to - start);
	*(*to)++ = '\0';
	return 0;
}

static bool is_dots(const char *segment)
{
	return strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0;
}

static int parse_path(const char *at, const char *end, struct target *target, char **to,
		      const char **why)
{
	while (at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		const char *stop = slash ? slash : end;
		size_t i = target->segment_count;

		if (i == TARGET_SEGMENTS_MAX || stop == at) {
			*why = stop == at ? "the path has an empty segment"
					  : "the path has more than 64 segments";
			return -1;
		}
		target->segments[i] = *to;
		if (decode(at, stop, false, to, &target->segment_lens[i]) != 0 ||
		    is_dots(target->segments[i])) {
			*why = "a segment of the path is no name: it has a bad escape, is . or .., "
			       "or would hold '/' or NUL";
			return -1;
		}
		target->segment_count++;
		target->folder = slash && slash + 1 == end;
		at = slash ? slash + 1 : end;
	}
	return 0;
}

static int parse_query(const char *at, const char *end, struct target *target, char **to,
		       const char **why)
{
	*why = "the query has a bad escape, or more than 32 parameters";
	while (at < end) {
		const char *amp = memchr(at, '&', (size_t)(end - at));
		const char *stop = amp ? amp : end;
		const char *equals = memchr(at, '=', (size_t)(stop - at));
		size_t i = target->param_count;
		size_t name_len;

		if (i == TARGET_PARAMS_MAX)
			return -1;
		target->params[i].name = *to;
		if (decode(at, equals ? equals : stop, true, to, &name_len) != 0)
			return -1;
		target->params[i].value = *to;
		if (decode(equals ? equals + 1 : stop, stop, true, to,
			   &target->params[i].value_len) != 0)
			return -1;
		target->param_count++;
		at = amp ? amp + 1 : end;
	}
	return 0;
}

/* A head has no others in its target. */
static bool is_visible(const struct slice *text)
{
	for (size_t i = 0; i < text->len; i++)
		if ((unsigned char)text->at[i] <= ' ' || (unsigned char)text->at[i] >= 0x7f)
			return false;
	return true;
}

int target_parse(const struct slice *text, struct target *target, const char **why)
{
	const char *end = text->at + text->len;
	const char *mark = memchr(text->at, '?', text->len);
	char *to;

	*target = (struct target)TARGET_INIT;
	if (!is_visible(text) || text->len == 0 || text->at[0] != '/' ||
	    memchr(text->at, '#', text->len)) {
		*why = "the target is a path that begins with '/'";
		return -1;
	}
	/* Decoding never makes it longer; each part gets a NUL. */
	target->text = mem_zalloc(text->len + TARGET_SEGMENTS_MAX + 2 * TARGET_PARAMS_MAX + 2);
	to = target->text;
	if (parse_path(text->at + 1, mark ? mark : end, target, &to, why) != 0)
		return -1;
	return mark ? parse_query(mark + 1, end, target, &to, why) : 0;
}

void target_release(struct target *target)
{
	free(target->text);
	*target = (struct target)TARGET_INIT;
}

const char *target_param(const struct target *target, const char *name)
{
	for (size_t i = 0; i < target->param_count; i++)
		if (strcmp(target->params[i].name, name) == 0)
			return target->params[i].value;
	return NULL;
}
