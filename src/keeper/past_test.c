/*
 * Looking back over a journal: nets of changes, images by section, texts, and a journal with damage
 * in it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "journal/journal.h"
#include "keeper/kit.h"
#include "keeper/past.h"

struct fixture {
	struct kit kit;
	struct journal *journal;
};

static void add(struct fixture *fixture, enum event_type type, const char *cell, const char *body)
{
	struct event event = EVENT_INIT;

	event.type = type;
	event.cell = mem_string(cell);
	event.body = json_parse(body, strlen(body), &JSON_LIMITS, NULL);
	assert_non_null(event.body);
	assert_int_equal(journal_append(fixture->journal, &event, NULL), 0);
	event_release(&event);
}

static void add_stream(struct fixture *fixture, const char *cell, const char *text)
{
	struct event event = EVENT_INIT;

	event.type = EVENT_STREAM;
	event.cell = mem_string(cell);
	event.text = mem_string(text);
	event.text_len = strlen(text);
	assert_int_equal(journal_append(fixture->journal, &event, NULL), 0);
	event_release(&event);
}

static struct fixture *fixture_new(void)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	kit_open(&fixture->kit, "past_test");
	fixture->journal = journal_open(fixture->kit.fd, JOURNAL_BYTES_MAX, NULL, NULL);
	assert_non_null(fixture->journal);
	add(fixture, EVENT_SESSION, NULL, "{}");
	return fixture;
}

static void fixture_free(struct fixture *fixture)
{
	journal_free(fixture->journal);
	kit_close(&fixture->kit);
	free(fixture);
}

static void assert_body(struct json *body, const char *text)
{
	cleanup_buf struct buf found = BUF_INIT;

	json_write(&found, body);
	assert_string_equal(buf_bytes(&found), text);
	json_free(body);
}

static struct json *files_since(struct fixture *fixture, uint64_t since, const struct json *between)
{
	struct json *body = json_new_object();

	assert_int_equal(past_files(fixture->kit.fd, since, between, body, NULL), 0);
	return body;
}

static void test_net_of_files(void **state)
{
	struct fixture *fixture = fixture_new();
	cleanup_json struct json *between = NULL;
	static const char late[] =
		"[{\"path\":\"e\",\"change\":\"created\",\"origin\":\"background\"}]";

	(void)state;
	add(fixture, EVENT_FINISHED, "c1",
	    "{\"files\":[{\"path\":\"a\",\"change\":\"created\",\"bytes\":1},{\"path\":\"b\","
	    "\"change\":\"created\"},"
	    "{\"path\":\"c\",\"change\":\"deleted\"},{\"path\":\"d\",\"change\":\"changed\"},"
	    "{\"path\":\"\xef\xbf\xbd\",\"path_base64\":\"/w==\",\"change\":\"created\"}]}");
	add(fixture, EVENT_FINISHED, "c2",
	    "{\"files\":[{\"path\":\"a\",\"change\":\"changed\",\"bytes\":2},{\"path\":\"b\","
	    "\"change\":\"deleted\"},"
	    "{\"path\":\"c\",\"change\":\"created\"},{\"path\":\"d\",\"change\":\"deleted\"},"
	    "{\"path\":\"\xef\xbf\xbd\",\"path_base64\":\"/"
	    "g==\",\"change\":\"created\"}],\"files_more\":3}");
	between = json_parse(late, strlen(late), &JSON_LIMITS, NULL);
	assert_body(
		files_since(fixture, 0, between),
		"{\"files\":[{\"path\":\"a\",\"change\":\"created\",\"bytes\":2,\"cell\":\"c2\"},"
		"{\"path\":\"c\",\"change\":\"changed\",\"cell\":\"c2\"},"
		"{\"path\":\"d\",\"change\":\"deleted\",\"cell\":\"c2\"},"
		"{\"path\":\"\xef\xbf\xbd\",\"path_base64\":\"/"
		"w==\",\"change\":\"created\",\"cell\":\"c1\"},"
		"{\"path\":\"\xef\xbf\xbd\",\"path_base64\":\"/"
		"g==\",\"change\":\"created\",\"cell\":\"c2\"},"
		"{\"path\":\"e\",\"change\":\"created\",\"cell\":null}],\"files_more\":3}");
	assert_body(files_since(fixture, 3, NULL), "{\"files\":[]}");
	fixture_free(fixture);
}

static void test_files_of_cell(void **state)
{
	struct fixture *fixture = fixture_new();
	struct json *body = json_new_object();
	struct err err = ERR_INIT;

	(void)state;
	add(fixture, EVENT_FINISHED, "c10", "{\"files\":[{\"path\":\"no\"}]}");
	add(fixture, EVENT_FINISHED, "c1", "{\"files\":[1],\"files_incomplete\":\"time\"}");
	assert_int_equal(past_files_of_cell(fixture->kit.fd, "c1", 1, body, &err), 0);
	assert_body(body, "{\"files\":[1],\"files_incomplete\":\"time\"}");
	body = json_new_object();
	assert_int_equal(past_files_of_cell(fixture->kit.fd, "c2", 1, body, &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	json_free(body);
	fixture_free(fixture);
}

static void test_images(void **state)
{
	struct fixture *fixture = fixture_new();
	struct json *body = json_new_object();
	cleanup_fd int fd = -1;

	(void)state;
	add(fixture, EVENT_CELL, "c1", "{\"code\":\"\",\"section\":\"s\"}");
	add(fixture, EVENT_DISPLAY, "c1", "{\"data\":{\"image/png\":\"iVBO\"}}");
	add(fixture, EVENT_DISPLAY, "c1", "{\"data\":{\"text/plain\":\"no\"}}");
	add(fixture, EVENT_CELL, "c2", "{\"code\":\"\"}");
	add(fixture, EVENT_RESULT, "c2", "{\"data\":{\"image/svg+xml\":\"<svg/>\"}}");
	add(fixture, EVENT_DISPLAY, "c1",
	    "{\"data\":{\"image/jpeg\":\"AAAA\"}}"); /* late, and after `since` */
	add(fixture, EVENT_FINISHED, "c1",
	    "{\"files\":[{\"path\":\"p.png\",\"change\":\"created\",\"mime\":\"image/png\"},"
	    "{\"path\":\"q.png\",\"change\":\"deleted\",\"mime\":\"image/png\"},"
	    "{\"path\":\"t.csv\",\"change\":\"created\",\"mime\":\"text/csv\"}]}");
	assert_int_equal(mkdirat(fixture->kit.fd, "images", 0700), 0);
	fd = openat(fixture->kit.fd, "images/c1-2.jpg", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(file_write_all(fd, "123", 3, NULL), 0);
	assert_int_equal(past_images(fixture->kit.fd, 5, "s", body, NULL), 0);
	assert_body(
		body,
		"{\"images\":[{\"cell\":\"c1\",\"n\":2,\"path\":\"images/c1-2.jpg\",\"bytes\":3,"
		"\"mime\":\"image/jpeg\",\"section\":\"s\",\"place\":\"session\"},"
		"{\"path\":\"p.png\",\"change\":\"created\",\"mime\":\"image/png\",\"cell\":\"c1\","
		"\"section\":\"s\",\"place\":\"workspace\"}]}");
	body = json_new_object();
	assert_int_equal(past_images(fixture->kit.fd, 0, NULL, body, NULL), 0);
	assert_int_equal(json_length(json_get(body, "images")), 4);
	json_free(body);
	fixture_free(fixture);
}

