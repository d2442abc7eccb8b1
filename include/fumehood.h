/*
 * libfumehood: sandboxed, stateful Python sessions from C.
 *
 *	struct fh_error error = FH_ERROR_INIT;
 *	struct fh_start_params params;
 *	struct fh_result result = FH_RESULT_INIT;
 *
 *	fh_start_params_init(&params);
 *	struct fh_session *session = fh_start(&params, &error);
 *	if (session && fh_run(session, "x = 6\nx * 7", 11, NULL, &result, &error) == 0)
 *		printf("%s\n", result.result);	// 42
 *	else
 *		fprintf(stderr, "%s\n", error.text);
 *	fh_result_release(&result);
 *	fh_close(session);
 *
 * A session is an interpreter with a workspace, a journal and a notebook, owned by a process of its
 * own, the keeper. This library starts keepers, finds the running ones, and speaks the session
 * protocol (doc/protocol.md) with them. It starts no thread, installs no signal handler, writes to
 * no terminal, and never raises SIGPIPE. A session object may be used by one thread at a time;
 * different sessions are independent of each other.
 *
 * Rules that hold everywhere:
 * - Text is UTF-8. Lengths are in bytes, times in the unit that the name ends with.
 * - A function that can fail takes a caller-owned `struct fh_error *` last; it may be NULL and is
 *   untouched on success. What the code in a cell does wrong is no failure: it is a status.
 * - `char *` results belong to the caller, who frees them with fh_free(); `const char *` ones are
 *   borrowed and live as long as what they were asked of.
 * - Requests, replies and events are JSON objects as doc/protocol.md describes them.
 *
 * Version 0: members may be added to the structs; recompile with the header that belongs to the
 * library.
 */
#ifndef FUMEHOOD_H
#define FUMEHOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FH_PUBLIC __attribute__((visibility("default")))

/* "0.1.0": the version of the library. */
FH_PUBLIC const char *fh_version(void);

/* Frees a `char *` that a function here returned. NULL is fine. */
FH_PUBLIC void fh_free(char *text);

/* --- errors ----------------------------------------------------------------------------------- */

enum fh_code {
	FH_OK = 0,
	FH_USAGE,       /* a parameter makes no sense */
	FH_INVALID,     /* a request, file or value is not of the right form */
	FH_DUPLICATE,   /* the id or the name is taken */
	FH_NOT_FOUND,   /* no such session, cell, file */
	FH_BUSY,        /* someone else owns it now, or the queue is full */
	FH_DENIED,      /* permission, or the policy forbids it */
	FH_UNSUPPORTED, /* this kernel, engine or version cannot do it */
	FH_LIMIT,       /* a named limit was met */
	FH_NO_SPACE,    /* the disk is full */
	FH_TIMEOUT,     /* it took too long */
	FH_CORRUPT,     /* a file of Fumehood's is damaged */
	FH_GONE,        /* the keeper has closed, died or stopped, or the wait was cancelled */
	FH_SANDBOX,     /* the box could not be built as the policy demands */
	FH_ENGINE,      /* the interpreter could not be started */
	FH_IO,          /* a system call failed; `sys` has errno */
	FH_INTERNAL     /* a bug of Fumehood's */
};

struct fh_error {
	enum fh_code code;
	int sys;        /* errno of the failed system call, or 0 */
	char text[256]; /* a sentence that says what to do; UTF-8 */
};

#define FH_ERROR_INIT \
	{ \
		FH_OK, 0, "" \
	}

/* The code as the session protocol names it, such as "not_found". Never NULL. */
FH_PUBLIC const char *fh_code_name(enum fh_code code);

/* --- sessions --------------------------------------------------------------------------------- */

struct fh_session;

enum fh_tier {
	FH_TIER_SANDBOX,  /* the strongest sandbox there is; refused where none can be built */
	FH_TIER_DEGRADED, /* without namespaces, by Landlock and a system call filter alone */
	FH_TIER_NONE      /* no containment at all: the code runs with the rights of the caller */
};

