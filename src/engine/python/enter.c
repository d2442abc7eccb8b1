/*
 * An order has a fixed number of descriptors, so that it can be seen whether all have arrived: what
 * a box does not have is filled up with one that it has.
 */
#include "engine/python/enter.h"

#include <stdio.h>
#include <string.h>

void enter_add_box(const struct box *box, struct zygote_enter *enter, int fds[static ZYGOTE_FDS])
{
	const int *tasks;
	int ruleset = box_ruleset(box);
	int filter = box_filter(box);

	snprintf(enter->workspace, sizeof(enter->workspace), "%s", box_workspace(box));
	memcpy(fds + ZYGOTE_FD_NAMESPACE, box_namespaces(box), BOX_NAMESPACES * sizeof(*fds));
	fds[ZYGOTE_FD_FILTER] = filter;
	enter->has_ruleset = ruleset >= 0;
	fds[ZYGOTE_FD_RULESET] = ruleset >= 0 ? ruleset : filter;
	enter->tasks_count = box_tasks(box, &tasks);
	for (size_t i = 0; ZYGOTE_FD_TASKS + i < ZYGOTE_FDS; i++)
		fds[ZYGOTE_FD_TASKS + i] = i < enter->tasks_count ? tasks[i] : filter;
}
