/*
 * Reading is separate from matching: whatever passes the readers is in one form, and matching
 * compares bytes. A name whose last label is a number or begins with 0x is no name but an address
 * for inet_aton(3) and for browsers (WHATWG URL, "ends in a number"), so it must be four plain
 * numbers or is refused.
 */
#include "sandbox/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { PORT_MAX = 65535, RULE_SHOWN_MAX = 80 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '.';
}

static char fold(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* ---- targets ---- */

static bool is_number(const char *label)
{
	if (label[0] == '0' && label[1] == 'x')
		return true;
	while (is_digit(*label))
		label++;
	return *label == '\0';
}

static enum refusal read_ipv4(struct hosts_target *target)
{
	char again[INET_ADDRSTRLEN];

	if (inet_pton(AF_INET, target->name, target->address) != 1 ||
	    strcmp(inet_ntop(AF_INET, target->address, again, sizeof(again)), target->name) != 0)
		return REFUSAL_HOST_NUMBER;
	target->family = AF_INET;
	return REFUSAL_NONE;
}

static enum refusal check_labels(const char *name)
{
	const char *label = name;

	for (;;) {
		size_t len = strcspn(label, ".");

		if (len == 0 || len > HOSTS_LABEL_MAX || label[0] == '-' || label[len - 1] == '-')
			return REFUSAL_HOST_LABEL;
		if (label[len] == '\0')
			return REFUSAL_NONE;
		label += len + 1;
	}
}

enum refusal hosts_read_name(const char *bytes, size_t len, struct hosts_target *target)
{
	const char *last;

	*target = (struct hosts_target){.family = AF_UNSPEC};
	if (len == 0)
		return REFUSAL_HOST_EMPTY;
	for (size_t i = 0; i < len; i++) {
		if (!is_name_byte(fold(bytes[i])))
			return REFUSAL_HOST_BYTES;
	}
	if (len > HOSTS_NAME_MAX)
		return REFUSAL_HOST_LONG;
	if (bytes[len - 1] == '.')
		return REFUSAL_HOST_TRAILING_DOT;
	for (size_t i = 0; i < len; i++)
		target->name[i] = fold(bytes[i]);
	last = strrchr(target->name, '.');
	if (is_number(last ? last + 1 : target->name))
		return read_ipv4(target);
	return check_labels(target->name);
}

enum refusal hosts_read_address(sa_family_t family, const void *bytes, struct hosts_target *target)
{
	*target = (struct hosts_target){.family = family};
	memcpy(target->address, bytes, family == AF_INET ? 4 : 16);
	if (family == AF_INET6 && address_holds_ipv4(target->address))
		return REFUSAL_HOST_V4_IN_V6;
	inet_ntop(family, target->address, target->name, sizeof(target->name));
	return REFUSAL_NONE;
}

static enum refusal read_ipv6(const char *bytes, size_t len, struct hosts_target *target)
{
	char text[INET6_ADDRSTRLEN] = "";
	unsigned char address[16];

	if (memchr(bytes, '%', len))
		return REFUSAL_HOST_ZONE;
	if (len >= sizeof(text) || memchr(bytes, '\0', len))
		return REFUSAL_HOST_IPV6;
	memcpy(text, bytes, len);
	if (inet_pton(AF_INET6, text, address) != 1)
		return REFUSAL_HOST_IPV6;
	if (memchr(bytes, '.', len))
		return REFUSAL_HOST_V4_IN_V6;
	return hosts_read_address(AF_INET6, address, target);
}

/* 1..65535 in decimal without a leading zero; 0: it is none. */
static uint16_t read_port(const char *bytes, size_t len)
{
	unsigned long port = 0;

	if (len == 0 || len > 5 || bytes[0] == '0')
		return 0;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(bytes[i]))
			return 0;
		port = port * 10 + (unsigned long)(bytes[i] - '0');
	}
	return port > PORT_MAX ? 0 : (uint16_t)port;
}

/* Splits HOST[:REST]; an IPv6 address loses its brackets and sets *bracketed. *rest is NULL when
 * there is no colon. False: brackets that do not match. */
static bool split(const char *bytes, size_t len, size_t *host_len, const char **rest,
		  bool *bracketed)
{
	const char *end = bytes + len;
	const char *after;

	*bracketed = len > 0 && bytes[0] == '[';
	if (*bracketed) {
		after = memchr(bytes, ']', len);
		if (!after)
			return false;
		*host_len = (size_t)(after - bytes) - 1;
		after++;
	} else {
		after = memchr(bytes, ':', len);
		if (!after)
			after = end;
		*host_len = (size_t)(after - bytes);
	}
	*rest = after == end ? NULL : after + 1;
	return after == end || *after == ':';
}

enum refusal hosts_read_authority(const char *bytes, size_t len, uint16_t port_default,
				  struct hosts_target *target)
{
	const char *rest = NULL;
	size_t host_len = 0;
	bool bracketed;
	enum refusal refusal;
	uint16_t port = port_default;

