/*
 * Refusals: every reason for which the proxy does not connect, in one table.
 *
 * The name is what an event says and what a test compares; the HTTP status and the SOCKS reply are
 * what the guest's program gets; the sentence is for people.
 */
#ifndef FH_SANDBOX_REFUSAL_H
#define FH_SANDBOX_REFUSAL_H

enum refusal {
	REFUSAL_NONE,
	/* the name of the host */
	REFUSAL_HOST_EMPTY,
	REFUSAL_HOST_LONG,
	REFUSAL_HOST_BYTES,
	REFUSAL_HOST_LABEL,
	REFUSAL_HOST_TRAILING_DOT,
	REFUSAL_HOST_NUMBER,
	REFUSAL_HOST_IPV6,
	REFUSAL_HOST_ZONE,
	REFUSAL_HOST_V4_IN_V6,
	REFUSAL_PORT,
	/* the rules */
	REFUSAL_NOT_ALLOWED,
	REFUSAL_PORT_NOT_ALLOWED,
	REFUSAL_RULES_CHANGED,
	/* the address it leads to; address.c says which ranges */
	REFUSAL_ADDRESS_UNSPECIFIED,
	REFUSAL_ADDRESS_LOOPBACK,
	REFUSAL_ADDRESS_PRIVATE,
	REFUSAL_ADDRESS_SHARED,
	REFUSAL_ADDRESS_LINK_LOCAL,
	REFUSAL_ADDRESS_METADATA,
	REFUSAL_ADDRESS_MULTICAST,
	REFUSAL_ADDRESS_BROADCAST,
	REFUSAL_ADDRESS_DOCUMENTATION,
	REFUSAL_ADDRESS_BENCHMARK,
	REFUSAL_ADDRESS_RESERVED,
	REFUSAL_ADDRESS_OWN,
	/* the request */
	REFUSAL_REQUEST_SYNTAX,
	REFUSAL_REQUEST_NUL,
	REFUSAL_REQUEST_LINE_END,
	REFUSAL_REQUEST_FOLD,
	REFUSAL_REQUEST_SIZE,
	REFUSAL_REQUEST_HEADERS,
	REFUSAL_REQUEST_VERSION,
	REFUSAL_REQUEST_FORM,
	REFUSAL_REQUEST_SCHEME,
	REFUSAL_REQUEST_HOST,
	REFUSAL_REQUEST_FRAMING,
	REFUSAL_SOCKS_VERSION,
	REFUSAL_SOCKS_AUTH,
	REFUSAL_SOCKS_COMMAND,
	REFUSAL_SOCKS_ADDRESS,
	/* what happened on the way */
	REFUSAL_UNRESOLVED,
	REFUSAL_UNREACHABLE,
	REFUSAL_CONNECT_TIMEOUT,
	REFUSAL_REQUEST_TIMEOUT,
	REFUSAL_IDLE,
	REFUSAL_FULL,
	REFUSAL_CLOSING,
	REFUSAL_COUNT
};

/* The name in events, such as "not_allowed"; never NULL. */
const char *refusal_name(enum refusal refusal);

/* A sentence without a full stop that goes on after the host's name, such as "is not among the
 * allowed hosts". */
const char *refusal_text(enum refusal refusal);

/* The HTTP status (RFC 9110) 400..504; 200 for REFUSAL_NONE. */
int refusal_http_status(enum refusal refusal);

/* The reply code of SOCKS 5 (RFC 1928 section 6); 0 for REFUSAL_NONE. */
unsigned char refusal_socks_reply(enum refusal refusal);

#endif
