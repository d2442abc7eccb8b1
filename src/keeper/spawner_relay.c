/*
 * Between the pool and the keeper; see spawner_protocol.h.
 *
 * Neither side can make the other wait: what the keeper does not take ends the relay, which the
 * keeper sees as a pool that has ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/socket.h"
#include "engine/python/enter.h"
#include "keeper/session.h"
#include "keeper/spawner_protocol.h"
#include "pool/pool.h"

int spawner_relay_open(struct spawner_relay *relay, const char *python, bool join, struct err *err)
{
	cleanup_fd int pool = join ? pool_join(python, err) : pool_connect(python, err);
	int pair[2];

	if (pool < 0 || socket_pair(SOCK_SEQPACKET, pair, err) != 0)
		return -1;
	(void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
	*relay = (struct spawner_relay){.pool = fd_take(&pool), .keeper = pair[0]};
	return pair[1];
}

void spawner_relay_close(struct spawner_relay *relay)
{
	if (relay->pool >= 0)
		close(relay->pool);
	if (relay->keeper >= 0)
		close(relay->keeper);
	*relay = (struct spawner_relay){.pool = -1, .keeper = -1};
}

static uint8_t type_of(const char *message, size_t len)
{
	struct guest_header header = {.type = 0};

	if (len >= sizeof(header))
		memcpy(&header, message, sizeof(header));
	return header.type;
}

/* The environment of this pool, and the nursery of its zygote: by them the next box is built. */
static void take_environment(struct session *session, const char *message, size_t len, int family)
{
	struct json *environment =
		json_parse(message + sizeof(struct guest_header), len - sizeof(struct guest_header),
			   &JSON_LIMITS, NULL);

	if (!environment)
		return;
	json_free(session->environment);
	session->environment = environment;
	if (session->family >= 0)
		close(session->family);
	session->family = family >= 0 ? fcntl(family, F_DUPFD_CLOEXEC, 0) : -1;
}

void spawner_relay_pool(struct spawner_relay *relay, struct session *session)
{
	static char message[GUEST_MESSAGE_BYTES_MAX];
	int fds[SOCKET_FDS_MAX];
	size_t count = SOCKET_FDS_MAX;
	bool truncated = false;
	ssize_t got = socket_receive(relay->pool, message, sizeof(message), fds, &count, &truncated,
				     MSG_DONTWAIT);
	bool passed;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0 || truncated) {
		for (size_t i = 0; got > 0 && i < count; i++)
			close(fds[i]);
		spawner_relay_close(relay);
		return;
	}
	if (type_of(message, (size_t)got) == ZYGOTE_READY)
		take_environment(session, message, (size_t)got, count > 0 ? fds[0] : -1);
	passed = socket_send(relay->keeper, message, (size_t)got, fds, count) == 0;
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	if (!passed)
		spawner_relay_close(relay);
}

/* Adds what is the box's to an order of the keeper's. 0, or -1: there is no box to enter. */
static int complete(const struct session *session, struct zygote_enter *enter,
		    int fds[static ZYGOTE_FDS])
{
	const struct box *box = session->box;

	if (!box || !box_namespaces(box))
		return -1;
	enter_add_box(box, enter, fds);
	box_give(box, fds[ZYGOTE_FD_STDOUT]);
	box_give(box, fds[ZYGOTE_FD_STDERR]);
	return 0;
}

void spawner_relay_keeper(struct spawner_relay *relay, const struct session *session)
{
	struct zygote_enter enter;
	int fds[ZYGOTE_FDS];
	size_t count = ZYGOTE_FD_NAMESPACE;
	bool truncated = false;
	ssize_t got = socket_receive(relay->keeper, &enter, sizeof(enter), fds, &count, &truncated,
				     MSG_DONTWAIT);
	bool passed;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0)
		count = 0;
	passed = got == (ssize_t)sizeof(enter) && !truncated && count == ZYGOTE_FD_NAMESPACE &&
		 enter.header.type == ZYGOTE_ENTER && complete(session, &enter, fds) == 0 &&
		 socket_send(relay->pool, &enter, sizeof(enter), fds, ZYGOTE_FDS) == 0;
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	if (!passed)
		spawner_relay_close(relay);
}
