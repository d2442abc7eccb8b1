/*
 * The backend `script`: what a file may hold, and how its answers come.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/script.h"

static const struct message MESSAGE = {.role = ROLE_USER, .text = "x", .len = 1};
static const struct generation_request REQUEST = {
	.messages = &MESSAGE, .count = 1, .seed = -1, .tokens_max = 1};

/* A script of this text, which has no name any more. NULL: refused with *err. */
static struct backend *script_of(const char *text, struct err *err)
{
	char path[] = "/tmp/fumehood-script-XXXXXX";
	int fd = mkstemp(path);
	struct backend *backend;

	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text, strlen(text), NULL), 0);
	close(fd);
	backend = backend_script_new(path, err);
	if (backend)
		assert_string_equal(backend_model(backend), strrchr(path, '/') + 1);
	unlink(path);
	return backend;
}

static struct generation *ask(struct backend *backend, const struct generation_events *events)
{
	struct generation *generation = backend_ask(backend, &REQUEST, events, NULL);

	assert_non_null(generation);
	return generation;
}

static void wait_for(struct backend *backend, const struct generation *generation)
{
	while (!generation_done(generation))
		assert_true(backend_wait(backend, NULL, 0, -1, NULL) >= 0);
}

struct heard {
	struct buf text, reasoning;
	unsigned pieces;
};

static void hear(void *context, const char *text, size_t len, bool reasoning)
{
	struct heard *heard = context;

	buf_append(reasoning ? &heard->reasoning : &heard->text, text, len);
	heard->pieces++;
}

static void test_answers_in_their_order(void **state)
{
	struct heard heard = {.text = BUF_INIT, .reasoning = BUF_INIT};
	const struct generation_events events = {.text = hear, .context = &heard};
	struct err err = ERR_INIT;
	struct backend *backend = script_of(
		"\n  \t\r\n{\"text\":\"\xc3\xa9\xe4\xb8\xad one long answer in pieces "
		"\xf0\x9f\x99\x82\",\"reasoning\":\"so\"}\r\n"
		"{\"text\":\"cut\",\"finish\":\"length\",\"delay_ms\":0}\n"
		"{\"text\":\"before\",\"error\":\"it broke\"}\n"
		"{\"error\":{\"code\":\"busy\",\"message\":\"later\"}}",
		&err);
	struct generation *all[5];

	(void)state;
	assert_non_null(backend);
	assert_string_equal(backend_kind(backend), "script");
	assert_int_equal(backend_context(backend), 0);
	for (size_t i = 0; i < 5; i++)
		all[i] = ask(backend, i == 0 ? &events : NULL);
	for (size_t i = 0; i < 5; i++)
		wait_for(backend, all[i]);
	assert_int_equal(generation_state(all[0]), GENERATION_STOPPED);
	assert_string_equal(generation_text(all[0], NULL),
			    "\xc3\xa9\xe4\xb8\xad one long answer in pieces \xf0\x9f\x99\x82");
	assert_string_equal(generation_reasoning(all[0], NULL), "so");
	assert_string_equal(buf_bytes(&heard.text), generation_text(all[0], NULL));
	assert_string_equal(buf_bytes(&heard.reasoning), "so");
	assert_true(heard.pieces > 3);
	assert_int_equal(generation_state(all[1]), GENERATION_LENGTH);
	assert_string_equal(generation_text(all[1], NULL), "cut");
	assert_int_equal(generation_state(all[2]), GENERATION_FAILED);
	assert_string_equal(generation_text(all[2], NULL), "before");
	assert_int_equal(generation_error(all[2])->code, ERR_GONE);
	assert_string_equal(generation_error(all[2])->text, "it broke");
	assert_int_equal(generation_error(all[3])->code, ERR_BUSY);
	assert_string_equal(generation_error(all[3])->text, "later");
	/* There is no fifth one. */
	assert_int_equal(generation_error(all[4])->code, ERR_GONE);
	assert_non_null(strstr(generation_error(all[4])->text, "it has 4, and this is request 5"));
	for (size_t i = 0; i < 4; i++)
		generation_free(all[i]);
	backend_free(backend);
	generation_free(all[4]); /* may outlive it */
	buf_release(&heard.text);
	buf_release(&heard.reasoning);
}

static void test_a_delay_holds_nothing_else_up(void **state)
{
	struct err err = ERR_INIT;
	struct backend *backend = script_of("{\"text\":\"late\",\"delay_ms\":600000}\n"
					    "{\"text\":\"early\"}\n",
					    &err);
	struct generation *late = ask(backend, NULL), *early = ask(backend, NULL);
	int ends[2];
	struct pollfd extra;

	(void)state;
	wait_for(backend, early);
	assert_string_equal(generation_text(early, NULL), "early");
	assert_false(generation_done(late));
	/* A descriptor of the caller's ends a wait; so does the time. */
	assert_int_equal(backend_wait(backend, NULL, 0, 1, &err), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	extra = (struct pollfd){.fd = ends[0], .events = POLLIN};
	assert_int_equal(backend_wait(backend, &extra, 1, -1, &err), 1);
	assert_int_equal(extra.revents, POLLIN);
	close(ends[0]);
	close(ends[1]);
	generation_free(early);
	backend_free(backend);
	assert_int_equal(generation_state(late), GENERATION_FAILED);
	assert_int_equal(generation_error(late)->code, ERR_GONE);
	generation_free(late);
}

static void test_what_is_refused(void **state)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{"", "has no answers"},
		{"\n\n", "has no answers"},
		{"{\"text\":\"x\"}\nno json\n", "line 2"},
		{"{\"text\":\"x\"}\n\n[]\n", "line 3: an answer is an object"},
		{"null\n", "line 1: an answer is an object"},
		{"{}\n", "`text` or `error`"},
		{"{\"reasoning\":\"x\"}\n", "`text` or `error`"},
		{"{\"text\":\"x\",\"delay\":1}\n", "\"delay\" is none of"},
		{"{\"text\":1}\n", "text"},
		{"{\"text\":\"x\",\"reasoning\":[]}\n", "reasoning"},
		{"{\"text\":\"x\",\"finish\":\"end\"}\n", "finish"},
		{"{\"text\":\"x\",\"delay_ms\":-1}\n", "delay_ms"},
		{"{\"text\":\"x\",\"delay_ms\":600001}\n", "delay_ms"},
		{"{\"text\":\"x\",\"delay_ms\":\"1\"}\n", "delay_ms"},
		{"{\"text\":\"x\",\"delay_ms\":null}\n", "delay_ms"},
		{"{\"error\":7}\n", "error"},
		{"{\"error\":{\"code\":\"nosuch\",\"message\":\"m\"}}\n", "no error \"nosuch\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = ERR_INIT;
		struct backend *backend = script_of(rows[i].text, &err);

		if (backend)
			fail_msg("%s was taken", rows[i].text);
		if (!strstr(err.text, rows[i].words))
			fail_msg("%s: %s", rows[i].text, err.text);
	}
}

static void test_a_file_that_is_not_there(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_null(backend_script_new("/nonexistent/script", &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "/nonexistent/script"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_in_their_order),
		cmocka_unit_test(test_a_delay_holds_nothing_else_up),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_a_file_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
