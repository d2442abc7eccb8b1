/*
 * The requests of the session protocol on a workspace's files (doc/protocol.md), answered from a
 * tree: bytes of JSON in, JSON out.
 *
 * They are answered by a session's keeper, and for a session that does not run by whoever holds its
 * lock.
 *
 * A path or name is given as "path" or "name" where it is UTF-8, and else as "path_base64" or
 * "name_base64" beside the repaired text.
 */
#ifndef FH_FILES_ANSWER_H
#define FH_FILES_ANSWER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "files/tree.h"

/* list_files: {"path"?, "after"?, "max"?} ->
 * {"entries":[{"name","type","bytes","mode","modified"}], "more"?, "incomplete"?} */
struct json *answer_list(const struct tree *tree, const struct json *request, struct err *err);

/* read_file: {"path", "offset"?, "length"?} -> {"data" (base64), "offset", "total", "mode",
 * "modified"} */
struct json *answer_read(const struct tree *tree, const struct json *request, struct err *err);

/* write_file: {"path", "upload", "offset"?, "data", "done"?, "mode"?} -> {"bytes"} */
struct json *answer_write(const struct tree *tree, const struct json *request, struct err *err);

/* remove_file: {"path", "whole"?} -> {} */
struct json *answer_remove(const struct tree *tree, const struct json *request, struct err *err);

/* make_folder: {"path"} -> {} */
struct json *answer_make_folder(const struct tree *tree, const struct json *request,
				struct err *err);

/* ERR_DENIED when the request's path, or a folder above it, is one that other programs run later by
 * these patterns (sandbox/protect.h; NULL: none). `folder`: it is one, or will be. A client writes
 * on somebody's word, perhaps a model's: such a place is no more written so than by a cell. */
int answer_may_change(const struct json *request, bool folder, const char *const *protect,
		      struct err *err);

/* Sets `key`, and `key`_base64 where the bytes are no UTF-8. */
void answer_set_name(struct json *object, const char *key, const char *bytes, size_t len);

/* The bytes of `key` or `key`_base64; NULL when there is neither, or one is not as it should be
 * (*wrong, may be NULL). The caller owns them; they have no NUL. */
char *answer_get_name(const struct json *object, const char *key, bool *wrong);

/* "file", "folder", "link", "other". */
const char *answer_kind_name(enum tree_kind kind);

#endif
