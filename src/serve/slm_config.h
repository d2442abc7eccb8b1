/*
 * Which model the original's service would have: its config.yaml, its environment variables, and
 * what lies where they point to.
 *
 * Of the file one key is read, models.code_interpreter.path, by a reader that knows block mappings
 * and plain or quoted scalars; what it does not understand on the way to that key is an error, so
 * nothing is passed over in silence. The SDK for Python has the same reader (model_path.py); the
 * cases that both are tested by are test/data/config-yaml.json.
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

/* The key's value, appended to `path`. 1: found, 0: it is not there, null or empty, -1: ERR_INVALID
 * with the line. Pure. */
int slm_config_read(const char *text, size_t len, struct buf *path, struct err *err);

/* Where a model is: one of these, or none. Owned. */
struct slm_model {
	char *url;  /* an OpenAI-compatible server's */
	char *name; /* as `fumehood model list` has it */
	char *path; /* a file or folder, absolute or from the working directory */
};

#define SLM_MODEL_INIT \
	{ \
		.url = NULL, .name = NULL, .path = NULL \
	}

/* Looks where the original does: in $SLM_CODE_INTERPRETER_CONFIG; without it in ./config.yaml and
 * ../config.yaml, in the first that has the key; then $SLM_CODE_INTERPRETER_CACHE_DIR, which is a
 * folder of models. A path is from the file's folder, "~" the home. ERR_NOT_FOUND when there is no
 * such path; a file that the variable names must be there and have the key. The caller releases
 * *model, also after failure. */
int slm_config_model(struct slm_model *model, struct err *err);
void slm_model_release(struct slm_model *model);
#define cleanup_slm_model __attribute__((cleanup(slm_model_release)))

/* Hands $SLM_CODE_INTERPRETER_N_THREADS and _N_CTX on as $FUMEHOOD_LLAMA_THREADS and _CONTEXT,
 * which win where they are set: for the main program, before it has threads. ERR_USAGE when one is
 * no number that can be. */
int slm_config_environment(struct err *err);

/* The model's file: the path itself, or the only GGUF file of a folder (of one in parts the first).
 * The caller owns it. A model in ONNX form is ERR_UNSUPPORTED with what to do. */
char *slm_model_file(const char *path, struct err *err);

#endif
