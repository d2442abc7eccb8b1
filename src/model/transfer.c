/*
 * One request and the answer to it.
 *
 * What comes is sorted by its first byte, because content types lie: '{' begins a JSON answer (the
 * server cannot stream, or has an error for us with status 200), '<' a page, anything else a stream
 * of events. A try ends in one of four ways: the answer is whole, the server refuses it, the
 * connection breaks, or a limit is met. Another try follows when a refusal names members that can
 * be left out (the backend remembers them), or when a server that is looked after was gone before
 * it had said anything.
 *
 *	stream ends with      and before it            the generation is
 *	[DONE] or the end     a reason for its end     stopped, length or (filtered) failed
 *	[DONE]                no reason                stopped
 *	the end               no reason                failed: cut
 *	nothing for a while   a reason                 as with [DONE]
 *	nothing for a while   no reason                failed: timeout
 */
#include <ctype.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/openai_impl.h"
#include "model/request.h"

static int send_try(struct transfer *transfer, struct err *err);

static struct fault_source source_of(const struct transfer *transfer)
{
	const struct openai *openai = transfer->openai;

	return (struct fault_source){
		.shown = transfer->shown, .model = openai->model, .key = openai->place.key};
}

/* The server's reason for the end is known. */
static void take_finish(struct transfer *transfer, enum delta_finish finish)
{
	if (finish == DELTA_GOES_ON)
		return;
	transfer->finish = finish;
	if (!transfer->finish_us)
		transfer->finish_us = clock_monotonic_us();
}

/* A server that does not keep to max_tokens writes for ever. Each piece has a token or more of most
 * servers, and of those that cut finer it has few bytes. */
static bool overruns(const struct transfer *transfer)
{
	const struct generation *generation = transfer->generation;
	size_t bytes = generation->text.len + generation->reasoning.len;

	return transfer->pieces > (size_t)transfer->tokens_max + OPENAI_TOKENS_SLACK &&
	       bytes / 8 > transfer->tokens_max;
}

static void take_usage(struct transfer *transfer, const struct delta *delta)
{
	struct generation_usage *usage = &transfer->generation->usage;

	if (delta->cached_tokens)
		usage->cached_tokens = delta->cached_tokens;
	if (!delta->has_usage)
		return;
	usage->counted = true;
	usage->prompt_tokens = delta->prompt_tokens;
	usage->tokens = delta->tokens;
}

/* A piece of the answer. -1: nothing more is wanted. */
static int take_delta(struct transfer *transfer, const struct delta *delta)
{
	struct generation *generation = transfer->generation;
	struct fault_source source = source_of(transfer);

	if (delta->is_error) {
		fault_from_error(delta, transfer->status >= 400 ? (int)transfer->status : 0,
				 &source, &transfer->fault);
		return -1;
	}
	if (!delta->is_piece)
		return 0;
	transfer->told = true;
	transfer->openai->happened = true;
	take_usage(transfer, delta);
	if (generation_feed(generation, buf_bytes(&delta->reasoning), delta->reasoning.len,
			    true) ||
	    generation_feed(generation, buf_bytes(&delta->text), delta->text.len, false))
		return -1;
	transfer->pieces += delta->text.len > 0 || delta->reasoning.len > 0;
	take_finish(transfer, delta->finish);
	if (overruns(transfer)) {
		take_finish(transfer, DELTA_LENGTH);
		transfer->complete = true;
	}
	return transfer->complete ? -1 : 0;
}

