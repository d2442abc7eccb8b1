/*
 * Which Python: from what a person types to the one absolute path that names an environment.
 *
 * The same environment has the same path whatever name it was given, because pools and spare
 * sessions are found by it.
 */
#ifndef FH_BASE_PYTHON_H
#define FH_BASE_PYTHON_H

#include <stdbool.h>

#include "base/err.h"

/* Makes a given name absolute: a path to an executable, a venv (or conda) directory, or a name on
 * PATH. Names of the same environment give the same path. May run a version manager's shim, which
 * takes 10 s at most. ERR_NOT_FOUND, ERR_INVALID, and ERR_ENGINE with the shim's own words. The
 * caller owns the result. */
char *python_resolve(const char *name, struct err *err);

/* ERR_DENIED when `name` stands for a script in `workspace` (a directory), which python_resolve
 * would run: a session may have written it, to be run outside of its box. What cannot be found is
 * no error of this one. */
int python_check_workspace(const char *name, const char *workspace, struct err *err);

/* The Python that is used when none is chosen: $FUMEHOOD_PYTHON, else the default environment
 * (paths_data()/venv/bin/python) if it exists, else python3 on PATH, else /usr/bin/python3; made
 * absolute and, for version manager shims, resolved to what they run. What was chosen and does not
 * work is an error; the next one is not tried. The caller owns the result. */
char *python_default(struct err *err);

/* Whether `name`, an absolute path of an executable or of an environment's directory, is the Python
 * at `python`, a result of the functions above. Looks at files only: no shim is run. */
bool python_is(const char *python, const char *name);

/* Beside the folder of an environment that was made for `--with`: what is in it. */
#define PYTHON_MADE "made.json"

/* Whether the Python at `python` (DIR/env/bin/python) is of an environment that Fumehood has made
 * from packages, in a box: then it is not the user's own, and must not run outside of one. */
bool python_is_made(const char *python);

#endif
