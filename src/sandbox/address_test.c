/* Addresses: each range at its edges, IPv4 inside IPv6, permits, this machine's own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ifaddrs.h>
#include <string.h>

#include "sandbox/address.h"

static struct sockaddr_storage parse(const char *text)
{
	struct sockaddr_storage storage = {.ss_family = AF_UNSPEC};
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
		memcpy(&storage, &in, sizeof(in));
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
		memcpy(&storage, &in6, sizeof(in6));
	}
	return storage;
}

static enum refusal check(const char *text, enum address_permit permit)
{
	struct sockaddr_storage storage = parse(text);

	return address_check_range((const struct sockaddr *)&storage, permit);
}

struct expected {
	const char *address;
	enum refusal public, loopback, private;
};

#define NEVER(text, why) \
	{ \
		text, why, why, why \
	}
#define PRIVATE(text, why) \
	{ \
		text, why, why, REFUSAL_NONE \
	}
#define OPEN(text) \
	{ \
		text, REFUSAL_NONE, REFUSAL_NONE, REFUSAL_NONE \
	}

static const struct expected EXPECTED[] = {
	OPEN("1.1.1.1"),
	OPEN("9.255.255.255"),
	OPEN("11.0.0.0"),
	OPEN("172.15.255.255"),
	OPEN("172.32.0.0"),
	OPEN("100.63.255.255"),
	OPEN("100.128.0.0"),
	OPEN("126.255.255.255"),
	OPEN("128.0.0.0"),
	OPEN("168.63.129.17"),
	OPEN("169.253.255.255"),
	OPEN("169.255.0.0"),
	OPEN("192.0.1.0"),
	OPEN("192.167.255.255"),
	OPEN("192.169.0.0"),
	OPEN("198.17.255.255"),
	OPEN("198.20.0.0"),
	OPEN("223.255.255.255"),
	OPEN("203.0.112.255"),
	OPEN("203.0.114.0"),
	NEVER("0.0.0.0", REFUSAL_ADDRESS_UNSPECIFIED),
	NEVER("0.255.255.255", REFUSAL_ADDRESS_UNSPECIFIED),
	PRIVATE("10.0.0.0", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("10.255.255.255", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("172.16.0.0", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("172.31.255.255", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("192.168.0.0", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("192.168.255.255", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("100.64.0.0", REFUSAL_ADDRESS_SHARED),
	PRIVATE("100.127.255.255", REFUSAL_ADDRESS_SHARED),
	{"127.0.0.1", REFUSAL_ADDRESS_LOOPBACK, REFUSAL_NONE, REFUSAL_NONE},
	{"127.255.255.255", REFUSAL_ADDRESS_LOOPBACK, REFUSAL_NONE, REFUSAL_NONE},
	{"::1", REFUSAL_ADDRESS_LOOPBACK, REFUSAL_NONE, REFUSAL_NONE},
	NEVER("169.254.169.254", REFUSAL_ADDRESS_METADATA),
	NEVER("169.254.170.2", REFUSAL_ADDRESS_METADATA),
	NEVER("100.100.100.200", REFUSAL_ADDRESS_METADATA),
	NEVER("168.63.129.16", REFUSAL_ADDRESS_METADATA),
	NEVER("192.0.0.192", REFUSAL_ADDRESS_METADATA),
	NEVER("fd00:ec2::254", REFUSAL_ADDRESS_METADATA),
	NEVER("fd20:ce::254", REFUSAL_ADDRESS_METADATA),
	NEVER("169.254.0.0", REFUSAL_ADDRESS_LINK_LOCAL),
	NEVER("169.254.255.255", REFUSAL_ADDRESS_LINK_LOCAL),
	NEVER("192.0.0.8", REFUSAL_ADDRESS_RESERVED),
	PRIVATE("192.0.2.1", REFUSAL_ADDRESS_DOCUMENTATION),
	PRIVATE("198.51.100.1", REFUSAL_ADDRESS_DOCUMENTATION),
	PRIVATE("203.0.113.255", REFUSAL_ADDRESS_DOCUMENTATION),
	NEVER("192.88.99.1", REFUSAL_ADDRESS_RESERVED),
	PRIVATE("198.18.0.0", REFUSAL_ADDRESS_BENCHMARK),
	PRIVATE("198.19.255.255", REFUSAL_ADDRESS_BENCHMARK),
	NEVER("224.0.0.0", REFUSAL_ADDRESS_MULTICAST),
	NEVER("239.255.255.255", REFUSAL_ADDRESS_MULTICAST),
	NEVER("240.0.0.0", REFUSAL_ADDRESS_RESERVED),
	NEVER("255.255.255.254", REFUSAL_ADDRESS_RESERVED),
	NEVER("255.255.255.255", REFUSAL_ADDRESS_BROADCAST),
	OPEN("2606:4700::1111"),
	OPEN("2001:4860:4860::8888"),
	OPEN("2a00:1450:4001::1"),
	OPEN("2001:db7:ffff::"),
	OPEN("2001:db9::"),
	OPEN("3ffe::1"),
	OPEN("3fff:1000::1"),
	NEVER("::", REFUSAL_ADDRESS_UNSPECIFIED),
	NEVER("::2", REFUSAL_ADDRESS_RESERVED),
	NEVER("::1.1.1.1", REFUSAL_ADDRESS_RESERVED),
	NEVER("1::", REFUSAL_ADDRESS_RESERVED),
	NEVER("100::1", REFUSAL_ADDRESS_RESERVED),
	NEVER("64:ff9b:1::1.1.1.1", REFUSAL_ADDRESS_RESERVED),
	PRIVATE("2001:2::1", REFUSAL_ADDRESS_BENCHMARK),
	NEVER("2001:10::1", REFUSAL_ADDRESS_RESERVED),
	NEVER("2001:2f:ffff::", REFUSAL_ADDRESS_RESERVED),
	PRIVATE("2001:db8::1", REFUSAL_ADDRESS_DOCUMENTATION),
	PRIVATE("3fff:fff::1", REFUSAL_ADDRESS_DOCUMENTATION),
	NEVER("4000::1", REFUSAL_ADDRESS_RESERVED),
	NEVER("5f00::1", REFUSAL_ADDRESS_RESERVED),
	PRIVATE("fc00::1", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("fdff:ffff::1", REFUSAL_ADDRESS_PRIVATE),
	NEVER("fe00::1", REFUSAL_ADDRESS_RESERVED),
	NEVER("fe80::1", REFUSAL_ADDRESS_LINK_LOCAL),
	NEVER("febf::1", REFUSAL_ADDRESS_LINK_LOCAL),
	NEVER("fec0::1", REFUSAL_ADDRESS_RESERVED),
	NEVER("ff02::1", REFUSAL_ADDRESS_MULTICAST),
	/* IPv4 inside: judged by it */
	OPEN("::ffff:1.1.1.1"),
	OPEN("64:ff9b::1.1.1.1"),
	OPEN("2002:101:101::1"),
	{"::ffff:127.0.0.1", REFUSAL_ADDRESS_LOOPBACK, REFUSAL_NONE, REFUSAL_NONE},
	NEVER("::ffff:169.254.169.254", REFUSAL_ADDRESS_METADATA),
	PRIVATE("64:ff9b::10.0.0.1", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("2002:a00:1::1", REFUSAL_ADDRESS_PRIVATE),
	NEVER("2002:a9fe:a9fe::1", REFUSAL_ADDRESS_METADATA),
	/* Teredo: server 1.1.1.1, client 10.0.0.1 with its bits turned over; then the reverse */
	PRIVATE("2001:0:101:101:0:0:f5ff:fffe", REFUSAL_ADDRESS_PRIVATE),
	PRIVATE("2001:0:a00:1:0:0:fefe:fefe", REFUSAL_ADDRESS_PRIVATE),
	OPEN("2001:0:101:101:0:0:fefe:fefe"),
};

