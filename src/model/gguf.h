/*
 * GGUF: what the head of a model file says, and whether such a file can be asked anything.
 *
 * The head is read before a server is started with the file: a server would say the same in a log
 * of hundreds of lines, seconds later. Weights are not looked at; that they are all there is known
 * from the table of tensors and the size of the file.
 *
 * Versions 2 and 3, little endian. Source: ggml/docs/gguf.md.
 */
#ifndef FH_MODEL_GGUF_H
#define FH_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	GGUF_HEAD_BYTES_MAX = 256 << 20, /* a vocabulary of 262,144 words takes 16 MiB */
	GGUF_KEYS_MAX = 4096,
	GGUF_TENSORS_MAX = 1 << 17,
	GGUF_DIMENSIONS_MAX = 8,
	GGUF_TEXT_SIZE = 96,
};

struct gguf {
	unsigned version;
	char architecture[GGUF_TEXT_SIZE]; /* "qwen2"; texts are cut, whole code points, escaped */
	char name[GGUF_TEXT_SIZE];         /* as its maker calls it; empty: not said */
	char kind[GGUF_TEXT_SIZE];         /* general.type: "model", "adapter"; empty: not said */
	char size_label[GGUF_TEXT_SIZE];   /* "1.5B" */
	char tokenizer[GGUF_TEXT_SIZE];    /* "gpt2" */
	char licence[GGUF_TEXT_SIZE];      /* "apache-2.0" */
	const char *quantisation;          /* "Q4_K_M", constant; "?" when it is a new one */
	uint64_t parameters;               /* weights, counted from the tensors */
	uint64_t context;                  /* tokens it was made for; 0: not said */
	uint64_t blocks;                   /* layers */
	uint64_t parts;                    /* files that it was split into; 0 or 1: it is whole */
	bool chat_template;
	uint64_t tensors;
	uint64_t bytes; /* the file must have at least so many */
};

/*
 * Reads a head from the first `len` bytes of a file. Pure. Returns 0 with *gguf filled; 1 when it
 * needs more bytes (it has read to the end of them); -1: ERR_INVALID, it is no such file;
 * ERR_UNSUPPORTED, big endian or another version; ERR_LIMIT.
 */
int gguf_read(const void *bytes, size_t len, struct gguf *gguf, struct err *err);

/* Whether a chat can be held with it: a decoder with tokenizer and chat template, in one file that
 * has `file_bytes` bytes. Pure. ERR_UNSUPPORTED or ERR_CORRUPT with what to do. */
int gguf_check(const struct gguf *gguf, uint64_t file_bytes, struct err *err);

/* Both, for the file at `path`. The text of an error begins with the path. */
int gguf_load(const char *path, struct gguf *gguf, struct err *err);

#endif
