/* What each call asks the keeper, and what it makes of the reply. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/socket.h"
#include "client/session.h"

struct pair {
	struct fh_session *session;
	int keeper;
};

static int set_up(void **state)
{
	struct pair *pair = mem_zalloc(sizeof(*pair));
	int fds[2];

	assert_int_equal(socket_pair(SOCK_STREAM, fds, NULL), 0);
	pair->session = mem_zalloc(sizeof(*pair->session));
	wire_init(&pair->session->wire, fds[0]);
	pair->session->timeout_ms = -1;
	pair->keeper = fds[1];
	*state = pair;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *pair = *state;

	fh_close(pair->session);
	close(pair->keeper);
	free(pair);
	return 0;
}

/* The keeper's answer to the next request, which is not sent yet. */
static void will_answer(const struct pair *pair, const char *line)
{
	assert_int_equal(file_write_all(pair->keeper, line, strlen(line), NULL), 0);
}

static void will_reply(const struct pair *pair)
{
	will_answer(pair, "{\"type\":\"reply\",\"id\":null,\"note\":\"n1\"}\n");
}

/* The request that was sent. */
static void expect(const struct pair *pair, const char *request)
{
	char line[4096];
	ssize_t got = read(pair->keeper, line, sizeof(line) - 1);

	assert_true(got > 0);
	line[got - 1] = '\0'; /* LF */
	assert_string_equal(line, request);
}

static void expect_reply(char *reply)
{
	assert_non_null(reply);
	assert_string_equal(reply, "{\"note\":\"n1\"}");
	fh_free(reply);
}

static void test_code(void **state)
{
	struct pair *pair = *state;

	will_reply(pair);
	expect_reply(fh_complete(pair->session, "os.\"pa", 6, FH_CURSOR_END, NULL));
	expect(pair, "{\"op\":\"complete\",\"code\":\"os.\\\"pa\"}");
	will_reply(pair);
	expect_reply(fh_complete(pair->session, "os.pa", 2, 0, NULL));
	expect(pair, "{\"op\":\"complete\",\"code\":\"os\",\"cursor_pos\":0}");
	will_reply(pair);
	expect_reply(fh_inspect(pair->session, "f(", 2, 1, 1, NULL));
	expect(pair, "{\"op\":\"inspect\",\"code\":\"f(\",\"cursor_pos\":1,\"detail_level\":1}");
}

static void test_lists(void **state)
{
	struct pair *pair = *state;

	will_reply(pair);
	expect_reply(fh_variables(pair->session, NULL, 0, NULL));
	expect(pair, "{\"op\":\"variables\"}");
	will_reply(pair);
	expect_reply(fh_variables(pair->session, "d*", 7, NULL));
	expect(pair, "{\"op\":\"variables\",\"pattern\":\"d*\",\"max\":7}");
	will_reply(pair);
	expect_reply(fh_files(pair->session, NULL, UINT64_MAX, NULL));
	expect(pair, "{\"op\":\"files\",\"since\":9223372036854775807}");
	will_reply(pair);
	expect_reply(fh_files(pair->session, "c1", 0, NULL));
	expect(pair, "{\"op\":\"files\",\"cell\":\"c1\"}");
	will_reply(pair);
	expect_reply(fh_images(pair->session, "Results", 3, NULL));
	expect(pair, "{\"op\":\"images\",\"section\":\"Results\",\"since\":3}");
	will_reply(pair);
	expect_reply(fh_outputs(pair->session, NULL, 100, true, NULL));
	expect(pair, "{\"op\":\"outputs\",\"max_chars\":100,\"marks\":true}");
}

static void test_notebook(void **state)
{
	struct pair *pair = *state;
	char *id;

	will_reply(pair);
	assert_int_equal(fh_section(pair->session, "T", 0, NULL), 0);
	expect(pair, "{\"op\":\"section\",\"title\":\"T\"}");
	will_reply(pair);
	assert_int_equal(fh_section(pair->session, "T", 3, NULL), 0);
	expect(pair, "{\"op\":\"section\",\"title\":\"T\",\"level\":3}");
	will_reply(pair);
	id = fh_note(pair->session, "text", 4, NULL, NULL);
	assert_string_equal(id, "n1");
	fh_free(id);
	expect(pair, "{\"op\":\"note\",\"text\":\"text\"}");
	will_reply(pair);
	id = fh_note(pair->session, "text", 4, "raw", NULL);
	fh_free(id);
	expect(pair, "{\"op\":\"note\",\"text\":\"text\",\"cell_type\":\"raw\"}");
}