	*target = (struct hosts_target){.family = AF_UNSPEC};
	if (!split(bytes, len, &host_len, &rest, &bracketed))
		return REFUSAL_HOST_IPV6;
	/* Two colons without brackets: an IPv6 address, which is ambiguous here. */
	if (!bracketed && rest && memchr(rest, ':', (size_t)(bytes + len - rest)))
		return REFUSAL_HOST_IPV6;
	refusal = bracketed ? read_ipv6(bytes + 1, host_len, target)
			    : hosts_read_name(bytes, host_len, target);
	if (refusal != REFUSAL_NONE)
		return refusal;
	if (rest)
		port = read_port(rest, (size_t)(bytes + len - rest));
	target->port = port;
	return port == 0 ? REFUSAL_PORT : REFUSAL_NONE;
}

void hosts_write_authority(const struct hosts_target *target, uint16_t port_implied,
			   struct buf *out)
{
	buf_printf(out, target->family == AF_INET6 ? "[%s]" : "%s", target->name);
	if (target->port != port_implied)
		buf_printf(out, ":%u", target->port);
}

bool hosts_same(const struct hosts_target *a, const struct hosts_target *b)
{
	return a->family == b->family && a->port == b->port && strcmp(a->name, b->name) == 0;
}

/* ---- rules ---- */

static int complain(const char *text, size_t len, const char *what, struct err *err)
{
	cleanup_buf struct buf shown = BUF_INIT;

	text_escape(&shown, text, len < RULE_SHOWN_MAX ? len : RULE_SHOWN_MAX, false, false);
	return err_set(err, ERR_INVALID, "allowed host \"%.100s\" %s", buf_bytes(&shown), what);
}

/* What stands after the first colon of a rule. */
static bool read_ports(struct hosts_rule *rule, const char *text, size_t len)
{
	const char *dash = memchr(text, '-', len);
	size_t first = dash ? (size_t)(dash - text) : len;

	rule->web = false;
	if (len == 1 && text[0] == '*') {
		rule->port_min = 1;
		rule->port_max = PORT_MAX;
		return true;
	}
	rule->port_min = read_port(text, first);
	rule->port_max = dash ? read_port(dash + 1, len - first - 1) : rule->port_min;
	return rule->port_min != 0 && rule->port_min <= rule->port_max;
}

static bool is_localhost(const char *name)
{
	static const char suffix[] = ".localhost";
	size_t len = strlen(name);

	return strcmp(name, suffix + 1) == 0 ||
	       (len >= sizeof(suffix) && strcmp(name + len - (sizeof(suffix) - 1), suffix) == 0);
}

/* The address of a rule must be one that a permit can open, and stand there as it is printed. */
static const char *check_address(struct hosts_rule *rule, const char *text, size_t len)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in = {.sin_family = AF_INET};
	enum refusal refusal;

	if (strlen(rule->target.name) != len || memcmp(rule->target.name, text, len) != 0)
		return "must be written in its canonical form (RFC 5952)";
	rule->kind = HOSTS_ADDRESS;
	rule->permit = ADDRESS_PRIVATE;
	if (rule->target.family == AF_INET) {
		memcpy(&in.sin_addr, rule->target.address, sizeof(in.sin_addr));
		refusal = address_check_range((const struct sockaddr *)&in, rule->permit);
	} else {
		memcpy(&in6.sin6_addr, rule->target.address, sizeof(in6.sin6_addr));
		refusal = address_check_range((const struct sockaddr *)&in6, rule->permit);
	}
	return refusal == REFUSAL_NONE ? NULL : refusal_text(refusal);
}

/* Reads the part of a rule before its ports; returns what is wrong with it, or NULL. */
static const char *read_host(struct hosts_rule *rule, const char *text, size_t len, bool bracketed)
{
	enum refusal refusal;

	rule->kind = HOSTS_NAME;
	if (!bracketed && len > 1 && text[0] == '*' && text[1] == '.') {
		rule->kind = HOSTS_BELOW;
		text += 2;
		len -= 2;
	} else if (!bracketed && len > 0 && text[0] == '.') {
		rule->kind = HOSTS_DOMAIN;
		text++;
		len--;
	}
	refusal = bracketed ? read_ipv6(text, len, &rule->target)
			    : hosts_read_name(text, len, &rule->target);
	if (refusal != REFUSAL_NONE)
		return refusal_text(refusal);
	if (rule->target.family == AF_UNSPEC) {
		if (is_localhost(rule->target.name) && rule->permit < ADDRESS_LOOPBACK)
			rule->permit = ADDRESS_LOOPBACK;
		return NULL;
	}
	if (rule->kind != HOSTS_NAME)
		return "is an address and has no names below it";
	return check_address(rule, text, len);
}

