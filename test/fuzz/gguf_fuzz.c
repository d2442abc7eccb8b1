/*
 * Fuzzes the head of a model file: any bytes. Texts that are kept are UTF-8 without control
 * characters, counts are within their limits, and what is refused is refused with a reason. A head
 * that needs more bytes must not have been read as whole with fewer.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
	size_t len = strnlen(text, GGUF_TEXT_SIZE);

	assert(len < GGUF_TEXT_SIZE && text_is_utf8(text, len));
	for (size_t i = 0; i < len; i++)
		assert((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = ERR_INIT;
	struct gguf gguf, shorter;
	int outcome = gguf_read(data, size, &gguf, &err);

	assert(outcome >= -1 && outcome <= 1);
	assert((outcome < 0) == (err.text[0] != '\0'));
	check_text(gguf.architecture);
	check_text(gguf.name);
	check_text(gguf.kind);
	check_text(gguf.size_label);
	check_text(gguf.tokenizer);
	check_text(gguf.licence);
	if (outcome != 0)
		return 0;
	assert(gguf.tensors <= GGUF_TENSORS_MAX && gguf.quantisation);
	if (gguf_check(&gguf, size, &err) == 0)
		assert(gguf.chat_template && gguf.tokenizer[0] && gguf.bytes <= size);
	if (size > 0 && gguf_read(data, size / 2, &shorter, NULL) == 0)
		assert(shorter.tensors == gguf.tensors);
	return 0;
}
