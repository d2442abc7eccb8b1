/*
 * The process that owns a running model: it starts the llama.cpp server, and ends it.
 *
 * One for each model that runs (and each way to run it), shared by all who ask it, so that the
 * loaded weights and the prompt cache outlive one `fumehood ask`. It is fumehood-ask itself,
 *started by whoever wants the model first, and detached.
 *
 *	<runtime>/models/<hash>/owner.sock   SOCK_SEQPACKET, one JSON object a message (below)
 *	                        server.sock  the server's HTTP
 *	                        lock         held by the owner as long as it lives
 *	                        log          what the server prints, from its last start
 *
 * What it is asked: {"op":"use"} makes the connection a user; the server is started if it does not
 *run, and the answer is {"state":"ready"} or {"state":"failed","code":…,"message":…} when that is
 *known.
 * {"op":"last"}: {"message":…} how the server ended the last time, or {} when it has not.
 * {"op":"status"}: what `fumehood model status --json` prints. {"op":"stop"} ends it,
 *{"op":"yield"} if it has no user.
 *
 *	          use                     /health is 200
 *	NONE ───────────────► STARTING ───────────────────► READY
 *	  ▲                      │ dies, or takes too long    │ dies
 *	  └──────────────────────┴────────────────────────────┘
 *
 * It ends when it has had no user for idle_s, on "stop" and on SIGTERM; the server gets SIGTERM,
 * and SIGKILL after three seconds. When the owner itself is killed the kernel kills the server
 * (PR_SET_PDEATHSIG, launch.h).
 */
#ifndef FH_MODEL_OWNER_H
#define FH_MODEL_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define OWNER_NAME "fumehood-model-owner" /* its argv[0] */
#define OWNER_SOCKET "owner.sock"
#define OWNER_SERVER_SOCKET "server.sock"
#define OWNER_LOG "log"

enum {
	OWNER_MESSAGE_MAX = 8192,
	OWNER_CLIENTS_MAX = 64,
	OWNER_READY_FD = 3, /* where it says that it listens: "ok", or why not */
};

/*
 * argv[1] is JSON: {"folder", "model" (path), "name", "context", "idle_ms", "ready_ms",
 * "argv": […]}. `ready_ms`: how long the server may take until it is healthy. Runs until its end;
 * the exit status.
 */
int owner_run(int argc, char **argv);

/* --- owner_server.c: the server as its child -------------------------------------------------- */

struct owner_server {
	int pidfd; /* -1: none runs */
	int pid;
	int64_t oom_kills; /* of the whole machine, when it was started; -1: not known */
	char *program;     /* for messages; owned */
	char *folder;      /* owned */
	int dirfd;
};

/* Starts it with its log; the caller has removed an old socket. */
int owner_server_start(struct owner_server *server, const struct json *argv, struct err *err);

/* Whether GET /health is answered with 200; waits for at most a second. */
bool owner_server_healthy(const struct owner_server *server);

/* Asks it to end, kills it after a while, and waits for its end. */
void owner_server_stop(struct owner_server *server);

/* To be called when its pidfd is readable: reaps it and says how it ended, in a sentence. */
void owner_server_reap(struct owner_server *server, struct err *err);

#endif
