/* Events: lines to structs and back, every way to be no event, images. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "journal/kit.h"
#include "journal/line.h"

#define T "\"t\":\"2026-11-29T17:16:54.123456Z\""
#define T_US 1795972614123456

static void test_names(void **state)
{
	(void)state;
	for (enum event_type type = 0; type < EVENT_TYPE_COUNT; type++)
		assert_int_equal(event_type_from_name(event_type_name(type)), type);
	assert_int_equal(event_type_from_name("tomorrow"), EVENT_OTHER);
	assert_int_equal(event_type_from_name(""), EVENT_OTHER);
	assert_string_equal(event_type_name(EVENT_UPDATE_DISPLAY), "update_display");
}

static void check_written(struct event event, const char *expected)
{
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_event struct event again = EVENT_INIT;

	event.seq = 7;
	event.t_us = T_US;
	event_write(&out, &event);
	assert_string_equal(buf_bytes(&out), expected);
	assert_int_equal(event_parse(buf_bytes(&out), out.len - 1, &again, NULL), 0);
	kit_assert_same(&event, &again);
	event_release(&event);
}

static void test_write(void **state)
{
	struct event event;

	(void)state;
	check_written(kit_event(EVENT_STARTED, "c1", NULL),
		      "{\"seq\":7," T ",\"type\":\"started\",\"cell\":\"c1\"}\n");
	check_written(kit_event(EVENT_RESTARTED, NULL, "{\"state\":\"reset\"}"),
		      "{\"seq\":7," T ",\"type\":\"restarted\",\"state\":\"reset\"}\n");
	check_written(
		kit_event(EVENT_RESULT, "c1", "{\"data\":{\"text/plain\":\"1.0\"},\"n\":1.50}"),
		"{\"seq\":7," T ",\"type\":\"result\",\"cell\":\"c1\","
		"\"data\":{\"text/plain\":\"1.0\"},\"n\":1.50}\n");
	check_written(kit_event(EVENT_OTHER, "c1", "{\"type\":\"tomorrow\",\"x\":[]}"),
		      "{\"seq\":7," T ",\"type\":\"tomorrow\",\"cell\":\"c1\",\"x\":[]}\n");
	check_written(kit_stream("c1", "a\n\"\0€", 7),
		      "{\"seq\":7," T ",\"type\":\"stream\",\"cell\":\"c1\",\"name\":\"stdout\","
		      "\"text\":\"a\\n\\\"\\u0000€\"}\n");
	event = kit_stream("c1", "", 0);
	event.is_stderr = true;
	event.background = true;
	check_written(event,
		      "{\"seq\":7," T ",\"type\":\"stream\",\"cell\":\"c1\",\"name\":\"stderr\","
		      "\"text\":\"\",\"origin\":\"background\"}\n");
}

/* A field of the body that is called like one of the head would make a key appear twice. */
static void test_head_wins(void **state)
{
	cleanup_event struct event event = kit_event(
		EVENT_NOTE, NULL, "{\"seq\":1,\"t\":2,\"type\":3,\"cell\":4,\"text\":\"x\"}");
	cleanup_buf struct buf out = BUF_INIT;

	(void)state;
	event.seq = INT64_MAX;
	event_write(&out, &event);
	assert_string_equal(
		buf_bytes(&out),
		"{\"seq\":9223372036854775807,"
		"\"t\":\"1970-01-01T00:00:00.000000Z\",\"type\":\"note\",\"text\":\"x\"}\n");
}

static void test_parse_any_order(void **state)
{
	static const char LINE[] =
		"{ \"type\" : \"stream\", \"text\": \"x\", \"extra\": 1, \"cell\": null, " T
		", \"seq\": 3 }";
	cleanup_event struct event event = EVENT_INIT;

	(void)state;
	assert_int_equal(event_parse(LINE, sizeof(LINE) - 1, &event, NULL), 0);
	assert_int_equal(event.seq, 3);
	assert_int_equal(event.t_us, T_US);
	assert_int_equal(event.type, EVENT_STREAM);
	assert_null(event.cell);
	assert_string_equal(event.text, "x");
	assert_false(event.is_stderr);
}

