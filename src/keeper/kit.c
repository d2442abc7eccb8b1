/* The tests' directory and loop; see kit.h. */
#include "keeper/kit.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { KIT_TIMEOUT_US = 10 * 1000 * 1000 };

void kit_open(struct kit *kit, const char *name)
{
	snprintf(kit->path, sizeof(kit->path), "/tmp/%s_XXXXXX", name);
	assert_non_null(mkdtemp(kit->path));
	kit->fd = open(kit->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(kit->fd >= 0);
	assert_int_equal(uv_loop_init(&kit->loop), 0);
}

void kit_close(struct kit *kit)
{
	uv_run(&kit->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&kit->loop), 0);
	close(kit->fd);
	assert_int_equal(file_remove_tree(AT_FDCWD, kit->path, NULL), 0);
}

static void wake(uv_timer_t *timer)
{
	(void)timer;
}

void kit_run_until(struct kit *kit, bool (*holds)(void *data), void *data)
{
	int64_t end = clock_monotonic_us() + KIT_TIMEOUT_US;
	uv_timer_t timer;

	uv_timer_init(&kit->loop, &timer);
	uv_timer_start(&timer, wake, 10, 10);
	while (!holds(data)) {
		assert_true(clock_monotonic_us() < end);
		uv_run(&kit->loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&kit->loop, UV_RUN_NOWAIT);
}
