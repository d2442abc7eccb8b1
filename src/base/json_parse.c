/*
 * A JSON parser by the grammar of RFC 8259, strict, that builds the tree as it reads.
 *
 * Recursive descent; the depth is limited before each step down, so the stack is bounded. Every
 * byte is looked at once. Nothing is allocated for what is not there yet: a claim of size does not
 * exist in JSON, but a small text can ask for a large tree ("[{},{},..." needs 270 bytes of memory
 * for a byte of text), so the memory of the tree is estimated while it grows and has a limit of its
 * own.
 *
 * A failing function leaves position and reason in the parser; what was built is freed on the way
 * out.
 */
#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/json_impl.h"
#include "base/mem.h"
#include "base/text.h"

enum {
	DEPTH_CEILING = 1024, /* what the stack holds, here and in json-c, also under sanitizers */
	/* What json-c and malloc take, measured with json-c 0.16 on x86_64. */
	OBJECT_BYTES = 832,
	MEMBER_BYTES = 112,
	VALUE_BYTES = 96,
};

const struct json_limits JSON_LIMITS = {
	.bytes_max = (size_t)64 << 20,
	.depth_max = 200,
	.keys_unique = true,
	.nan_as_text = false,
};

struct parser {
	const char *text;
	size_t len;
	size_t at;
	const struct json_limits *limits;
	unsigned depth;
	size_t tree_bytes;   /* estimate of the tree's memory */
	struct buf scratch;  /* a string whose escapes are resolved */
	struct buf keys;     /* the keys on the way down to here, each with its NUL */
	enum err_code code;  /* of the first fault; ERR_OK while there is none */
	size_t fault_at;
	const char *reason;
};

static bool parse_value(struct parser *parser, struct json **value);

static bool fail_at(struct parser *parser, enum err_code code, size_t at, const char *reason)
{
	parser->code = code;
	parser->fault_at = at;
	parser->reason = reason;
	return false;
}

static bool fail(struct parser *parser, const char *reason)
{
	return fail_at(parser, ERR_INVALID, parser->at, reason);
}

static bool charge(struct parser *parser, size_t bytes)
{
	parser->tree_bytes += bytes;
	return parser->tree_bytes <= JSON_TREE_BYTES_MAX ||
	       fail_at(parser, ERR_LIMIT, parser->at, "the values need too much memory");
}

/* The next byte, or -1 at the end. */
static int peek(const struct parser *parser)
{
	return parser->at < parser->len ? (unsigned char)parser->text[parser->at] : -1;
}

static void skip_space(struct parser *parser)
{
	int c;

	while ((c = peek(parser)) == ' ' || c == '\n' || c == '\r' || c == '\t')
		parser->at++;
}

static bool take_word(struct parser *parser, const char *word)
{
	size_t len = strlen(word);

	if (parser->len - parser->at < len || memcmp(parser->text + parser->at, word, len) != 0)
		return false;
	parser->at += len;
	return true;
}

static size_t take_digits(struct parser *parser)
{
	size_t from = parser->at;
	int c;

	while ((c = peek(parser)) >= '0' && c <= '9')
		parser->at++;
	return parser->at - from;
}

static bool parse_number(struct parser *parser, struct json **value)
{
	size_t from = parser->at;

	if (peek(parser) == '-')
		parser->at++;
	if (peek(parser) == '0')
		parser->at++;
	else if (take_digits(parser) == 0)
		return fail(parser, "a digit is missing");
	if (peek(parser) == '.') {
		parser->at++;
		if (take_digits(parser) == 0)
			return fail(parser, "a digit is missing");
	}
	if (peek(parser) == 'e' || peek(parser) == 'E') {
		parser->at++;
		if (peek(parser) == '+' || peek(parser) == '-')
			parser->at++;
		if (take_digits(parser) == 0)
			return fail(parser, "a digit is missing");
	}
	if (!charge(parser, VALUE_BYTES + parser->at - from))
		return false;
	*value = json_new_number(parser->text + from, parser->at - from);
	return true;
}