static int on_event(void *context, const struct sse_event *event)
{
	struct transfer *transfer = context;
	struct fault_source source = source_of(transfer);
	cleanup_delta struct delta delta = DELTA_INIT;
	cleanup_buf struct buf quote = BUF_INIT;
	const char *data = event->data;
	size_t len = event->len;

	while (len > 0 && isspace((unsigned char)data[len - 1]))
		len--;
	while (len > 0 && isspace((unsigned char)*data)) {
		data++;
		len--;
	}
	if (len == 0)
		return 0;
	transfer->data_us = clock_monotonic_us();
	if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
		transfer->complete = true;
		return 1;
	}
	if (delta_read(&delta, data, len, NULL) == 0)
		return take_delta(transfer, &delta);
	if (event->unfinished) /* it is cut, which is told elsewhere */
		return 0;
	fault_quote(&quote, data, len, source.key);
	err_set(&transfer->fault, strcmp(event->type, "error") == 0 ? ERR_GONE : ERR_INVALID,
		"%s sends what is no piece of an answer: %s", source.shown, buf_bytes(&quote));
	return 1;
}

static void take_stream(struct transfer *transfer, const char *bytes, size_t len)
{
	struct err err = ERR_INIT;

	if (sse_feed(&transfer->sse, bytes, len, on_event, transfer, &err) && err.code &&
	    !transfer->fault.code)
		transfer->fault = err;
}

static void take_body(struct transfer *transfer, const char *bytes, size_t len, size_t max)
{
	if (transfer->body.len + len <= max)
		buf_append(&transfer->body, bytes, len);
	else if (transfer->form == FORM_JSON)
		err_set(&transfer->fault, ERR_LIMIT, "the answer of %s has more than %zu MiB",
			transfer->shown, max >> 20);
	else
		transfer->complete = true; /* the beginning of a refusal is enough */
}

/* What the first byte says; white space and a BOM say nothing. */
static void recognise(struct transfer *transfer)
{
	const char *bytes = buf_bytes(&transfer->body);
	size_t len = transfer->body.len, at = 0;

	while (at < len &&
	       (isspace((unsigned char)bytes[at]) || memchr("\xEF\xBB\xBF", bytes[at], 3)))
		at++;
	if (at == len && len < FAULT_BODY_BYTES_MAX)
		return;
	if (at < len && bytes[at] == '{')
		transfer->form = FORM_JSON;
	else if (at < len && (bytes[at] == '<' || bytes[at] == '['))
		transfer->form = FORM_FOREIGN;
	else
		transfer->form = FORM_STREAM;
	if (transfer->form == FORM_STREAM)
		take_stream(transfer, bytes, len);
}

static void take_bytes(struct transfer *transfer, const char *bytes, size_t len)
{
	bool was_unknown = transfer->form == FORM_UNKNOWN;

	if (transfer->status < 200 || transfer->status >= 300) {
		take_body(transfer, bytes, len, FAULT_BODY_BYTES_MAX);
		return;
	}
	if (transfer->form == FORM_STREAM) {
		take_stream(transfer, bytes, len);
		return;
	}
	take_body(transfer, bytes, len,
		  was_unknown || transfer->form == FORM_JSON ? DELTA_BYTES_MAX
							     : FAULT_BODY_BYTES_MAX);
	if (was_unknown)
		recognise(transfer);
	if (transfer->form == FORM_JSON || transfer->form == FORM_FOREIGN)
		transfer->data_us = transfer->byte_us;
}

/* curl's callback. Anything but the count of bytes ends the transfer. */
static size_t on_bytes(char *bytes, size_t size, size_t count, void *data)
{
	struct transfer *transfer = data;
	size_t len = size * count;

	transfer->byte_us = clock_monotonic_us();
	transfer->bytes += len;
	if (transfer->complete)
		return len;
	if (transfer->bytes > OPENAI_RESPONSE_BYTES_MAX) {
		err_set(&transfer->fault, ERR_LIMIT, "%s sends more than %d MiB for one answer",
			transfer->shown, OPENAI_RESPONSE_BYTES_MAX >> 20);
		return 0;
	}
	if (curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status))
		transfer->status = 0;
	take_bytes(transfer, bytes, len);
	return transfer->fault.code || generation_done(transfer->generation) ? 0 : len;
}

