/*
 * Each message has its length in its first bytes, so it is taken when it is whole, and a message
 * has at most 513 bytes.
 */
#include "sandbox/proxy_socks.h"

#include <netinet/in.h>
#include <string.h>

enum {
	METHOD_NONE = 0x00,
	METHOD_LOGIN = 0x02,
	METHOD_REFUSED = 0xff,
	LOGIN_VERSION = 1,
	COMMAND_CONNECT = 1,
	TYPE_IPV4 = 1,
	TYPE_NAME = 3,
	TYPE_IPV6 = 4,
};

/* What came, and how much of it one message takes. */
struct message {
	const unsigned char *bytes;
	size_t len;
	size_t size;
};

static enum proxy_outcome refuse(enum refusal *refusal, enum refusal why)
{
	*refusal = why;
	return PROXY_REFUSED;
}

static enum proxy_outcome read_greeting(struct proxy_socks *socks, struct message *message,
					struct buf *reply, enum refusal *refusal)
{
	const unsigned char *bytes = message->bytes;
	const unsigned char *methods = bytes + 2;
	unsigned char method = METHOD_REFUSED;

	if (message->len < 1)
		return PROXY_MORE;
	if (bytes[0] != PROXY_SOCKS_VERSION)
		return refuse(refusal, REFUSAL_SOCKS_VERSION);
	if (message->len < 2 || message->len < 2U + bytes[1])
		return PROXY_MORE;
	message->size = 2U + bytes[1];
	if (memchr(methods, METHOD_NONE, bytes[1]))
		method = METHOD_NONE;
	else if (memchr(methods, METHOD_LOGIN, bytes[1]))
		method = METHOD_LOGIN;
	buf_append_char(reply, PROXY_SOCKS_VERSION);
	buf_append_char(reply, (char)method);
	if (method == METHOD_REFUSED)
		return refuse(refusal, REFUSAL_SOCKS_AUTH);
	socks->stage = method == METHOD_LOGIN ? PROXY_SOCKS_LOGIN : PROXY_SOCKS_REQUEST;
	return PROXY_DONE;
}

static enum proxy_outcome read_login(struct proxy_socks *socks, struct message *message,
				     struct buf *reply, enum refusal *refusal)
{
	const unsigned char *bytes = message->bytes;
	size_t name;

	if (message->len < 1)
		return PROXY_MORE;
	if (bytes[0] != LOGIN_VERSION)
		return refuse(refusal, REFUSAL_SOCKS_AUTH);
	if (message->len < 2)
		return PROXY_MORE;
	name = bytes[1];
	if (message->len < 3 + name || message->len < 3 + name + bytes[2 + name])
		return PROXY_MORE;
	message->size = 3 + name + bytes[2 + name];
	buf_append_char(reply, LOGIN_VERSION);
	buf_append_char(reply, 0);
	socks->stage = PROXY_SOCKS_REQUEST;
	return PROXY_DONE;
}

static enum refusal read_target(struct proxy_socks *socks, const unsigned char *bytes, size_t host)
{
	struct hosts_target *target = &socks->target;
	const unsigned char *port = bytes + 4 + host;
	enum refusal refusal;

	buf_clear(&socks->asked);
	if (bytes[3] == TYPE_NAME) {
		buf_append(&socks->asked, bytes + 5, host - 1);
		refusal = hosts_read_name((const char *)bytes + 5, host - 1, target);
	} else {
		char text[INET6_ADDRSTRLEN];
		int family = bytes[3] == TYPE_IPV4 ? AF_INET : AF_INET6;

		buf_append_string(&socks->asked, inet_ntop(family, bytes + 4, text, sizeof(text)));
		refusal = hosts_read_address((sa_family_t)family, bytes + 4, target);
	}
	target->port = (uint16_t)(port[0] << 8 | port[1]);
	if (refusal == REFUSAL_NONE && target->port == 0)
		refusal = REFUSAL_PORT;
	return refusal;
}

static enum proxy_outcome read_request(struct proxy_socks *socks, struct message *message,
				       enum refusal *refusal)
{
	const unsigned char *bytes = message->bytes;
	size_t host; /* bytes of the address, with the length of a name */

	if (message->len >= 1 && bytes[0] != PROXY_SOCKS_VERSION)
		return refuse(refusal, REFUSAL_SOCKS_VERSION);
	if (message->len >= 2 && bytes[1] != COMMAND_CONNECT)
		return refuse(refusal, REFUSAL_SOCKS_COMMAND);
	if (message->len < 5)
		return PROXY_MORE;
	if (bytes[3] == TYPE_IPV4)
		host = 4;
	else if (bytes[3] == TYPE_IPV6)
		host = 16;
	else if (bytes[3] == TYPE_NAME)
		host = 1U + bytes[4];
	else
		return refuse(refusal, REFUSAL_SOCKS_ADDRESS);
	if (message->len < 4 + host + 2)
		return PROXY_MORE;
	message->size = 4 + host + 2;
	*refusal = read_target(socks, bytes, host);
	return *refusal == REFUSAL_NONE ? PROXY_DONE : PROXY_REFUSED;
}

enum proxy_outcome proxy_socks_read(struct proxy_socks *socks, const char *bytes, size_t len,
				    size_t *used, struct buf *reply, enum refusal *refusal)
{
	*used = 0;
	*refusal = REFUSAL_NONE;
	for (;;) {
		struct message message = {.bytes = (const unsigned char *)bytes + *used,
					  .len = len - *used};
		enum proxy_socks_stage stage = socks->stage;
		enum proxy_outcome outcome;

		if (stage == PROXY_SOCKS_GREETING)
			outcome = read_greeting(socks, &message, reply, refusal);
		else if (stage == PROXY_SOCKS_LOGIN)
			outcome = read_login(socks, &message, reply, refusal);
		else
			outcome = read_request(socks, &message, refusal);
		*used += message.size;
		if (outcome != PROXY_DONE || stage == PROXY_SOCKS_REQUEST)
			return outcome;
	}
}

void proxy_socks_release(struct proxy_socks *socks)
{
	buf_release(&socks->asked);
}

void proxy_socks_answer(enum refusal refusal, struct buf *out)
{
	const unsigned char answer[10] = {PROXY_SOCKS_VERSION, refusal_socks_reply(refusal), 0,
					  TYPE_IPV4};

	buf_append(out, answer, sizeof(answer));
}
