/*
 * Hosts fuzzer: a rule that is accepted is printed in a form that reads back as the same rule; a
 * host that is accepted is lower-case letters, digits, hyphens and dots or an address, and reads
 * back as itself; what matches a rule has that rule's name at its end.
 *
 * The input is a rule, a line feed, and an authority.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition)
{
	if (!condition)
		abort();
}

static void check_rule(const struct hosts *hosts)
{
	cleanup_buf struct buf first = BUF_INIT;
	cleanup_buf struct buf second = BUF_INIT;
	struct hosts again = HOSTS_INIT;

	hosts_write_rule(&hosts->rules[0], &first);
	check(hosts_add(&again, buf_bytes(&first), first.len, NULL) == 0);
	hosts_write_rule(&again.rules[0], &second);
	check(strcmp(buf_bytes(&first), buf_bytes(&second)) == 0);
	check(again.rules[0].kind == hosts->rules[0].kind &&
	      again.rules[0].permit == hosts->rules[0].permit);
	hosts_release(&again);
}

static void check_target(const struct hosts_target *target)
{
	cleanup_buf struct buf text = BUF_INIT;
	struct hosts_target again;

	check(target->port != 0 && target->name[0] != '\0');
	for (const char *at = target->name; *at; at++)
		check((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '-' ||
		      *at == '.' || (*at == ':' && target->family == AF_INET6));
	hosts_write_authority(target, 0, &text);
	check(hosts_read_authority(buf_bytes(&text), text.len, 0, &again) == REFUSAL_NONE);
	check(hosts_same(target, &again));
}

static void check_match(const struct hosts *hosts, const struct hosts_target *target)
{
	const char *rule = hosts->rules[0].target.name;
	size_t whole = strlen(target->name);
	size_t part = strlen(rule);

	check(whole >= part && strcmp(target->name + whole - part, rule) == 0);
	check(whole == part || target->name[whole - part - 1] == '.');
	check(hosts->rules[0].target.family == target->family);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *feed = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t rule_len = feed ? (size_t)(feed - data) : size;
	const char *authority = feed ? (const char *)feed + 1 : "";
	size_t len = feed ? size - rule_len - 1 : 0;
	struct hosts hosts = HOSTS_INIT;
	struct hosts_target target;
	int added = hosts_add(&hosts, (const char *)data, rule_len, NULL);
	enum refusal refusal = hosts_read_authority(authority, len, 443, &target);

	if (added == 0)
		check_rule(&hosts);
	if (refusal == REFUSAL_NONE) {
		check_target(&target);
		refusal = hosts_match(&hosts, &target, NULL);
		if (refusal == REFUSAL_NONE)
			check_match(&hosts, &target);
	}
	(void)hosts_read_name(authority, len, &target);
	hosts_release(&hosts);
	return 0;
}