static void end_try(struct transfer *transfer)
{
	if (!transfer->easy)
		return;
	(void)curl_multi_remove_handle(transfer->openai->multi, transfer->easy);
	curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	transfer->easy = NULL;
	transfer->headers = NULL;
	sse_release(&transfer->sse);
	transfer->sse = (struct sse)SSE_INIT;
	transfer->form = FORM_UNKNOWN;
	transfer->bytes = 0;
	transfer->status = 0;
	transfer->complete = transfer->told = false;
	transfer->finish = DELTA_GOES_ON;
	transfer->fault = (struct err)ERR_INIT;
	transfer->begun_us = transfer->byte_us = transfer->data_us = transfer->finish_us = 0;
	buf_clear(&transfer->body);
}

static void fail(struct transfer *transfer, const struct err *err)
{
	const struct openai_hooks *hooks = &transfer->openai->hooks;
	struct err told = *err;

	if (told.code == ERR_GONE && hooks->explain)
		hooks->explain(hooks->context, &told);
	generation_fail(transfer->generation, &told);
	end_try(transfer);
}

static void try_again(struct transfer *transfer)
{
	struct err err = ERR_INIT;

	end_try(transfer);
	if (openai_alive(transfer->openai, &err) || send_try(transfer, &err))
		generation_fail(transfer->generation, &err);
}

/* What is left out next, when the server said what it does not want; 0: there is nothing. */
static unsigned leave_out(struct transfer *transfer, unsigned named, bool vague)
{
	unsigned present = request_fields(transfer->request) & ~transfer->dropped;

	if (transfer->tries >= OPENAI_TRIES_MAX)
		return 0;
	if (named & present)
		return named & present;
	if (!vague || transfer->vague)
		return 0;
	transfer->vague = true;
	return FIELDS_OPTIONAL & present;
}

static void settle_refusal(struct transfer *transfer)
{
	struct fault_source source = source_of(transfer);
	struct err err = ERR_INIT;
	unsigned named = 0, less;
	bool vague = false;
	curl_off_t seconds = 0;
	char *to = NULL;

	if (transfer->status < 400) {
		(void)curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &to);
		err_set(&err, ERR_INVALID, "%s sends us on (%ld) to %.100s: give that address",
			source.shown, transfer->status, to ? to : "nowhere");
		fail(transfer, &err);
		return;
	}
	fault_from_body(buf_bytes(&transfer->body), transfer->body.len, (int)transfer->status,
			&source, &named, &vague, &err);
	named |= request_named(transfer->openai->extra, buf_bytes(&transfer->body));
	less = err.code == ERR_INVALID ? leave_out(transfer, named, vague && !named) : 0;
	if (less) {
		transfer->dropped |= less;
		try_again(transfer);
		return;
	}
	if (!curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &seconds) && seconds > 0)
		transfer->generation->retry_ms = seconds * 1000;
	fail(transfer, &err);
}

/* The answer is whole as far as the server is concerned. */
static void settle_whole(struct transfer *transfer)
{
	struct generation *generation = transfer->generation;
	struct err err = ERR_INIT;

	/* What it does without it will do without again. */
	transfer->openai->dropped |= transfer->dropped;
	if (transfer->finish == DELTA_FILTERED) {
		err_set(&err, ERR_DENIED, "%s withholds the rest of the answer (content filter)",
			transfer->shown);
		fail(transfer, &err);
		return;
	}
	if (transfer->finish == DELTA_BROKEN) {
		err_set(&err, ERR_GONE, "%s gave up in the middle of the answer", transfer->shown);
		fail(transfer, &err);
		return;
	}
	generation_end(generation, transfer->finish == DELTA_LENGTH ? GENERATION_LENGTH
								    : GENERATION_STOPPED);
	end_try(transfer);
}

