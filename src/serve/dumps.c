/*
 * Python's json.dumps(); see dumps.h.
 */
#include "serve/dumps.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

static void write_point(struct buf *out, uint32_t point)
{
	static const char FROM[] = "\"\\\n\r\t\f\b";
	static const char TO[] = "\"\\nrtfb";
	const char *at = point != 0 && point < 0x80 ? strchr(FROM, (int)point) : NULL;

	if (at) {
		buf_append_char(out, '\\');
		buf_append_char(out, TO[at - FROM]);
	} else if (point >= ' ' && point < 0x7f) {
		buf_append_char(out, (char)point);
	} else if (point == 0x7f) { /* to Python, DEL is as good as any letter */
		buf_append_char(out, (char)point);
	} else if (point < 0x10000) {
		buf_printf(out, "\\u%04x", (unsigned)point);
	} else {
		buf_printf(out, "\\u%04x\\u%04x", 0xd800U | (unsigned)(point - 0x10000) >> 10,
			   0xdc00U | ((unsigned)(point - 0x10000) & 0x3ffU));
	}
}

void dumps_write_string(struct buf *out, const char *text, size_t len)
{
	buf_append_char(out, '"');
	for (size_t i = 0; i < len;) {
		uint32_t point;

		i += text_next(text + i, len - i, &point);
		write_point(out, point);
	}
	buf_append_char(out, '"');
}

struct members {
	struct buf *out;
	bool any;
};

static int write_member(const char *key, size_t len, struct json *value, void *data)
{
	struct members *members = data;

	if (members->any)
		buf_append_string(members->out, ", ");
	members->any = true;
	dumps_write_string(members->out, key, len);
	buf_append_string(members->out, ": ");
	dumps_write(members->out, value);
	return 0;
}

void dumps_write(struct buf *out, const struct json *value)
{
	struct members members = {.out = out, .any = false};
	size_t len = 0;
	const char *text;

	switch (json_type_of(value)) {
	case JSON_STRING:
		text = json_string(value, &len);
		dumps_write_string(out, text, len);
		break;
	case JSON_OBJECT:
		buf_append_char(out, '{');
		(void)json_each(value, write_member, &members);
		buf_append_char(out, '}');
		break;
	case JSON_ARRAY:
		buf_append_char(out, '[');
		for (size_t i = 0; i < json_length(value); i++) {
			buf_append_string(out, i ? ", " : "");
			dumps_write(out, json_at(value, i));
		}
		buf_append_char(out, ']');
		break;
	case JSON_NULL:
	case JSON_BOOL:
	case JSON_INT:
	case JSON_DOUBLE:
		json_write(out, value);
		break;
	}
}
