/*
 * Where the programs of an ask run: sessions of their own, like the user's in all but the
 * workspace, which is an overlay of it.
 */
#ifndef FH_CLI_ASK_BOXES_H
#define FH_CLI_ASK_BOXES_H

#include "agent/program.h"
#include "cli/begin.h"

struct ask_boxes {
	struct begin_options options; /* those of the user's session */
	char *workspace;              /* as --workspace has it; owned. NULL: a private one */
	struct begin begin;           /* of the box that there is */
};

/* `begun`: the user's session, a new one. `source` is filled; *boxes outlives it. */
void ask_boxes_init(struct ask_boxes *boxes, const struct begin_options *options,
		    const struct begin *begun, struct box_source *source);
void ask_boxes_release(struct ask_boxes *boxes);

#endif
