/*
 * WebSockets over wslay; see websocket.h.
 */
#include "serve/websocket.h"

#include <string.h>

#define OPENSSL_SUPPRESS_DEPRECATED /* see base/hash.c */
#include <openssl/sha.h>
#include <wslay/wslay.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

struct websocket {
	struct http_request *request;
	wslay_event_context_ptr context;
	const struct websocket_events *events;
	void *data;
	const char *in; /* what wslay may read, during on_bytes */
	size_t in_len;
	unsigned fragments;
	bool closing, closed_by_us, broken, gone;
	bool full, paused; /* reasons not to read */
	bool reading_stopped;
	int64_t heard_us, pinged_us, closing_us;
};

int websocket_check(const struct http_request *request, const char **why)
{
	const struct head *head = &request->head;
	const struct slice *upgrade = head_find(head, "upgrade", NULL);
	const struct slice *connection = head_find(head, "connection", NULL);
	const struct slice *version = head_find(head, "sec-websocket-version", NULL);
	const struct slice *key = head_find(head, "sec-websocket-key", NULL);
	struct buf bytes = BUF_INIT;
	bool good_key;

	if (!upgrade || !slice_is_word(upgrade, "websocket") || !connection ||
	    !head_lists(connection, "upgrade")) {
		*why = "this is a WebSocket: Upgrade: websocket, Connection: Upgrade";
		return 426;
	}
	if (!version || !slice_is(version, "13")) {
		*why = "Sec-WebSocket-Version must be 13";
		return 426;
	}
	good_key = key && key->len == 24 && hash_base64_decode(&bytes, key->at, key->len) == 0 &&
		   bytes.len == 16;
	buf_release(&bytes);
	if (!good_key || request->has_body || request->is_head) {
		*why = "Sec-WebSocket-Key must be 16 bytes in base64, and there is no body";
		return 400;
	}
	return 0;
}

/* --- frames out ------------------------------------------------------------------------------- */

/* RFC 6455 §5.2: a server's frames are not masked. */
static void put_frame(struct websocket *ws, unsigned opcode, const char *bytes, size_t len)
{
	unsigned char head[10] = {(unsigned char)(0x80 | opcode)};
	size_t head_len = 2;

	if (len < 126) {
		head[1] = (unsigned char)len;
	} else if (len < 65536) {
		head[1] = 126;
		head_len = 4;
	} else {
		head[1] = 127;
		head_len = 10;
	}
	for (size_t i = 2; i < head_len; i++)
		head[i] = (unsigned char)((uint64_t)len >> 8 * (head_len - 1 - i));
	http_write_raw(ws->request, head, head_len);
	http_write_raw(ws->request, bytes, len);
}

static void read_as_wanted(struct websocket *ws)
{
	bool stop = ws->full || ws->paused;

	if (stop == ws->reading_stopped || ws->gone)
		return;
	ws->reading_stopped = stop;
	if (stop)
		http_pause(ws->request);
	else
		http_resume(ws->request);
}

void websocket_send(struct websocket *ws, const char *bytes, size_t len)
{
	if (ws->closing || ws->gone)
		return;
	put_frame(ws, WSLAY_TEXT_FRAME, bytes, len);
	if (http_full(ws->request)) {
		ws->full = true;
		read_as_wanted(ws);
	}
}

bool websocket_full(const struct websocket *ws)
{
	return http_full(ws->request);
}

void websocket_close(struct websocket *ws, enum websocket_close code, const char *reason)
{
	char bytes[125];
	size_t len = strlen(reason);

	if (ws->closing || ws->gone)
		return;
	ws->closing = ws->closed_by_us = true;
	ws->closing_us = clock_monotonic_us();
	len = len < sizeof(bytes) - 2 ? len : sizeof(bytes) - 2;
	bytes[0] = (char)((unsigned)code >> 8);
	bytes[1] = (char)((unsigned)code & 0xff);
	memcpy(bytes + 2, reason, len);
	put_frame(ws, WSLAY_CONNECTION_CLOSE, bytes, len + 2);
}

void websocket_pause(struct websocket *ws)
{
	ws->paused = true;
	read_as_wanted(ws);
}

void websocket_resume(struct websocket *ws)
{
	ws->paused = false;
	read_as_wanted(ws);
}

/* --- wslay ------------------------------------------------------------------------------------ */

