/*
 * The words and marks of undone.h: one table, by what has undone the cell.
 */
#include "notebook/undone.h"

#include <stddef.h>
#include <string.h>

#include "notebook/meta.h"

static const struct {
	const char *by, *remark;
} WORDS[] = {
	{"died",
	 "[fumehood: lost when the interpreter died later: what this cell did is not in the "
	 "variables any more]"},
	{"rollback",
	 "[fumehood: rolled back: what this cell did is not in the variables any more]"},
	{"reset",
	 "[fumehood: rolled back by a reset: what this cell did is not in the variables any "
	 "more]"},
	{"atomic", "[fumehood: rolled back, because it was atomic and failed: the variables are as "
		   "before it]"},
	{"try", "[fumehood: rolled back, because it was a try: the variables are as before it]"},
};

static size_t words_of(const struct timeline_cell *cell)
{
	for (size_t i = 0; cell->by && i < sizeof(WORDS) / sizeof(WORDS[0]); i++)
		if (strcmp(WORDS[i].by, cell->by) == 0)
			return i;
	return 0;
}

enum undone undone_of(const struct timeline_cell *cell, bool keep)
{
	if (cell && cell->fate == TIMELINE_LOST)
		return UNDONE_MARKED;
	if (cell && cell->fate == TIMELINE_ROLLED_BACK)
		return keep ? UNDONE_MARKED : UNDONE_OMITTED;
	return UNDONE_NOT;
}

const char *undone_remark(const struct timeline_cell *cell)
{
	return WORDS[words_of(cell)].remark;
}

struct json *undone_metadata(const struct timeline_cell *cell, const struct json *metadata)
{
	struct json *marked = json_copy(metadata);
	struct json *ours = json_get(marked, "fumehood");
	struct json *why = json_new_object();

	if (json_type_of(ours) != JSON_OBJECT) {
		ours = json_new_object();
		json_set(marked, "fumehood", ours);
	}
	json_set_string(why, "by", WORDS[words_of(cell)].by);
	json_set(ours, "rolled_back", why);
	meta_add_tag(marked, UNDONE_TAG);
	return marked;
}
