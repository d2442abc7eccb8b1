/*
 * One table for each family, searched in order: the more special ranges stand first. For IPv6 what
 * is in no range must be in 2000::/3, the only part that is handed out as global unicast (RFC 4291
 * section 2.4 and the IANA registry), so that a range invented tomorrow is refused today.
 */
#include "sandbox/address.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct range4 {
	uint32_t network;
	unsigned char bits;
	enum refusal refusal;
	enum address_permit opened_by; /* ADDRESS_PUBLIC: by nothing */
};

#define IPV4(a, b, c, d) \
	((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static const struct range4 RANGES4[] = {
	/* "this network", RFC 1122 section 3.2.1.3; Linux dials 0.0.0.0 as loopback */
	{IPV4(0, 0, 0, 0), 8, REFUSAL_ADDRESS_UNSPECIFIED, ADDRESS_PUBLIC},
	/* RFC 1918 */
	{IPV4(10, 0, 0, 0), 8, REFUSAL_ADDRESS_PRIVATE, ADDRESS_PRIVATE},
	{IPV4(172, 16, 0, 0), 12, REFUSAL_ADDRESS_PRIVATE, ADDRESS_PRIVATE},
	{IPV4(192, 168, 0, 0), 16, REFUSAL_ADDRESS_PRIVATE, ADDRESS_PRIVATE},
	/* metadata of Alibaba Cloud, in the shared address space of RFC 6598 */
	{IPV4(100, 100, 100, 200), 32, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	{IPV4(100, 64, 0, 0), 10, REFUSAL_ADDRESS_SHARED, ADDRESS_PRIVATE},
	/* RFC 1122 section 3.2.1.3 */
	{IPV4(127, 0, 0, 0), 8, REFUSAL_ADDRESS_LOOPBACK, ADDRESS_LOOPBACK},
	/* metadata of Azure: its wire server has a public address */
	{IPV4(168, 63, 129, 16), 32, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	/* metadata of AWS, Google, Azure and most others, and of AWS's containers and pods */
	{IPV4(169, 254, 169, 254), 32, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	{IPV4(169, 254, 169, 253), 32, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	{IPV4(169, 254, 170, 0), 24, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	/* RFC 3927 */
	{IPV4(169, 254, 0, 0), 16, REFUSAL_ADDRESS_LINK_LOCAL, ADDRESS_PUBLIC},
	/* metadata of Oracle, in the protocol assignments of RFC 6890 */
	{IPV4(192, 0, 0, 192), 32, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	{IPV4(192, 0, 0, 0), 24, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
	/* RFC 5737 */
	{IPV4(192, 0, 2, 0), 24, REFUSAL_ADDRESS_DOCUMENTATION, ADDRESS_PRIVATE},
	{IPV4(198, 51, 100, 0), 24, REFUSAL_ADDRESS_DOCUMENTATION, ADDRESS_PRIVATE},
	{IPV4(203, 0, 113, 0), 24, REFUSAL_ADDRESS_DOCUMENTATION, ADDRESS_PRIVATE},
	/* relays of 6to4, withdrawn by RFC 7526 */
	{IPV4(192, 88, 99, 0), 24, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
	/* RFC 2544 */
	{IPV4(198, 18, 0, 0), 15, REFUSAL_ADDRESS_BENCHMARK, ADDRESS_PRIVATE},
	/* RFC 5771 */
	{IPV4(224, 0, 0, 0), 4, REFUSAL_ADDRESS_MULTICAST, ADDRESS_PUBLIC},
	/* RFC 919, then RFC 1112 section 4 */
	{IPV4(255, 255, 255, 255), 32, REFUSAL_ADDRESS_BROADCAST, ADDRESS_PUBLIC},
	{IPV4(240, 0, 0, 0), 4, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
};

/* Where the IPv4 address lies; the address is judged by it. */
enum embedding { EMBEDS_NOTHING, EMBEDS_AT_12, EMBEDS_AT_2, EMBEDS_TEREDO };

struct range6 {
	unsigned char network[16];
	unsigned char bits;
	enum embedding embedding;
	enum refusal refusal;
	enum address_permit opened_by;
};

static const struct range6 RANGES6[] = {
	/* RFC 4291 sections 2.5.2 and 2.5.3 */
	{{0}, 128, EMBEDS_NOTHING, REFUSAL_ADDRESS_UNSPECIFIED, ADDRESS_PUBLIC},
	{{[15] = 1}, 128, EMBEDS_NOTHING, REFUSAL_ADDRESS_LOOPBACK, ADDRESS_LOOPBACK},
	/* IPv4-mapped, RFC 4291 section 2.5.5.2 */
	{{[10] = 0xff, [11] = 0xff}, 96, EMBEDS_AT_12, REFUSAL_NONE, ADDRESS_PUBLIC},
	/* IPv4-compatible, deprecated by RFC 4291 section 2.5.5.1: nobody is there */
	{{0}, 96, EMBEDS_NOTHING, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
	/* NAT64, RFC 6052: what DNS64 answers on a network without IPv4 */
	{{0x00, 0x64, 0xff, 0x9b}, 96, EMBEDS_AT_12, REFUSAL_NONE, ADDRESS_PUBLIC},
	/* NAT64 inside a site, RFC 8215: where the IPv4 address lies is the site's choice */
	{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01},
	 48,
	 EMBEDS_NOTHING,
	 REFUSAL_ADDRESS_RESERVED,
	 ADDRESS_PUBLIC},
	/* discard-only, RFC 6666 */
	{{0x01}, 64, EMBEDS_NOTHING, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
	/* Teredo, RFC 4380 */
	{{0x20, 0x01}, 32, EMBEDS_TEREDO, REFUSAL_NONE, ADDRESS_PUBLIC},
	/* benchmarks, RFC 5180 */
	{{0x20, 0x01, 0x00, 0x02}, 48, EMBEDS_NOTHING, REFUSAL_ADDRESS_BENCHMARK, ADDRESS_PRIVATE},
	/* ORCHID and ORCHIDv2, RFC 4843 and RFC 7343 */
	{{0x20, 0x01, 0x00, 0x10}, 28, EMBEDS_NOTHING, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
	{{0x20, 0x01, 0x00, 0x20}, 28, EMBEDS_NOTHING, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
	/* RFC 3849 and RFC 9637 */
	{{0x20, 0x01, 0x0d, 0xb8},
	 32,
	 EMBEDS_NOTHING,
	 REFUSAL_ADDRESS_DOCUMENTATION,
	 ADDRESS_PRIVATE},
	{{0x3f, 0xff}, 20, EMBEDS_NOTHING, REFUSAL_ADDRESS_DOCUMENTATION, ADDRESS_PRIVATE},
	/* 6to4, RFC 3056 */
	{{0x20, 0x02}, 16, EMBEDS_AT_2, REFUSAL_NONE, ADDRESS_PUBLIC},
	/* metadata of AWS, Google and Scaleway, in the private range of RFC 4193 */
	{{0xfd, 0x00, 0x0e, 0xc2}, 32, EMBEDS_NOTHING, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	{{0xfd, 0x20, 0x00, 0xce}, 32, EMBEDS_NOTHING, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	{{0xfd, 0x00, 0x00, 0x42}, 32, EMBEDS_NOTHING, REFUSAL_ADDRESS_METADATA, ADDRESS_PUBLIC},
	{{0xfc}, 7, EMBEDS_NOTHING, REFUSAL_ADDRESS_PRIVATE, ADDRESS_PRIVATE},
	/* RFC 4291 section 2.5.6 */
	{{0xfe, 0x80}, 10, EMBEDS_NOTHING, REFUSAL_ADDRESS_LINK_LOCAL, ADDRESS_PUBLIC},
	/* site-local, deprecated by RFC 3879 */
	{{0xfe, 0xc0}, 10, EMBEDS_NOTHING, REFUSAL_ADDRESS_RESERVED, ADDRESS_PUBLIC},
	/* RFC 4291 section 2.7 */
	{{0xff}, 8, EMBEDS_NOTHING, REFUSAL_ADDRESS_MULTICAST, ADDRESS_PUBLIC},
};

static enum refusal judge(enum refusal refusal, enum address_permit opened_by,
			  enum address_permit permit)
{
	return opened_by != ADDRESS_PUBLIC && permit >= opened_by ? REFUSAL_NONE : refusal;
}

static enum refusal check4(uint32_t address, enum address_permit permit)
{
	for (size_t i = 0; i < sizeof(RANGES4) / sizeof(RANGES4[0]); i++) {
		const struct range4 *range = &RANGES4[i];
		uint32_t mask = UINT32_MAX << (32 - range->bits);

		if ((address & mask) == range->network)
			return judge(range->refusal, range->opened_by, permit);
	}
	return REFUSAL_NONE;
}

static bool has_prefix(const unsigned char *address, const unsigned char *network, unsigned bits)
{
	unsigned bytes = bits / 8;
	unsigned rest = bits % 8;
	unsigned mask = 0xffU << (8 - rest) & 0xffU;

	if (memcmp(address, network, bytes) != 0)
		return false;
	return rest == 0 || (address[bytes] & mask) == (network[bytes] & mask);
}

static uint32_t read4(const unsigned char *bytes)
{
	return IPV4(bytes[0], bytes[1], bytes[2], bytes[3]);
}

static const struct range6 *find6(const unsigned char *address)
{
	for (size_t i = 0; i < sizeof(RANGES6) / sizeof(RANGES6[0]); i++) {
		if (has_prefix(address, RANGES6[i].network, RANGES6[i].bits))
			return &RANGES6[i];
	}
	return NULL;
}

/* The IPv4 addresses inside: how many, at most two. */
static size_t embedded(const unsigned char *address, uint32_t inside[2])
{
	const struct range6 *range = find6(address);

	switch (range ? range->embedding : EMBEDS_NOTHING) {
	case EMBEDS_AT_12:
		inside[0] = read4(address + 12);
		return 1;
	case EMBEDS_AT_2:
		inside[0] = read4(address + 2);
		return 1;
	case EMBEDS_TEREDO: /* the server, then the client with all bits turned over */
		inside[0] = read4(address + 4);
		inside[1] = ~read4(address + 12);
		return 2;
	case EMBEDS_NOTHING:
		break;
	}
	return 0;
}

static enum refusal check6(const unsigned char *address, enum address_permit permit)
{
	const struct range6 *range = find6(address);
	uint32_t inside[2];
	size_t count = embedded(address, inside);

	if (!range)
		return (address[0] & 0xe0) == 0x20 ? REFUSAL_NONE : REFUSAL_ADDRESS_RESERVED;
	if (range->embedding == EMBEDS_NOTHING)
		return judge(range->refusal, range->opened_by, permit);
	for (size_t i = 0; i < count; i++) {
		enum refusal refusal = check4(inside[i], permit);

		if (refusal != REFUSAL_NONE)
			return refusal;
	}
	return REFUSAL_NONE;
}

enum refusal address_check_range(const struct sockaddr *address, enum address_permit permit)
{
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		return check4(ntohl(in.sin_addr.s_addr), permit);
	}
	if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		if (in6.sin6_scope_id != 0)
			return REFUSAL_ADDRESS_LINK_LOCAL;
		return check6(in6.sin6_addr.s6_addr, permit);
	}
	return REFUSAL_ADDRESS_RESERVED;
}

bool address_holds_ipv4(const unsigned char ipv6[static 16])
{
	static const unsigned char zero[12] = {0};
	uint32_t inside[2];

	/* ::/96 as a whole but for :: and ::1, which have ranges of their own */
	if (memcmp(ipv6, zero, sizeof(zero)) == 0)
		return read4(ipv6 + 12) > 1;
	return embedded(ipv6, inside) > 0;
}

/* Whether the interface's address is this one or lies inside it. */
static bool is_same(const struct sockaddr *own, const struct sockaddr *address)
{
	struct sockaddr_in6 in6;
	uint32_t inside[2] = {0, 0};
	size_t count = 0;

	if (address->sa_family == AF_INET6) {
		memcpy(&in6, address, sizeof(in6));
		count = embedded(in6.sin6_addr.s6_addr, inside);
	} else {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		inside[count++] = ntohl(in.sin_addr.s_addr);
	}
	if (own->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, own, sizeof(in));
		for (size_t i = 0; i < count; i++) {
			if (inside[i] == ntohl(in.sin_addr.s_addr))
				return true;
		}
	}
	if (own->sa_family == AF_INET6 && address->sa_family == AF_INET6) {
		struct sockaddr_in6 own6;

		memcpy(&own6, own, sizeof(own6));
		return memcmp(&own6.sin6_addr, &in6.sin6_addr, sizeof(in6.sin6_addr)) == 0;
	}
	return false;
}

bool address_is_own(const struct sockaddr *address)
{
	struct ifaddrs *list = NULL;
	bool found = false;

	if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
		return false;
	if (getifaddrs(&list) < 0)
		return true;
	for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next)
		found = at->ifa_addr && is_same(at->ifa_addr, address);
	freeifaddrs(list);
	return found;
}

enum refusal address_check(const struct sockaddr *address, enum address_permit permit)
{
	enum refusal refusal = address_check_range(address, permit);

	if (refusal != REFUSAL_NONE || permit == ADDRESS_PRIVATE)
		return refusal;
	/* What a permit for loopback opens is this machine's own by its nature. */
	if (permit == ADDRESS_LOOPBACK &&
	    address_check_range(address, ADDRESS_PUBLIC) == REFUSAL_ADDRESS_LOOPBACK)
		return REFUSAL_NONE;
	return address_is_own(address) ? REFUSAL_ADDRESS_OWN : REFUSAL_NONE;
}

void address_format(const struct sockaddr *address, char text[static ADDRESS_TEXT_SIZE])
{
	text[0] = '\0';
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, address, sizeof(in));
		inet_ntop(AF_INET, &in.sin_addr, text, ADDRESS_TEXT_SIZE);
	} else if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, address, sizeof(in6));
		inet_ntop(AF_INET6, &in6.sin6_addr, text, ADDRESS_TEXT_SIZE);
	}
}
