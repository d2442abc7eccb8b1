/*
 * Votes and plans: who wins, how that is known, and what comes next, for what there may be.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "agent/plan.h"
#include "base/mem.h"

struct table {
	struct attempt attempts[ATTEMPTS_MAX];
	size_t count;
};

static void table_release(struct table *table)
{
	for (size_t i = 0; i < table->count; i++)
		attempt_release(&table->attempts[i]);
}
#define cleanup_table __attribute__((cleanup(table_release)))

static struct attempt *add(struct table *table, enum attempt_status status, const char *out)
{
	struct attempt *attempt = &table->attempts[table->count++];

	*attempt = (struct attempt){.outcome = OUTCOME_INIT, .status = status};
	attempt->number = (unsigned)table->count;
	if (status == ATTEMPT_OK) {
		attempt->outcome.status = OUTCOME_OK;
		outcome_add(&attempt->outcome, false, out, strlen(out));
	} else if (status == ATTEMPT_ERROR) {
		attempt->outcome.status = OUTCOME_ERROR;
		attempt->outcome.ename = mem_string("NameError");
		attempt->outcome.evalue = mem_string(out);
	}
	return attempt;
}

static struct plan next(struct table *table, enum effort effort, bool with_checks)
{
	struct plan_limits limits;

	plan_limits_of(effort, &limits);
	return plan_next(table->attempts, table->count, with_checks, &limits);
}

static struct vote count(struct table *table, bool with_checks)
{
	struct vote vote;

	vote_count(table->attempts, table->count, with_checks, &vote);
	return vote;
}

/* --- votes ------------------------------------------------------------------------------------ */

static void test_largest_group_wins(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct vote vote;

	(void)state;
	add(&table, ATTEMPT_OK, "1\n");
	add(&table, ATTEMPT_OK, "2\n");
	add(&table, ATTEMPT_ERROR, "x");
	add(&table, ATTEMPT_OK, "2");
	vote = count(&table, false);
	assert_int_equal(vote.winner, 1);
	assert_int_equal(vote.same, 2);
	assert_int_equal(vote.of, 3);
	assert_int_equal(vote.next, 1);
	assert_int_equal(vote.confidence, CONFIDENCE_AGREED);
	assert_int_equal(table.attempts[0].group, 1);
	assert_int_equal(table.attempts[1].group, 2);
	assert_int_equal(table.attempts[2].group, 0);
	assert_int_equal(table.attempts[3].group, 2);
}

static void test_first_wins_a_draw(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct vote vote;

	(void)state;
	add(&table, ATTEMPT_OK, "1");
	add(&table, ATTEMPT_OK, "2");
	vote = count(&table, false);
	assert_int_equal(vote.winner, 0);
	assert_int_equal(vote.confidence, CONFIDENCE_RAN);
}

/* 9 and 9.0 together beat 8 twice? No: two against two, and 8 agrees. */
static void test_number_formats_decide_but_do_not_agree(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct vote vote;

	(void)state;
	add(&table, ATTEMPT_OK, "8");
	add(&table, ATTEMPT_OK, "9");
	add(&table, ATTEMPT_OK, "9.0");
	vote = count(&table, false);
	assert_int_equal(vote.winner, 1);
	assert_int_equal(vote.same, 1);
	assert_int_equal(vote.alike, 2);
	assert_int_equal(vote.confidence, CONFIDENCE_RAN);
	add(&table, ATTEMPT_OK, "8");
	vote = count(&table, false);
	assert_int_equal(vote.winner, 0);
	assert_int_equal(vote.confidence, CONFIDENCE_AGREED);
}

static void test_doubtful_comes_last(void **state)
{
	cleanup_table struct table table = {.count = 0};

	(void)state;
	add(&table, ATTEMPT_OK, "Error: x")->doubtful = true;
	add(&table, ATTEMPT_OK, "Error: x")->doubtful = true;
	add(&table, ATTEMPT_OK, "5");
	assert_int_equal(count(&table, false).winner, 2);
	table.count--;
	assert_int_equal(count(&table, false).winner, 0);
	table.count++;
}

