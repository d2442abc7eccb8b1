/*
 * The part of an order for a guest that belongs to the box: added by whoever has built it, which
 * need not be who gives the order.
 */
#ifndef FH_ENGINE_PYTHON_ENTER_H
#define FH_ENGINE_PYTHON_ENTER_H

#include "guest/protocol.h"
#include "sandbox/box.h"

/* Fills in ZYGOTE_FD_NAMESPACE and what follows it, borrowed from the box, and what *enter says of
 * them and of the workspace. The box is of tier full and was built in this process. */
void enter_add_box(const struct box *box, struct zygote_enter *enter, int fds[static ZYGOTE_FDS]);

#endif
