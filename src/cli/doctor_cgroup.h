/*
 * Doctor: the control group that this process is in, cgroups(7).
 *
 * Version 1 has a hierarchy for each controller, version 2 one for all, and a hybrid system both:
 * /proc/self/cgroup has a line for each, and /proc/self/mountinfo says where it is mounted.
 */
#ifndef FH_CLI_DOCTOR_CGROUP_H
#define FH_CLI_DOCTOR_CGROUP_H

#include <stdint.h>

/*
 * The least of a limit in our group and those above it, as far as they can be seen: of the file
 * `name2` with version 2, `name1` with version 1. UINT64_MAX when there is no limit.
 */
uint64_t cgroup_number(const char *controller, const char *name2, const char *name1);

#endif