#define FH_NO_LIMIT UINT64_MAX
#define FH_NO_CHECKPOINTS UINT64_MAX

/* Limits of a session by their names in doc/protocol.md (session.json); 0: the default there. A
 * session with one from `processes` to `tmp_bytes` is never one that waits ready: its box is built
 * with them. */
struct fh_limits {
	uint64_t background_bytes; /* output of a cell after its end */
	uint64_t queue;            /* cells that wait */
	uint64_t record_bytes;     /* journal and blobs together */
	uint64_t processes;        /* processes and threads */
	uint64_t files;            /* open files of a process */
	uint64_t file_bytes;       /* size of a file */
	uint64_t tmp_bytes;        /* private /tmp */
	/* The following can also be FH_NO_LIMIT, or for the two numbers, which are not limited by
	 * default, 0. */
	uint64_t memory_bytes; /* memory of all processes together */
	uint64_t disk_bytes;   /* what a private workspace takes */
	uint64_t disk_inodes;  /* files and folders in it */
	double cpus;           /* processors at a time, such as 1.5 */
	double cpu_s;          /* processor time of a cell */
	uint64_t checkpoints;  /* states after cells that are held by themselves, at most 64; or
				  FH_NO_CHECKPOINTS */
};

struct fh_start_params {
	/* Alias, unique among the sessions: 1 to 128 bytes of UTF-8 without control characters and
	 * '/', not beginning with '.' or '-'. NULL: none. */
	const char *name;
	/* Directory to work in, any bytes; NULL: a private one inside the session's own directory.
	 * Which directories are fit is not checked here. */
	const char *workspace;
	bool workspace_read_only;
	/* The session sees the workspace and can change it, but its changes are kept in its own
	 * directory (`fumehood files diff`, `apply`, `discard`). */
	bool workspace_overlay;
	/* Absolute path of a Python >= 3.9; NULL: $FUMEHOOD_PYTHON, else Fumehood's own
	 * environment, else python3 on PATH. The configuration file is not read here. */
	const char *python;
	enum fh_tier tier;
	/* Longest time a cell may run; > 0. */
	double wall_s_max;
	/* Output of a cell that is kept; 0: 64 MiB. */
	uint64_t output_bytes_max;
	struct fh_limits limits;
	/* What else the sandbox permits: a JSON object, see fumehood-policy(5); NULL: the defaults.
	 * A variable of it that is null takes its value from this process. Of a limit that is both
	 * here and in `limits`, the one in `limits` holds. */
	const char *policy_json;
	/* The session stops when its last client has gone. */
	bool ends_with_client;
	/*
	 * Nothing is answered and no event told before the disk has it (fdatasync(2) has returned):
	 * a power cut then takes nothing that was told. Otherwise it can take the last fifth of a
	 * second, and a killed process nothing. When the disk fails, calls that wait for an answer
	 * or an event fail with FH_IO, once, and no more cells are taken.
	 */
	bool durability_power;
	/* JSON object for the notebook's metadata; NULL: none. */
	const char *notebook_metadata;
	/* Cells that were rolled back stay in the notebook, with the tag `rolled-back` and a line
	 * of output that says so; else they are left out. The journal has them in either case. */
	bool notebook_keeps_rolled_back;
	/* Never take the session that the pool may have ready: always start a keeper of its own.
	 * What comes out is the same, only later. */
	bool without_spare;
	/* When it becomes readable, waiting for the session ends with FH_GONE; -1: none. */
	int cancel_fd;
};

/* The defaults: no name, private workspace, sandbox, 300 s, ends with its client. */
FH_PUBLIC void fh_start_params_init(struct fh_start_params *params);

/*
 * Makes a session and waits until it is ready. Returns NULL on failure, and then nothing is left of
 * it; FH_DUPLICATE when the name is taken. The caller owns the session object (fh_close); the
 * session itself lives on as `ends_with_client` says, and its directory until fh_remove().
 */
