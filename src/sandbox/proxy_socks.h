/*
 * The SOCKS 5 side of the proxy (RFC 1928): CONNECT to a name or an address, without
 * authentication. A client that offers a user name and a password only (RFC 1929) may give any:
 * it is in the box already, and a name proves nothing there.
 *
 * Pure: bytes in, an answer and bytes to send back out.
 */
#ifndef FH_SANDBOX_PROXY_SOCKS_H
#define FH_SANDBOX_PROXY_SOCKS_H

#include <stddef.h>

#include "base/buf.h"
#include "sandbox/hosts.h"
#include "sandbox/proxy_http.h"

enum { PROXY_SOCKS_VERSION = 5 };

enum proxy_socks_stage { PROXY_SOCKS_GREETING, PROXY_SOCKS_LOGIN, PROXY_SOCKS_REQUEST };

struct proxy_socks {
	enum proxy_socks_stage stage; /* zero it to begin */
	struct hosts_target target;   /* when it is done */
	struct buf asked;             /* the host as it was asked for, also when it is refused */
};

/* Takes what has come. *used bytes were understood and are to be dropped, what goes back is
 * appended to `reply`. PROXY_DONE: `target` is filled, and proxy_socks_answer() is still to be
 * sent. PROXY_REFUSED: *refusal; send what is in `reply`, and proxy_socks_answer() too if the stage
 * is PROXY_SOCKS_REQUEST. */
enum proxy_outcome proxy_socks_read(struct proxy_socks *socks, const char *bytes, size_t len,
				    size_t *used, struct buf *reply, enum refusal *refusal);

void proxy_socks_release(struct proxy_socks *socks);

/* Appends the answer to the request. The bound address in it is 0.0.0.0:0: the guest has no use for
 * the host's address. */
void proxy_socks_answer(enum refusal refusal, struct buf *out);

#endif
