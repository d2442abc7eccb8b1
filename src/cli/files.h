/*
 * What the actions of `fumehood files` share.
 *
 * The files of a session that runs are reached through its keeper. One that has stopped is not
 * started for it: its workspace is opened here, under the session's lock, and the same functions
 * answer (files/answer.h). Only an overlay is no folder while it is not mounted, so for one of
 * those the session is started.
 */
#ifndef FH_CLI_FILES_H
#define FH_CLI_FILES_H

#include <fumehood.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/find.h"
#include "files/tree.h"

struct place {
	struct found found;
	struct fh_session *session; /* NULL: it does not run */
	struct tree tree;           /* then */
	int lock;
};

#define PLACE_INIT \
	{ \
		.found = FOUND_INIT, .session = NULL, .tree = TREE_INIT, .lock = -1 \
	}

/* The caller releases *place, also after failure. */
int place_open(struct place *place, const char *session, struct err *err);
void place_release(struct place *place);
#define cleanup_place __attribute__((cleanup(place_release)))

/* A request of that op on the path; further members may be set. The caller owns it. */
struct json *place_request(const char *op, const char *path);

/* Asks; the request is taken. The caller owns the answer; NULL with *err. */
struct json *place_ask(struct place *place, struct json *request, struct err *err);

/* Reads a file from the start to its end, in parts. `take` returns 0 to go on. ERR_LIMIT beyond
 * `bytes_max`. *mode may be NULL. */
int place_read(struct place *place, const char *path, uint64_t bytes_max,
	       int (*take)(void *data, const char *bytes, size_t len, struct err *err), void *data,
	       mode_t *mode, struct err *err);

/* A file on its way into the workspace: place_write() as often as there is something,
 * place_commit() at the end. After a failure nothing is left of it. */
struct place_file {
	struct place *place;
	const char *path; /* borrowed */
	uint64_t at;
	char upload[32];
	char *part; /* what is not sent yet; owned */
	size_t len;
	bool committed;
};

void place_begin(struct place_file *file, struct place *place, const char *path);
int place_write(struct place_file *file, const void *bytes, size_t len, struct err *err);
int place_commit(struct place_file *file, mode_t mode, struct err *err);
void place_end(struct place_file *file); /* frees; to be called in any case */
#define cleanup_place_file __attribute__((cleanup(place_end)))

/* An action: argv[0] is its name, what follows its own words and options. `session` is what was
 * given for one. Exit status. */
struct files_action {
	const char *name;
	int (*run)(const struct command *command, const char *session, int argc, char **argv);
};

int files_ls(const struct command *command, const char *session, int argc, char **argv);
int files_get(const struct command *command, const char *session, int argc, char **argv);
int files_put(const struct command *command, const char *session, int argc, char **argv);
int files_rm(const struct command *command, const char *session, int argc, char **argv);
int files_zip(const struct command *command, const char *session, int argc, char **argv);
int files_unzip(const struct command *command, const char *session, int argc, char **argv);
int files_diff(const struct command *command, const char *session, int argc, char **argv);
int files_apply(const struct command *command, const char *session, int argc, char **argv);
int files_discard(const struct command *command, const char *session, int argc, char **argv);

/* Reads the options of an action and checks the number of its words. -1 to go on, else the exit
 * status. */
struct option;
int files_begin(const struct command *command, struct options *options, const struct option *table,
		size_t count, int argc, char **argv, size_t words_min, size_t words_max);

/* "folder/name"; the name alone for an empty folder. The caller owns it. */
char *files_join(const char *folder, const char *name);

#endif
