/* Time: wall clock for people, monotonic clock for durations; both as int64 microseconds. */
#ifndef FH_BASE_CLOCK_H
#define FH_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_wall_us(void);      /* since 1970, UTC */
int64_t clock_monotonic_us(void);

/* Of `most_ms` as much as there is left of the time until `deadline_us` (monotonic; 0: none), in
 * whole milliseconds, rounded up, for poll(2); 0: it is over. */
int64_t clock_left_ms(int64_t deadline_us, int64_t most_ms);

enum { CLOCK_TEXT_SIZE = 28 };    /* "2026-11-29T17:16:54.123456Z" and NUL */

/* RFC 3339 with six decimals and Z; years 0..9999, clamped. */
void clock_format(int64_t wall_us, char text[static CLOCK_TEXT_SIZE]);

/* The reverse; INT64_MIN when the text has another form. */
int64_t clock_parse(const char *text);

#endif
