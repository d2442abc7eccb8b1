/*
 * The backend for OpenAI-compatible endpoints, inside: for openai.c, transfer.c and probe.c.
 *
 *	openai.c    the backend: what it is made of, its turns and waits
 *	transfer.c  one request and the answer to it, with its second tries
 *	probe.c     what a server says of its models
 */
#ifndef FH_MODEL_OPENAI_IMPL_H
#define FH_MODEL_OPENAI_IMPL_H

#include <curl/curl.h>

#include "base/json.h"
#include "model/backend_impl.h"
#include "model/delta.h"
#include "model/fault.h"
#include "model/openai.h"
#include "model/place.h"
#include "model/sse.h"

enum {
	OPENAI_TRIES_MAX = 5,  /* of one request: each after a refusal leaves something out */
	OPENAI_TAIL_MS = 2000, /* from the reason for the end to the stream's: for the usage */
	OPENAI_CLOSE_MS = 200, /* for [DONE] alone, when nothing else is to come */
	OPENAI_RESPONSE_BYTES_MAX = 256 << 20,
	OPENAI_TOKENS_SLACK = 64, /* a server may write so many more than it was told */
};

struct openai {
	struct backend base;
	CURLM *multi;
	struct place place;
	char *model; /* the server's name of it */
	struct json *extra;
	uint64_t context_tokens;
	bool context_asked;
	unsigned dropped; /* FIELD_*: this server has refused them */
	struct openai_hooks hooks;
	bool happened; /* in this turn: something that a waiting caller wants to know */
};

enum transfer_form { FORM_UNKNOWN, FORM_STREAM, FORM_JSON, FORM_FOREIGN };

/* One request of a generation (its job), perhaps sent several times. */
struct transfer {
	struct openai *openai;
	struct generation *generation;
	struct json *request;
	uint32_t tokens_max;
	int64_t first_us_max, idle_us_max;
	unsigned tries, dropped; /* FIELD_*: left out in this try */
	bool revived;            /* the server was looked after once, because it had gone */
	bool vague;              /* FIELDS_OPTIONAL were left out on suspicion */

	/* The present try. */
	CURL *easy; /* NULL: over */
	struct curl_slist *headers;
	struct buf sent;
	char shown[160];
	enum transfer_form form;
	struct sse sse;
	struct buf body; /* of a refusal, or a JSON answer, or the beginning until it is known */
	uint64_t bytes;
	long status;
	size_t pieces;
	bool complete; /* what comes now does not matter any more */
	bool told;     /* a piece of an answer has come */
	enum delta_finish finish;
	struct err fault;
	int64_t begun_us, byte_us, data_us, finish_us; /* monotonic; 0: not yet */
};

/* Makes the request and sends it. The generation's job is the transfer after success. */
int transfer_start(struct openai *openai, struct generation *generation,
		   const struct generation_request *request, struct err *err);
/* The try has ended (curl says how), or needs no more: ends its generation or tries again. */
void transfer_settle(struct transfer *transfer, CURLcode code);
/* When it has waited too long, in monotonic us; INT64_MAX when it is over. */
int64_t transfer_deadline(const struct transfer *transfer);
/* It has waited too long, or is complete without the server's having closed. */
void transfer_expire(struct transfer *transfer);
void transfer_free(struct transfer *transfer);

/* Calls the hook `alive`, if there is one. */
int openai_alive(struct openai *openai, struct err *err);

/* The names of the server's models (an array of strings, owned by the caller), or NULL. */
struct json *probe_models(struct openai *openai, int64_t until_us, struct err *err);
/* Tokens of context for the model, by whatever the server tells; 0: nothing. */
uint64_t probe_context(struct openai *openai, int64_t until_us);

#endif
