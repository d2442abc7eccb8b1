/* The count behind "In", through rollbacks, deaths and what was not met. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "cli/count.h"

static void take(struct count *count, enum event_type type, const char *cell, const char *body)
{
	cleanup_event struct event event = EVENT_INIT;

	event.type = type;
	event.cell = mem_string(cell);
	event.body = json_parse(body, strlen(body), &JSON_LIMITS, NULL);
	assert_non_null(event.body);
	count_take(count, &event);
}

static void check(const struct count *count, int64_t now, bool known)
{
	assert_int_equal(count->now, now);
	assert_int_equal(count->known, known);
}

#define KEPT(n) "{\"state\":\"kept\",\"status\":\"ok\",\"execution_count\":" #n "}"

static void test_back_and_forth(void **state)
{
	struct count count = COUNT_INIT;

	(void)state;
	check(&count, 0, false);
	take(&count, EVENT_FINISHED, "a", KEPT(1));
	take(&count, EVENT_FINISHED, "b", KEPT(2));
	take(&count, EVENT_FINISHED, "c", KEPT(3));
	take(&count, EVENT_FINISHED, "q", "{\"state\":\"kept\",\"status\":\"cancelled\"}");
	check(&count, 3, true);
	take(&count, EVENT_FINISHED, "t", "{\"state\":\"rolled_back\",\"execution_count\":4}");
	take(&count, EVENT_ROLLBACK, "c", "{\"reason\":\"try\",\"rolled_back\":[\"t\"]}");
	check(&count, 3, true);
	take(&count, EVENT_ROLLBACK, "a", "{\"reason\":\"asked\"}");
	check(&count, 1, true);
	take(&count, EVENT_FINISHED, "d", KEPT(2));
	take(&count, EVENT_ROLLBACK, "c", "{\"reason\":\"asked\"}");
	check(&count, 3, true);
	take(&count, EVENT_ROLLBACK, NULL, "{\"reason\":\"asked\"}");
	check(&count, 0, true);
	take(&count, EVENT_FINISHED, "e", KEPT(1));
	take(&count, EVENT_ROLLBACK, NULL, "{\"reason\":\"asked\",\"reset\":true}");
	check(&count, 0, true);
	take(&count, EVENT_FINISHED, "f", KEPT(1));
	take(&count, EVENT_RESTARTED, NULL, "{\"state\":\"reset\"}");
	check(&count, 0, true);
	count_release(&count);
}

static void test_deaths(void **state)
{
	struct count count = COUNT_INIT;

	(void)state;
	take(&count, EVENT_FINISHED, "a", KEPT(1));
	take(&count, EVENT_FINISHED, "b", KEPT(2));
	take(&count, EVENT_FINISHED, "c", "{\"state\":\"recovered\",\"status\":\"died\"}");
	check(&count, 2, true);
	take(&count, EVENT_FINISHED, "d",
	     "{\"state\":\"recovered\",\"recovers_to\":\"a\",\"rolled_back\":[\"b\"]}");
	check(&count, 1, true);
	take(&count, EVENT_DIED, NULL,
	     "{\"state\":\"recovered\",\"recovers_to\":null,\"rolled_back\":[\"a\"]}");
	check(&count, 0, true);
	take(&count, EVENT_FINISHED, "e", KEPT(1));
	take(&count, EVENT_DIED, NULL, "{\"state\":\"recovered\"}");
	check(&count, 1, true);
	take(&count, EVENT_DIED, NULL, "{\"state\":\"reset\"}");
	check(&count, 0, true);
	count_release(&count);
}

static void test_branches(void **state)
{
	struct count count = COUNT_INIT;

	(void)state;
	take(&count, EVENT_SESSION, NULL, "{\"parent\":{\"cell\":\"c7\",\"execution_count\":7}}");
	check(&count, 7, true);
	take(&count, EVENT_FINISHED, "a", KEPT(8));
	check(&count, 8, true);
	take(&count, EVENT_ROLLBACK, NULL, "{\"reason\":\"asked\"}");
	check(&count, 7, true);
	take(&count, EVENT_ROLLBACK, NULL, "{\"reason\":\"asked\",\"reset\":true}");
	check(&count, 0, true);
	count_release(&count);
	count = (struct count)COUNT_INIT;
	take(&count, EVENT_SESSION, NULL, "{\"parent\":{\"execution_count\":-7}}");
	take(&count, EVENT_SESSION, NULL, "{\"parent\":[]}");
	check(&count, 0, false);
	count_release(&count);
}

static void test_what_was_not_met(void **state)
{
	struct count count = COUNT_INIT;

	(void)state;
	take(&count, EVENT_ROLLBACK, "a", "{\"reason\":\"asked\"}");
	check(&count, 0, false);
	take(&count, EVENT_FINISHED, "b", KEPT(8));
	check(&count, 8, true);
	take(&count, EVENT_DIED, NULL, "{\"state\":\"recovered\",\"recovers_to\":\"a\"}");
	check(&count, 8, false);
	take(&count, EVENT_DIED, NULL, "{\"state\":7}");
	take(&count, EVENT_ROLLBACK, NULL, "{\"reason\":[]}");
	check(&count, 8, false);
	count_release(&count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_back_and_forth),
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_branches),
		cmocka_unit_test(test_what_was_not_met),
	};

	return cmocka_run_group_tests_name("count", tests, NULL, NULL);
}
