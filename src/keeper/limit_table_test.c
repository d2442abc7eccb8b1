/* The table of limits: names, kinds, all or none, and what holds when. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "keeper/limit_table.h"

static int set(struct limits *limits, const char *text, struct err *err)
{
	cleanup_json struct json *object = json_parse(text, strlen(text), &JSON_LIMITS, NULL);

	assert_non_null(object);
	return limits_set(limits, object, err);
}

static char *text_of(struct json *object)
{
	struct buf text = BUF_INIT;

	json_write(&text, object);
	json_free(object);
	return buf_take(&text, NULL);
}

static void every_name_is_read_and_written(void **state)
{
	struct limits limits;
	struct err err = ERR_INIT;
	cleanup_free char *text = NULL;
	static const char all[] = "{\"wall_s\":1.5,\"output_bytes\":1,\"background_bytes\":2,"
				  "\"queue\":3,\"record_bytes\":4,\"processes\":5,\"files\":600,"
				  "\"file_bytes\":7,\"tmp_bytes\":8,\"checkpoints\":0,"
				  "\"memory_bytes\":33554432,\"disk_bytes\":9,"
				  "\"disk_inodes\":10,\"cpus\":0.5,\"cpu_s\":2.5}";
	static const char none[] = "{\"memory_bytes\":null,\"cpus\":null}";

	(void)state;
	limits_init(&limits);
	assert_int_equal(set(&limits, all, &err), 0);
	assert_int_equal(limits.tmp_bytes, 8);
	text = text_of(limits_json(&limits));
	assert_string_equal(text, all);
	assert_int_equal(set(&limits, none, &err), 0);
	assert_int_equal(limits.memory_bytes, 0);
	assert_true(limits.cpus <= 0 && limits.cpu_s > 2);
}

static void one_that_is_wrong_changes_none(void **state)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
		{"{\"queue\":9,\"wall\":1}", "there are wall_s, output_bytes"},
		{"{\"queue\":9,\"wall_s\":0}", "wall_s"},
		{"{\"queue\":9,\"checkpoints\":65}", "checkpoints"},
		{"{\"queue\":9,\"checkpoints\":-1}", "checkpoints"},
		{"{\"queue\":9,\"wall_s\":\"1\"}", "wall_s"},
		{"{\"queue\":9,\"wall_s\":1e13}", "wall_s"},
		{"{\"queue\":9,\"files\":127}", "128 or more"},
		{"{\"queue\":9,\"tmp_bytes\":0}", "1 or more"},
		{"{\"queue\":9,\"files\":1.5}", "files"},
		{"{\"queue\":9,\"files\":99999999999999999999}", "files"},
		{"{\"queue\":9,\"files\":null}", "files"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct limits limits, before;
		struct err err = ERR_INIT;

		limits_init(&limits);
		before = limits;
		assert_int_equal(set(&limits, bad[i].text, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.text, bad[i].words));
		assert_memory_equal(&limits, &before, sizeof(limits));
	}
}

/* Lower for the kernel's at once, the rest with the next interpreter. */
static void what_holds_when(void **state)
{
	struct limits in_force, wanted;
	cleanup_free char *next = NULL, *described = NULL, *later = NULL;

	(void)state;
	limits_init(&in_force);
	in_force.files = 500;
	in_force.processes = in_force.tmp_bytes = 100;
	wanted = in_force;
	assert_int_equal(set(&wanted,
			     "{\"files\":250,\"processes\":200,\"tmp_bytes\":50,\"queue\":1}",
			     NULL),
			 0);
	limits_take_box(&in_force, &wanted, false);
	assert_int_equal(in_force.files, 250);
	assert_int_equal(in_force.processes, 100);
	assert_int_equal(in_force.tmp_bytes, 100);
	assert_int_equal(in_force.queue, 64); /* none of the box's */
	next = text_of(limits_next(&in_force, &wanted));
	assert_string_equal(next, "{\"processes\":200,\"tmp_bytes\":50}");
	described = text_of(limits_describe(&in_force, &wanted));
	assert_non_null(strstr(described, "\"processes\":{\"value\":100,\"changes\":\"lower\","
					  "\"next\":200}"));
	assert_non_null(strstr(described, "\"files\":{\"value\":250,\"changes\":\"lower\"}"));
	assert_non_null(strstr(described, "\"tmp_bytes\":{\"value\":100,\"changes\":\"restart\","
					  "\"next\":50}"));
	assert_non_null(strstr(described, "\"wall_s\":{\"value\":300.0,\"changes\":\"now\"}"));
	limits_take_box(&in_force, &wanted, true);
	later = text_of(limits_next(&in_force, &wanted));
	assert_string_equal(later, "{}");
	assert_true(limits_is_of_box("files") && limits_is_of_box("tmp_bytes"));
	assert_false(limits_is_of_box("queue") || limits_is_of_box("colour"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_is_read_and_written),
		cmocka_unit_test(one_that_is_wrong_changes_none),
		cmocka_unit_test(what_holds_when),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
