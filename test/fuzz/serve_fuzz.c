/*
 * Fuzzes what the daemon reads of foreign bytes: heads, targets, the beginnings of a keeper's
 * lines, ranges, types of files, and the files of tokens. What passes must be what was promised:
 * slices inside the bytes, no control characters, segments that cannot change a path's shape.
 *
 * The first byte says which.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "serve/head.h"
#include "serve/range.h"
#include "serve/scan.h"
#include "serve/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
	if (!condition)
		abort();
}

static void check_inside(const struct slice *slice, const char *bytes, size_t len)
{
	check(slice->len == 0 || (slice->at >= bytes && slice->at + slice->len <= bytes + len));
}

static void fuzz_target(const struct slice *text)
{
	struct target target;
	const char *why = "";

	if (target_parse(text, &target, &why) == 0) {
		for (size_t i = 0; i < target.segment_count; i++) {
			const char *segment = target.segments[i];

			check(strlen(segment) == target.segment_lens[i] && segment[0] != '\0');
			check(!strchr(segment, '/') && strcmp(segment, ".") != 0 &&
			      strcmp(segment, "..") != 0);
		}
		for (size_t i = 0; i < target.param_count; i++)
			check(strlen(target.params[i].value) == target.params[i].value_len);
	} else {
		check(why[0] != '\0');
	}
	target_release(&target);
}

static void fuzz_head(const char *bytes, size_t len)
{
	struct head head;
	const char *why = "";
	int status = head_parse(bytes, len, &head, &why);

	if (status != 0) {
		check((status == 400 || status == 414 || status == 431 || status == 505) && why[0]);
		return;
	}
	check(len >= 4 && memcmp(bytes + len - 4, "\r\n\r\n", 4) == 0);
	check_inside(&head.method, bytes, len);
	check_inside(&head.target, bytes, len);
	for (size_t i = 0; i < head.field_count; i++) {
		const struct slice *value = &head.fields[i].value;

		check(head.fields[i].name.len > 0);
		check_inside(&head.fields[i].name, bytes, len);
		check_inside(value, bytes, len);
		check(!memchr(value->at, '\r', value->len) &&
		      !memchr(value->at, '\n', value->len) && !memchr(value->at, '\0', value->len));
		(void)head_lists(value, "chunked");
	}
	fuzz_target(&head.target);
}

static void fuzz_scan(const char *bytes, size_t len)
{
	struct buf out = BUF_INIT;
	struct scan scan;

	scan_line(bytes, len, &scan);
	check_inside(&scan.type, bytes, len);
	check_inside(&scan.cell, bytes, len);
	check_inside(&scan.id, bytes, len);
	check_inside(&scan.rest, bytes, len);
	if (scan.kind == SCAN_REPLY || scan.kind == SCAN_REFUSED) {
		scan_put_rest(&out, &scan);
		check(out.len >= 2 && buf_bytes(&out)[0] == '{' &&
		      buf_bytes(&out)[out.len - 1] == '}');
	}
	buf_release(&out);
}

static void fuzz_range(const char *bytes, size_t len)
{
	struct slice field = {bytes, len};
	uint64_t start = 0, end = 0;

	if (range_read(&field, 1000, &start, &end) == RANGE_SOME)
		check(start < end && end <= 1000);
	check(file_type(bytes, len)[0] != '\0');
}

static void fuzz_token(const char *bytes, size_t len)
{
	struct token token;
	struct buf again = BUF_INIT;

	if (token_read(bytes, len, &token) == 0) {
		token_write(&again, &token);
		check(token_read(buf_bytes(&again), again.len, &token) == 0);
	}
	buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *bytes = NULL;
	struct slice text;

	if (size == 0)
		return 0;
	bytes = mem_copy(data + 1, size - 1);
	text = (struct slice){bytes, size - 1};
	switch (data[0] % 5) {
	case 0:
		fuzz_head(bytes, size - 1);
		break;
	case 1:
		fuzz_target(&text);
		break;
	case 2:
		fuzz_scan(bytes, size - 1);
		break;
	case 3:
		fuzz_range(bytes, size - 1);
		break;
	default:
		fuzz_token(bytes, size - 1);
		break;
	}
	return 0;
}
