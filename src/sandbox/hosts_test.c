/* Hosts: rules that are read and printed, names that are read or refused, and what matches. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "sandbox/hosts.h"

static struct hosts rules(const char *list)
{
	struct hosts hosts = HOSTS_INIT;
	struct err err = ERR_INIT;

	if (hosts_add_list(&hosts, list, strlen(list), &err) < 0)
		fail_msg("%s", err.text);
	return hosts;
}

/* What becomes of asking for an authority under these rules. */
static enum refusal ask(const char *list, const char *authority)
{
	struct hosts hosts = rules(list);
	struct hosts_target target;
	enum refusal refusal = hosts_read_authority(authority, strlen(authority), 443, &target);

	if (refusal == REFUSAL_NONE)
		refusal = hosts_match(&hosts, &target, NULL);
	hosts_release(&hosts);
	return refusal;
}

#define assert_refusal(a, b) assert_string_equal(refusal_name(a), refusal_name(b))

static void test_rules_are_printed(void **state)
{
	static const char *const same[] = {
		"pypi.org",
		"*.example.org",
		".example.org",
		"example.org:8443",
		"example.org:8000-8099",
		"example.org:*",
		"93.184.215.14",
		"127.0.0.1:8000",
		"[2606:4700::1111]:443",
		"[::1]:*",
		"index.corp.example:443+private",
		".corp.example:*+private",
		"localhost:1-65534",
		"xn--bcher-kva.example",
		"intranet",
		"*.com",
		"1password.com",
		"a--b.example",
		"10.0.0.1:5432",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		struct hosts hosts = rules(same[i]);
		struct buf out = BUF_INIT;

		hosts_write_rule(&hosts.rules[0], &out);
		assert_string_equal(buf_bytes(&out), same[i]);
		buf_release(&out);
		hosts_release(&hosts);
	}
}

static void test_rules_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"*",
		"*.",
		".",
		"a..b",
		"a.",
		"-a.b",
		"a-.b",
		"a_b.c",
		"b\xc3\xbc.example",
		"a*.example",
		"*.*.example",
		"a.*",
		"http://a.example",
		"a.example/",
		"user@a.example",
		"a.example:",
		"a.example:0",
		"a.example:65536",
		"a.example:080",
		"a.example:80-",
		"a.example:90-80",
		"a.example:-80",
		"a.example:80,",
		"a.example: 80",
		"a.example:x",
		"a.example:**",
		"127.1",
		"0x7f.1",
		"010.0.0.1",
		"2130706433",
		"256.1.1.1",
		"*.10.0.0.1",
		".127.0.0.1",
		"::1",
		"[::1",
		"[]",
		"[::1]x",
		"[127.0.0.1]",
		"[fe80::1%eth0]",
		"[::ffff:1.2.3.4]",
		"[::ffff:102:304]",
		"[2001:DB8::1]",
		"[2606:4700:0::1111]",
		"[2002:102:304::1]",
		"[64:ff9b::102:304]",
		"[2001::1]",
		"169.254.169.254",
		"169.254.1.1",
		"100.100.100.200:80",
		"168.63.129.16",
		"192.0.0.192",
		"[fd00:ec2::254]",
		"0.0.0.0:80",
		"224.0.0.1",
		"255.255.255.255",
		"[::]",
		"[ff02::1]",
		"a.example+private:80",
		"a.example +private",
		"+private",
		"a.example+Private",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct hosts hosts = HOSTS_INIT;
		struct err err = ERR_INIT;

		if (hosts_add(&hosts, bad[i], strlen(bad[i]), &err) == 0)
			fail_msg("the rule \"%s\" was accepted", bad[i]);
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.text, "allowed host"));
		assert_int_equal(hosts.count, 0);
	}
}

static void test_lists(void **state)
{
	struct hosts hosts = rules(" pypi.org , *.Example.ORG:8443\n,127.0.0.1:9 ");
	char big[HOSTS_RULE_MAX + 2];

	(void)state;
	assert_int_equal(hosts.count, 3);
	assert_string_equal(hosts.rules[1].target.name, "example.org");
	assert_int_equal(hosts_add_list(&hosts, "a.example,,b.example", 20, NULL), -1);
	assert_int_equal(hosts_add(&hosts, "evil\0.example", 13, NULL), -1);
	memset(big, 'a', sizeof(big));
	assert_int_equal(hosts_add(&hosts, big, sizeof(big), NULL), -1);
	hosts_release(&hosts);
	for (size_t i = 0; i < HOSTS_RULES_MAX; i++)
		assert_int_equal(hosts_add(&hosts, "a.example", 9, NULL), 0);
	assert_int_equal(hosts_add(&hosts, "a.example", 9, NULL), -1);
	hosts_release(&hosts);
}

