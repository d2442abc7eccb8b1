/*
 * Addresses: which of those that a name resolves to may be dialled.
 *
 * Whoever owns an allowed name's DNS decides where it leads, so a name is trusted only as far as
 * the public network: loopback, private, link-local and metadata addresses, this machine's own
 * ones and everything that is no global unicast address are refused. IPv4 inside IPv6 (mapped,
 * 6to4, NAT64, Teredo) is judged by the IPv4 address.
 *
 * What the user has opened by name (see hosts.h) is a permit. It opens the ranges for which a
 * service of the user's own is thinkable (laboratories use the ranges for documentation);
 * metadata, link-local, multicast, unspecified, broadcast and reserved addresses stay closed
 * whatever the permit.
 */
#ifndef FH_SANDBOX_ADDRESS_H
#define FH_SANDBOX_ADDRESS_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "sandbox/refusal.h"

/* What may be dialled; each value includes those before it. */
enum address_permit {
	ADDRESS_PUBLIC,   /* global unicast that is not this machine's */
	ADDRESS_LOOPBACK, /* also 127.0.0.0/8 and ::1 */
	ADDRESS_PRIVATE,  /* also private, shared, benchmark and documentation ranges
			     and this machine's own */
};

/* Whether a socket address (AF_INET or AF_INET6; others are REFUSAL_ADDRESS_RESERVED) may be
 * dialled, by its range alone. Sources: the IANA special-purpose registries (RFC 6890) and the
 * clouds' documentation; address.c names the RFC of each range. */
enum refusal address_check_range(const struct sockaddr *address, enum address_permit permit);

/* Whether it is the address of an interface of this machine, asked of the kernel now
 * (getifaddrs(3)), also when it is written as IPv4 inside IPv6. When the kernel does not say, true:
 * fails closed. */
bool address_is_own(const struct sockaddr *address);

/* Both of them: what is to be asked before dialling. */
enum refusal address_check(const struct sockaddr *address, enum address_permit permit);

enum { ADDRESS_TEXT_SIZE = INET6_ADDRSTRLEN };

/* The address without its port, as inet_ntop(3) writes it; "" for other families. */
void address_format(const struct sockaddr *address, char text[static ADDRESS_TEXT_SIZE]);

/* The IPv4 address inside an IPv6 one (16 bytes) that exists for carrying it: mapped, compatible,
 * 6to4, NAT64 and Teredo. */
bool address_holds_ipv4(const unsigned char ipv6[static 16]);

#endif