static void test_outputs(void **state)
{
	struct fixture *fixture = fixture_new();
	struct json *body = json_new_object();

	(void)state;
	add(fixture, EVENT_CELL, "c1", "{\"code\":\"\",\"section\":\"s\"}");
	add(fixture, EVENT_CELL, "c11", "{\"code\":\"\",\"section\":\"t\"}");
	add(fixture, EVENT_STARTED, "c1", "{}");
	add_stream(fixture, "c1", "one\n");
	add_stream(fixture, "c11", "not\n");
	add(fixture, EVENT_CELL, "c2", "{\"code\":\"\",\"section\":\"s\"}");
	add_stream(fixture, "c2", "two\n");
	add_stream(fixture, "c1", "\"type\":\"late\"\n");
	assert_int_equal(past_outputs(fixture->kit.fd, "id", NULL, "s",
				      &(struct digest_params){.total_chars_max = 8000,
							      .item_chars_max = 2000},
				      body, NULL),
			 0);
	assert_body(body,
		    "{\"cells\":[{\"cell\":\"c1\",\"text\":\"one\\n\\\"type\\\":\\\"late\\\"\"},"
		    "{\"cell\":\"c2\",\"text\":\"two\"}]}");
	fixture_free(fixture);
}

/* Lines that are no events, or none of this version, cost nothing but themselves. */
static void test_damage(void **state)
{
	struct fixture *fixture = fixture_new();
	cleanup_fd int fd =
		openat(fixture->kit.fd, "journal.ndjson", O_WRONLY | O_APPEND | O_CLOEXEC);
	static const char lines[] =
		"{\"seq\":2,\"t\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"finished\",\"cell\":"
		"\"c1\",bad}\n"
		"rubbish\n"
		"{\"seq\":3,\"t\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"a_type_of_tomorrow_"
		"with_a_long_name_indeed\"}\n"
		"{\"seq\":4,\"t\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"finished\",\"cell\":"
		"\"c2\",\"files\":7}\n"
		"{\"seq\":5,\"t\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"finished\",\"cell\":"
		"\"c3\",\"files\":[7,{},"
		"{\"path\":\"x\",\"change\":\"deleted\"},{\"path\":\"x\",\"change\":\"odd\"}]}\n"
		"{\"seq\":6,\"t\":\"2026-01-01T00:00:00.000000Z\",\"type\":\"display\",\"data\":[]}"
		"\n";

	(void)state;
	assert_int_equal(file_write_all(fd, lines, sizeof(lines) - 1, NULL), 0);
	assert_body(files_since(fixture, 0, NULL),
		    "{\"files\":[{\"path\":\"x\",\"change\":\"changed\",\"cell\":\"c3\"}]}");
	{
		struct json *body = json_new_object();

		assert_int_equal(past_images(fixture->kit.fd, 0, NULL, body, NULL), 0);
		assert_body(body, "{\"images\":[]}");
		body = json_new_object();
		assert_int_equal(past_outputs(fixture->kit.fd, "id", NULL, NULL,
					      &(struct digest_params){.total_chars_max = 10,
								      .item_chars_max = 10},
					      body, NULL),
				 0);
		assert_body(body, "{\"cells\":[]}");
	}
	fixture_free(fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_net_of_files), cmocka_unit_test(test_files_of_cell),
		cmocka_unit_test(test_images),       cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
