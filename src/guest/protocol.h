/*
 * What keeper, pool, zygote and guest say to each other (doc/protocol-guest.md has it in prose).
 *
 * Everything goes over SOCK_SEQPACKET: one send, one message. A message is the 8-byte header below,
 * in the machine's byte order (both ends are on one machine), and a body of at most
 * GUEST_INLINE_BYTES_MAX bytes. A larger body is one memfd with all four seals (SEAL, SHRINK, GROW,
 * WRITE), attached by SCM_RIGHTS; the receiver checks seals, type and size and reads it with pread.
 * Every message from a guest is hostile: bounded, checked, ignored when it is not expected.
 *
 * This header is the only thing that the extension inside Python shares with the rest, so it needs
 * nothing.
 */
#ifndef FH_GUEST_PROTOCOL_H
#define FH_GUEST_PROTOCOL_H

#include <stdint.h>

enum {
	GUEST_PROTOCOL = 1,
	GUEST_INLINE_BYTES_MAX = 60 * 1024,       /* body in the message itself */
	GUEST_BODY_BYTES_MAX = 256 * 1024 * 1024, /* body in a memfd */
	GUEST_MESSAGE_BYTES_MAX = 64 * 1024,
	GUEST_ANSWER_BYTES_MAX = 16 * 1024 * 1024, /* body of an answer */
};

struct guest_header {
	uint8_t type;      /* enum guest_message or enum zygote_message */
	uint8_t flags;     /* GUEST_FLAG_* */
	uint16_t reserved; /* 0 */
	uint32_t cell;     /* the session's number of the cell (1, 2, 3 ...) or ask; 0: none */
};

enum {
	GUEST_FLAG_MEMFD = 1,       /* the body is in the attached memfd */
	GUEST_FLAG_ALLOW_STDIN = 2, /* run: someone can answer input() */
	GUEST_FLAG_STDERR = 4,      /* tagged: for stderr */
	GUEST_FLAG_PASSWORD = 8,    /* input_request: do not echo */
	GUEST_FLAG_EOF = 16,        /* input: end of file instead of a line */
	GUEST_FLAG_WAIT = 32,       /* clear: at the next output */
	GUEST_FLAG_SCRIPT = 64,     /* run: the body is JSON, see GUEST_RUN */
};

/* Numbers of asks have this bit, those of cells have not: both can stand in the interrupt word. */
#define GUEST_ASK_BIT 0x80000000u

enum guest_message {
	/* keeper -> guest (end of file on the socket: the guest ends at once by _exit) */
	/* body: the code, UTF-8; with GUEST_FLAG_SCRIPT {"code":"...","file":"..."?,
	 * "argv":["...",...]?}, where `file` is the absolute path of the script that the code
	 * is from, and `argv` what stands behind it on its command line. cell: its number, also
	 * the value of the interrupt word for it */
	GUEST_RUN = 'X',
	GUEST_INPUT = 'i', /* body: the line without its end, UTF-8 */
	/* A question about the variables, only between cells. cell: the ask's number, with
	 * GUEST_ASK_BIT. Body: {"op":"complete","code":"...","cursor_pos":n},
	 * {"op":"inspect","code":"...","cursor_pos":n,"detail_level":0|1} or
	 * {"op":"variables","pattern":"..."?,"max":n} */
	GUEST_ASK = 'A',
	/* Between two cells; nothing answers it. Body: {"variables":{"NAME":"value"|null,...},
	 * "packages":"/folder"?}: sets (null: takes away) variables of the environment, for the
	 * interpreter and what it starts from now on, and names the folder for packages that are
	 * installed in the session */
	GUEST_ENVIRONMENT = 'V',
	/* Between two cells: make a sleeping copy of yourself. cell: its number, never used again
	 * in the session; one descriptor: its control socket. On that socket
	 * GUEST_COPIED answers it, or GUEST_COPY_FAILED */
	GUEST_COPY = 'C',
	/* To a copy, which answers by end of file to its end, else by GUEST_COPY_FAILED: make a
	 * living copy of yourself. GUEST_WAKE_FDS descriptors. Its GUEST_HELLO follows on the
	 * control socket that it was given. */
	GUEST_WAKE = 'W',
	GUEST_MEASURE = 'M', /* to a copy; GUEST_MEASURED answers it */