static ssize_t wslay_reads(wslay_event_context_ptr context, uint8_t *bytes, size_t size, int flags,
			   void *data)
{
	struct websocket *ws = data;

	(void)flags;
	if (ws->in_len == 0) {
		wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	size = size < ws->in_len ? size : ws->in_len;
	memcpy(bytes, ws->in, size);
	ws->in += size;
	ws->in_len -= size;
	return (ssize_t)size;
}

/* All is taken, so that a frame of wslay is never cut by one of ours. */
static ssize_t wslay_writes(wslay_event_context_ptr context, const uint8_t *bytes, size_t len,
			    int flags, void *data)
{
	struct websocket *ws = data;

	(void)context;
	(void)flags;
	if (!ws->closed_by_us)
		http_write_raw(ws->request, bytes, len);
	return (ssize_t)len;
}

static void frame_begins(wslay_event_context_ptr context,
			 const struct wslay_event_on_frame_recv_start_arg *frame, void *data)
{
	struct websocket *ws = data;

	(void)context;
	if (wslay_is_ctrl_frame(frame->opcode))
		return;
	ws->fragments = frame->fin ? 0 : ws->fragments + 1;
	if (ws->fragments > WEBSOCKET_FRAGMENTS_MAX) {
		ws->broken = true;
		websocket_close(ws, WEBSOCKET_TOO_BIG, "too many fragments");
		wslay_event_shutdown_read(context);
	}
}

static void message_ended(wslay_event_context_ptr context,
			  const struct wslay_event_on_msg_recv_arg *message, void *data)
{
	struct websocket *ws = data;

	(void)context;
	if (wslay_is_ctrl_frame(message->opcode) || ws->closing || ws->gone)
		return;
	ws->events->message(ws->data, (const char *)message->msg, message->msg_length,
			    message->opcode == WSLAY_TEXT_FRAME);
}

static const struct wslay_event_callbacks CALLBACKS = {
	.recv_callback = wslay_reads,
	.send_callback = wslay_writes,
	.on_frame_recv_start_callback = frame_begins,
	.on_msg_recv_callback = message_ended,
};

/* Both sides have said goodbye, or never will. */
static void finish_if_over(struct websocket *ws)
{
	bool heard = wslay_event_get_close_received(ws->context);

	if (heard && !ws->closing) {
		ws->closing = true;
		ws->closing_us = clock_monotonic_us();
	}
	if (heard || ws->broken)
		http_finish_raw(ws->request);
}

static void bytes_came(struct http_request *request, const char *bytes, size_t len)
{
	struct websocket *ws = request->data;

	ws->heard_us = clock_monotonic_us();
	if (ws->broken)
		return;
	ws->in = bytes;
	ws->in_len = len;
	if (wslay_event_recv(ws->context) != 0 && !ws->broken) {
		ws->broken = true;
		websocket_close(ws, WEBSOCKET_PROTOCOL, "");
	}
	ws->in_len = 0;
	if (wslay_event_send(ws->context) != 0)
		ws->broken = true;
	/* wslay has answered an error by a close of its own. */
	if (wslay_event_get_close_sent(ws->context) && !ws->closing) {
		ws->closing = true;
		ws->closing_us = ws->heard_us;
		if (!wslay_event_get_close_received(ws->context))
			ws->broken = true;
	}
	if (http_full(request)) {
		ws->full = true;
		read_as_wanted(ws);
	}
	finish_if_over(ws);
}

static void drained(struct http_request *request)
{
	struct websocket *ws = request->data;

	ws->full = false;
	ws->events->drained(ws->data);
	read_as_wanted(ws); /* more may come during this call: it is the last */
}

static void gone(struct http_request *request)
{
	struct websocket *ws = request->data;

	ws->gone = true;
	ws->events->gone(ws->data, ws->broken);
	wslay_event_context_free(ws->context);
	free(ws);
}

/* --- life ------------------------------------------------------------------------------------- */

/* RFC 6455 §4.2.2: base64 of SHA-1 of the key and a fixed GUID. */
static void put_accept(struct http_request *request)
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	const struct slice *key = head_find(&request->head, "sec-websocket-key", NULL);
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_buf struct buf coded = BUF_INIT;
	unsigned char digest[SHA_DIGEST_LENGTH];

	buf_append(&text, key->at, key->len);
	buf_append_string(&text, guid);
	SHA1((const unsigned char *)buf_bytes(&text), text.len, digest);
	hash_base64_encode(&coded, digest, sizeof(digest));
	http_field(request, "Sec-WebSocket-Accept", "%s", buf_bytes(&coded));
}

struct websocket *websocket_accept(struct http_request *request, size_t message_bytes_max,
				   const struct websocket_events *events, void *data)
{
	const struct slice *protocols = head_find(&request->head, "sec-websocket-protocol", NULL);
	struct websocket *ws = mem_zalloc(sizeof(*ws));

	ws->request = request;
	ws->events = events;
	ws->data = data;
	ws->heard_us = ws->pinged_us = clock_monotonic_us();
	if (wslay_event_context_server_init(&ws->context, &CALLBACKS, ws) != 0)
		abort(); /* no memory, as everywhere */
	wslay_event_config_set_max_recv_msg_length(ws->context, message_bytes_max);
	put_accept(request);
	if (protocols && head_lists(protocols, "fumehood.v1"))
		http_field(request, "Sec-WebSocket-Protocol", "fumehood.v1");
	request->data = ws;
	request->on_bytes = bytes_came;
	request->on_drained = drained;
	request->on_gone = gone;
	http_upgrade(request, "websocket");
	return ws;
}

void websocket_tick(struct websocket *ws, int64_t now_us)
{
	if (ws->closing) {
		if (now_us - ws->closing_us > (int64_t)WEBSOCKET_CLOSE_S * 1000000)
			http_finish_raw(ws->request);
		return;
	}
	if (now_us - ws->heard_us > (int64_t)WEBSOCKET_SILENCE_S * 1000000 &&
	    !ws->reading_stopped) {
		websocket_close(ws, WEBSOCKET_POLICY, "no answer to pings");
		return;
	}
	if (now_us - ws->pinged_us > (int64_t)WEBSOCKET_PING_S * 1000000) {
		ws->pinged_us = now_us;
		put_frame(ws, WSLAY_PING, "", 0);
	}
}
