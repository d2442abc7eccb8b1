/*
 * Messages and prompts: their order, what is left out first, what a template may say.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "agent/chat.h"
#include "base/mem.h"

struct setting {
	struct prompts prompts;
	struct look look;
	struct hint_place place;
	struct chat_params params;
};

/* Not the built-in ones: those change with what is measured. */
static const char TEMPLATE[] =
	"{\"variants\":[{\"system\":\"You write programs.\"},{\"system\":\"Short.\",\"examples\":["
	"{\"user\":\"one\",\"assistant\":\"1\"},{\"user\":\"two\",\"assistant\":\"2\"}]}]}";

static void setting_init(struct setting *s)
{
	prompts_init(&s->prompts);
	assert_int_equal(prompts_read(&s->prompts, TEMPLATE, strlen(TEMPLATE), "t", NULL), 0);
	s->look = (struct look)LOOK_INIT;
	buf_append_string(&s->look.workspace,
			  "Files in the current folder:\n- a.csv (9 bytes)\n\n");
	buf_append_string(&s->look.variables, "Variables: x\n\n");
	s->place = (struct hint_place){.modules = "numpy", .files = "a.csv", .timeout_s = 10};
	s->params = (struct chat_params){
		.prompts = &s->prompts,
		.look = &s->look,
		.place = &s->place,
		.instruction = "Count {instruction} the lines.",
		.bytes_max = SIZE_MAX,
	};
}

static void setting_release(struct setting *s)
{
	prompts_release(&s->prompts);
	look_release(&s->look);
}

static const char *last(const struct chat *chat)
{
	return chat->messages[chat->count - 1].text;
}

static void test_a_sample(void **state)
{
	struct setting s;
	cleanup_chat struct chat chat = {.count = 0};

	(void)state;
	setting_init(&s);
	s.params.variant = 1;
	assert_int_equal(chat_make(&chat, &s.params, NULL), 0);
	assert_int_equal(chat.count, 6); /* system, two examples, task */
	assert_int_equal(chat.messages[0].role, ROLE_SYSTEM);
	for (size_t i = 1; i < chat.count; i++)
		assert_int_equal(chat.messages[i].role, i % 2 ? ROLE_USER : ROLE_ASSISTANT);
	/* What is put in is not filled in once more. */
	assert_non_null(strstr(last(&chat), "Task: Count {instruction} the lines."));
	assert_non_null(strstr(last(&chat), "- a.csv"));
	setting_release(&s);
}

/* A repair begins with what its sample was asked, byte by byte: so the server has it cached. */
static void test_a_repair_only_adds(void **state)
{
	struct setting s;
	cleanup_chat struct chat sample = {.count = 0}, repair = {.count = 0};
	struct attempt failed = {.number = 1, .status = ATTEMPT_ERROR, .outcome = OUTCOME_INIT};

	(void)state;
	setting_init(&s);
	failed.code = mem_string("import polars\n");
	failed.outcome.ename = mem_string("ModuleNotFoundError");
	failed.outcome.evalue = mem_string("No module named 'polars'");
	assert_int_equal(chat_make(&sample, &s.params, NULL), 0);
	s.params.failed = &failed;
	assert_int_equal(chat_make(&repair, &s.params, NULL), 0);
	assert_int_equal(repair.count, sample.count + 2);
	for (size_t i = 0; i < sample.count; i++) {
		assert_int_equal(repair.messages[i].len, sample.messages[i].len);
		assert_memory_equal(repair.messages[i].text, sample.messages[i].text,
				    sample.messages[i].len);
	}
	assert_string_equal(repair.messages[sample.count].text, "```python\nimport polars\n```");
	assert_non_null(strstr(last(&repair), "polars is not installed"));
	assert_non_null(strstr(last(&repair), "Use what is here: "));
	attempt_release(&failed);
	setting_release(&s);
}

static void test_modules_that_were_missing_before(void **state)
{
	struct setting s;
	cleanup_chat struct chat chat = {.count = 0};

	(void)state;
	setting_init(&s);
	s.params.missing = "polars, bs4";
	assert_int_equal(chat_make(&chat, &s.params, NULL), 0);
	assert_non_null(strstr(last(&chat), "Not installed here, so do not import: polars, bs4.\n\n"
					    "Task: "));
	setting_release(&s);
}

