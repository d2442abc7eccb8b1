/*
 * Hosts: the rules that say which hosts a session may reach, and what is asked for.
 *
 * A rule is HOST[:PORTS][+private]
 *
 *	pypi.org                this name, ports 80 and 443
 *	*.example.org           every name below it, not itself
 *	.example.org            itself and every name below it
 *	example.org:8443        one port; 8000-8099 a range of them; * all of them
 *	93.184.215.14           this address, and only when it is asked for as such
 *	[2606:4700::1111]:443   the same for IPv6
 *	index.corp.example:443+private
 *
 * A name leads to public addresses only (address.h). Two things open more: `+private` after a rule
 * says that what it names may lead to a private address or to this machine, and a rule for an
 * address is permission for that address. `localhost` and names below it may lead to the loopback.
 * There is no rule for everything: a list of what is meant is the point of it.
 *
 * Names are compared label by label after upper case is folded, and only names of letters, digits
 * and hyphens (RFC 952, RFC 1123) exist: two programs that read a name differently (one stops at a
 * NUL, one drops a trailing dot, one takes 0x7f.1 for an address) are how proxies were got round.
 */
#ifndef FH_SANDBOX_HOSTS_H
#define FH_SANDBOX_HOSTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/address.h"
#include "sandbox/refusal.h"

enum {
	HOSTS_NAME_MAX = 253, /* RFC 1035 section 2.3.4, without the dot at the end */
	HOSTS_LABEL_MAX = 63,
	HOSTS_RULES_MAX = 1000, /* in one list */
	HOSTS_RULE_MAX = 300,   /* bytes of one rule */
};

/* A host as it was asked for, in the one form in which it is compared and resolved. */
struct hosts_target {
	char name[HOSTS_NAME_MAX + 1]; /* lower case; an address as inet_ntop(3) writes it */
	sa_family_t family;            /* AF_UNSPEC: a name; AF_INET, AF_INET6: an address */
	unsigned char address[16];     /* network byte order */
	uint16_t port;
};

enum hosts_kind {
	HOSTS_NAME,    /* example.org */
	HOSTS_BELOW,   /* *.example.org */
	HOSTS_DOMAIN,  /* .example.org */
	HOSTS_ADDRESS, /* 192.0.2.1 */
};

struct hosts_rule {
	enum hosts_kind kind;
	struct hosts_target target; /* without the star and the dot; its port is not used */
	bool web;                   /* ports 80 and 443; else: */
	uint16_t port_min, port_max;
	enum address_permit permit;
};

struct hosts {
	struct hosts_rule *rules;
	size_t count;
};

#define HOSTS_INIT \
	{ \
		.rules = NULL, .count = 0 \
	}

/* Reads one rule and adds it. ERR_INVALID with what is wrong, ERR_LIMIT above HOSTS_RULES_MAX. */
int hosts_add(struct hosts *hosts, const char *text, size_t len, struct err *err);

/* Adds rules that are separated by commas, white space round each ignored. None is an error. */
int hosts_add_list(struct hosts *hosts, const char *text, size_t len, struct err *err);

/* Adds rules from a NULL-terminated list; NULL: none. */
int hosts_add_all(struct hosts *hosts, const char *const *rules, struct err *err);

void hosts_release(struct hosts *hosts);
#define cleanup_hosts __attribute__((cleanup(hosts_release)))

/* Appends the rule as hosts_add() reads it. */
void hosts_write_rule(const struct hosts_rule *rule, struct buf *out);

/* Whether the target is allowed; *permit (may be NULL) says which addresses it may lead to. What
 * was refused when it was read must not come here. */
enum refusal hosts_match(const struct hosts *hosts, const struct hosts_target *target,
			 enum address_permit *permit);

/* Reads a name or an IPv4 address without a port, from any bytes. */
enum refusal hosts_read_name(const char *bytes, size_t len, struct hosts_target *target);

/* Reads HOST:PORT, where an IPv6 address is in brackets (RFC 3986 section 3.2, without user
 * information). `port_default` 0: the port must be there. */
enum refusal hosts_read_authority(const char *bytes, size_t len, uint16_t port_default,
				  struct hosts_target *target);

/* Takes an address of 4 (AF_INET) or 16 bytes (AF_INET6) and fills the target but for its port. */
enum refusal hosts_read_address(sa_family_t family, const void *bytes, struct hosts_target *target);

/* Appends the target as an authority: HOST or [IPv6], and :PORT unless it is `port_implied`. */
void hosts_write_authority(const struct hosts_target *target, uint16_t port_implied,
			   struct buf *out);

/* The same host and port. */
bool hosts_same(const struct hosts_target *a, const struct hosts_target *b);

#endif
