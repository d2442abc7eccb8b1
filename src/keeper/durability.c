/*
 * Durability `power`: what is said of the journal is on the disk, and what happens when the disk
 * will not have it.
 *
 * The server holds every line until a sync has covered it (server.h), the record makes the syncs
 * (record_sync.c), and here the end of the one becomes the word for the other.
 *
 * A sync that fails is believed. Linux tells a failed write back once and then takes the pages for
 * clean, so a second fdatasync that returns 0 proves nothing about what the first was for. From
 * then on the promise cannot be kept: whoever waited is told so before anything else, the journal
 * gets a `warning`, cells that wait are cancelled, and nothing that would have to be written down
 * is taken any more. The cell that runs may go on: its output is told, and no longer promised. A
 * session that makes no such promise (durability `process`) only warns, and goes on.
 */
#include "base/mem.h"
#include "keeper/session.h"

static const char CODE[] = "sync";

void session_sync_began(void *data)
{
	struct session *session = data;

	server_sync_began(session->server);
}

static struct json *warning_body(const char *message)
{
	struct json *body = json_new_object();

	json_set_string(body, "code", CODE);
	json_set_string(body, "message", message);
	return body;
}

/* The line for those who wait: an event of nobody's journal, without a number. */
static void write_notice(struct buf *out, const char *message)
{
	cleanup_json struct json *notice = json_new_object();

	json_set_string(notice, "type", "warning");
	json_set_string(notice, "code", CODE);
	json_set_string(notice, "message", message);
	json_write(out, notice);
	buf_append_char(out, '\n');
}

static void sync_failed(struct session *session, const struct err *err)
{
	bool power = session->config.durability_power;
	cleanup_buf struct buf notice = BUF_INIT;
	cleanup_free char *message =
		mem_format("%s: what was recorded last is perhaps not on the disk%s", err->text,
			   power ? ", and no more cells are taken; look at the disk, then stop the "
				   "session and open it again"
				 : "; look at the disk");

	session->sync_failed = true;
	write_notice(&notice, message);
	server_sync_ended(session->server, buf_bytes(&notice));
	if (record_is_closing(session->record))
		return;
	record_body(session->record, EVENT_WARNING, NULL, warning_body(message));
	if (power)
		session_cancel_queue(session, CODE);
}

void session_sync_ended(void *data, const struct err *err)
{
	struct session *session = data;

	if (!err)
		server_sync_ended(session->server, NULL);
	else if (!session->sync_failed)
		sync_failed(session, err);
}

int session_check_durable(const struct session *session, struct err *err)
{
	if (!session->sync_failed || !session->config.durability_power)
		return 0;
	return err_set(err, ERR_IO,
		       "the disk has failed to sync the journal, and the session promises to be "
		       "safe from power cuts; look at the disk, then stop the session and open it "
		       "again");
}
