/*
 * Tests of the bounded list of outputs, against a plain list that keeps everything.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "digest/items.h"

static void add(struct items *items, enum item_kind kind, const char *text, const char *id)
{
	struct item item = {.kind = kind};
	size_t len = strlen(text);
	const char *end = strrchr(text, '\n');

	item.piece = (struct piece){
		.text = mem_copy(text, len), .len = len, .gap_at = len, .chars = len};
	item.line_at = end ? (size_t)(end + 1 - text) : 0;
	if (kind == ITEM_OTHER)
		item.line_at = len;
	items_add(items, &item, id);
}

static void update(struct items *items, const char *id, const char *text)
{
	size_t len = strlen(text);
	struct piece piece = {.text = mem_copy(text, len), .len = len, .gap_at = len, .chars = len};

	items_update(items, id, &piece);
	piece_release(&piece);
}

/* The texts that are held, parted by blanks, with "~N" for N dropped ones. */
static char *held(const struct items *items)
{
	struct buf text = BUF_INIT;

	for (const struct item *item = items->first.front; item; item = item->next)
		buf_printf(&text, "%s ", item->piece.text);
	if (items->dropped > 0)
		buf_printf(&text, "~%llu ", (unsigned long long)items->dropped);
	for (const struct item *item = items->last.front; item; item = item->next)
		buf_printf(&text, "%.*s ", (int)item->piece.len, item->piece.text);
	return buf_take(&text, NULL);
}

static void expect(const struct items *items, const char *expected)
{
	cleanup_free char *text = held(items);

	assert_string_equal(text, expected);
}

static void keeps_first_and_last(void **state)
{
	struct items items;
	char name[24];

	(void)state;
	items_init(&items, 10);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "d%02d", i);
		add(&items, ITEM_OTHER, name, NULL);
	}
	/* Each weighs 4: three reach 10. */
	expect(&items, "d00 d01 d02 ~94 d97 d98 d99 ");
	assert_int_equal(items.dropped_chars, 94 * 3);
	items_clear(&items);
	add(&items, ITEM_OTHER, "x", NULL);
	expect(&items, "x ");
	items_release(&items);
}

static void updates_by_id(void **state)
{
	struct items items;
	char id[300];

	(void)state;
	items_init(&items, 1000);
	assert_false(items_knows(&items, "a"));
	update(&items, "a", "nothing");
	add(&items, ITEM_OTHER, "one", "a");
	add(&items, ITEM_OTHER, "two", "b");
	add(&items, ITEM_OTHER, "three", "a");
	assert_true(items_knows(&items, "a"));
	update(&items, "a", "new");
	expect(&items, "new two new ");
	memset(id, 'i', sizeof(id));
	id[sizeof(id) - 1] = '\0';
	add(&items, ITEM_OTHER, "long", id);
	assert_false(items_knows(&items, id));
	items_clear(&items);
	assert_false(items_knows(&items, "a"));
	items_release(&items);
}

static void updates_stay_bounded(void **state)
{
	struct items items;
	char name[24];
	char text[101];
	size_t count = 0;

	(void)state;
	memset(text, 'x', 100);
	text[100] = '\0';
	items_init(&items, 100);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		add(&items, ITEM_OTHER, "", name);
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		update(&items, name, text);
	}
	for (const struct item *item = items.first.front; item; item = item->next)
		count++;
	for (const struct item *item = items.last.front; item; item = item->next)
		count++;
	assert_true(count <= 2 && items.first.weight <= 202 && items.last.weight <= 202);
	assert_int_equal(items.dropped, 1000 - count);
	items_release(&items);
}

static void drops_an_unfinished_line(void **state)
{
	struct items items;

	(void)state;
	items_init(&items, 100);
	assert_false(items_drop_line(&items, ITEM_STDERR));
	add(&items, ITEM_STDERR, "10%", NULL);
	add(&items, ITEM_STDOUT, "loss", NULL);
	assert_true(items_drop_line(&items, ITEM_STDERR));
	expect(&items, "loss ");
	assert_false(items_drop_line(&items, ITEM_STDERR));
	add(&items, ITEM_STDERR, "done\n20%", NULL);
	assert_true(items_drop_line(&items, ITEM_STDERR));
	assert_int_equal(items.last.weight + items.first.weight, 5 + 6);
	add(&items, ITEM_STDERR, "ended\n", NULL);
	assert_false(items_drop_line(&items, ITEM_STDERR));
	items_clear(&items);
	assert_false(items_drop_line(&items, ITEM_STDOUT));
	items_release(&items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_first_and_last),
		cmocka_unit_test(updates_by_id),
		cmocka_unit_test(updates_stay_bounded),
		cmocka_unit_test(drops_an_unfinished_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