static void test_record(void **state)
{
	static const char token[] = "{\"type\":\"token\",\"ask\":\"a1\"}";
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;
	char *reply = NULL;

	will_answer(pair, "{\"type\":\"reply\",\"id\":null,\"ask\":\"a1\",\"last_seq\":4}\n");
	assert_int_equal(
		fh_record(pair->session, "{\n\"type\":\"ask\",\"id\":7}", 22, &reply, NULL), 0);
	assert_string_equal(reply, "{\"ask\":\"a1\",\"last_seq\":4}");
	fh_free(reply);
	expect(pair, "{\"type\":\"ask\",\"op\":\"record\"}");
	assert_int_equal(fh_record(pair->session, token, sizeof(token) - 1, NULL, NULL), 0);
	expect(pair, "{\"type\":\"token\",\"ask\":\"a1\",\"op\":\"record\",\"id\":\"post-1\"}");
	assert_int_equal(fh_record(pair->session, "[]", 2, &reply, &error), -1);
	assert_int_equal(error.code, FH_INVALID);
	assert_int_equal(fh_record(pair->session, "{", 1, NULL, &error), -1);
}

static void test_checkpoints(void **state)
{
	struct pair *pair = *state;
	char *made;

	will_answer(pair, "{\"type\":\"reply\",\"id\":null,\"checkpoint\":{\"number\":7}}\n");
	made = fh_checkpoint(pair->session, "clean", FH_FILES_DEFAULT, NULL);
	assert_string_equal(made, "{\"number\":7}");
	fh_free(made);
	expect(pair, "{\"op\":\"checkpoint\",\"name\":\"clean\"}");
	will_answer(pair, "{\"type\":\"reply\",\"id\":null,\"checkpoint\":{}}\n");
	fh_free(fh_checkpoint(pair->session, "a", FH_FILES_BACK, NULL));
	expect(pair, "{\"op\":\"checkpoint\",\"name\":\"a\",\"files\":true}");
	will_reply(pair);
	expect_reply(fh_checkpoints(pair->session, NULL));
	expect(pair, "{\"op\":\"checkpoints\"}");
	will_reply(pair);
	assert_int_equal(fh_checkpoint_drop(pair->session, "clean", NULL), 0);
	expect(pair, "{\"op\":\"checkpoints\",\"drop\":\"clean\"}");
	will_reply(pair);
	expect_reply(fh_rollback(pair->session, NULL, FH_FILES_DEFAULT, NULL));
	expect(pair, "{\"op\":\"rollback\"}");
	will_reply(pair);
	expect_reply(fh_rollback(pair->session, "c3", FH_FILES_STAY, NULL));
	expect(pair, "{\"op\":\"rollback\",\"to\":\"c3\",\"files\":false}");
	will_reply(pair);
	expect_reply(fh_reset(pair->session, NULL));
	expect(pair, "{\"op\":\"reset\"}");
	will_reply(pair);
	expect_reply(fh_fork(pair->session, NULL, NULL, NULL));
	expect(pair, "{\"op\":\"fork\"}");
	will_reply(pair);
	expect_reply(fh_fork(pair->session, "b", "clean", NULL));
	expect(pair, "{\"op\":\"fork\",\"name\":\"b\",\"from\":\"clean\"}");
}

static void test_refusals(void **state)
{
	static const char busy[] = "{\"type\":\"refused\",\"id\":null,\"code\":\"busy\","
				   "\"message\":\"a cell is running\"}\n";
	struct pair *pair = *state;
	struct fh_error error = FH_ERROR_INIT;

	will_answer(pair, busy);
	assert_null(fh_variables(pair->session, NULL, 0, &error));
	assert_int_equal(error.code, FH_BUSY);
	will_answer(pair, busy);
	assert_int_equal(fh_section(pair->session, "T", 9, NULL), -1);
	will_answer(pair, busy);
	assert_null(fh_note(pair->session, "", 0, NULL, NULL));
	will_answer(pair, busy);
	assert_null(fh_rollback(pair->session, NULL, FH_FILES_DEFAULT, &error));
	will_answer(pair, busy);
	assert_null(fh_checkpoint(pair->session, "a", FH_FILES_DEFAULT, &error));
	will_answer(pair, busy);
	assert_int_equal(fh_checkpoint_drop(pair->session, "a", &error), -1);
	assert_int_equal(error.code, FH_BUSY);
	shutdown(pair->keeper, SHUT_WR);
	assert_null(fh_files(pair->session, NULL, 0, &error));
	assert_int_equal(error.code, FH_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_code, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lists, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_notebook, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_record, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_checkpoints, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
