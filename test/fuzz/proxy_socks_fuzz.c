/*
 * Fuzzes the SOCKS side of the proxy: in one piece and in many the same outcome, the same bytes
 * sent back and used; never more than a message is wanted; a target that is accepted reads back as
 * itself.
 *
 * The first byte is the length of the pieces.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/proxy_socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGE_MAX = 513 };

struct result {
	enum proxy_outcome outcome;
	enum refusal refusal;
	struct proxy_socks socks;
	struct buf reply;
	size_t used;
};

static void check(int condition)
{
	if (!condition)
		abort();
}

static void feed(struct result *result, const char *bytes, size_t len, size_t piece)
{
	struct buf inbox = BUF_INIT;

	*result = (struct result){.outcome = PROXY_MORE};
	for (size_t at = 0; at < len && result->outcome == PROXY_MORE; at += piece) {
		size_t used = 0;

		buf_append(&inbox, bytes + at, len - at < piece ? len - at : piece);
		result->outcome = proxy_socks_read(&result->socks, buf_bytes(&inbox), inbox.len,
						   &used, &result->reply, &result->refusal);
		check(used <= inbox.len);
		buf_consume(&inbox, used);
		result->used += used;
		check(result->outcome != PROXY_MORE || inbox.len < MESSAGE_MAX);
	}
	buf_release(&inbox);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result whole, pieces;

	if (size < 2)
		return 0;
	feed(&whole, (const char *)data + 1, size - 1, size);
	feed(&pieces, (const char *)data + 1, size - 1, data[0] % 9 + 1U);
	check(whole.outcome == pieces.outcome && whole.refusal == pieces.refusal);
	check(whole.outcome == PROXY_REFUSED || whole.used == pieces.used);
	check(whole.reply.len == pieces.reply.len &&
	      memcmp(buf_bytes(&whole.reply), buf_bytes(&pieces.reply), whole.reply.len) == 0);
	if (whole.outcome == PROXY_DONE) {
		struct buf text = BUF_INIT;
		struct hosts_target again;

		hosts_write_authority(&whole.socks.target, 0, &text);
		check(hosts_read_authority(buf_bytes(&text), text.len, 0, &again) == REFUSAL_NONE);
		check(hosts_same(&again, &whole.socks.target));
		buf_release(&text);
	}
	proxy_socks_release(&whole.socks);
	proxy_socks_release(&pieces.socks);
	buf_release(&whole.reply);
	buf_release(&pieces.reply);
	return 0;
}
