/*
 * The cells of a session: every id that was ever taken, and the queue of those that wait.
 *
 * A cell's life (the one table is CELL_MOVES in cells.c):
 *
 *   QUEUED ──start──► RUNNING ──interrupt──► RUNNING
 *     │                 │  time limit             ┌──── again after 2 s ───┐
 *     │                 ├───────────► INTERRUPTED ┴► INTERRUPTED_AGAIN ──► KILLED
 *     │ cancel          │ done, died     │ done, died    │ done, died        │ died
 *     └──────────────► FINISHED ◄────────┴───────────────┴───────────────────┘
 *
 * Cells are never forgotten: their ids stay taken, and the text for the model of any of them can be
 * asked for.
 */
#ifndef FH_KEEPER_CELLS_H
#define FH_KEEPER_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum cell_state {
	CELL_QUEUED,
	CELL_RUNNING,
	CELL_INTERRUPTED,       /* its time is up: SIGINT was sent */
	CELL_INTERRUPTED_AGAIN, /* and once more */
	CELL_KILLED,            /* and SIGKILL */
	CELL_FINISHED,
	CELL_STATE_COUNT
};

enum cell_event { CELL_START, CELL_TIME_UP, CELL_DONE, CELL_DIED, CELL_CANCEL, CELL_EVENT_COUNT };

/* When a cell is to leave no trace in the variables. */
enum cell_returns { CELL_RETURNS_NOT, CELL_RETURNS_ON_ERROR, CELL_RETURNS_ALWAYS };

/* Why output of a cell is not in the record. */
enum drop { DROP_OUTPUT, DROP_BACKGROUND, DROP_RECORD, DROP_NO_SPACE, DROP_COUNT };

struct cell {
	char id[65];
	uint32_t number; /* 1, 2, 3 ... in the session */
	enum cell_state state;
	uint64_t seq;          /* of its `cell` event */
	uint64_t offset;       /* where that begins in the journal; 0: not known */
	uint64_t output_bytes; /* streams and displays so far */
	uint64_t background_bytes;
	size_t end_bytes; /* results and errors told past the limit of output */
	uint64_t dropped[DROP_COUNT]
			[2]; /* bytes of stdout, stderr by reason, not told yet as `truncated` */
	bool warned[DROP_COUNT];
	unsigned images;
	/* only until it has finished: */
	char *code;
	size_t code_len;
	bool script;        /* `code` is the JSON of GUEST_FLAG_SCRIPT */
	int64_t timeout_us; /* asked for; INT64_MAX: nothing */
	bool allow_stdin;
	enum cell_returns returns;
	bool files;         /* ... and the workspace's files with them */
	int64_t max_chars;  /* -1: no `text` in finished */
	bool marks;         /* that text is in the marked form */
	int64_t started_us; /* monotonic */
	bool user_interrupted;
	const char *limit; /* by which it is being stopped, or has died; constant, NULL: none */
	const char *hint;  /* the limit that its error most likely comes from; likewise */
	bool asking;       /* an input_request is open */
	bool asking_password;
};

struct cells;

struct cells *cells_new(void);

/* Before the first cell (else nothing happens): numbers begin with this one, as those of a branch
 * do behind its parent's. */
void cells_begin_at(struct cells *cells, uint32_t first);
void cells_free(struct cells *cells);

/* A new cell with a copy of `id`, which must be free; state QUEUED and last in the queue. Borrowed;
 * valid for good. */
struct cell *cells_add(struct cells *cells, const char *id);

struct cell *cells_find(const struct cells *cells, const char *id); /* NULL: no such */
struct cell *cells_at(const struct cells *cells, uint32_t number);  /* NULL: no such */
uint32_t cells_first(const struct cells *cells);                    /* the first number */
/* The last number; before the first cell one less than the first. */
uint32_t cells_count(const struct cells *cells);

/* Writes an id that is free: c<number of the next cell>, or with letters appended when a client
 * took that. */
void cells_free_id(const struct cells *cells, char id[static 65]);

/* The queue. */
struct cell *cells_next(const struct cells *cells); /* first queued one, NULL: none */
size_t cells_queued(const struct cells *cells);

/* Moves the cell's state by the table; an illegal move is an assert. Finishing frees its code. */
void cell_move(struct cells *cells, struct cell *cell, enum cell_event event);

#endif