FH_PUBLIC struct fh_session *fh_start(const struct fh_start_params *params, struct fh_error *error);

struct fh_open_params {
	/* FH_NOT_FOUND instead of starting a keeper for a session that has none. */
	bool running_only;
	/* As above. */
	int cancel_fd;
};

/* The defaults: false, -1. */
FH_PUBLIC void fh_open_params_init(struct fh_open_params *params);

/*
 * Connects to the session with this name, id, or unique beginning of an id (4 characters or more),
 * and waits until it is ready. One that was stopped or whose keeper died is reopened: its journal
 * and notebook go on, its interpreter is new. `params` may be NULL.
 */
FH_PUBLIC struct fh_session *fh_open(const char *session, const struct fh_open_params *params,
				     struct fh_error *error);

/* Disconnects and frees. NULL is fine. */
FH_PUBLIC void fh_close(struct fh_session *session);

FH_PUBLIC const char *fh_id(const struct fh_session *session);
FH_PUBLIC const char *fh_name(const struct fh_session *session);      /* NULL: none */
FH_PUBLIC const char *fh_directory(const struct fh_session *session); /* absolute path */

/* The `hello` line of the keeper, without LF. */
FH_PUBLIC const char *fh_hello(const struct fh_session *session);

/* The last event's number when this client connected. */
FH_PUBLIC uint64_t fh_hello_seq(const struct fh_session *session);

/*
 * A descriptor that is readable when fh_next() may have something new. Lines that have been read
 * already do not show there: call fh_next(session, 0, ...) until it returns 0 before polling.
 */
FH_PUBLIC int fh_fd(const struct fh_session *session);

/* Bounds the wait of every later call for its answer; -1, the default: no bound. After FH_TIMEOUT
 * the late answer is passed over, and the session can be used on. */
FH_PUBLIC void fh_set_timeout(struct fh_session *session, int timeout_ms);

/* --- requests --------------------------------------------------------------------------------- */

/*
 * Sends one request (a JSON object without line breaks) and waits for its answer. `reply` receives
 * the `reply` line (fh_free) and may be NULL. A refusal is a failure with the code and message of
 * the keeper. Events that arrive meanwhile are kept for fh_next(); beyond 16 MiB of them they are
 * asked for again later, so none is lost and memory stays bounded.
 */
FH_PUBLIC int fh_call(struct fh_session *session, const char *request, size_t len, char **reply,
		      struct fh_error *error);

/* Sends one request and passes its answer over: for what must never wait. Its `id` is the
 * library's. */
FH_PUBLIC int fh_post(struct fh_session *session, const char *request, size_t len,
		      struct fh_error *error);

/* Asks for the events after number `since` (0: from the first), with later ones as they come.
 * Replaces an earlier subscription; events of that one which were not yet taken are dropped. */
FH_PUBLIC int fh_events(struct fh_session *session, uint64_t since, struct fh_error *error);

/*
 * The next event as one line of JSON without LF, valid until the next call on this session. Waits
 * at most `timeout_ms` (0: not at all, -1: without end). 1: an event; 0: none in time; -1: failure,
 * FH_GONE when the connection has ended. Events come only after fh_events() or fh_run().
 */
FH_PUBLIC int fh_next(struct fh_session *session, int timeout_ms, const char **event, size_t *len,
		      struct fh_error *error);

/* --- running code ----------------------------------------------------------------------------- */

enum fh_status {
	FH_CELL_OK,
	FH_CELL_ERROR, /* an exception */
	FH_CELL_INTERRUPTED,
	FH_CELL_TIMEOUT,
	FH_CELL_DIED,     /* the interpreter died; `reason` says of what */
	FH_CELL_CANCELLED /* it never ran */
};