static void test_a_repeated_program_counts(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct vote vote;

	(void)state;
	add(&table, ATTEMPT_OK, "5");
	add(&table, ATTEMPT_REPEATED, "")->repeats = 1;
	vote = count(&table, false);
	assert_int_equal(vote.winner, 0);
	assert_int_equal(vote.same, 2);
	assert_int_equal(vote.of, 2);
	assert_int_equal(table.attempts[1].group, 1);
	add(&table, ATTEMPT_ERROR, "x");
	add(&table, ATTEMPT_REPEATED, "")->repeats = 3;
	vote = count(&table, false);
	assert_int_equal(vote.of, 2);
}

/* Of two that were asked for together the second can be the first that answers. */
static void test_a_program_counts_that_a_later_one_wrote_before(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct vote vote;

	(void)state;
	add(&table, ATTEMPT_REPEATED, "")->repeats = 3;
	add(&table, ATTEMPT_OK, "6");
	add(&table, ATTEMPT_OK, "5");
	vote = count(&table, false);
	assert_int_equal(vote.winner, 2);
	assert_int_equal(vote.same, 2);
	assert_int_equal(vote.of, 3);
	assert_int_equal(vote.confidence, CONFIDENCE_AGREED);
	assert_int_equal(table.attempts[0].group, table.attempts[2].group);
}

static void test_checks_come_first(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct vote vote;

	(void)state;
	add(&table, ATTEMPT_OK, "1");
	add(&table, ATTEMPT_OK, "1");
	vote = count(&table, true);
	assert_int_equal(vote.confidence, CONFIDENCE_NONE);
	add(&table, ATTEMPT_OK, "2")->checked = true;
	vote = count(&table, true);
	assert_int_equal(vote.winner, 2);
	assert_int_equal(vote.confidence, CONFIDENCE_CHECKED);
}

static void test_best_failure(void **state)
{
	cleanup_table struct table table = {.count = 0};

	(void)state;
	assert_true(vote_best_failure(table.attempts, 0) == SIZE_MAX);
	add(&table, ATTEMPT_NO_CODE, "");
	add(&table, ATTEMPT_ERROR, "x");
	add(&table, ATTEMPT_MODEL, "");
	assert_int_equal(vote_best_failure(table.attempts, table.count), 1);
}

/* --- plans ------------------------------------------------------------------------------------ */

static void test_low(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct plan plan = next(&table, EFFORT_LOW, false);

	(void)state;
	assert_int_equal(plan.step, PLAN_SAMPLE);
	assert_int_equal(plan.count, 1);
	add(&table, ATTEMPT_ERROR, "x");
	plan = next(&table, EFFORT_LOW, false);
	assert_int_equal(plan.step, PLAN_REPAIR);
	assert_int_equal(plan.of, 0);
	add(&table, ATTEMPT_ERROR, "y")->repairs = 1;
	plan = next(&table, EFFORT_LOW, false);
	assert_int_equal(plan.step, PLAN_DONE);
	assert_string_equal(plan.why, "programs");
}

static void test_low_is_content_with_one(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct plan plan;

	(void)state;
	add(&table, ATTEMPT_OK, "1");
	plan = next(&table, EFFORT_LOW, false);
	assert_int_equal(plan.step, PLAN_DONE);
	assert_null(plan.why);
}

static void test_medium(void **state)
{
	cleanup_table struct table table = {.count = 0};

	(void)state;
	assert_int_equal(next(&table, EFFORT_MEDIUM, false).count, 2);
	add(&table, ATTEMPT_OK, "1");
	/* The other answer is under way: it may still differ. */
	add(&table, ATTEMPT_RUNNING, "");
	assert_false(plan_is_decided(table.attempts, 2, false,
				     &(struct plan_limits){.programs = 3, .votes = 3}));
	table.count--;
	add(&table, ATTEMPT_OK, "1");
	assert_null(next(&table, EFFORT_MEDIUM, false).why);
	assert_int_equal(next(&table, EFFORT_MEDIUM, false).step, PLAN_DONE);
}

static void test_medium_that_differs_takes_a_third(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct plan plan;

	(void)state;
	add(&table, ATTEMPT_OK, "1");
	add(&table, ATTEMPT_OK, "2");
	plan = next(&table, EFFORT_MEDIUM, false);
	assert_int_equal(plan.step, PLAN_SAMPLE);
	assert_int_equal(plan.count, 1);
	add(&table, ATTEMPT_OK, "3");
	assert_int_equal(next(&table, EFFORT_MEDIUM, false).step, PLAN_DONE);
}

