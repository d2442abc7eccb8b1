/*
 * The texts of the original's service (SLM Code Interpreter 0.1.0, server.py): what a request says,
 * and what it is answered, to the byte. Pure.
 *
 *	POST /execute {"instruction": text, "max_retries": 3}
 *	200 {"success": …, "stdout": …, "stderr": …, "code": …, "attempts": …, "response": …}
 *	400 {"error": "Invalid JSON payload: …"}     {"error": "Missing field: 'instruction'"}
 *	500 {"error": "Failed to load ONNX model: …"} {"error": "Inference execution failed: …"}
 *
 * Beyond the original: "details": true has everything else that fumehood ask tells behind these
 * members.
 */
#ifndef FH_SERVE_SLM_REQUEST_H
#define FH_SERVE_SLM_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum { SLM_BODY_BYTES_MAX = 4 << 20, SLM_RETRIES = 3 };

struct slm_request {
	struct json *body; /* owned: what `instruction` points into */
	const char *instruction;
	size_t instruction_len;
	int64_t max_retries; /* programs in all; 0 and less: none is tried */
	bool details;
};

#define SLM_REQUEST_INIT \
	{ \
		.body = NULL, .instruction = NULL \
	}

/* Reads a body. -1 with the text for {"error": …} appended to `error`. The caller releases the
 * request, also after failure. */
int slm_request_read(const char *bytes, size_t len, struct slm_request *request, struct buf *error);
void slm_request_release(struct slm_request *request);

void slm_write_status(struct buf *out, int port);
void slm_write_error(struct buf *out, const char *text, size_t len);

/* The answer for a result of fumehood ask; NULL: nothing was tried. */
void slm_write_result(struct buf *out, const struct json *result,
		      const struct slm_request *request);

/* Whether an error of fumehood ask means that there is no model to ask. */
bool slm_is_load_error(enum err_code code);

/* The page of Python's http.server for a method that it has not. */
void slm_write_unsupported(struct buf *out, const char *method, size_t len);

#endif