/* Files of the workspace, when a session goes back. */
enum fh_files {
	FH_FILES_DEFAULT, /* back in a private workspace, unchanged in one that was chosen */
	FH_FILES_BACK,    /* to what they were */
	FH_FILES_STAY     /* as they are; those that differ are named */
};

struct fh_run_params {
	/* The cell's id, unique in the session: 1 to 64 of A-Z a-z 0-9 _ -. NULL: made by the
	 * keeper. */
	const char *id;
	/* 0: the session's limit, which is also the most. */
	double timeout_s;
	/* Length of `text` in the result; 0: no text is made (with `marks`: up to a mebi of
	 * characters). */
	size_t max_chars;
	/* The text has marks: [stdout], [execute_result_text], [error] (see op `text` in
	 * doc/protocol.md). */
	bool marks;
	/* input() asks through `on_event`; without, it raises EOFError. */
	bool allow_stdin;
	/* JSON object for the notebook's cell; NULL: none. */
	const char *metadata;
	/* The script that the code is from: its path from the workspace, or absolute as the session
	 * sees it. It becomes __file__, sys.argv[0] and the name in tracebacks, and its folder the
	 * first on sys.path. NULL: none. */
	const char *file;
	/* sys.argv[1:] while the cell runs, NULL-terminated, UTF-8. NULL: none. */
	const char *const *argv;
	/* Undone if it does not end well: by an error, an interrupt, its time limit, a death. The
	 * session is then as before the cell (see fh_rollback). */
	bool atomic;
	/* Undone however it ends. Excludes `atomic`. */
	bool try_only;
	/* With one of the two. */
	enum fh_files files;
	/* Of stdout and of stderr to collect, each; what is beyond is counted in *_dropped. */
	size_t output_bytes_max;
	/* Called with every event that is met, also of other cells, in order. May call fh_input(),
	 * fh_interrupt() and fh_post(). NULL: not wanted. */
	void (*on_event)(void *data, struct fh_session *session, const char *event, size_t len);
	void *data;
};

/* The defaults: 0 or NULL each, and 64 MiB of output. */
FH_PUBLIC void fh_run_params_init(struct fh_run_params *params);

/* What became of a cell. Strings are NUL-terminated; those that are absent are NULL. */
struct fh_result {
	char *cell; /* its id */
	enum fh_status status;
	char *reason;      /* why it died */
	char *state;       /* of the variables: "kept", "recovered", "rolled_back", "reset",
			      "gone" */
	char *recovers_to; /* of "recovered": the cell after which the variables were so; NULL:
			      just before this one */
	char *rolled_back; /* JSON array of ids: earlier cells that are lost with this one */
	char *lost;        /* JSON object: what of before did not come back */
	int64_t execution_count; /* 0: none */
	int64_t duration_us;
	char *out; /* what it wrote to stdout, never NULL after fh_run(); may hold NUL */
	size_t out_len;
	uint64_t out_dropped;
	char *err; /* ... to stderr */
	size_t err_len;
	uint64_t err_dropped;
	char *result;      /* text/plain of the last expression's value */
	char *result_data; /* JSON object: its whole mime bundle */
	char *ename;       /* of the exception */
	char *evalue;
	char *traceback; /* lines joined with LF */
	char *text;      /* the text for a model */
};

#define FH_RESULT_INIT \
	{ \
		0 \
	}

/*
 * Runs code as one cell and waits for its end. 0: the cell has ended, see result->status; -1: it
 * was refused or the session is gone. Begins a subscription from the session's present if there is
 * none. `params` may be NULL. `result` must be FH_RESULT_INIT or released.
 */
FH_PUBLIC int fh_run(struct fh_session *session, const char *code, size_t len,
		     const struct fh_run_params *params, struct fh_result *result,
		     struct fh_error *error);

/* Frees the members and clears the struct. */
FH_PUBLIC void fh_result_release(struct fh_result *result);

/* Interrupts the cell, or whatever runs (NULL). Does not wait; a cell that has ended is left
 * alone. */
