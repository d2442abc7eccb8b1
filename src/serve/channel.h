/*
 * The channels that are open: see channel.c. rest_channel() opens one.
 */
#ifndef FH_SERVE_CHANNEL_H
#define FH_SERVE_CHANNEL_H

#include <stdint.h>

struct serve;

/* How many this one has open; NULL: all. */
uint64_t channels_of(const struct serve *serve, const char *who);

/* Once a second: pings. */
void channels_tick(struct serve *serve, int64_t now_us);

/* The daemon ends: all are told so. */
void channels_close(struct serve *serve);

#endif
