/*
 * Where this process stands among the control groups, cgroups(7).
 *
 * Version 1 has a hierarchy for each controller, version 2 one for all, and a hybrid system both:
 * /proc/self/cgroup has a line for each, and /proc/self/mountinfo says where it is mounted. That a
 * hierarchy of version 2 is mounted does not mean that it has any controller: on a hybrid system
 * version 1 holds them.
 */
#ifndef FH_SANDBOX_CGROUP_FIND_H
#define FH_SANDBOX_CGROUP_FIND_H

#include <stdbool.h>

struct cgroup_place {
	char *mount; /* where the hierarchy is mounted; owned */
	char *path;  /* our group below `mount`: "" or "/a/b"; owned */
	int version; /* 1 or 2 */
};

#define CGROUP_PLACE_INIT \
	{ \
		.mount = NULL, .path = NULL, .version = 0 \
	}

void cgroup_place_release(struct cgroup_place *place);

/* The hierarchy of version 1 with this controller ("memory"), or with "" that of version 2, by the
 * texts of /proc/self/cgroup and /proc/self/mountinfo. False: it is not mounted, or our group is
 * outside of what of it is mounted. Pure; any bytes. */
bool cgroup_place_parse(const char *self, const char *mounts, const char *controller,
			struct cgroup_place *place);

/* As cgroup_place_parse(), for this process. */
bool cgroup_place_find(const char *controller, struct cgroup_place *place);

/* Whether `word` is in a list whose words are parted by commas, blanks or line ends. */
bool cgroup_has_word(const char *list, const char *word);

#define cleanup_place __attribute__((cleanup(cgroup_place_release)))

#endif
