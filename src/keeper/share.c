/*
 * One number for all keepers; see share.h.
 */
#include "keeper/share.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"

enum {
	COST_US = 10000,     /* of the smallest copy, on a machine without a moment's rest ... */
	COST_US_PER_MIB = 20 /* ... and for each MiB, in pages of 4 KiB: measured */
};

void share_open(struct share *share, const char *runtime)
{
	cleanup_free char *path = mem_format("%s/copies", runtime);

	*share = (struct share){.processors = sysconf(_SC_NPROCESSORS_ONLN)};
	share->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

void share_close(struct share *share)
{
	if (share->fd >= 0)
		close(share->fd);
	share->fd = -1;
}

int64_t share_cost(int64_t memory_bytes, int64_t last_us)
{
	int64_t mib = memory_bytes > 0 ? memory_bytes >> 20 : 0;
	int64_t known_us = COST_US + mib * COST_US_PER_MIB;

	return last_us > 0 && last_us < known_us ? last_us : known_us;
}

int64_t share_move(int64_t *spent_us, int64_t now_us, int64_t cost_us, long processors)
{
	int64_t from = *spent_us;
	int64_t may;

	if (from < now_us || from - now_us > SHARE_AHEAD_MAX_US)
		from = now_us; /* the rest is not saved up, and what cannot be was never booked */
	may = from - SHARE_BURST_US;
	from += cost_us * SHARE_PART / (processors > 0 ? processors : 1);
	*spent_us = from - now_us < SHARE_AHEAD_MAX_US ? from : now_us + SHARE_AHEAD_MAX_US;
	return may > now_us ? may : now_us;
}

int64_t share_book(struct share *share, int64_t now_us, int64_t cost_us)
{
	int64_t seen, when;

	if (share->fd >= 0 && pread(share->fd, &seen, sizeof(seen), 0) == sizeof(seen))
		share->spent_us = seen;
	when = share_move(&share->spent_us, now_us, cost_us, share->processors);
	if (share->fd >= 0 && pwrite(share->fd, &share->spent_us, sizeof(share->spent_us), 0) < 0) {
		close(share->fd); /* a full disk: the number would stand still for all */
		share->fd = -1;
	}
	return when;
}
