/*
 * The original's service (SLM Code Interpreter 0.1.0) for its clients: GET /status and POST
 * /execute on 127.0.0.1, with the same replies (slm_request.h). `fumehood slm` is this alone;
 * `fumehood serve --original` has it beside the daemon.
 *
 * What differs, because it was broken or dangerous there: /status is answered while programs run;
 * an answer has a length, and its connection is closed behind it; requests that a page of another
 * site has sent are refused, whatever they contain; a body is JSON by its type, or has none, so
 * that no form can send one; bodies are limited; a client that goes away stops model and program;
 * programs run in a sandbox.
 *
 * Two asks run at once, 64 wait in their order.
 */
#ifndef FH_SERVE_SLM_H
#define FH_SERVE_SLM_H

#include <uv.h>

#include "base/err.h"
#include "serve/http.h"

enum { SLM_PORT = 8085, SLM_RUNS_MAX = 2, SLM_WAITING_MAX = 64, SLM_PROGRAMS_MAX = 16 };

struct slm_options {
	int port;           /* 0: any */
	const char *model;  /* name, file or folder; NULL: as the original's configuration says */
	const char *url;    /* NULL: none */
	const char *script; /* answers from a file, for tests; NULL: none */
	/* What programs see; NULL: each ask a new one of its own, for every user of this machine
	 * can ask. */
	const char *workspace;
	struct http_times times;
};

struct slm;

/* The texts of `options` are borrowed. The caller owns it: slm_close(), then, once the loop has run
 * to its end, slm_free(). */
struct slm *slm_new(uv_loop_t *loop, const struct slm_options *options);

/* ERR_BUSY when the port is taken. */
int slm_listen(struct slm *slm, struct err *err);
int slm_port(const struct slm *slm);

/* No new connections; what runs is cancelled. */
void slm_end(struct slm *slm);

/* Connections that are open. */
size_t slm_connections(const struct slm *slm);
void slm_close(struct slm *slm);
void slm_free(struct slm *slm);

/* Serves until SIGTERM or SIGINT: the whole of `fumehood slm`. `ready` is called once it listens.
 * As serve_run(). */
int slm_run(const struct slm_options *options, int signal_fd, void (*ready)(int port),
	    struct err *err);

#endif
