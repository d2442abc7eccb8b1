/*
 * What a session's Python stands on, and whether the session could write it.
 *
 * A zygote is the user's own process outside of any box. So a Python that a session can change must
 * never become one; its sessions start cold, inside the box. "Can change" is found out by walking
 * as the kernel walks: the path of the interpreter, each symlink on the way, the same for the
 * `home` that a venv names, and the libraries beside both. If any step lies in the workspace,
 * whatever it is called there (another spelling, a symlink to it, a bind mount of it), the Python
 * is the session's.
 *
 * Such a Python cannot be asked what it needs, since that would run it. So the same walk tells what
 * a box must show: the interpreter outside of the workspace that a venv inside points to, and its
 * libraries. The names come from files that the session has perhaps written (pyvenv.cfg, a
 * symlink), to see what it should not. Hence nothing is shown that is not a Python installation by
 * its form (lib/python3.N/os.py), of it only that folder `lib` and programs (ELF) called python3*,
 * and nothing whose path leads through the workspace.
 */
#ifndef FH_KEEPER_REACH_H
#define FH_KEEPER_REACH_H

#include <stdbool.h>
#include <stddef.h>

struct reach {
	bool writable; /* by a session that may write the workspace */
	char **paths;  /* what the box of a cold start must show besides the workspace */
	size_t count;
};

#define REACH_INIT \
	{ \
		.writable = false, .paths = NULL, .count = 0 \
	}

/* `python`: absolute path of an interpreter. `workspace`: absolute path of a directory. What does
 * not exist or cannot be read is left out. */
void reach_find(struct reach *reach, const char *python, const char *workspace);
void reach_release(struct reach *reach);

/* `writable` alone, which is what is asked of most. */
bool reach_is_writable(const char *python, const char *workspace);

/* The path that `python` has inside a box whose /workspace is `workspace`: another one if it lies
 * in it. The caller owns the result. */
char *reach_inside(const char *python, const char *workspace);

/* The value of `home` in the text of a pyvenv.cfg, by the rules of CPython's getpath.py: "key =
 * value", keys in any case; NULL when there is none or it is no absolute path. The caller owns it.
 * */
char *reach_home(const char *text, size_t len);

#endif