static void test_no_events(void **state)
{
	static const char *const LINES[] = {
		"", "{}", "[]", "null", "1", "\"x\"", "{", "}",
		"{\"seq\":1," T "}",
		"{\"seq\":1," T ",\"type\":null}",
		"{\"seq\":1," T ",\"type\":1}",
		"{\"seq\":1," T ",\"type\":\"a\\u0000b\"}",
		"{" T ",\"type\":\"note\"}",
		"{\"seq\":0," T ",\"type\":\"note\"}",
		"{\"seq\":-1," T ",\"type\":\"note\"}",
		"{\"seq\":1.0," T ",\"type\":\"note\"}",
		"{\"seq\":\"1\"," T ",\"type\":\"note\"}",
		"{\"seq\":9223372036854775808," T ",\"type\":\"note\"}",
		"{\"seq\":1,\"type\":\"note\"}",
		"{\"seq\":1,\"t\":12,\"type\":\"note\"}",
		"{\"seq\":1,\"t\":\"yesterday\",\"type\":\"note\"}",
		"{\"seq\":1,\"t\":\"2026-13-29T17:16:54.123456Z\",\"type\":\"note\"}",
		"{\"seq\":1," T ",\"type\":\"note\",\"cell\":1}",
		"{\"seq\":1," T ",\"type\":\"note\",\"cell\":\"a\\u0000b\"}",
		"{\"seq\":1," T ",\"type\":\"stream\",\"cell\":\"c\",\"name\":\"stdout\"}",
		"{\"seq\":1," T ",\"type\":\"stream\",\"text\":null}",
		"{\"seq\":1," T ",\"type\":\"stream\",\"text\":[\"a\"]}",
		"{\"seq\":1," T ",\"type\":\"note\"}x",
		"{\"seq\":1," T ",\"type\":\"note\",}",
		"{\"seq\":1,\"seq\":2," T ",\"type\":\"note\"}",
		"{\"seq\":1," T ",\"type\":\"note\",\"x\":NaN}",
		"{\"seq\":1," T ",\"type\":\"note\",\"x\":\"\xff\"}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
		struct event event = EVENT_INIT;
		struct err err = ERR_INIT;

		assert_int_equal(event_parse(LINES[i], strlen(LINES[i]), &event, &err), -1);
		assert_int_equal(err.code, ERR_CORRUPT);
		assert_int_equal(event.seq, 0);
		assert_null(event.cell);
		assert_null(event.text);
		assert_null(event.body);
	}
}

