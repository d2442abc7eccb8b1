/*
 * Reading the head of a GGUF file. See gguf.h.
 *
 * One cursor walks over the bytes and remembers whether it ran off their end: then the outcome is
 * "more", whatever had been read. Nothing is allocated, and every count is compared with its limit
 * before it is used, so the time is linear in the bytes that are there: an array that claims 2^60
 * elements ends with the bytes.
 */
#include "model/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

enum { ALIGNMENT = 32, ARRAY_DEPTH_MAX = 4, FIRST_READ = 8 << 20 };

enum value_type {
	VALUE_U8,
	VALUE_I8,
	VALUE_U16,
	VALUE_I16,
	VALUE_U32,
	VALUE_I32,
	VALUE_F32,
	VALUE_BOOL,
	VALUE_TEXT,
	VALUE_ARRAY,
	VALUE_U64,
	VALUE_I64,
	VALUE_F64,
	VALUE_COUNT
};

static const uint8_t VALUE_BYTES[VALUE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* A type of tensors: `per` elements take `bytes`; 0: not known. */
static const struct tensor_type {
	uint16_t per, bytes;
} TENSOR_TYPES[] = {
	[0] = {1, 4},      [1] = {1, 2},      [2] = {32, 18},    [3] = {32, 20},
	[6] = {32, 22},    [7] = {32, 24},    [8] = {32, 34},    [9] = {32, 36},
	[10] = {256, 84},  [11] = {256, 110}, [12] = {256, 144}, [13] = {256, 176},
	[14] = {256, 210}, [15] = {256, 292}, [16] = {256, 66},  [17] = {256, 74},
	[18] = {256, 98},  [19] = {256, 50},  [20] = {32, 18},   [21] = {256, 110},
	[22] = {256, 82},  [23] = {256, 136}, [24] = {1, 1},     [25] = {1, 2},
	[26] = {1, 4},     [27] = {1, 8},     [28] = {1, 8},     [29] = {256, 56},
	[30] = {1, 2},     [34] = {256, 54},  [35] = {256, 66},  [39] = {32, 17},
};

/* general.file_type. */
static const char *const FILE_TYPES[] = {
	[0] = "F32",      [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
	[8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
	[13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
	[18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS", [21] = "Q2_K_S", [22] = "IQ3_XS",
	[23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL", [26] = "IQ3_S",  [27] = "IQ3_M",
	[28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",  [32] = "BF16",
	[36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4",
};

/* Architectures that turn text, images or sound into numbers, and write none. */
static const char *const NO_DECODERS[] = {
	"clip",       "bert",           "modern-bert",      "neo-bert",        "eurobert",
	"nomic-bert", "nomic-bert-moe", "jina-bert-v2",     "jina-bert-v3",    "t5encoder",
	"t5",         "whisper",        "wavtokenizer-dec", "gemma-embedding",
};

struct cursor {
	const unsigned char *next;
	size_t left;
	bool more; /* it wanted bytes that are not there */
};

struct text {
	const char *bytes; /* borrowed; NULL when there is none */
	size_t len;
};

struct value {
	uint32_t type; /* an enum value_type */
	uint64_t number;
	struct text text;
};

struct head {
	struct cursor cursor;
	struct gguf *gguf;
	uint64_t alignment;
	uint64_t file_type;
	size_t total; /* bytes that the cursor began with */
};

/* --- values ----------------------------------------------------------------------------------- */

static const unsigned char *take(struct cursor *cursor, uint64_t count)
{
	const unsigned char *bytes = cursor->next;

	if (cursor->more || count > cursor->left) {
		cursor->more = true;
		return NULL;
	}
	cursor->next += count;
	cursor->left -= (size_t)count;
	return bytes;
}

/* A whole number of 1..8 bytes; 0 at the end. */
static uint64_t take_number(struct cursor *cursor, unsigned size)
{
	const unsigned char *bytes = take(cursor, size);
	uint64_t number = 0;

	for (unsigned i = size; bytes && i > 0; i--)
		number = number << 8 | bytes[i - 1];
	return number;
}

static struct text take_text(struct cursor *cursor)
{
	uint64_t len = take_number(cursor, 8);
	const unsigned char *bytes = take(cursor, len);

	return (struct text){.bytes = (const char *)bytes, .len = bytes ? (size_t)len : 0};
}

static int fail_type(struct err *err, uint32_t type)
{
	return err_set(err, ERR_INVALID, "its head has a value of type %u, which GGUF has not",
		       (unsigned)type);
}

static int skip_array(struct cursor *cursor, unsigned depth, struct err *err)
{
	uint32_t type = (uint32_t)take_number(cursor, 4);
	uint64_t count = take_number(cursor, 8);

	if (cursor->more)
		return 0;
	if (type >= VALUE_COUNT)
		return fail_type(err, type);
	if (type == VALUE_ARRAY && depth >= ARRAY_DEPTH_MAX)
		return err_set(err, ERR_LIMIT, "its head has arrays more than %d deep",
			       ARRAY_DEPTH_MAX);
	if (VALUE_BYTES[type] > 0) {
		take(cursor,
		     count > cursor->left ? (uint64_t)cursor->left + 1 : count * VALUE_BYTES[type]);
		return 0;
	}
	for (uint64_t i = 0; i < count && !cursor->more; i++) {
		if (type == VALUE_TEXT)
			take_text(cursor);
		else if (skip_array(cursor, depth + 1, err) != 0)
			return -1;
	}
	return 0;
}

static int take_value(struct cursor *cursor, struct value *value, struct err *err)
{
	*value = (struct value){.type = (uint32_t)take_number(cursor, 4)};
	if (cursor->more)
		return 0;
	if (value->type >= VALUE_COUNT)
		return fail_type(err, value->type);
	if (value->type == VALUE_ARRAY)
		return skip_array(cursor, 1, err);
	if (value->type == VALUE_TEXT)
		value->text = take_text(cursor);
	else
		value->number = take_number(cursor, VALUE_BYTES[value->type]);
	return 0;
}

static bool is_whole(const struct value *value)
{
	return value->type < VALUE_COUNT && value->type != VALUE_F32 && value->type != VALUE_F64 &&
	       value->type != VALUE_TEXT && value->type != VALUE_ARRAY;
}

/* --- keys ------------------------------------------------------------------------------------- */

static bool text_is(const struct text *text, const char *word)
{
	return text->bytes && text->len == strlen(word) &&
	       memcmp(text->bytes, word, text->len) == 0;
}

static bool text_ends(const struct text *text, const char *end)
{
	size_t len = strlen(end);

	return text->bytes && text->len > len &&
	       memcmp(text->bytes + text->len - len, end, len) == 0;
}

/* Keeps what fits of a text, harmless on a terminal. */
static void keep_text(char kept[static GGUF_TEXT_SIZE], const struct value *value)
{
	cleanup_buf struct buf out = BUF_INIT;
	size_t len = value->text.len < GGUF_TEXT_SIZE ? value->text.len : GGUF_TEXT_SIZE;

	if (value->type != VALUE_TEXT)
		return;
	text_escape(&out, value->text.bytes ? value->text.bytes : "", len, false, false);
	len = out.len;
	while (len >= GGUF_TEXT_SIZE)
		len = text_prefix(buf_bytes(&out), len, text_count(buf_bytes(&out), len) - 1);
	memcpy(kept, buf_bytes(&out), len);
	kept[len] = '\0';
}

static void keep_value(struct head *head, const struct text *key, const struct value *value)
{
	struct gguf *gguf = head->gguf;
	const struct {
		const char *key;
		char *text;
	} texts[] = {
		{"general.architecture", gguf->architecture},
		{"general.name", gguf->name},
		{"general.type", gguf->kind},
		{"general.size_label", gguf->size_label},
		{"general.license", gguf->licence},
		{"tokenizer.ggml.model", gguf->tokenizer},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (text_is(key, texts[i].key))
			keep_text(texts[i].text, value);
	if (text_is(key, "tokenizer.chat_template"))
		gguf->chat_template = value->type == VALUE_TEXT && value->text.len > 0;
	if (!is_whole(value))
		return;
	if (text_is(key, "general.alignment"))
		head->alignment = value->number;
	else if (text_is(key, "general.file_type"))
		head->file_type = value->number;
	else if (text_is(key, "split.count"))
		gguf->parts = value->number;
	else if (text_ends(key, ".context_length"))
		gguf->context = value->number;
	else if (text_ends(key, ".block_count"))
		gguf->blocks = value->number;
}

static int read_keys(struct head *head, uint64_t count, struct err *err)
{
	for (uint64_t i = 0; i < count && !head->cursor.more; i++) {
		struct text key = take_text(&head->cursor);
		struct value value;

		if (take_value(&head->cursor, &value, err) != 0)
			return -1;
		if (!head->cursor.more)
			keep_value(head, &key, &value);
	}
	return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Bytes of `elements`; 0 for a type that is not known. */
static uint64_t tensor_bytes(uint32_t type, uint64_t elements)
{
	const struct tensor_type *known;

	if (type >= sizeof(TENSOR_TYPES) / sizeof(TENSOR_TYPES[0]))
		return 0;
	known = &TENSOR_TYPES[type];
	return known->per ? elements / known->per * known->bytes : 0;
}

/* One line of the table; *end becomes where its weights end, counted from the first weight. */
static int read_tensor(struct head *head, uint64_t *end, struct err *err)
{
	struct cursor *cursor = &head->cursor;
	uint64_t elements = 1, offset, bytes;
	uint32_t dimensions, type;

	take_text(cursor);
	dimensions = (uint32_t)take_number(cursor, 4);
	if (!cursor->more && dimensions > GGUF_DIMENSIONS_MAX)
		return err_set(err, ERR_INVALID, "its head has a tensor of %u dimensions",
			       (unsigned)dimensions);
	for (uint32_t i = 0; i < dimensions && !cursor->more; i++)
		if (__builtin_mul_overflow(elements, take_number(cursor, 8), &elements) ||
		    elements > UINT64_C(1) << 48)
			return err_set(err, ERR_INVALID,
				       "its head has a tensor of impossible size");
	type = (uint32_t)take_number(cursor, 4);
	offset = take_number(cursor, 8);
	if (cursor->more)
		return 0;
	bytes = tensor_bytes(type, elements);
	if (offset > UINT64_C(1) << 60)
		return err_set(err, ERR_INVALID, "its head has a tensor at an impossible place");
	if (offset + bytes > *end)
		*end = offset + bytes;
	head->gguf->parameters += elements;
	return 0;
}

static int read_tensors(struct head *head, struct err *err)
{
	uint64_t end = 0, start;

	for (uint64_t i = 0; i < head->gguf->tensors && !head->cursor.more; i++)
		if (read_tensor(head, &end, err) != 0)
			return -1;
	if (head->cursor.more)
		return 0;
	if (head->alignment == 0 || head->alignment > 1 << 20)
		return err_set(err, ERR_INVALID, "its head has an impossible alignment");
	start = head->total - head->cursor.left;
	start = (start + head->alignment - 1) / head->alignment * head->alignment;
	head->gguf->bytes = start + end;
	return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int read_version(struct head *head, struct err *err)
{
	const unsigned char *magic = take(&head->cursor, 4);

	if (magic && memcmp(magic, "GGUF", 4) != 0)
		return err_set(err, ERR_INVALID,
			       "this is no GGUF file: it does not begin with \"GGUF\"");
	head->gguf->version = (unsigned)take_number(&head->cursor, 4);
	if (head->cursor.more)
		return 0;
	if ((head->gguf->version & 0xffff) == 0)
		return err_set(
			err, ERR_UNSUPPORTED,
			"it is big endian, for other machines: take the file for x86 or ARM");
	if (head->gguf->version < 2 || head->gguf->version > 3)
		return err_set(err, ERR_UNSUPPORTED,
			       "it has GGUF version %u, and 2 and 3 are known: take a newer "
			       "conversion of the model",
			       head->gguf->version);
	return 0;
}

int gguf_read(const void *bytes, size_t len, struct gguf *gguf, struct err *err)
{
	struct head head = {
		.cursor = {.next = bytes, .left = len},
		.gguf = gguf,
		.alignment = ALIGNMENT,
		.file_type = UINT64_MAX,
		.total = len,
	};
	uint64_t keys;

	*gguf = (struct gguf){.quantisation = "?"};
	if (read_version(&head, err) != 0)
		return -1;
	gguf->tensors = take_number(&head.cursor, 8);
	keys = take_number(&head.cursor, 8);
	if (!head.cursor.more && (gguf->tensors > GGUF_TENSORS_MAX || keys > GGUF_KEYS_MAX))
		return err_set(err, ERR_LIMIT,
			       "its head claims %llu tensors and %llu keys; at most %d and %d are "
			       "read",
			       (unsigned long long)gguf->tensors, (unsigned long long)keys,
			       GGUF_TENSORS_MAX, GGUF_KEYS_MAX);
	if (read_keys(&head, keys, err) != 0 || read_tensors(&head, err) != 0)
		return -1;
	if (head.cursor.more)
		return 1;
	if (head.file_type < sizeof(FILE_TYPES) / sizeof(FILE_TYPES[0]) &&
	    FILE_TYPES[head.file_type])
		gguf->quantisation = FILE_TYPES[head.file_type];
	return 0;
}

static bool is_decoder(const struct gguf *gguf)
{
	for (size_t i = 0; i < sizeof(NO_DECODERS) / sizeof(NO_DECODERS[0]); i++)
		if (strcmp(gguf->architecture, NO_DECODERS[i]) == 0)
			return false;
	return gguf->architecture[0] && (!gguf->kind[0] || strcmp(gguf->kind, "model") == 0);
}

int gguf_check(const struct gguf *gguf, uint64_t file_bytes, struct err *err)
{
	if (gguf->parts > 1)
		return err_set(err, ERR_UNSUPPORTED,
			       "it is one of %llu parts: join them with llama-gguf-split --merge",
			       (unsigned long long)gguf->parts);
	if (file_bytes < gguf->bytes)
		return err_set(err, ERR_CORRUPT,
			       "it is cut: %llu bytes are there of %llu; fetch it again",
			       (unsigned long long)file_bytes, (unsigned long long)gguf->bytes);
	if (!is_decoder(gguf))
		return err_set(err, ERR_UNSUPPORTED,
			       "it is a %s (%s), which writes no text: take a model for chat or "
			       "instructions",
			       gguf->kind[0] ? gguf->kind : "model",
			       gguf->architecture[0] ? gguf->architecture : "of no architecture");
	if (gguf->tensors == 0 || !gguf->tokenizer[0])
		return err_set(err, ERR_UNSUPPORTED,
			       "it holds %s only: take the file with the whole model",
			       gguf->tensors ? "weights without a vocabulary" : "a vocabulary");
	if (!gguf->chat_template)
		return err_set(err, ERR_UNSUPPORTED,
			       "it has no chat template, so it was not trained to follow "
			       "instructions: take the model's \"Instruct\" or \"Chat\" file");
	return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Fills the buffer up to `len` bytes, less at the end of the file. */
static int read_up_to(int fd, struct buf *buf, size_t len, struct err *err)
{
	while (buf->len < len) {
		char *room = buf_reserve(buf, len - buf->len);
		ssize_t got = pread(fd, room, len - buf->len, (off_t)buf->len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(err, "cannot read it");
		if (got == 0)
			return 0;
		buf_added(buf, (size_t)got);
	}
	return 0;
}

static int load(int fd, uint64_t file_bytes, struct gguf *gguf, struct err *err)
{
	cleanup_buf struct buf head = BUF_INIT;
	size_t want = FIRST_READ;

	for (;;) {
		int outcome;

		if (want > GGUF_HEAD_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "its head is longer than %d MiB",
				       GGUF_HEAD_BYTES_MAX >> 20);
		if (read_up_to(fd, &head, want, err) != 0)
			return -1;
		outcome = gguf_read(buf_bytes(&head), head.len, gguf, err);
		if (outcome < 0)
			return -1;
		if (outcome == 0)
			return gguf_check(gguf, file_bytes, err);
		if (head.len < want)
			return err_set(err, ERR_CORRUPT,
				       "it is cut in its head, after %zu bytes; fetch it again",
				       head.len);
		want *= 2;
	}
}

int gguf_load(const char *path, struct gguf *gguf, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, "cannot open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is no file: a model is a file NAME.gguf",
			       path);
	if (load(fd, (uint64_t)st.st_size, gguf, err) != 0)
		return err_wrap(err, "%s", path);
	return 0;
}
