/*
 * The table of refusals. Replies of SOCKS (RFC 1928 section 6): 1 failure, 2 not allowed by the
 * rules, 4 host unreachable, 7 command not supported, 8 address type not supported.
 */
#include "sandbox/refusal.h"

#include <assert.h>

enum { FAILURE = 1, RULES = 2, UNREACHABLE = 4, COMMAND = 7, ADDRESS_TYPE = 8 };

struct entry {
	const char *name;
	short http;
	unsigned char socks;
	const char *text;
};

static const struct entry TABLE[] = {
	[REFUSAL_NONE] = {"none", 200, 0, "is allowed"},
	[REFUSAL_HOST_EMPTY] = {"host_empty", 400, RULES, "is no host: the name is empty"},
	[REFUSAL_HOST_LONG] = {"host_long", 400, RULES, "is longer than 253 bytes"},
	[REFUSAL_HOST_BYTES] = {"host_bytes", 400, RULES,
				"has bytes other than letters, digits, hyphens and dots "
				"(write an international name in its xn-- form)"},
	[REFUSAL_HOST_LABEL] = {"host_label", 400, RULES,
				"has a label that is empty, longer than 63 bytes, or begins or "
				"ends with a hyphen"},
	[REFUSAL_HOST_TRAILING_DOT] = {"host_trailing_dot", 400, RULES,
				       "ends with a dot: write it without"},
	[REFUSAL_HOST_NUMBER] = {"host_number", 400, RULES,
				 "is an IPv4 address in a form other than four decimal numbers "
				 "without leading zeros"},
	[REFUSAL_HOST_IPV6] = {"host_ipv6", 400, RULES, "is no IPv6 address in brackets"},
	[REFUSAL_HOST_ZONE] = {"host_zone", 400, RULES, "has a zone"},
	[REFUSAL_HOST_V4_IN_V6] = {"host_v4_in_v6", 403, RULES,
				   "is an IPv4 address in the form of IPv6: write it as IPv4"},
	[REFUSAL_PORT] = {"port", 400, RULES, "has no port from 1 to 65535"},
	[REFUSAL_NOT_ALLOWED] = {"not_allowed", 403, RULES, "is not among the allowed hosts"},
	[REFUSAL_PORT_NOT_ALLOWED] = {"port_not_allowed", 403, RULES,
				      "is allowed, but not at this port"},
	[REFUSAL_RULES_CHANGED] = {"rules_changed", 403, RULES, "is no longer allowed"},
	[REFUSAL_ADDRESS_UNSPECIFIED] = {"address_unspecified", 403, RULES,
					 "leads to the unspecified address"},
	[REFUSAL_ADDRESS_LOOPBACK] = {"address_loopback", 403, RULES,
				      "leads to the loopback of the host"},
	[REFUSAL_ADDRESS_PRIVATE] = {"address_private", 403, RULES, "leads to a private address"},
	[REFUSAL_ADDRESS_SHARED] = {"address_shared", 403, RULES,
				    "leads to an address of a carrier's or overlay network"},
	[REFUSAL_ADDRESS_LINK_LOCAL] = {"address_link_local", 403, RULES,
					"leads to a link-local address"},
	[REFUSAL_ADDRESS_METADATA] = {"address_metadata", 403, RULES,
				      "leads to the metadata service of a cloud"},
	[REFUSAL_ADDRESS_MULTICAST] = {"address_multicast", 403, RULES,
				       "leads to a multicast address"},
	[REFUSAL_ADDRESS_BROADCAST] = {"address_broadcast", 403, RULES,
				       "leads to the broadcast address"},
	[REFUSAL_ADDRESS_DOCUMENTATION] = {"address_documentation", 403, RULES,
					   "leads to an address for documentation"},
	[REFUSAL_ADDRESS_BENCHMARK] = {"address_benchmark", 403, RULES,
				       "leads to an address for benchmarks"},
	[REFUSAL_ADDRESS_RESERVED] = {"address_reserved", 403, RULES,
				      "leads to a reserved address"},
	[REFUSAL_ADDRESS_OWN] = {"address_own", 403, RULES, "leads to an address of this machine"},
	[REFUSAL_REQUEST_SYNTAX] = {"request_syntax", 400, FAILURE,
				    "was asked for by something that is no request of HTTP/1.1"},
	[REFUSAL_REQUEST_NUL] = {"request_nul", 400, FAILURE,
				 "was asked for by a request with a control character"},
	[REFUSAL_REQUEST_LINE_END] = {"request_line_end", 400, FAILURE,
				      "was asked for by a request with a CR or LF on its own"},
	[REFUSAL_REQUEST_FOLD] = {"request_fold", 400, FAILURE,
				  "was asked for by a request with a folded header"},
	[REFUSAL_REQUEST_SIZE] = {"request_size", 431, FAILURE,
				  "was asked for by a request whose head has more than 64 KiB"},
	[REFUSAL_REQUEST_HEADERS] = {"request_headers", 431, FAILURE,
				     "was asked for by a request with too many headers"},
	[REFUSAL_REQUEST_VERSION] = {"request_version", 505, FAILURE,
				     "was asked for by a request that is not HTTP/1.0 or 1.1"},
	[REFUSAL_REQUEST_FORM] = {"request_form", 400, FAILURE,
				  "was asked for without its name in the request line: this is a "
				  "proxy"},
	[REFUSAL_REQUEST_SCHEME] = {"request_scheme", 400, FAILURE,
				    "was asked for by a scheme other than http: use CONNECT"},
	[REFUSAL_REQUEST_HOST] = {"request_host", 400, RULES,
				  "is not the host that the header Host names"},
	[REFUSAL_REQUEST_FRAMING] = {"request_framing", 400, FAILURE,
				     "was asked for by a request whose length is not clear"},
	[REFUSAL_SOCKS_VERSION] = {"socks_version", 400, FAILURE,
				   "was asked for by a SOCKS other than 5"},
	[REFUSAL_SOCKS_AUTH] = {"socks_auth", 403, FAILURE,
				"was asked for with authentication that is not offered"},
	[REFUSAL_SOCKS_COMMAND] = {"socks_command", 403, COMMAND,
				   "was asked for by a SOCKS command other than CONNECT"},
	[REFUSAL_SOCKS_ADDRESS] = {"socks_address", 400, ADDRESS_TYPE,
				   "was asked for by an unknown kind of SOCKS address"},
	[REFUSAL_UNRESOLVED] = {"unresolved", 502, UNREACHABLE, "has no address"},
	[REFUSAL_UNREACHABLE] = {"unreachable", 502, UNREACHABLE, "does not accept connections"},
	[REFUSAL_CONNECT_TIMEOUT] = {"connect_timeout", 504, UNREACHABLE,
				     "has not answered in time"},
	[REFUSAL_REQUEST_TIMEOUT] = {"request_timeout", 408, FAILURE, "was not asked for in time"},
	[REFUSAL_IDLE] = {"idle", 504, FAILURE, "had nothing to say for too long"},
	[REFUSAL_FULL] = {"full", 503, FAILURE,
			  "has to wait: the session has as many connections as it may"},
	[REFUSAL_CLOSING] = {"closing", 503, FAILURE, "is out of reach: the session ends"},
};

static_assert(sizeof(TABLE) / sizeof(TABLE[0]) == REFUSAL_COUNT, "an entry for each refusal");

const char *refusal_name(enum refusal refusal)
{
	return TABLE[refusal].name;
}

const char *refusal_text(enum refusal refusal)
{
	return TABLE[refusal].text;
}

int refusal_http_status(enum refusal refusal)
{
	return TABLE[refusal].http;
}

unsigned char refusal_socks_reply(enum refusal refusal)
{
	return TABLE[refusal].socks;
}