static void test_ranges(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(EXPECTED) / sizeof(EXPECTED[0]); i++) {
		const struct expected *want = &EXPECTED[i];
		enum refusal public = check(want->address, ADDRESS_PUBLIC);
		enum refusal loopback = check(want->address, ADDRESS_LOOPBACK);
		enum refusal private = check(want->address, ADDRESS_PRIVATE);

		if (public != want->public || loopback != want->loopback ||
		    private != want->private)
			fail_msg("%s: %s %s %s", want->address, refusal_name(public),
				 refusal_name(loopback), refusal_name(private));
	}
}

static void test_other_families(void **state)
{
	struct sockaddr_storage storage = {.ss_family = AF_UNIX};
	struct sockaddr_in6 scoped = {.sin6_family = AF_INET6, .sin6_scope_id = 2};
	char text[ADDRESS_TEXT_SIZE];

	(void)state;
	assert_int_equal(address_check((const struct sockaddr *)&storage, ADDRESS_PRIVATE),
			 REFUSAL_ADDRESS_RESERVED);
	address_format((const struct sockaddr *)&storage, text);
	assert_string_equal(text, "");
	assert_int_equal(inet_pton(AF_INET6, "2606:4700::1111", &scoped.sin6_addr), 1);
	assert_int_equal(address_check_range((const struct sockaddr *)&scoped, ADDRESS_PRIVATE),
			 REFUSAL_ADDRESS_LINK_LOCAL);
	storage = parse("2606:4700::1111");
	address_format((const struct sockaddr *)&storage, text);
	assert_string_equal(text, "2606:4700::1111");
}

static void test_own(void **state)
{
	struct sockaddr_storage loopback = parse("127.0.0.1");
	struct sockaddr_storage mapped = parse("::ffff:127.0.0.1");
	struct sockaddr_storage nat64 = parse("64:ff9b::127.0.0.1");
	struct sockaddr_storage other = parse("1.1.1.1");
	struct ifaddrs *list = NULL;

	(void)state;
	assert_true(address_is_own((const struct sockaddr *)&loopback));
	assert_true(address_is_own((const struct sockaddr *)&mapped));
	assert_true(address_is_own((const struct sockaddr *)&nat64));
	assert_false(address_is_own((const struct sockaddr *)&other));
	assert_int_equal(address_check((const struct sockaddr *)&loopback, ADDRESS_LOOPBACK),
			 REFUSAL_NONE);
	/* Whatever addresses this machine has, without a permit none of them is dialled. */
	assert_int_equal(getifaddrs(&list), 0);
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		if (!at->ifa_addr ||
		    (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
			continue;
		assert_true(address_is_own(at->ifa_addr));
		assert_int_not_equal(address_check(at->ifa_addr, ADDRESS_PUBLIC), REFUSAL_NONE);
	}
	freeifaddrs(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_other_families),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
