/*
 * Any bytes as a line: event_parse() refuses it or gives an event that comes back the same through
 * its line, through the journal's own form of it, and through inlining.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "journal/journal.h"
#include "journal/line.h"
#include "journal/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stores without a directory to put blobs into: what is short does not need one. */
static void check_stored(const struct event *event)
{
	struct blob_room room = {.dirfd = -1, .bytes = 0, .bytes_max = 0};
	cleanup_buf struct buf line = BUF_INIT;
	cleanup_event struct event again = EVENT_INIT;
	uint64_t repaired = 0;

	if (event_store(&line, event, &room, &repaired, NULL) != 0)
		return;
	assert(line_seq_whole(buf_bytes(&line), line.len - 1) == event->seq);
	assert(event_parse(buf_bytes(&line), line.len - 1, &again, NULL) == 0);
	assert(event_inline(-1, &again, UINT64_MAX, NULL, NULL) == 0);
	assert(json_length(event->body) == 0 || json_equal(event->body, again.body));
	assert(repaired == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_event struct event event = EVENT_INIT;
	cleanup_event struct event again = EVENT_INIT;
	cleanup_buf struct buf line = BUF_INIT;
	cleanup_buf struct buf second = BUF_INIT;
	struct err err = ERR_INIT;

	line_seq((const char *)data, size);
	if (size > 0)
		line_seq_whole((const char *)data, size);
	if (event_parse((const char *)data, size, &event, &err) != 0) {
		assert(err.code == ERR_CORRUPT && err.text[0] != '\0');
		assert(!event.cell && !event.text && !event.body && event.seq == 0);
		return 0;
	}
	event_image(&event, NULL);
	event_write(&line, &event);
	assert(line_seq_whole(buf_bytes(&line), line.len - 1) == event.seq);
	assert(event_parse(buf_bytes(&line), line.len - 1, &again, NULL) == 0);
	event_write(&second, &again);
	assert(line.len == second.len &&
	       memcmp(buf_bytes(&line), buf_bytes(&second), line.len) == 0);
	check_stored(&event);
	return 0;
}
