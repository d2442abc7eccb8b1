/*
 * The channel to a guest: messages of guest/protocol.h over a SEQPACKET socket.
 *
 * What arrives is hostile. A message that is too short, too long, of a wrong form, or whose memfd
 * lacks a seal or is too large is CHANNEL_GARBAGE: its descriptors are closed and nothing of it is
 * used. A large body comes in a memfd and is read with pread, never mapped: even a sealed file
 * could be hole-punched under a mapping by a kernel bug, a copy cannot.
 */
#ifndef FH_ENGINE_PYTHON_CHANNEL_H
#define FH_ENGINE_PYTHON_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "guest/protocol.h"

enum channel_outcome { CHANNEL_MESSAGE, CHANNEL_EMPTY, CHANNEL_END, CHANNEL_GARBAGE };

struct channel_message {
	struct guest_header header;
	const char *body; /* valid until the next receive into the same struct */
	size_t body_len;
	int fd; /* the descriptor that came with it (not the body's), or -1; owned by the message */
	char inline_bytes[GUEST_MESSAGE_BYTES_MAX];
	struct buf large;
};

void channel_message_init(struct channel_message *message);
void channel_message_release(struct channel_message *message);

/* Receives one message without blocking. Closes the descriptor of the message before. */
enum channel_outcome channel_receive(int fd, struct channel_message *message);

/* Sends one message; a body over GUEST_INLINE_BYTES_MAX goes as a sealed memfd. Waits at most a
 * second for room in the socket. ERR_LIMIT when the body is over GUEST_BODY_BYTES_MAX, ERR_GONE
 * when nobody reads. */
int channel_send(int fd, uint8_t type, uint8_t flags, uint32_t cell, const void *body, size_t len,
		 struct err *err);

#endif