static void say_broken(const struct transfer *transfer, CURLcode code, struct err *err)
{
	const char *shown = transfer->shown;
	long number = 0;

	switch ((int)code) {
	case CURLE_COULDNT_CONNECT:
		(void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number);
		err_set(err, ERR_GONE, "nobody answers at %s (%s): is the server running?", shown,
			number ? strerror((int)number) : "no connection");
		break;
	case CURLE_COULDNT_RESOLVE_HOST:
		err_set(err, ERR_GONE, "the host of %s is not known", shown);
		break;
	case CURLE_OPERATION_TIMEDOUT:
		err_set(err, ERR_TIMEOUT, "no connection to %s in time", shown);
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
		err_set(err, ERR_DENIED, "the certificate of %s is not trusted", shown);
		break;
	case CURLE_SSL_CONNECT_ERROR:
		err_set(err, ERR_INVALID, "no TLS with %s: does it speak plain http?", shown);
		break;
	case CURLE_OK:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		err_set(err, ERR_GONE, "%s closed the connection %s", shown,
			transfer->told ? "in the middle of the answer" : "without an answer");
		break;
	default:
		err_set(err, ERR_INVALID, "%s does not speak HTTP as it should: %s", shown,
			curl_easy_strerror(code));
		break;
	}
}

static bool may_revive(const struct transfer *transfer, const struct err *err)
{
	const struct generation *generation = transfer->generation;

	return transfer->openai->hooks.alive && !transfer->revived && err->code == ERR_GONE &&
	       generation->text.len == 0 && generation->reasoning.len == 0;
}

