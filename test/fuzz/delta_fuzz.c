/*
 * Fuzzes a piece of an answer, and a refusal: any bytes are one or an error. What passes keeps to
 * what is promised; a message is valid UTF-8 on one line without the key in it.
 *
 * The first byte chooses the status of the refusal.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "model/delta.h"
#include "model/fault.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
	if (!condition)
		abort();
}

static void check_words(const struct buf *words)
{
	check(words->len <= 2 * DELTA_FAULT_BYTES_MAX + 1);
	check(text_is_utf8(buf_bytes(words), words->len));
}

static void check_delta(const struct delta *delta)
{
	check(delta->status == 0 || (delta->status >= 400 && delta->status <= 599));
	check_words(&delta->message);
	check_words(&delta->kind);
	if (delta->is_error) {
		check(delta->message.len > 0);
		check(delta->text.len == 0 && delta->reasoning.len == 0 && !delta->is_piece);
	}
	if (delta->text.len > 0 || delta->reasoning.len > 0)
		check(delta->is_piece);
}

static void check_message(const struct err *err)
{
	check(err->code != ERR_OK && err->text[0] != '\0');
	check(text_is_utf8(err->text, strlen(err->text)));
	for (const char *at = err->text; *at; at++)
		check((unsigned char)*at >= ' ');
	check(!strstr(err->text, "KEY"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int statuses[] = {400, 401, 404, 413, 422, 429, 500, 503};
	static const struct fault_source source = {.shown = "http://h", .model = "m", .key = "KEY"};
	cleanup_delta struct delta delta = DELTA_INIT;
	cleanup_free char *bytes = NULL;
	struct err err = ERR_INIT;
	unsigned fields = 0;
	bool vague = false;

	if (size == 0)
		return 0;
	bytes = mem_copy(data + 1, size - 1);
	if (delta_read(&delta, bytes, size - 1, &err) == 0) {
		check_delta(&delta);
		if (delta.is_error) {
			fault_from_error(&delta, 0, &source, &err);
			check_message(&err);
		}
	} else {
		check(err.code == ERR_INVALID || err.code == ERR_LIMIT);
	}
	fault_from_body(bytes, size - 1, statuses[data[0] % 8], &source, &fields, &vague, &err);
	check_message(&err);
	check(!(vague && fields));
	return 0;
}