static void test_high_stops_when_three_agree(void **state)
{
	cleanup_table struct table table = {.count = 0};

	(void)state;
	assert_int_equal(next(&table, EFFORT_HIGH, false).count, 3);
	add(&table, ATTEMPT_OK, "1");
	add(&table, ATTEMPT_OK, "1");
	add(&table, ATTEMPT_OK, "2");
	assert_int_equal(next(&table, EFFORT_HIGH, false).step, PLAN_SAMPLE);
	add(&table, ATTEMPT_OK, "1");
	assert_int_equal(next(&table, EFFORT_HIGH, false).step, PLAN_DONE);
}

static void test_one_repair_then_fresh(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct plan plan;

	(void)state;
	add(&table, ATTEMPT_ERROR, "x");
	add(&table, ATTEMPT_OK, "1");
	add(&table, ATTEMPT_NO_CODE, "");
	plan = next(&table, EFFORT_HIGH, false);
	assert_int_equal(plan.step, PLAN_REPAIR);
	assert_int_equal(plan.of, 2);
	add(&table, ATTEMPT_ERROR, "x")->repairs = 3;
	/* The repair has died of the same error as the first: no use in mending that one. */
	plan = next(&table, EFFORT_HIGH, false);
	assert_int_equal(plan.step, PLAN_SAMPLE);
}

static void test_a_check_ends_it(void **state)
{
	cleanup_table struct table table = {.count = 0};

	(void)state;
	add(&table, ATTEMPT_OK, "1")->checks = json_new_array();
	add(&table, ATTEMPT_OK, "1")->checks = json_new_array();
	add(&table, ATTEMPT_OK, "1")->checks = json_new_array();
	assert_int_equal(next(&table, EFFORT_HIGH, true).step, PLAN_REPAIR);
	add(&table, ATTEMPT_OK, "2")->checked = true;
	assert_int_equal(next(&table, EFFORT_HIGH, true).step, PLAN_DONE);
}

static void test_budgets(void **state)
{
	cleanup_table struct table table = {.count = 0};
	struct plan_limits limits;

	(void)state;
	plan_limits_of(EFFORT_HIGH, &limits);
	limits.tokens = 100;
	add(&table, ATTEMPT_ERROR, "x")->tokens = 100;
	assert_string_equal(plan_next(table.attempts, 1, false, &limits).why, "tokens");
	limits.tokens = 101;
	assert_int_equal(plan_next(table.attempts, 1, false, &limits).step, PLAN_REPAIR);
	limits.programs = 1;
	assert_string_equal(plan_next(table.attempts, 1, false, &limits).why, "programs");
}

static void test_a_backend_that_fails(void **state)
{
	cleanup_table struct table table = {.count = 0};

	(void)state;
	add(&table, ATTEMPT_MODEL, "");
	assert_int_equal(next(&table, EFFORT_LOW, false).step, PLAN_SAMPLE);
	add(&table, ATTEMPT_MODEL, "");
	assert_string_equal(next(&table, EFFORT_LOW, false).why, "backend");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_largest_group_wins),
		cmocka_unit_test(test_first_wins_a_draw),
		cmocka_unit_test(test_number_formats_decide_but_do_not_agree),
		cmocka_unit_test(test_doubtful_comes_last),
		cmocka_unit_test(test_a_repeated_program_counts),
		cmocka_unit_test(test_a_program_counts_that_a_later_one_wrote_before),
		cmocka_unit_test(test_checks_come_first),
		cmocka_unit_test(test_best_failure),
		cmocka_unit_test(test_low),
		cmocka_unit_test(test_low_is_content_with_one),
		cmocka_unit_test(test_medium),
		cmocka_unit_test(test_medium_that_differs_takes_a_third),
		cmocka_unit_test(test_high_stops_when_three_agree),
		cmocka_unit_test(test_one_repair_then_fresh),
		cmocka_unit_test(test_a_check_ends_it),
		cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_a_backend_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
