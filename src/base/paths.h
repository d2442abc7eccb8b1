/*
 * Where Fumehood keeps things, by the XDG base directory specification (0.8).
 */
#ifndef FH_BASE_PATHS_H
#define FH_BASE_PATHS_H

#include "base/err.h"

/* $XDG_STATE_HOME/fumehood, else ~/.local/state/fumehood (home from $HOME, else passwd). Made 0700.
 * Returns an absolute path owned by the caller, or NULL. */
char *paths_state(struct err *err);

/* $XDG_RUNTIME_DIR/fumehood, else /tmp/fumehood-<uid>. Made 0700; refused (ERR_DENIED) when it is
 * not a directory of ours with no rights for others, which someone could have planted in /tmp. */
char *paths_runtime(struct err *err);

/* $XDG_DATA_HOME/fumehood, else ~/.local/share/fumehood: the default Python environment lives
 * here. */
char *paths_data(struct err *err);

/* $XDG_CONFIG_HOME/fumehood, else ~/.config/fumehood: the user's, so it is not made and need not be
 * there. */
char *paths_config(struct err *err);

/* The helper program or folder `name` ("fumehood-keeper", "fumehood-pool", "python"): beside the
 * running executable in a build tree, else <prefix>/libexec/fumehood. $FUMEHOOD_LIBEXEC wins over
 * both. */
char *paths_helper(const char *name, struct err *err);

#endif
