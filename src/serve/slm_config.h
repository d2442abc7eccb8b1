/*
 * Which model the original's service would have: its config.yaml, its environment variables, and
 * what lies where they point to.
 *
 * Of the file one key is read, models.code_interpreter.path, by a reader that knows block mappings
 * and plain or quoted scalars; what it does not understand on the way to that key is an error, so
 * nothing is passed over in silence.
 */
#ifndef FH_SERVE_SLM_CONFIG_H
#define FH_SERVE_SLM_CONFIG_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum {
	SLM_CONFIG_BYTES_MAX = 1 << 20,
	SLM_CONFIG_DEPTH_MAX = 32,
	SLM_FOLDER_DEPTH_MAX = 4,     /* how deep a folder is looked through for a model */
	SLM_FOLDER_ITEMS_MAX = 10000, /* of a folder with all below */
};

/* The key's value, appended to `path`. 1: found, 0: it is not there, -1: ERR_INVALID with the line.
 * Pure. */
int slm_config_read(const char *text, size_t len, struct buf *path, struct err *err);

/* Looks where the original does: $SLM_CODE_INTERPRETER_CONFIG, ./config.yaml, ../config.yaml; the
 * first that has the key; then $SLM_CODE_INTERPRETER_CACHE_DIR, which is a folder of models. *path
 * is absolute or relative to the working directory, owned by the caller; NULL: none has. A file
 * that the variable names must be there. */
int slm_config_path(char **path, struct err *err);

/* Hands $SLM_CODE_INTERPRETER_N_THREADS and _N_CTX on as $FUMEHOOD_LLAMA_THREADS and _CONTEXT,
 * which win where they are set: for the main program, before it has threads. ERR_USAGE when one is
 * no number that can be. */
int slm_config_environment(struct err *err);

/* The model's file: the path itself, or the only GGUF file of a folder (of one in parts the first).
 * The caller owns it. A model in ONNX form is ERR_UNSUPPORTED with what to do. */
char *slm_model_file(const char *path, struct err *err);

#endif