/* Whether it began as a stream of events does, whatever came after. */
static bool began_well(const struct transfer *transfer)
{
	static const char *const begins[] = {":", "data:", "event:", "id:", "retry:", NULL};
	const char *bytes = buf_bytes(&transfer->body);

	while (isspace((unsigned char)*bytes) || (*bytes && strchr("\xEF\xBB\xBF", *bytes)))
		bytes++;
	for (size_t i = 0; begins[i]; i++)
		if (strncmp(bytes, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

static void settle_broken(struct transfer *transfer, CURLcode code)
{
	struct err err = ERR_INIT;
	cleanup_buf struct buf quote = BUF_INIT;

	if (code == CURLE_OK && transfer->bytes > 0 && !transfer->told && !began_well(transfer)) {
		fault_quote(&quote, buf_bytes(&transfer->body), transfer->body.len,
			    transfer->openai->place.key);
		err_set(&err, ERR_INVALID,
			"%s answers with what is no chat completion (is its path right? most end "
			"in /v1): %s",
			transfer->shown, buf_bytes(&quote));
	} else {
		say_broken(transfer, code, &err);
	}
	if (!may_revive(transfer, &err)) {
		fail(transfer, &err);
		return;
	}
	transfer->revived = true;
	try_again(transfer);
}

/* A JSON answer, which is whole or wrong. */
static void read_json(struct transfer *transfer)
{
	cleanup_delta struct delta delta = DELTA_INIT;

	if (delta_read(&delta, buf_bytes(&transfer->body), transfer->body.len, NULL))
		return;
	if (take_delta(transfer, &delta) == 0 && transfer->told)
		transfer->complete = true;
}

void transfer_settle(struct transfer *transfer, CURLcode code)
{
	struct err ignored = ERR_INIT;

	transfer->openai->happened = true;
	if (!transfer->status)
		(void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
	if (generation_done(transfer->generation)) {
		end_try(transfer);
		return;
	}
	if (transfer->status >= 300 && !transfer->fault.code) {
		settle_refusal(transfer);
		return;
	}
	if (transfer->form == FORM_STREAM && !transfer->complete && !transfer->fault.code)
		(void)sse_end(&transfer->sse, on_event, transfer, &ignored);
	if (transfer->form == FORM_JSON && !transfer->fault.code)
		read_json(transfer);
	if (generation_done(transfer->generation))
		end_try(transfer);
	else if (transfer->fault.code)
		fail(transfer, &transfer->fault);
	else if (transfer->finish != DELTA_GOES_ON || (transfer->complete && transfer->told))
		settle_whole(transfer);
	else
		settle_broken(transfer, transfer->complete ? CURLE_OK : code);
}

int64_t transfer_deadline(const struct transfer *transfer)
{
	int64_t data_us, between_us;

	if (!transfer->easy)
		return INT64_MAX;
	if (transfer->finish_us && transfer->generation->usage.counted)
		return transfer->byte_us + OPENAI_CLOSE_MS * (int64_t)1000;
	if (transfer->finish_us)
		return transfer->finish_us + OPENAI_TAIL_MS * (int64_t)1000;
	if (!transfer->data_us)
		return transfer->begun_us + transfer->first_us_max;
	/* Comments and half lines show that it lives, but not for ever. */
	data_us = transfer->data_us + transfer->first_us_max;
	between_us = transfer->byte_us + transfer->idle_us_max;
	return between_us < data_us ? between_us : data_us;
}

void transfer_expire(struct transfer *transfer)
{
	bool begun = transfer->data_us != 0;
	int64_t us = begun ? transfer->idle_us_max : transfer->first_us_max;
	struct err err = ERR_INIT;

	if (transfer->complete || transfer->finish_us) {
		transfer_settle(transfer, CURLE_OK);
		return;
	}
	transfer->openai->happened = true;
	err_set(&err, ERR_TIMEOUT, "%s has said nothing for %.3g s%s", transfer->shown,
		(double)us / 1e6, begun ? " in the middle of its answer" : "");
	fail(transfer, &err);
}

static int send_try(struct transfer *transfer, struct err *err)
{
	struct openai *openai = transfer->openai;
	const struct place *place = &openai->place;

	transfer->tries++;
	buf_clear(&transfer->sent);
	request_write(&transfer->sent, transfer->request, openai->extra, transfer->dropped);
	snprintf(transfer->shown, sizeof(transfer->shown), "%s", place->shown);
	transfer->easy = place_easy(place, place->chat_url, &transfer->headers, err);
	if (!transfer->easy)
		return -1;
	transfer->begun_us = clock_monotonic_us();
	if (place_header(&transfer->headers, "Content-Type: application/json") &&
	    place_header(&transfer->headers, "Accept: text/event-stream, application/json") &&
	    !curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers) &&
	    !curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE,
			      (curl_off_t)transfer->sent.len) &&
	    !curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, buf_bytes(&transfer->sent)) &&
	    !curl_easy_setopt(transfer->easy, CURLOPT_WRITEFUNCTION, on_bytes) &&
	    !curl_easy_setopt(transfer->easy, CURLOPT_WRITEDATA, transfer) &&
	    !curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer) &&
	    !curl_multi_add_handle(openai->multi, transfer->easy))
		return 0;
	end_try(transfer);
	return err_set(err, ERR_INTERNAL, "libcurl cannot ask %s", place->shown);
}

void transfer_free(struct transfer *transfer)
{
	end_try(transfer);
	sse_release(&transfer->sse);
	buf_release(&transfer->sent);
	buf_release(&transfer->body);
	json_free(transfer->request);
	free(transfer);
}

int transfer_start(struct openai *openai, struct generation *generation,
		   const struct generation_request *request, struct err *err)
{
	struct transfer *transfer = mem_zalloc(sizeof(*transfer));
	int64_t first_ms = request->first_ms_max > 0 ? request->first_ms_max : OPENAI_FIRST_MS;
	int64_t idle_ms = request->idle_ms_max > 0 ? request->idle_ms_max : OPENAI_IDLE_MS;

	transfer->openai = openai;
	transfer->generation = generation;
	transfer->tokens_max = request->tokens_max;
	transfer->first_us_max = first_ms * 1000;
	transfer->idle_us_max = idle_ms * 1000;
	transfer->dropped = openai->dropped;
	transfer->request = request_new(openai->model, request);
	if (send_try(transfer, err)) {
		transfer_free(transfer);
		return -1;
	}
	generation->job = transfer;
	return 0;
}
