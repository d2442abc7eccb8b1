/*
 * Lines from a keeper: which of the three kinds of doc/protocol.md is it?
 */
#ifndef FH_CLIENT_MESSAGE_H
#define FH_CLIENT_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/* What a line from the keeper is. */
enum message_kind { MESSAGE_EVENT, MESSAGE_HELLO, MESSAGE_REPLY, MESSAGE_REFUSED, MESSAGE_BAD };

/* Tells the kind. For all but events *message is the parsed line, owned by the caller; an event is
 * not parsed when its beginning shows already that it is one. */
enum message_kind message_kind(const char *line, size_t len, struct json **message);

/* The event's number, 0 when it has none. */
uint64_t message_seq(const char *line, size_t len);

/* Fills *err with the code and the message of a `refused` line. Returns -1. */
int message_refusal(const struct json *message, struct err *err);

#endif