/* Four hex digits; -1 when they are not there. */
static int32_t take_hex(struct parser *parser)
{
	int32_t value = 0;

	if (parser->len - parser->at < 4)
		return -1;
	for (size_t i = 0; i < 4; i++) {
		char c = parser->text[parser->at + i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	parser->at += 4;
	return value;
}

/* What follows "\u": one code point, or two escapes that are a surrogate pair. */
static bool take_unicode(struct parser *parser, bool key)
{
	int32_t unit = take_hex(parser);
	size_t after = parser->at;

	if (unit < 0)
		return fail(parser, "\\u wants four hex digits");
	if (unit >= 0xd800 && unit <= 0xdbff && take_word(parser, "\\u")) {
		int32_t low = take_hex(parser);

		if (low >= 0xdc00 && low <= 0xdfff)
			unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
		else
			parser->at = after; /* whatever it is, it stands for itself */
	}
	if (unit == 0 && key)
		buf_append_string(&parser->scratch, JSON_KEY_NUL);
	else
		text_put(&parser->scratch, (uint32_t)unit); /* a lone surrogate becomes U+FFFD */
	return true;
}

/* Resolves one escape (at the backslash) into the scratch buffer. */
static bool take_escape(struct parser *parser, bool key)
{
	static const char FROM[] = "\"\\/bfnrt";
	static const char TO[] = "\"\\/\b\f\n\r\t";
	const char *found;
	int c;

	parser->at++;
	c = peek(parser);
	if (c == 'u') {
		parser->at++;
		return take_unicode(parser, key);
	}
	found = c > 0 ? strchr(FROM, c) : NULL;
	if (!found)
		return fail(parser, "no such escape");
	buf_append_char(&parser->scratch, TO[found - FROM]);
	parser->at++;
	return true;
}

/* Goes over bytes of a string that stand for themselves, up to a quote or a backslash. */
static bool skip_plain(struct parser *parser)
{
	for (;;) {
		uint32_t point;
		size_t step;
		int c;

		parser->at += json_plain_run(parser->text + parser->at, parser->len - parser->at);
		c = peek(parser);
		if (c == '"' || c == '\\')
			return true;
		if (c < 0)
			return fail(parser, "a string does not end");
		if (c < 0x20)
			return fail(parser, "a raw control character in a string");
		step = text_next(parser->text + parser->at, parser->len - parser->at, &point);
		if (step == 1) /* no good sequence of a byte >= 0x80 has length 1 */
			return fail(parser, "no valid UTF-8");
		parser->at += step;
	}
}

/*
 * Reads a string (at its quote). `*text` is in the source when there is nothing to resolve, else in
 * the scratch buffer, until the next string. A key is always in the scratch buffer, NUL-terminated.
 */
static bool take_string(struct parser *parser, bool key, const char **text, size_t *len)
{
	size_t from = ++parser->at;

	if (!skip_plain(parser))
		return false;
	*text = parser->text + from;
	*len = parser->at - from;
	if (key || parser->text[parser->at] == '\\') {
		buf_clear(&parser->scratch);
		buf_append(&parser->scratch, *text, *len);
		while (parser->text[parser->at] == '\\') {
			if (!take_escape(parser, key))
				return false;
			from = parser->at;
			if (!skip_plain(parser))
				return false;
			buf_append(&parser->scratch, parser->text + from, parser->at - from);
		}
		*text = buf_bytes(&parser->scratch);
		*len = parser->scratch.len;
	}
	parser->at++;
	return true;
}

static bool parse_string(struct parser *parser, struct json **value)
{
	const char *text;
	size_t len;

	if (!take_string(parser, false, &text, &len) || !charge(parser, VALUE_BYTES + len))
		return false;
	*value = json_new_checked_string(text, len);
	return true;
}

/* After an element: true when another follows; *failed when neither that nor the end follows. */
static bool take_comma(struct parser *parser, char end, bool *failed)
{
	int c;

	skip_space(parser);
	c = peek(parser);
	*failed = c != ',' && c != end;
	if (*failed) {
		fail(parser,
		     end == ']' ? "\",\" or \"]\" is missing" : "\",\" or \"}\" is missing");
		return false;
	}
	parser->at++;
	return c == ',';
}

static bool parse_elements(struct parser *parser, struct json *array)
{
	bool failed = false;

	skip_space(parser);
	if (peek(parser) == ']') {
		parser->at++;
		return true;
	}
	do {
		struct json *element = NULL;

		if (!charge(parser, sizeof(void *) * 2) || !parse_value(parser, &element))
			return false;
		json_push(array, element);
	} while (take_comma(parser, ']', &failed));
	return !failed;
}

static bool parse_member(struct parser *parser, struct json *object)
{
	size_t keys_len = parser->keys.len;
	struct json *value = NULL;
	const char *text;
	size_t len, key_at;
	bool added;

	skip_space(parser);
	key_at = parser->at;
	if (peek(parser) != '"')
		return fail(parser, "a key is missing");
	if (!take_string(parser, true, &text, &len) || !charge(parser, MEMBER_BYTES + len))
		return false;
	buf_append(&parser->keys, text, len + 1);
	skip_space(parser);
	if (peek(parser) != ':')
		return fail(parser, "\":\" is missing");
	parser->at++;
	if (!parse_value(parser, &value))
		return false;
	added = json_add_member(object, buf_bytes(&parser->keys) + keys_len, value);
	buf_truncate(&parser->keys, keys_len);
	if (!added && parser->limits->keys_unique)
		return fail_at(parser, ERR_INVALID, key_at, "a key is repeated");
	return true;
}

static bool parse_members(struct parser *parser, struct json *object)
{
	bool failed = false;

	skip_space(parser);
	if (peek(parser) == '}') {
		parser->at++;
		return true;
	}
	do {
		if (!parse_member(parser, object))
			return false;
	} while (take_comma(parser, '}', &failed));
	return !failed;
}

/* An array or an object, at its bracket. */
static bool parse_container(struct parser *parser, bool object, struct json **value)
{
	struct json *container;
	bool good;

	if (parser->depth == parser->limits->depth_max)
		return fail_at(parser, ERR_LIMIT, parser->at, "nested too deeply");
	if (!charge(parser, object ? OBJECT_BYTES : 2 * VALUE_BYTES))
		return false;
	parser->depth++;
	parser->at++;
	container = object ? json_new_object() : json_new_array();
	good = object ? parse_members(parser, container) : parse_elements(parser, container);
	parser->depth--;
	if (good)
		*value = container;
	else
		json_free(container);
	return good;
}

/* NaN and the infinities of Python's dialect, as the strings that Jupyter makes of them; NULL when
 * there is none here. */
static struct json *take_nan(struct parser *parser)
{
	static const char *const WORDS[] = {"NaN", "Infinity", "-Infinity"};
	static const char *const TEXTS[] = {"nan", "inf", "-inf"};

	for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++) {
		if (take_word(parser, WORDS[i]))
			return json_new_checked_string(TEXTS[i], strlen(TEXTS[i]));
	}
	return NULL;
}

static bool parse_word(struct parser *parser, struct json **value)
{
	if (!charge(parser, VALUE_BYTES))
		return false;
	if (take_word(parser, "null"))
		*value = NULL;
	else if (take_word(parser, "true"))
		*value = json_new_bool(true);
	else if (take_word(parser, "false"))
		*value = json_new_bool(false);
	else
		return fail(parser, "a value is missing");
	return true;
}

static bool parse_value(struct parser *parser, struct json **value)
{
	int c;

	skip_space(parser);
	c = peek(parser);
	if (c == '{' || c == '[')
		return parse_container(parser, c == '{', value);
	if (c == '"')
		return parse_string(parser, value);
	if (parser->limits->nan_as_text && (c == 'N' || c == 'I' || c == '-')) {
		*value = take_nan(parser);
		if (*value)
			return true;
	}
	if (c == '-' || (c >= '0' && c <= '9'))
		return parse_number(parser, value);
	return parse_word(parser, value);
}

struct json *json_parse_part(const char *bytes, size_t len, const struct json_limits *limits,
			     size_t *fault, struct err *err)
{
	struct parser parser = {.text = bytes, .len = len, .limits = limits};
	cleanup_json struct json *value = NULL;
	bool good;

	assert(limits->depth_max <= DEPTH_CEILING);
	*fault = 0;
	if (len > limits->bytes_max || len >= INT_MAX / 2) {
		err_set(err, ERR_LIMIT, "JSON text of %zu bytes is too long (at most %zu)", len,
			limits->bytes_max);
		return NULL;
	}
	good = parse_value(&parser, &value);
	if (good) {
		skip_space(&parser);
		if (parser.at < parser.len)
			good = fail(&parser, "something follows the value");
	}
	buf_release(&parser.scratch);
	buf_release(&parser.keys);
	if (!good) {
		*fault = parser.fault_at;
		err_set(err, parser.code, "%s", parser.reason);
		return NULL;
	}
	return mem_take(value);
}

struct json *json_parse(const char *bytes, size_t len, const struct json_limits *limits,
			struct err *err)
{
	struct err why = ERR_INIT;
	size_t fault = 0;
	struct json *value = json_parse_part(bytes, len, limits, &fault, &why);

	/* A text of wrong length has no position. */
	if (!value && why.code != ERR_OK) {
		if (len <= limits->bytes_max && len < INT_MAX / 2)
			err_wrap(&why, "bad JSON at byte %zu", fault);
		if (err)
			*err = why;
	}
	return value;
}
