/*
 * Control groups. See doctor_cgroup.h. Where we are among them is found by sandbox/cgroup_find.h.
 */
#include "cli/doctor_cgroup.h"

#include <string.h>

#include "base/mem.h"
#include "cli/doctor.h"
#include "sandbox/cgroup_find.h"

uint64_t cgroup_number(const char *controller, const char *name2, const char *name1)
{
	cleanup_place struct cgroup_place place = CGROUP_PLACE_INIT;
	uint64_t least = UINT64_MAX;

	/* Version 1 if that has the controller, else version 2. */
	if (!cgroup_place_find(controller, &place) && !cgroup_place_find("", &place))
		return least;
	for (;;) {
		cleanup_free char *file = mem_format("%s%s/%s", place.mount, place.path,
						     place.version == 2 ? name2 : name1);
		int64_t number = doctor_number(file, INT64_MAX);
		char *slash = strrchr(place.path, '/');

		/* Version 1 says "no limit" by the largest multiple of a page. */
		if (number >= 0 && number < INT64_MAX - (1 << 20) && (uint64_t)number < least)
			least = (uint64_t)number;
		if (!slash)
			break;
		*slash = '\0';
	}
	return least;
}
