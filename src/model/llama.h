/*
 * Which llama.cpp server there is, and how it is started.
 *
 * In this order: the one that was chosen ($FUMEHOOD_LLAMA_SERVER, llama.server), `llama-server` on
 * PATH, the server of the wheel xllamacpp that `fumehood model engine` has put into
 * <data>/engine. The last is started by python/fumehood_model/server.py.
 *
 * It listens on a Unix socket in a folder that only the user can enter: no port, no key.
 */
#ifndef FH_MODEL_LLAMA_H
#define FH_MODEL_LLAMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define LLAMA_SERVER "llama-server"

enum { LLAMA_PARALLEL = 4, LLAMA_CONTEXT_MAX = 8192, LLAMA_SOCKET_BYTES_MAX = 107 };

struct llama {
	char *program; /* absolute path of llama-server, or of the Python that runs the wheel's */
	char *script;  /* server.py; NULL: it is llama-server */
	char *site;    /* the folder that holds xllamacpp; NULL as well */
	char *version; /* of the wheel; NULL */
};

#define LLAMA_INIT \
	{ \
		.program = NULL \
	}

void llama_release(struct llama *llama);
#define cleanup_llama __attribute__((cleanup(llama_release)))

/* `chosen`: an absolute path or a name on PATH; NULL or "": none. ERR_NOT_FOUND says how to get
 * one. */
int llama_find(struct llama *llama, const char *chosen, struct err *err);

/* The wheel alone; -1: it has not been fetched, or its Python has gone. */
int llama_find_wheel(struct llama *llama);

/* What a server is to run. */
struct llama_wish {
	const char *model; /* absolute path */
	const char *socket;
	uint64_t context;
	unsigned parallel, threads;
};

/* The words of its command line. */
struct llama_words {
	char **words; /* NULL-terminated, owned */
	size_t count;
};

void llama_words_release(struct llama_words *words);

/* The command line for a llama-server whose --help is `help`: options differ between its versions,
 * so only those are used that are in there. Pure. */
void llama_server_words(struct llama_words *words, const char *program,
			const struct llama_wish *wish, const char *help);

/* The command line for what was found; runs llama-server --help. ERR_ENGINE. */
int llama_words(struct llama_words *words, const struct llama *llama, const struct llama_wish *wish,
		struct err *err);

/* --- llama_install.c -------------------------------------------------------------------------- */

/* The version that is installed: pinned with the hashes of its wheels. */
extern const char *const LLAMA_WHEEL_VERSION;

/* Puts the wheel into <data>/engine by pip, over an older one; *done: it was not there before.
 * ERR_UNSUPPORTED: no Python of 3.10 or newer with pip, or no wheel for this machine. */
int llama_install(int cancel_fd, bool *done, struct err *err);

#endif