static void test_matches(void **state)
{
	(void)state;
	assert_refusal(ask("pypi.org", "pypi.org:443"), REFUSAL_NONE);
	assert_refusal(ask("pypi.org", "PyPI.Org:80"), REFUSAL_NONE);
	assert_refusal(ask("pypi.org", "pypi.org:8080"), REFUSAL_PORT_NOT_ALLOWED);
	assert_refusal(ask("pypi.org", "pypi.org.evil.example"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("pypi.org", "evilpypi.org"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("pypi.org", "a.pypi.org"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("pypi.org", "org"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("*.example.org", "a.example.org"), REFUSAL_NONE);
	assert_refusal(ask("*.example.org", "a.b.example.org"), REFUSAL_NONE);
	assert_refusal(ask("*.example.org", "example.org"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("*.example.org", "badexample.org"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("*.example.org", "example.org.evil.test"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask(".example.org", "example.org"), REFUSAL_NONE);
	assert_refusal(ask(".example.org", "a.example.org"), REFUSAL_NONE);
	assert_refusal(ask(".example.org", "badexample.org"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("a.example:8000-8002", "a.example:8002"), REFUSAL_NONE);
	assert_refusal(ask("a.example:8000-8002", "a.example:8003"), REFUSAL_PORT_NOT_ALLOWED);
	assert_refusal(ask("a.example:*", "a.example:1"), REFUSAL_NONE);
	assert_refusal(ask("a.example:1,a.example:2", "a.example:2"), REFUSAL_NONE);
	assert_refusal(ask("127.0.0.1:8000", "127.0.0.1:8000"), REFUSAL_NONE);
	assert_refusal(ask("127.0.0.1:8000", "127.0.0.2:8000"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("127.0.0.1:8000", "localhost:8000"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("localhost:8000", "127.0.0.1:8000"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("[::1]:9", "[0:0:0:0:0:0:0:1]:9"), REFUSAL_NONE);
	assert_refusal(ask("[2606:4700::1111]", "[2606:4700::1111]"), REFUSAL_NONE);
	assert_refusal(ask("[2606:4700::1111]", "[2606:4700::1112]"), REFUSAL_NOT_ALLOWED);
	assert_refusal(ask("xn--bcher-kva.example", "XN--bcher-KVA.example"), REFUSAL_NONE);
	/* A suffix never covers an address, nor does a name. */
	assert_refusal(ask("*.1password.com", "1.1.1.1"), REFUSAL_NOT_ALLOWED);
}

static void test_odd_hosts(void **state)
{
	static const struct {
		const char *text;
		enum refusal refusal;
	} odd[] = {
		{"", REFUSAL_HOST_EMPTY},
		{":443", REFUSAL_HOST_EMPTY},
		{"allowed.example.", REFUSAL_HOST_TRAILING_DOT},
		{"ALLOWED.EXAMPLE.", REFUSAL_HOST_TRAILING_DOT},
		{".", REFUSAL_HOST_TRAILING_DOT},
		{"a..example", REFUSAL_HOST_LABEL},
		{".example", REFUSAL_HOST_LABEL},
		{"-a.example", REFUSAL_HOST_LABEL},
		{"a-.example", REFUSAL_HOST_LABEL},
		{"a_b.example", REFUSAL_HOST_BYTES},
		{"user@allowed.example", REFUSAL_HOST_BYTES},
		{"allowed.example%00", REFUSAL_HOST_BYTES},
		{"allowed.example\r", REFUSAL_HOST_BYTES},
		{"allowed.example ", REFUSAL_HOST_BYTES},
		{"\xef\xbd\x81.example", REFUSAL_HOST_BYTES},
		{"127.1", REFUSAL_HOST_NUMBER},
		{"127.0.1", REFUSAL_HOST_NUMBER},
		{"0x7f.1", REFUSAL_HOST_NUMBER},
		{"0x7f000001", REFUSAL_HOST_NUMBER},
		{"0X7F.0x1", REFUSAL_HOST_NUMBER},
		{"allowed.0xevil", REFUSAL_HOST_NUMBER},
		{"2130706433", REFUSAL_HOST_NUMBER},
		{"017700000001", REFUSAL_HOST_NUMBER},
		{"0177.0.0.1", REFUSAL_HOST_NUMBER},
		{"127.0.0.01", REFUSAL_HOST_NUMBER},
		{"127.0.0.256", REFUSAL_HOST_NUMBER},
		{"1.2.3.4.5", REFUSAL_HOST_NUMBER},
		{"allowed.1", REFUSAL_HOST_NUMBER},
		{"::1", REFUSAL_HOST_IPV6},
		{"[::1", REFUSAL_HOST_IPV6},
		{"[::1]443", REFUSAL_HOST_IPV6},
		{"[]", REFUSAL_HOST_IPV6},
		{"[allowed.example]", REFUSAL_HOST_IPV6},
		{"[127.0.0.1]", REFUSAL_HOST_IPV6},
		{"[fe80::1%25eth0]", REFUSAL_HOST_ZONE},
		{"[fe80::1%1]", REFUSAL_HOST_ZONE},
		{"[::ffff:169.254.169.254]", REFUSAL_HOST_V4_IN_V6},
		{"[::ffff:a9fe:a9fe]", REFUSAL_HOST_V4_IN_V6},
		{"[::127.0.0.1]", REFUSAL_HOST_V4_IN_V6},
		{"[::7f00:1]", REFUSAL_HOST_V4_IN_V6},
		{"[64:ff9b::7f00:1]", REFUSAL_HOST_V4_IN_V6},
		{"[2002:7f00:1::]", REFUSAL_HOST_V4_IN_V6},
		{"[2001:0:1:2:3:4:5:6]", REFUSAL_HOST_V4_IN_V6},
		{"allowed.example:", REFUSAL_PORT},
		{"allowed.example:0", REFUSAL_PORT},
		{"allowed.example:65536", REFUSAL_PORT},
		{"allowed.example:+80", REFUSAL_PORT},
		{"allowed.example:0443", REFUSAL_PORT},
		{"allowed.example:https", REFUSAL_PORT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		enum refusal refusal = ask(".example,localhost:*,127.0.0.1:*", odd[i].text);

		if (refusal != odd[i].refusal)
			fail_msg("%s: %s, not %s", odd[i].text, refusal_name(refusal),
				 refusal_name(odd[i].refusal));
	}
}

static void test_nul_and_lengths(void **state)
{
	struct hosts_target target;
	char name[300];

	(void)state;
	assert_refusal(hosts_read_name("evil\0.allowed.com", 17, &target), REFUSAL_HOST_BYTES);
	assert_refusal(hosts_read_name("allowed.com\0.evil.com", 21, &target), REFUSAL_HOST_BYTES);
	assert_refusal(hosts_read_authority("evil\0.allowed:443", 17, 0, &target),
		       REFUSAL_HOST_BYTES);
	assert_refusal(hosts_read_authority("[::1\0]:443", 10, 0, &target), REFUSAL_HOST_IPV6);
	assert_refusal(hosts_read_authority("a.example", 9, 0, &target), REFUSAL_PORT);
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 64 == 63 ? '.' : 'a';
	assert_refusal(hosts_read_name(name, 253, &target), REFUSAL_NONE);
	assert_int_equal(strlen(target.name), 253);
	assert_refusal(hosts_read_name(name, 254, &target), REFUSAL_HOST_LONG);
	memset(name, 'a', sizeof(name));
	assert_refusal(hosts_read_name(name, 63, &target), REFUSAL_NONE);
	assert_refusal(hosts_read_name(name, 64, &target), REFUSAL_HOST_LABEL);
}

static enum address_permit permit_of(const char *list, const char *authority)
{
	struct hosts hosts = rules(list);
	struct hosts_target target;
	enum address_permit permit;

	assert_int_equal(hosts_read_authority(authority, strlen(authority), 443, &target), 0);
	assert_int_equal(hosts_match(&hosts, &target, &permit), REFUSAL_NONE);
	hosts_release(&hosts);
	return permit;
}

static void test_permits(void **state)
{
	(void)state;
	assert_int_equal(permit_of("a.example", "a.example"), ADDRESS_PUBLIC);
	assert_int_equal(permit_of("a.example+private", "a.example"), ADDRESS_PRIVATE);
	assert_int_equal(permit_of("localhost", "localhost"), ADDRESS_LOOPBACK);
	assert_int_equal(permit_of("*.localhost", "a.localhost"), ADDRESS_LOOPBACK);
	assert_int_equal(permit_of("notlocalhost", "notlocalhost"), ADDRESS_PUBLIC);
	assert_int_equal(permit_of("localhost.example", "localhost.example"), ADDRESS_PUBLIC);
	assert_int_equal(permit_of("10.0.0.1", "10.0.0.1"), ADDRESS_PRIVATE);
	assert_int_equal(permit_of(".example,a.example+private", "a.example"), ADDRESS_PRIVATE);
	assert_int_equal(permit_of(".example,a.example+private", "b.example"), ADDRESS_PUBLIC);
	/* The mark counts at its own ports only. */
	assert_int_equal(permit_of(".example,a.example:80+private", "a.example"), ADDRESS_PUBLIC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules_are_printed),
		cmocka_unit_test(test_rules_are_refused),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_matches),
		cmocka_unit_test(test_odd_hosts),
		cmocka_unit_test(test_nul_and_lengths),
		cmocka_unit_test(test_permits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
