/*
 * Boxes for the programs of an ask. See ask_boxes.h.
 */
#include "cli/ask_boxes.h"

#include <string.h>

#include "base/mem.h"

static struct fh_session *start(void *context, int cancel_fd, struct err *err)
{
	struct ask_boxes *boxes = context;

	if (begin_session(&boxes->begin, &boxes->options, NULL, NULL, cancel_fd, err) != 0)
		return NULL;
	return boxes->begin.session;
}

static void end(void *context, struct fh_session *session)
{
	struct ask_boxes *boxes = context;

	(void)session;
	begin_finish(&boxes->begin, false);
	boxes->begin = (struct begin)BEGIN_INIT;
}

void ask_boxes_init(struct ask_boxes *boxes, const struct begin_options *options,
		    const struct begin *begun, struct box_source *source)
{
	const char *named = options->workspace ? strrchr(options->workspace, ':') : NULL;
	bool read_only = named && strcmp(named, ":ro") == 0;

	*boxes = (struct ask_boxes){.options = *options, .begin = BEGIN_INIT};
	if (begun->workspace)
		boxes->workspace =
			mem_format("%s:%s", begun->workspace, read_only ? "ro" : "overlay");
	boxes->options.workspace = boxes->workspace;
	boxes->options.session = NULL;
	boxes->options.keep = false;
	*source = (struct box_source){.start = start, .end = end, .context = boxes};
}

void ask_boxes_release(struct ask_boxes *boxes)
{
	free(boxes->workspace);
	boxes->workspace = NULL;
}