/* For every bound there is: the task is always whole, and what is made fits. */
static void test_every_window(void **state)
{
	struct setting s;
	struct attempt failed = {.number = 1, .status = ATTEMPT_ERROR, .outcome = OUTCOME_INIT};
	cleanup_buf struct buf code = BUF_INIT;
	size_t fitted = 0;

	(void)state;
	setting_init(&s);
	for (unsigned i = 0; i < 100; i++)
		buf_append_string(&code, "print('a line of a long program')\n");
	failed.code = mem_string(buf_bytes(&code));
	failed.outcome.ename = mem_string("NameError");
	for (unsigned i = 0; i < LOOK_EARLIER_MAX; i++)
		s.look.earlier[s.look.earlier_count++] = (struct look_earlier){
			.instruction = mem_format("earlier task %u", i),
			.code = mem_string("x = 1\n"),
			.output = mem_string("1\n"),
		};
	s.params.failed = &failed;
	s.params.variant = 1;
	for (size_t bytes = 0; bytes < 8000; bytes += 7) {
		cleanup_chat struct chat chat = {.count = 0};
		struct err err = ERR_INIT;

		s.params.bytes_max = bytes;
		if (chat_make(&chat, &s.params, &err) != 0) {
			assert_int_equal(err.code, ERR_LIMIT);
			assert_int_equal(fitted, 0);
			continue;
		}
		fitted++;
		assert_true(chat.bytes <= bytes);
		assert_non_null(strstr(chat.messages[chat.count - 3].text, "Count {instruction}"));
		if (strstr(chat.messages[chat.count - 3].text, "earlier task 0"))
			assert_non_null(
				strstr(chat.messages[chat.count - 3].text, "earlier task 2"));
	}
	assert_true(fitted > 100);
	attempt_release(&failed);
	setting_release(&s);
}

static void test_window(void **state)
{
	(void)state;
	assert_true(chat_bytes_max(0, 1024) == SIZE_MAX);
	assert_int_equal(chat_bytes_max(4096, 1024), (4096 - 1024 - 32) * 3);
	assert_int_equal(chat_bytes_max(512, 1024), 256 * 3);
}

/* --- templates -------------------------------------------------------------------------------- */

static int read_text(struct prompts *prompts, const char *text, struct err *err)
{
	return prompts_read(prompts, text, strlen(text), "my.json", err);
}

static void test_template(void **state)
{
	struct prompts prompts;
	cleanup_buf struct buf out = BUF_INIT;
	const struct prompt_values values = {.instruction = "{code} {x}", .code = "C"};
	size_t before;

	(void)state;
	prompts_init(&prompts);
	before = prompts.count;
	assert_int_equal(read_text(&prompts, "{\"task\":\"{a} {instruction}|{code}|{\"}", NULL), 0);
	assert_int_equal(prompts.count, before); /* what is not in it stays */
	prompt_fill(&out, prompts.task, &values);
	assert_string_equal(buf_bytes(&out), "{a} {code} {x}|C|{");
	assert_int_equal(read_text(&prompts, "{\"variants\":[{\"system\":\"S\"}]}", NULL), 0);
	assert_int_equal(prompts.count, 1);
	assert_string_equal(prompts.variants[0].system, "S");
	prompts_set_system(&prompts, "T");
	assert_string_equal(prompts.variants[0].system, "T");
	prompts_release(&prompts);
}

static void test_wrong_templates(void **state)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{\"a\":1}",
		"{\"task\":1}",
		"{\"task\":\"no name in it\"}",
		"{\"variants\":[]}",
		"{\"variants\":{}}",
		"{\"variants\":[{}]}",
		"{\"variants\":[{\"system\":\"S\",\"x\":1}]}",
		"{\"variants\":[{\"system\":\"S\",\"examples\":[{\"user\":\"u\"}]}]}",
		"{\"variants\":[{\"system\":\"S\",\"examples\":1}]}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct prompts prompts;
		struct err err = ERR_INIT;
		size_t before;

		prompts_init(&prompts);
		before = prompts.count;
		assert_int_equal(read_text(&prompts, texts[i], &err), -1);
		assert_non_null(strstr(err.text, "my.json"));
		assert_int_equal(prompts.count, before);
		assert_non_null(strstr(prompts.task, "{instruction}"));
		prompts_release(&prompts);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sample),     cmocka_unit_test(test_a_repair_only_adds),
		cmocka_unit_test(test_modules_that_were_missing_before),
		cmocka_unit_test(test_every_window), cmocka_unit_test(test_window),
		cmocka_unit_test(test_template),     cmocka_unit_test(test_wrong_templates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