static void test_line_seq(void **state)
{
	static const struct {
		const char *line;
		uint64_t start, whole;
	} CASES[] = {
		{"{\"seq\":1," T ",\"type\":\"note\"}", 1, 1},
		{"{\"seq\":120," T ",\"type\":\"x\",\"y\":\"é\"}", 120, 120},
		{"{\"seq\":9223372036854775807," T ",\"type\":\"x\"}", INT64_MAX, INT64_MAX},
		{"{\"seq\":9223372036854775808," T ",\"type\":\"x\"}", 0, 0},
		{"{\"seq\":10000000000000000000," T ",\"type\":\"x\"}", 0, 0},
		{"{\"seq\":0," T ",\"type\":\"x\"}", 0, 0},
		{"{\"seq\":01," T ",\"type\":\"x\"}", 0, 0},
		{"{\"seq\":," T ",\"type\":\"x\"}", 0, 0},
		{"{\"seq\":1 ," T ",\"type\":\"x\"}", 0, 0},
		{"{ \"seq\":1," T ",\"type\":\"x\"}", 0, 0},
		{"{\"seq\":1," T ",\"type\":\"x\"} ", 1, 0},
		{"{\"seq\":1," T ",\"type\":\"x\"", 1, 0},
		{"{\"seq\":1," T ",\"typo\":\"x\"}", 1, 0},
		{"{\"seq\":1," T ",\"type\":\"\x01\"}", 1, 0},
		{"{\"seq\":1," T ",\"type\":\"\xff\"}", 1, 0},
		{"{\"seq\":1,\"t\":\"", 1, 0},
		{"{\"seq\":1,\"t\":", 0, 0},
		{"{\"seq\":12", 0, 0},
		{"{\"seq\":", 0, 0},
		{"{\"s", 0, 0},
		{"", 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		size_t len = strlen(CASES[i].line);
		char *exact = mem_copy(CASES[i].line, len);

		/* Without a NUL behind it, so that a sanitizer sees a read that goes too far. */
		exact = mem_resize(exact, len > 0 ? len : 1, 1);
		assert_int_equal(line_seq(exact, len), CASES[i].start);
		assert_int_equal(line_seq_whole(exact, len), CASES[i].whole);
		free(exact);
	}
}

static void check_image(enum event_type type, const char *body, const char *mime,
			const char *extension)
{
	cleanup_event struct event event = kit_event(type, "c1", body);
	const char *found = NULL;
	const char *answer = event_image(&event, &found);

	assert_int_equal(!mime, !answer);
	if (!mime)
		return;
	assert_string_equal(answer, mime);
	assert_string_equal(found, extension);
	assert_string_equal(event_image(&event, NULL), mime);
}

static void test_image(void **state)
{
	(void)state;
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/png\":\"aa\"}}", "image/png", "png");
	check_image(EVENT_RESULT, "{\"data\":{\"image/jpeg\":\"aa\"}}", "image/jpeg", "jpg");
	check_image(EVENT_UPDATE_DISPLAY, "{\"data\":{\"image/gif\":\"aa\"}}", "image/gif", "gif");
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/webp\":\"aa\"}}", "image/webp", "webp");
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/svg+xml\":\"<svg/>\",\"text/plain\":\"x\"}}",
		    "image/svg+xml", "svg");
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/gif\":\"aa\",\"image/png\":\"bb\"}}",
		    "image/png", "png");
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/png\":null,\"image/gif\":\"bb\"}}",
		    "image/gif", "gif");
	check_image(EVENT_DISPLAY,
		    "{\"data\":{\"image/png\":{\"$blob\":\"00112233445566778899aabbccddee"
		    "ff00112233445566778899aabbccddeeff\",\"bytes\":1}}}",
		    "image/png", "png");
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/png\":{\"$blob\":\"x\"}}}", NULL, NULL);
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/png\":[\"a\"]}}", NULL, NULL);
	check_image(EVENT_DISPLAY, "{\"data\":{\"image/bmp\":\"a\"}}", NULL, NULL);
	check_image(EVENT_DISPLAY, "{\"data\":[\"image/png\"]}", NULL, NULL);
	check_image(EVENT_DISPLAY, "{}", NULL, NULL);
	check_image(EVENT_DISPLAY, NULL, NULL, NULL);
	check_image(EVENT_INPUT, "{\"data\":{\"image/png\":\"aa\"}}", NULL, NULL);
}

static void test_random(void **state)
{
	uint64_t seed = 20261129;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		cleanup_event struct event event = EVENT_INIT;
		cleanup_event struct event again = EVENT_INIT;
		cleanup_buf struct buf text = BUF_INIT;
		cleanup_buf struct buf line = BUF_INIT;
		cleanup_buf struct buf second = BUF_INIT;

		event.type = (enum event_type)(kit_random(&seed) % EVENT_OTHER);
		event.seq = kit_random(&seed) % INT64_MAX + 1;
		event.t_us = (int64_t)(kit_random(&seed) % 253402300799999999);
		event.cell = kit_random(&seed) & 1 ? mem_string("c-1") : NULL;
		kit_random_text(&seed, &text, kit_random(&seed) % 200);
		if (event.type == EVENT_STREAM) {
			event.text = buf_take(&text, &event.text_len);
			event.is_stderr = kit_random(&seed) & 1;
			event.background = kit_random(&seed) & 1;
		} else {
			event.body = json_new_object();
			json_set(event.body, "data", kit_random_json(&seed, 6));
			json_set(event.body, "x", kit_random_json(&seed, 3));
		}
		event_write(&line, &event);
		assert_int_equal(line_seq(buf_bytes(&line), line.len), event.seq);
		assert_int_equal(line_seq_whole(buf_bytes(&line), line.len - 1), event.seq);
		assert_int_equal(event_parse(buf_bytes(&line), line.len - 1, &again, NULL), 0);
		kit_assert_same(&event, &again);
		event_write(&second, &again);
		assert_string_equal(buf_bytes(&line), buf_bytes(&second));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),     cmocka_unit_test(test_write),
		cmocka_unit_test(test_head_wins), cmocka_unit_test(test_parse_any_order),
		cmocka_unit_test(test_no_events), cmocka_unit_test(test_line_seq),
		cmocka_unit_test(test_image),     cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