	/* guest -> keeper; bodies are JSON objects in UTF-8 unless said otherwise */
	/* {"protocol":1,"python":"3.11.2","implementation":"CPython","shell":"ipython"|"plain",
	 * "modules":{"numpy":"2.4.6",...},"language_info":{...}} + one descriptor: pidfd of
	 * itself. A copy that was woken has "lost":{...} besides: what could not come back */
	GUEST_HELLO = 'H',
	GUEST_DISPLAY = 'd',       /* {"data":{...},"metadata":{...},"display_id":"..."?} */
	GUEST_UPDATE = 'u',        /* as display, display_id required */
	GUEST_RESULT = 'r',        /* {"data":{...},"metadata":{...},"execution_count":n} */
	GUEST_CLEAR = 'c',         /* no body; GUEST_FLAG_WAIT */
	GUEST_ERROR = 'x',         /* {"ename":"...","evalue":"...","traceback":["...",...]} */
	GUEST_INPUT_REQUEST = 'I', /* body: the prompt, UTF-8 text; GUEST_FLAG_PASSWORD */
	/* no body: the guest waits for both pipes to become empty (exact order); read now */
	GUEST_WAITING = 'w',
	/* body: text that a thread or task of the (ended) cell `cell` wrote; GUEST_FLAG_STDERR */
	GUEST_TAGGED = 't',
	/* {"status":"ok"|"error"|"interrupted","execution_count":n}; the last message of a cell */
	GUEST_DONE = 'D',
	/* The answer to GUEST_ASK, with its number: an object as doc/protocol.md has the reply, at
	 * most GUEST_ANSWER_BYTES_MAX; "partial":true when it was interrupted */
	GUEST_ANSWER = 'a',
	/* A copy sleeps; cell: its number. {"threads":["..."],"native_threads":["..."]}: what is
	 * not in it. + one descriptor: pidfd of itself */
	GUEST_COPIED = 'S',
	/* cell: the number of the copy. {"errno":n,"message":"..."} */
	GUEST_COPY_FAILED = 'F',
	GUEST_MEASURED = 'm', /* {"private_bytes":n,"rss_bytes":n} */
};

/* Order of the descriptors that come with GUEST_WAKE: as the first of zygote_fd. */
enum guest_wake_fd {
	GUEST_WAKE_CONTROL,
	GUEST_WAKE_STDOUT,
	GUEST_WAKE_STDERR,
	GUEST_WAKE_WORD,
	GUEST_WAKE_FDS
};

/*
 * Zygote. The pool starts `python -I -u <folder>/fumehood_guest/zygote.py [{"modules":[...]}]` with
 * descriptor 3 = the pool's SEQPACKET socket. The zygote sends ZYGOTE_READY or ZYGOTE_FAILED once,
 * then waits for ZYGOTE_ENTER. Its answer carries the `cell` of the request's header.
 */
enum zygote_message {
	/* zygote -> pool -> keeper: JSON {"protocol":1,"python":"3.11.2",
	 * "executable":"/usr/bin/python3.11","prefix":..,"base_prefix":..,
	 * "paths":[absolute paths that a guest must see, without those under /usr],
	 * "modules":{name:version},"skipped":{name:reason},"threads":1,
	 * "cold":true: it gives no guests, sessions of this Python start cold} */
	ZYGOTE_READY = 'R',
	ZYGOTE_FAILED = 'F',  /* JSON {"message":"...","stderr":"..."} */
	ZYGOTE_ENTER = 'E',   /* keeper -> pool -> zygote: struct zygote_enter + ZYGOTE_FDS fds */
	ZYGOTE_ENTERED = 'e', /* zygote -> pool -> keeper: the guest is born; its hello follows */
	ZYGOTE_REFUSED = 'f', /* JSON {"message":"...","step":"setns mnt","errno":1} */
};

/* Order of the descriptors that come with ZYGOTE_ENTER. */
enum zygote_fd {
	ZYGOTE_FD_CONTROL,   /* becomes 3 in the guest, SEQPACKET, CLOEXEC */
	ZYGOTE_FD_STDOUT,    /* becomes 1: write end of a pipe */
	ZYGOTE_FD_STDERR,    /* becomes 2 */
	ZYGOTE_FD_WORD,      /* the interrupt word: a memfd, sealed against later writers */
	ZYGOTE_FD_NAMESPACE, /* seven of them: user, mnt, pid, net, ipc, uts, cgroup */
	ZYGOTE_FD_FILTER = ZYGOTE_FD_NAMESPACE + 7, /* a memfd of struct sock_filter */
	ZYGOTE_FD_RULESET,                          /* Landlock's, if the request has one */
	/* up to four: the guest writes "0" to each and so joins the box's control group */
	ZYGOTE_FD_TASKS,
	ZYGOTE_FDS = ZYGOTE_FD_TASKS + 4
};

struct zygote_enter {
	struct guest_header header;
	uint64_t processes_max, files_max, file_bytes_max; /* rlimits; 0: leave */
	uint64_t has_ruleset; /* 1; 0: ZYGOTE_FD_RULESET is any descriptor */
	uint64_t tasks_count; /* of ZYGOTE_FD_TASKS; the others are any descriptor */
	char workspace[64];   /* "/workspace" */
};

/*
 * The interrupt word: a uint32_t at offset 0 of a page that the keeper writes and every guest maps
 * read-only. The keeper stores the number of the cell (or ask) to interrupt and then signals the
 * guest's process group. The guest raises KeyboardInterrupt only if the word is the number of what
 * it is running (checked at its start and in the handler); a signal from PID 1, or with a word that
 * changed but names something else, is late and is ignored; any other signal is the user's own
 * doing and raises as usual.
 */
enum { GUEST_WORD_BYTES = 4096 };

#endif
