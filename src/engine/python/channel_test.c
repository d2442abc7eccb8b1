/* The channel: what goes through whole, and what a hostile peer can send without harm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/socket.h"
#include "engine/python/channel.h"

static int open_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static struct channel_message
	MESSAGE_HEAP; /* too large for a stack frame in a test that recurses not */

static void sizes(void **state)
{
	static const size_t lengths[] = {
		0, 1, GUEST_INLINE_BYTES_MAX, GUEST_INLINE_BYTES_MAX + 1, 1 << 20, 70 << 20};
	struct channel_message *message = &MESSAGE_HEAP;
	int pair[2];

	(void)state;
	assert_int_equal(socket_pair(SOCK_SEQPACKET, pair, NULL), 0);
	channel_message_init(message);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		cleanup_free char *body = mem_zalloc(lengths[i] + 1);

		memset(body, 'a' + (int)i, lengths[i]);
		assert_int_equal(channel_send(pair[0], GUEST_RUN, GUEST_FLAG_ALLOW_STDIN, 7, body,
					      lengths[i], NULL),
				 0);
		assert_int_equal(channel_receive(pair[1], message), CHANNEL_MESSAGE);
		assert_int_equal(message->header.type, GUEST_RUN);
		assert_int_equal(message->header.cell, 7);
		assert_true(message->header.flags & GUEST_FLAG_ALLOW_STDIN);
		assert_int_equal(message->body_len, lengths[i]);
		assert_memory_equal(message->body, body, lengths[i]);
	}
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_EMPTY);
	close(pair[0]);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_END);
	channel_message_release(message);
	close(pair[1]);
}

static void garbage(void **state)
{
	struct channel_message *message = &MESSAGE_HEAP;
	struct guest_header header = {.type = GUEST_DISPLAY, .flags = GUEST_FLAG_MEMFD, .cell = 1};
	int pair[2], before, unsealed, file, fds[3];

	(void)state;
	assert_int_equal(socket_pair(SOCK_SEQPACKET, pair, NULL), 0);
	channel_message_init(message);
	unsealed = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	before = open_fds();
	/* too short */
	assert_int_equal(send(pair[0], "abc", 3, 0), 3);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_GARBAGE);
	/* says memfd, brings none */
	assert_int_equal(socket_send(pair[0], &header, sizeof(header), NULL, 0), 0);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_GARBAGE);
	/* a memfd that can still change; something that is no memfd; the other end of the socket
	 * itself */
	fds[0] = unsealed;
	assert_int_equal(socket_send(pair[0], &header, sizeof(header), fds, 1), 0);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_GARBAGE);
	fds[0] = file;
	assert_int_equal(socket_send(pair[0], &header, sizeof(header), fds, 1), 0);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_GARBAGE);
	fds[0] = pair[0];
	assert_int_equal(socket_send(pair[0], &header, sizeof(header), fds, 1), 0);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_GARBAGE);
	/* more descriptors than anything needs */
	fds[1] = fds[2] = file;
	assert_int_equal(socket_send(pair[0], &header, sizeof(header), fds, 3), 0);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_GARBAGE);
	header.flags = 0;
	assert_int_equal(socket_send(pair[0], &header, sizeof(header), fds, 2), 0);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_GARBAGE);
	assert_int_equal(open_fds(), before);
	channel_message_release(message);
	close(unsealed);
	close(file);
	close(pair[0]);
	close(pair[1]);
}

static void descriptor_comes_along(void **state)
{
	struct channel_message *message = &MESSAGE_HEAP;
	struct guest_header header = {.type = GUEST_HELLO};
	int pair[2], before;

	(void)state;
	assert_int_equal(socket_pair(SOCK_SEQPACKET, pair, NULL), 0);
	channel_message_init(message);
	before = open_fds();
	assert_int_equal(socket_send(pair[0], &header, sizeof(header), &pair[0], 1), 0);
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_MESSAGE);
	assert_true(message->fd >= 0);
	assert_true(fcntl(message->fd, F_GETFD) & FD_CLOEXEC);
	/* the next receive closes it */
	assert_int_equal(channel_receive(pair[1], message), CHANNEL_EMPTY);
	assert_int_equal(open_fds(), before);
	channel_message_release(message);
	close(pair[0]);
	close(pair[1]);
}

/* Nobody reads: the sender is told within its second, and nothing is lost on the way. */
static void nobody_reads(void **state)
{
	struct err err = ERR_INIT;
	char body[32 << 10] = {0};
	int pair[2], sent = 0;

	(void)state;
	assert_int_equal(socket_pair(SOCK_SEQPACKET, pair, NULL), 0);
	assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
	while (channel_send(pair[0], GUEST_RUN, 0, 1, body, sizeof(body), &err) == 0)
		assert_true(++sent < 1000);
	assert_int_equal(err.code, ERR_TIMEOUT);
	close(pair[1]);
	assert_int_equal(channel_send(pair[0], GUEST_RUN, 0, 1, body, 1, &err), -1);
	assert_int_equal(err.code, ERR_GONE);
	close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(garbage),
		cmocka_unit_test(descriptor_comes_along),
		cmocka_unit_test(nobody_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
