/*
 * First all go above the range of their targets, since any of them may have the number of another's
 * target.
 */
#include "sandbox/descriptors.h"

#include "sandbox/kernel.h"

int descriptors_place(int *fds, unsigned count, unsigned above, int *spare)
{
	int up = fcntl(*spare, F_DUPFD_CLOEXEC, (int)above);

	if (up < 0)
		return -1;
	*spare = up;
	for (unsigned i = 0; i < count; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, (int)above);
		if (fds[i] < 0)
			return -1;
	}
	for (unsigned i = 0; i < count; i++) {
		if (dup2(fds[i], (int)i) < 0)
			return -1;
	}
	kernel_close_range(count, (unsigned)up - 1);
	kernel_close_range((unsigned)up + 1, ~0U);
	return 0;
}
