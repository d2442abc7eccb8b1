/*
 * The guard: what a session makes in a person's own project for other programs to run later
 * (sandbox/protect.h) is put aside and told of.
 *
 * What was there when the session began is read-only in its box and no business of the guard. What
 * was not there cannot be kept from being made. So the guard looks for it: when a cell
 * has ended, each minute until the end of the session (but not in a cell's first one: a program at
 * work, such as git clone, must find its files as it has left them), and once more when nothing in
 * the box lives any more. What it finds gets another name beside its place,
 * "<name>.held-by-fumehood", under which nothing runs it, and a `warning` event of code
 * "executes_later" says so. Nothing is lost: whoever wants it, looks at it and gives it its name
 * back.
 *
 * What remains: until the guard has looked (the end of the cell; longer, up to a minute, while one
 * runs and in a tree that takes long to look at), the file is there. It takes what a person makes
 * by such a name while the session lives for the session's own, since nobody can tell who made it.
 * And when the keeper itself is killed, nobody looks.
 */
#ifndef FH_KEEPER_GUARD_H
#define FH_KEEPER_GUARD_H

#include <uv.h>

#include "base/json.h"
#include "sandbox/protect.h"

struct guard;

/* `workspace` (host path) and the patterns (borrowed) of a workspace that is rw and not private.
 * What is there now counts as known. NULL when it cannot be opened. The caller owns it. */
struct guard *guard_new(const char *workspace, const char *const *patterns);
void guard_free(struct guard *guard); /* NULL is fine */

/* Looks, and puts aside what is new: an array of {"path","held_as"} or {"path","error"}, owned by
 * the caller; NULL when there was nothing. `last`: it may take longer, and look at more. */
struct json *guard_look(struct guard *guard, bool last);

/* Whether something was not looked at, then or at the start, or is not read-only: a folder that may
 * not be read, or more names than are looked at. */
bool guard_is_incomplete(const struct guard *guard);

/* When to look again, in milliseconds from now: so that looking takes a fiftieth of the time. */
uint64_t guard_pause_ms(const struct guard *guard);

const char *const *guard_patterns(const struct guard *guard);

#endif
