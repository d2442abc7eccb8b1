/*
 * What a server's refusal means.
 *
 * The status decides, but for what servers disagree about: too long a prompt is 400 with most, 413
 * or 500 with some, so their words are looked for first. A message has 255 bytes: what to do comes
 * first, then the server's own words as far as they fit.
 */
#include "model/fault.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { QUOTE_BYTES_MAX = 160 };

/* Of llama.cpp, OpenAI, vLLM, LM Studio and Ollama, Anthropic, Gemini, TGI, Mistral, in this
 * order. */
static const char *const TOO_LONG[] = {
	"exceed_context_size",
	"context_length_exceeded",
	"maximum context length",
	"context size",
	"context length",
	"context window",
	"prompt is too long",
	"input token count",
	"max_new_tokens` must be",
	"too large for model with",
	NULL,
};

static bool holds(const struct buf *text, const char *word)
{
	return strcasestr(buf_bytes(text), word) != NULL;
}

static bool is_too_long(const struct delta *error)
{
	for (size_t i = 0; TOO_LONG[i]; i++)
		if (holds(&error->kind, TOO_LONG[i]) || holds(&error->message, TOO_LONG[i]))
			return true;
	return false;
}

/* A page says what it is in its title. */
static void cut_to_title(const char **bytes, size_t *len)
{
	const char *begin = memmem(*bytes, *len, "<title>", 7);
	const char *end = begin ? memmem(begin, *len - (size_t)(begin - *bytes), "</title>", 8)
				: NULL;

	if (!end)
		return;
	*bytes = begin + 7;
	*len = (size_t)(end - *bytes);
}

void fault_quote(struct buf *out, const char *bytes, size_t len, const char *key)
{
	struct text_decoder decoder = TEXT_DECODER_INIT;
	cleanup_buf struct buf clean = BUF_INIT;
	size_t key_len = key ? strlen(key) : 0;
	bool blank = true; /* none at the beginning */

	cut_to_title(&bytes, &len);
	for (size_t at = 0; at < len && clean.len < QUOTE_BYTES_MAX;) {
		bool space = isspace((unsigned char)bytes[at]);

		if (key_len > 0 && len - at >= key_len && memcmp(bytes + at, key, key_len) == 0) {
			buf_append_string(&clean, "[key]");
			at += key_len;
			blank = false;
			continue;
		}
		if (!space)
			text_decode(&decoder, &clean, bytes + at, 1);
		else if (!blank)
			buf_append_char(&clean, ' ');
		blank = space;
		at++;
	}
	text_escape(out, buf_bytes(&clean), clean.len, false, false);
}

/* The code for a status alone. */
static enum err_code code_of(int status)
{
	switch (status) {
	case 401:
	case 402:
	case 403:
		return ERR_DENIED;
	case 404:
		return ERR_NOT_FOUND;
	case 408:
	case 504:
		return ERR_TIMEOUT;
	case 413:
		return ERR_LIMIT;
	case 429:
	case 503:
	case 529:
		return ERR_BUSY;
	default:
		return status >= 500 || status == 0 ? ERR_GONE : ERR_INVALID;
	}
}

static enum err_code code_for(const struct delta *error, int status)
{
	if (status == 413 || is_too_long(error))
		return ERR_LIMIT;
	if (holds(&error->kind, "insufficient_quota"))
		return ERR_DENIED;
	if (holds(&error->kind, "model_not_found"))
		return ERR_NOT_FOUND;
	if (holds(&error->kind, "rate_limit") || holds(&error->kind, "overloaded"))
		return ERR_BUSY;
	return code_of(status);
}

/* What happened, and what to do. */
static void say(struct err *err, enum err_code code, int status, const struct fault_source *source,
		const char *words)
{
	cleanup_free char *number = status ? mem_format(" (%d)", status) : mem_string("");
	const char *shown = source->shown;

	if (code == ERR_DENIED && status == 402)
		err_set(err, code, "%s wants to be paid first%s: %s", shown, number, words);
	else if (code == ERR_DENIED)
		err_set(err, code, "%s refuses the key, or the lack of one%s: %s", shown, number,
			words);
	else if (code == ERR_NOT_FOUND)
		err_set(err, code,
			"%s has no model \"%.60s\", or the address is wrong (most end in /v1)%s: "
			"%s",
			shown, source->model ? source->model : "", number, words);
	else if (code == ERR_LIMIT)
		err_set(err, code, "the prompt is too long for the model at %s%s: %s", shown,
			number, words);
	else if (code == ERR_BUSY)
		err_set(err, code, "%s is busy, ask again later%s: %s", shown, number, words);
	else if (code == ERR_TIMEOUT)
		err_set(err, code, "%s took too long%s: %s", shown, number, words);
	else if (code == ERR_GONE)
		err_set(err, code, "the server at %s failed%s: %s", shown, number, words);
	else
		err_set(err, code, "%s refuses the request%s: %s", shown, number, words);
}

void fault_from_error(const struct delta *error, int status, const struct fault_source *source,
		      struct err *err)
{
	cleanup_buf struct buf words = BUF_INIT;

	if (error->status)
		status = error->status;
	fault_quote(&words, buf_bytes(&error->message), error->message.len, source->key);
	say(err, code_for(error, status), status, source, buf_bytes(&words));
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

bool fault_names(const char *text, const char *name, bool quoted)
{
	size_t len = strlen(name);

	for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
		char before = at == text ? ' ' : at[-1];
		char after = at[len];

		if (is_word(before) || is_word(after))
			continue;
		if (!quoted || (strchr("'\"`", before) && strchr("'\"`", after)))
			return true;
	}
	return false;
}

static unsigned fields_of(const char *text)
{
	static const struct {
		const char *name;
		unsigned field;
		bool quoted;
	} known[] = {
		{"stream_options", FIELD_STREAM_OPTIONS, false},
		{"include_usage", FIELD_STREAM_OPTIONS, false},
		{"seed", FIELD_SEED, false},
		{"top_p", FIELD_TOP_P, false},
		{"temperature", FIELD_TEMPERATURE, true},
		{"stop", FIELD_STOP, true},
		{"max_tokens", FIELD_MAX_TOKENS, true},
	};
	unsigned fields = 0;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (fault_names(text, known[i].name, known[i].quoted))
			fields |= known[i].field;
	return fields;
}

void fault_from_body(const char *body, size_t len, int status, const struct fault_source *source,
		     unsigned *fields, bool *vague, struct err *err)
{
	cleanup_delta struct delta error = DELTA_INIT;
	cleanup_buf struct buf words = BUF_INIT;
	cleanup_free char *text = mem_copy(body, len);
	bool refusal = status == 400 || status == 422;

	*fields = 0;
	*vague = false;
	if (delta_read(&error, body, len, NULL) || !error.is_error) {
		fault_quote(&words, body, len, source->key);
		if (words.len == 0)
			buf_append_string(&words, "it does not say why");
		say(err, code_of(status), status, source, buf_bytes(&words));
		*fields = refusal ? fields_of(text) : 0;
		*vague = refusal && *fields == 0;
		return;
	}
	fault_from_error(&error, status, source, err);
	if (!refusal || is_too_long(&error))
		return;
	*fields = fields_of(text);
	*vague = *fields == 0;
}