FH_PUBLIC int fh_interrupt(struct fh_session *session, const char *cell, struct fh_error *error);

/* Answers a prompt; NULL: end of file. Does not wait. */
FH_PUBLIC int fh_input(struct fh_session *session, const char *text, struct fh_error *error);

/* The text of a cell for a model, of at most `max_chars` characters (0: 8,000). */
FH_PUBLIC char *fh_text(struct fh_session *session, const char *cell, size_t max_chars,
			struct fh_error *error);

/* --- questions --------------------------------------------------------------------------------
 *
 * Answers are JSON objects as text, with the members that doc/protocol.md names (fh_free). The
 * first three run code of the session's objects and are answered between cells: FH_BUSY while one
 * runs. */

#define FH_CURSOR_END SIZE_MAX

/* What may stand at the cursor: {"matches","cursor_start","cursor_end","metadata","partial"}.
 * `cursor` counts code points; FH_CURSOR_END: the end of the code. */
FH_PUBLIC char *fh_complete(struct fh_session *session, const char *code, size_t len, size_t cursor,
			    struct fh_error *error);

/* What the thing at the cursor is: {"found","data","metadata","partial"}. `detail_level` 1: with
 * its source. */
FH_PUBLIC char *fh_inspect(struct fh_session *session, const char *code, size_t len, size_t cursor,
			   int detail_level, struct fh_error *error);

/* The variables by name: {"variables":[{"name","type","repr",...}],"total","truncated","partial"}.
 * `pattern` has the wildcards *, ? and [...]; NULL: all. `max` 0: 200. */
FH_PUBLIC char *fh_variables(struct fh_session *session, const char *pattern, size_t max,
			     struct fh_error *error);

/* What is different in the workspace since event `since` (0: the beginning), or what `cell` (NULL:
 * none in particular) did to it: {"files":[{"path","change","bytes","mime","cell"}],"last_seq"}. */
FH_PUBLIC char *fh_files(struct fh_session *session, const char *cell, uint64_t since,
			 struct fh_error *error);

/* The images since event `since`, displayed ones and files, of one section (NULL: of all):
 * {"images":[{"cell","path","mime","bytes","section","place"}],"last_seq"}. The next call's `since`
 * is that last_seq. */
FH_PUBLIC char *fh_images(struct fh_session *session, const char *section, uint64_t since,
			  struct fh_error *error);

/* The texts for a model of a section's cells (NULL: of all): {"cells":[{"cell","text"}]}.
 * `max_chars` of each; 0: the default. `marks`: as in struct fh_run_params. */
FH_PUBLIC char *fh_outputs(struct fh_session *session, const char *section, size_t max_chars,
			   bool marks, struct fh_error *error);

/* Begins a section: a heading in the notebook, to which the cells behind it belong. `level` 1 to 6;
 * 0: 2. */
FH_PUBLIC int fh_section(struct fh_session *session, const char *title, int level,
			 struct fh_error *error);

/* Puts a cell that is not run into the notebook: "markdown" (NULL), "raw" or "code". Returns its id
 * (fh_free). */
FH_PUBLIC char *fh_note(struct fh_session *session, const char *text, size_t len,
			const char *cell_type, struct fh_error *error);

/*
 * Writes an event of an ask into the journal: what a client does with a model (op `record` of
 * doc/protocol.md). `record` is a JSON object with its "type" ("ask", "attempt", "token", "code",
 * "verdict") and members, in all at most 1 MiB. `reply` receives {"ask"?,"last_seq"} (fh_free):
 * "ask" is the id of a new one, which the other records name. NULL: the answer is not waited for,
 * and a refusal not noticed. FH_DUPLICATE when the ask has ended; FH_NO_SPACE and FH_LIMIT as for a
 * cell.
 */
FH_PUBLIC int fh_record(struct fh_session *session, const char *record, size_t len, char **reply,
			struct fh_error *error);