int hosts_add(struct hosts *hosts, const char *text, size_t len, struct err *err)
{
	static const char mark[] = "+private";
	const size_t mark_len = sizeof(mark) - 1;
	struct hosts_rule rule = {.web = true, .permit = ADDRESS_PUBLIC};
	const char *rest = NULL;
	const char *wrong;
	size_t host_len = 0;
	size_t kept = len;
	bool bracketed;

	if (len > HOSTS_RULE_MAX)
		return complain(text, len, "is too long for a rule", err);
	if (len >= mark_len && memcmp(text + len - mark_len, mark, mark_len) == 0) {
		rule.permit = ADDRESS_PRIVATE;
		kept -= mark_len;
	}
	if (!split(text, kept, &host_len, &rest, &bracketed))
		return complain(text, len, "has brackets that do not match", err);
	if (rest && !bracketed && memchr(rest, ':', (size_t)(text + kept - rest)))
		return complain(text, len, "is an IPv6 address: put it in brackets", err);
	wrong = read_host(&rule, bracketed ? text + 1 : text, host_len, bracketed);
	if (wrong)
		return complain(text, len, wrong, err);
	if (rest && !read_ports(&rule, rest, (size_t)(text + kept - rest)))
		return complain(text, len, "needs a port, PORT-PORT or * after the colon", err);
	if (hosts->count == HOSTS_RULES_MAX)
		return err_set(err, ERR_LIMIT, "more than %d allowed hosts", HOSTS_RULES_MAX);
	hosts->rules = mem_resize(hosts->rules, hosts->count + 1, sizeof(rule));
	hosts->rules[hosts->count++] = rule;
	return 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int hosts_add_list(struct hosts *hosts, const char *text, size_t len, struct err *err)
{
	const char *end = text + len;

	for (;;) {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		const char *stop = comma ? comma : end;
		const char *next = stop;

		while (text < stop && is_space(*text))
			text++;
		while (stop > text && is_space(stop[-1]))
			stop--;
		if (hosts_add(hosts, text, (size_t)(stop - text), err) < 0)
			return -1;
		if (!comma)
			return 0;
		text = next + 1;
	}
}

int hosts_add_all(struct hosts *hosts, const char *const *rules, struct err *err)
{
	for (; rules && *rules; rules++) {
		if (hosts_add(hosts, *rules, strlen(*rules), err) != 0)
			return -1;
	}
	return 0;
}

void hosts_release(struct hosts *hosts)
{
	free(hosts->rules);
	*hosts = (struct hosts)HOSTS_INIT;
}

void hosts_write_rule(const struct hosts_rule *rule, struct buf *out)
{
	static const char *const before[] = {"", "*.", ".", ""};

	buf_append_string(out, before[rule->kind]);
	buf_printf(out, rule->target.family == AF_INET6 ? "[%s]" : "%s", rule->target.name);
	if (!rule->web && rule->port_min == 1 && rule->port_max == PORT_MAX)
		buf_append_string(out, ":*");
	else if (!rule->web && rule->port_min == rule->port_max)
		buf_printf(out, ":%u", rule->port_min);
	else if (!rule->web)
		buf_printf(out, ":%u-%u", rule->port_min, rule->port_max);
	if (rule->permit == ADDRESS_PRIVATE && rule->kind != HOSTS_ADDRESS)
		buf_append_string(out, "+private");
}

static bool covers_host(const struct hosts_rule *rule, const struct hosts_target *target)
{
	size_t whole = strlen(target->name);
	size_t part = strlen(rule->target.name);

	if (rule->target.family != target->family)
		return false;
	if (rule->kind != HOSTS_BELOW && strcmp(rule->target.name, target->name) == 0)
		return true;
	if (rule->kind != HOSTS_BELOW && rule->kind != HOSTS_DOMAIN)
		return false;
	return whole > part + 1 && target->name[whole - part - 1] == '.' &&
	       strcmp(target->name + whole - part, rule->target.name) == 0;
}

static bool covers_port(const struct hosts_rule *rule, uint16_t port)
{
	if (rule->web)
		return port == 80 || port == 443;
	return port >= rule->port_min && port <= rule->port_max;
}

enum refusal hosts_match(const struct hosts *hosts, const struct hosts_target *target,
			 enum address_permit *permit)
{
	enum refusal refusal = REFUSAL_NOT_ALLOWED;
	enum address_permit found = ADDRESS_PUBLIC;

	for (size_t i = 0; i < hosts->count; i++) {
		const struct hosts_rule *rule = &hosts->rules[i];

		if (!covers_host(rule, target))
			continue;
		if (!covers_port(rule, target->port)) {
			if (refusal == REFUSAL_NOT_ALLOWED)
				refusal = REFUSAL_PORT_NOT_ALLOWED;
			continue;
		}
		refusal = REFUSAL_NONE;
		if (rule->permit > found)
			found = rule->permit;
	}
	if (permit)
		*permit = found;
	return refusal;
}
