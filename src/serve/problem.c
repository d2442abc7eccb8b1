/*
 * Problem documents; see problem.h.
 */
#include "serve/problem.h"

#include <stdarg.h>

#include "base/json.h"

enum { DETAIL_BYTES_MAX = 512 };

const char *problem_code(int status)
{
	switch (status) {
	case 401:
		return "unauthorized";
	case 403:
		return "denied";
	case 404:
		return "not_found";
	case 405:
		return "method_not_allowed";
	case 406:
		return "not_acceptable";
	case 408:
		return "timeout";
	case 413:
	case 414:
	case 431:
		return "limit";
	case 415:
		return "media_type";
	case 416:
		return "range";
	case 421:
		return "misdirected";
	case 426:
		return "upgrade_required";
	case 429:
		return "rate";
	case 500:
		return "internal";
	case 503:
		return "busy";
	default:
		return "invalid";
	}
}

void problem_write(struct buf *out, int status, const char *code, const char *detail)
{
	buf_printf(out,
		   "{\"type\":\"urn:fumehood:%s\",\"title\":\"%s\",\"status\":%d,\"detail\":", code,
		   http_phrase(status), status);
	json_write_string(out, detail, strlen(detail));
	buf_printf(out, ",\"code\":\"%s\"}\n", code);
}

void problem_reply(struct http_request *request, int status, const char *code, const char *format,
		   ...)
{
	cleanup_buf struct buf body = BUF_INIT;
	char detail[DETAIL_BYTES_MAX];
	va_list args;

	va_start(args, format);
	if (vsnprintf(detail, sizeof(detail), format, args) < 0)
		detail[0] = '\0';
	va_end(args);
	problem_write(&body, status, code ? code : problem_code(status), detail);
	http_reply(request, status, PROBLEM_TYPE, buf_bytes(&body), body.len);
}

void problem_err(struct http_request *request, const struct err *err)
{
	if (err_retry(err->code))
		http_field(request, "Retry-After", "1");
	problem_reply(request, err_http_status(err->code), err_name(err->code), "%s", err->text);
}