/* --- the session ------------------------------------------------------------------------------ */

/* The notebook as JSON text, multi-line strings joined (as nbformat.read gives it). */
FH_PUBLIC char *fh_notebook(struct fh_session *session, struct fh_error *error);

/* Saves the notebook; returns the absolute path of the file that holds everything up to now. */
FH_PUBLIC char *fh_save(struct fh_session *session, struct fh_error *error);

/*
 * The limits, as a JSON object of {"value","changes","next"?} by their names, as doc/protocol.md
 * has them (fh_free). `set`: a JSON object of new values, put in force all or none (FH_INVALID) and
 * kept in the session's directory; NULL or "{}": none. `changes` says when a new value holds:
 * "now", "lower" (lowered now, raised with the next interpreter), "restart" (with the next
 * interpreter); `next` is the value that waits for that.
 */
FH_PUBLIC char *fh_limits(struct fh_session *session, const char *set, struct fh_error *error);

/*
 * Checkpoints: sleeping copies of the interpreter, to which a session can return. After each cell
 * one is made by itself, and the last few are held, so that a cell that dies costs that cell; those
 * below have names and stay. FH_BUSY while a cell runs or waits. Texts are JSON (fh_free), with the
 * members that doc/protocol.md names ("Checkpoints").
 */

/* Makes one: {"number","name","cell",...}. `name`: 1 to 64 of A-Z a-z 0-9 . _ -, not beginning with
 * '-', not only digits; FH_DUPLICATE when it is taken, FH_LIMIT beyond 8. `files`: whether what is
 * needed to bring the files of the workspace back is kept. */
FH_PUBLIC char *fh_checkpoint(struct fh_session *session, const char *name, enum fh_files files,
			      struct fh_error *error);

/* All: {"checkpoints":[{"number","name","cell","age_s",...}],"recovers_to","protected"}. */
FH_PUBLIC char *fh_checkpoints(struct fh_session *session, struct fh_error *error);

/* Drops the one with this name. */
FH_PUBLIC int fh_checkpoint_drop(struct fh_session *session, const char *name,
				 struct fh_error *error);

/* Returns to the checkpoint with this name, or to the state before the cell with this id; NULL: to
 * before the last cell. {"cell","rolled_back","lost"?,"files"?}. FH_NOT_FOUND, with what is held,
 * when no checkpoint leads there. */
FH_PUBLIC char *fh_rollback(struct fh_session *session, const char *to, enum fh_files files,
			    struct fh_error *error);

/* Returns to the empty session; checkpoints stay. {"rolled_back"}. */
FH_PUBLIC char *fh_reset(struct fh_session *session, struct fh_error *error);

/* Makes a branch: another session that begins with the same variables and shares the box with its
 * workspace and limits, named `name` (NULL: unnamed), from the state that `from` names as `to` of
 * fh_rollback does (NULL: the present one). {"session","name","socket"}; fh_open() opens it. */
FH_PUBLIC char *fh_fork(struct fh_session *session, const char *name, const char *from,
			struct fh_error *error);

/* A new interpreter in the same session: queued cells are cancelled, variables are gone. */
FH_PUBLIC int fh_restart(struct fh_session *session, struct fh_error *error);

/* Ends the session; it can be opened again. `drain`: after the cells that are queued. */
FH_PUBLIC int fh_stop(struct fh_session *session, bool drain, struct fh_error *error);

/* --- all sessions ----------------------------------------------------------------------------- */

/* JSON array of the sessions, newest first:
 * {"id","name","created","directory","workspace","engine","durability","running","bytes"},
 * and of a branch "parent", the id of the session that it was made of. */
FH_PUBLIC char *fh_list(struct fh_error *error);

/* Removes the directory and the name of a session that is not running (FH_BUSY if it is). */
FH_PUBLIC int fh_remove(const char *session, struct fh_error *error);

#ifdef __cplusplus
}
#endif

#endif
