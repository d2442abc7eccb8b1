/* What people see of events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/show.h"

#define LINE(rest) "{\"seq\":1,\"t\":\"2026-01-01T00:00:00.000000Z\"," rest "}"

/* Shows events into memory. stdout and stderr are not written: descriptors of -1 would fail, so the
 * other stream is looked at before the turn goes to it. */
static void pretend(struct show *show, const char *directory)
{
	show_init(show, directory, false);
	show->out.fd = show->err.fd = -1;
	show->out.tty = show->err.tty = show->out.colour = show->err.colour = show->shared = false;
	show_add_cell(show, "c1");
}

static void event(struct show *show, const char *line)
{
	cleanup_event struct event parsed = EVENT_INIT;

	assert_int_equal(event_parse(line, strlen(line), &parsed, NULL), 0);
	show_event(show, &parsed);
}

static void expect(struct buf *out, const char *text)
{
	assert_string_equal(buf_bytes(out), text);
	buf_clear(out);
}

static void test_streams_and_results(void **state)
{
	struct show show;

	(void)state;
	pretend(&show, NULL);
	event(&show, LINE("\"type\":\"stream\",\"cell\":\"c1\",\"name\":\"stdout\",\"text\":"
			  "\"a\\u001b[2J\""));
	event(&show, LINE("\"type\":\"result\",\"cell\":\"c1\",\"data\":{\"text/"
			  "plain\":\"42\"},\"metadata\":{},"
			  "\"execution_count\":1"));
	event(&show, LINE("\"type\":\"stream\",\"cell\":\"c2\",\"name\":\"stdout\",\"text\":\"not "
			  "ours\""));
	event(&show, LINE("\"type\":\"display\",\"cell\":\"c1\",\"data\":{\"text/"
			  "html\":\"<b>\"},\"metadata\":{}"));
	expect(&show.out.out, "a\033[2J\n42\n");
	event(&show,
	      LINE("\"type\":\"stream\",\"cell\":\"c1\",\"name\":\"stderr\",\"text\":\"e\\n\""));
	expect(&show.err.out, "e\n");
	show_release(&show);
}

static void test_images(void **state)
{
	static const char image[] =
		LINE("\"type\":\"display\",\"cell\":\"c1\",\"data\":{\"text/plain\":\"<Figure>\","
		     "\"image/png\":\"AAAA\"},\"metadata\":{}");
	struct show show;

	(void)state;
	pretend(&show, "/s");
	event(&show, image);
	event(&show, image);
	expect(&show.out.out, "[image/png: /s/images/c1-1.png]\n"
			      "[image/png: /s/images/c1-2.png]\n");
	show_release(&show);
	pretend(&show, NULL);
	event(&show, image);
	expect(&show.out.out, "[image/png: --keep or -o FILE.ipynb would keep it]\n");
	show_release(&show);
}

static void test_ends(void **state)
{
	struct show show;

	(void)state;
	pretend(&show, NULL);
	event(&show,
	      LINE("\"type\":\"finished\",\"cell\":\"c1\",\"status\":\"ok\",\"state\":\"kept\""));
	expect(&show.err.out, "");
	event(&show, LINE("\"type\":\"finished\",\"cell\":\"c1\",\"status\":\"interrupted\","
			  "\"state\":\"kept\""));
	expect(&show.err.out, "fumehood: the cell was interrupted\n");
	event(&show, LINE("\"type\":\"finished\",\"cell\":\"c1\",\"status\":\"died\",\"reason\":"
			  "\"signal\\u0007 9\","
			  "\"state\":\"reset\""));
	expect(&show.err.out,
	       "fumehood: the interpreter died: signal\\x07 9; the variables are lost\n");
	event(&show, LINE("\"type\":\"error\",\"cell\":\"c1\",\"ename\":\"E\",\"evalue\":\"v\","
			  "\"traceback\":[\"Traceback\",\"E: v\"]"));
	event(&show, LINE("\"type\":\"finished\",\"cell\":\"c1\",\"status\":\"interrupted\","
			  "\"state\":\"kept\""));
	expect(&show.err.out, "Traceback\nE: v\n");
	event(&show, LINE("\"type\":\"error\",\"cell\":\"c1\",\"ename\":\"E\",\"evalue\":\"v\","
			  "\"traceback\":[]"));
	expect(&show.err.out, "E: v\n");
	event(&show,
	      LINE("\"type\":\"truncated\",\"cell\":\"c1\",\"name\":\"stdout\",\"bytes_dropped\":5,"
		   "\"limit\":\"output_bytes\""));
	expect(&show.err.out, "fumehood: 5 bytes of stdout were dropped (limit output_bytes)\n");
	event(&show, LINE("\"type\":\"warning\",\"code\":\"x\",\"message\":\"careful\""));
	expect(&show.err.out, "fumehood: warning: careful\n");
	show_release(&show);
}

#define ROLLBACK(reason, cells, rest) \
	LINE("\"type\":\"rollback\",\"cell\":\"c0\",\"reason\":\"" reason \
	     "\",\"rolled_back\":" cells rest)

static void test_what_went_back(void **state)
{
	struct show show;

	(void)state;
	pretend(&show, NULL);
	event(&show, LINE("\"type\":\"finished\",\"cell\":\"c1\",\"status\":\"died\",\"reason\":"
			  "\"signal 9\",\"state\":\"recovered\",\"lost\":{\"connections\":2}"));
	expect(&show.err.out,
	       "fumehood: the interpreter died: signal 9; the variables are as they were just "
	       "before this cell; not restored: 2 connections\n");
	event(&show, LINE("\"type\":\"died\",\"reason\":\"exit status 3\",\"state\":\"recovered\","
			  "\"recovers_to\":\"c0\",\"rolled_back\":[\"c1\"]"));
	expect(&show.err.out,
	       "fumehood: the interpreter died: exit status 3; the variables are as they were just "
	       "after cell c0; lost as well: what cell c1 did\n");
	event(&show, ROLLBACK("atomic", "[]", ",\"files\":{\"removed\":[\"b\"]}"));
	expect(&show.err.out, "fumehood: files removed: b\n");
	event(&show, ROLLBACK("try", "[\"c1\"]", ",\"files\":{\"removed\":[\"a\"]}"));
	expect(&show.err.out,
	       "fumehood: rolled back: the variables are as they were just before this cell\n"
	       "fumehood: files removed: a\n");
	event(&show, LINE("\"type\":\"finished\",\"cell\":\"another's\",\"status\":\"ok\""));
	event(&show, ROLLBACK("atomic", "[\"another's\"]", ""));
	event(&show, ROLLBACK("atomic", "[]", ""));
	expect(&show.err.out, "");
	event(&show, ROLLBACK("asked", "[\"c1\",\"c2\"]", ""));
	expect(&show.err.out, "fumehood: rolled back: c1, c2\n");
	show.errors_only = true;
	event(&show, ROLLBACK("try", "[\"c1\"]", ",\"files\":{\"removed\":[\"a\"]}"));
	expect(&show.err.out, "");
	show_release(&show);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams_and_results),
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_what_went_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
