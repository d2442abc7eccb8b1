/*
 * Decoder: a process that does nothing but turn bytes from its stdin into others on its stdout.
 *
 * What comes from a session's code, or from anywhere, and has to go through a library that was not
 * written for such input (images, archives), is decoded by a program of its own. It is started
 * without environment and with no descriptors but those it needs, and calls this before it looks at
 * the first byte. From then on it can read and write what is open, take memory, and end; any other
 * system call kills it (seccomp(2)). So a mistake in the library costs this one answer.
 *
 * The filter is a list of what is allowed, unlike that of a session (sandbox/filter.h): here it is
 * known what runs.
 */
#ifndef FH_BASE_DECODER_H
#define FH_BASE_DECODER_H

#include <stdbool.h>
#include <stdint.h>

struct decoder_limits {
	uint64_t memory_bytes; /* address space, all that is mapped already included */
	unsigned cpu_s;        /* at least 1; at its end the process is killed */
	bool writes_files;     /* stdout may be a file: else nothing can be written to one */
};

/* Puts this process under the limits and the filter, for good. One thread only. -1 with errno, and
 * then the process must end: some of it may be in force. */
int decoder_confine(const struct decoder_limits *limits);

#endif
