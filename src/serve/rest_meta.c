/*
 * What the daemon tells of itself: health, the description of its interface, metrics.
 */
#include "base/mem.h"
#include "serve/asking.h"
#include "serve/openapi.h"
#include "serve/stream.h"

void rest_health(struct exchange *exchange)
{
	exchange_bytes(exchange, 200, "application/json", "{\"status\":\"ok\"}\n", 16);
}

void rest_ready(struct exchange *exchange)
{
	if (exchange->serve->ready && !exchange->serve->ending)
		exchange_bytes(exchange, 200, "application/json", "{\"status\":\"ready\"}\n", 19);
	else
		exchange_problem(exchange, 503, "the daemon is starting or ending");
}

void rest_openapi(struct exchange *exchange)
{
	exchange_bytes(exchange, 200, "application/json", OPENAPI, (size_t)(OPENAPI_END - OPENAPI));
}

void rest_metrics(struct exchange *exchange)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct serve *serve = exchange->serve;

	metrics_write(&text, &serve->metrics, serve->sessions, http_connections(serve->http),
		      serve_streams_of(serve, NULL), askings_running(serve, NULL));
	exchange_bytes(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", buf_bytes(&text),
		       text.len);
}
