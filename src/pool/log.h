/* What the pool's program tells people: one line an event on stderr, which main.c has made the log
 * file. */
#ifndef FH_POOL_LOG_H
#define FH_POOL_LOG_H

/* Writes "<time> <text>" and a newline by one write(2). Control characters of foreign text are
 * shown escaped. */
void pool_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
