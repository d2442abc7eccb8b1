/*
 * What keeper and spawner say to each other; private to spawner*.c.
 *
 * Messages of a fixed size on a SEQPACKET socket, in the machine's byte order; each order but
 * SPAWNER_PREPARE gets one answer, and is given only when the one before has been answered. What is
 * in an order comes from a process that may have been taken over: the spawner looks at each field
 * as at any foreign bytes, and there is none by which it could be told what to build.
 */
#ifndef FH_KEEPER_SPAWNER_PROTOCOL_H
#define FH_KEEPER_SPAWNER_PROTOCOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "journal/names.h"
#include "sandbox/box.h"
#include "sandbox/hosts.h"

enum spawner_op {
	SPAWNER_PREPARE, /* the session's lock is taken: read its configuration; no answer */
	SPAWNER_POOL,    /* join; answer + one end of a relay to the pool of the session's Python */
	SPAWNER_BUILD,   /* limits, packages; answer: built + SPAWNER_BOX_FDS descriptors */
	SPAWNER_MEET, /* + the guest's pidfd; answer: guest, how + its status, if that can be had */
	SPAWNER_USAGE,
	SPAWNER_LIMITS,  /* limits; answer: how */
	SPAWNER_END,     /* of the box */
	SPAWNER_LISTEN,  /* port; answer: port + the listener */
	SPAWNER_RULES,   /* + a memfd with the rules, each with its NUL */
	SPAWNER_LOOKUP,  /* target; answer: refusal; if it is none, + where struct spawner_found
			    comes */
	SPAWNER_CHECK,   /* target, address; answer: refusal */
	SPAWNER_DIAL,    /* the same; if it is none, + the socket, which connects */
	SPAWNER_BRANCH,  /* id, name: a branch of the session; answer: the listener of its socket */
	SPAWNER_PART,    /* id, name: it has ended, and its socket's name goes; unborn: it never
			    was a session, and its name goes too */
	SPAWNER_RELEASE, /* the keeper lets go of the session: its socket's name goes; unborn: also
			    the directory, if that is no session yet */
	SPAWNER_OPS
};

/* The numbers of a policy that may change while a session lives (struct policy has their
 * meanings). */
struct spawner_limits {
	uint64_t processes, files, file_bytes, tmp_bytes, memory_bytes, disk_bytes, disk_inodes;
	double cpus, cpu_s;
};

struct spawner_order {
	uint32_t op;
	bool join;     /* no pool is started */
	bool packages; /* the box shows the session's folder for packages */
	bool unborn;
	uint16_t port;
	struct spawner_limits limits;
	struct hosts_target target;
	struct sockaddr_storage address;
	char id[HASH_ID_SIZE];
	char name[NAMES_BYTES_MAX + 1]; /* "": none */
};

enum spawner_box_fd { SPAWNER_FD_SOCKET, SPAWNER_FD_PIDFD, SPAWNER_FD_OVERLAY, SPAWNER_BOX_FDS };

enum spawner_how { SPAWNER_NOBODY, SPAWNER_CGROUP_V1, SPAWNER_CGROUP_V2 };

struct spawner_built {
	uint32_t tier, uid, box_uid, layers;
	int32_t init_pid;
	bool overlay;      /* else SPAWNER_FD_OVERLAY is the socket once more */
	bool degraded_for; /* reason says why it is not full */
	uint64_t memory_bytes_max;
	char reason[256];
	char workspace[PATH_MAX];
};

struct spawner_answer {
	struct err err;           /* ERR_OK: done */
	uint32_t how[BOX_LIMITS]; /* spawner_how */
	uint32_t refusal;
	uint16_t port;
	struct box_guest guest; /* without its descriptor */
	struct box_usage usage;
	struct spawner_built built;
};

enum {
	SPAWNER_ADDRESSES_MAX = 64,
	SPAWNER_RULES_BYTES_MAX = HOSTS_RULES_MAX * (HOSTS_RULE_MAX + 1)
};

/* What a name leads to. */
struct spawner_found {
	uint32_t count;
	struct sockaddr_storage addresses[SPAWNER_ADDRESSES_MAX];
};

struct session;
struct json;

/* The process that keeper and spawner are two halves of has forked: serves until end-of-file on
 * `socket`, ends the box and returns. `session` has what was known before the fork. */
void spawner_serve(int socket, struct session *session);

/* --- spawner_relay.c: the pool's connections ----------------------------------------------------
 *
 * The connection itself stays here, since whoever has it can have guests put wherever it can name
 * namespaces, without a filter. The keeper's end takes one kind of message, ZYGOTE_ENTER with the
 * guest's own descriptors, and what belongs to the box is added. Everything from the pool is passed
 * on; what it says of the environment is kept, because boxes are built by it.
 */

enum { SPAWNER_RELAYS_MAX = 10 }; /* more than there are sessions in a box */

struct spawner_relay {
	int pool, keeper; /* owned; -1: unused */
};

/* Opens one. Returns the keeper's end, which the caller closes when it has been sent, or -1. */
int spawner_relay_open(struct spawner_relay *relay, const char *python, bool join, struct err *err);
void spawner_relay_close(struct spawner_relay *relay);

/* One of the two ends can be read. Takes what the pool says into *session. */
void spawner_relay_pool(struct spawner_relay *relay, struct session *session);
void spawner_relay_keeper(struct spawner_relay *relay, const struct session *session);

/* --- spawner_branches.c: names of branches ------------------------------------------------------
 *
 * A branch's directory is in that of the session, so it is the keeper's to fill. What leads there
 * from outside is made here: the link among the sessions, the name, the socket.
 */

enum { SPAWNER_BRANCHES_MAX = 64 };

struct spawner_branches {
	char ids[SPAWNER_BRANCHES_MAX][HASH_ID_SIZE]; /* that have not ended; "": free */
};

/* Returns the listener, owned by the caller; -1. */
int spawner_branch_begin(struct spawner_branches *branches, int dirfd,
			 const struct spawner_order *order, struct err *err);
int spawner_branch_end(struct spawner_branches *branches, const struct spawner_order *order,
		       struct err *err);
/* The keeper has gone: what it has left. */
void spawner_branches_end(struct spawner_branches *branches);

/* --- spawner_net.c: hosts -----------------------------------------------------------------------
 */

struct spawner_net {
	struct hosts hosts;
	unsigned lookups; /* children that look something up */
};

int spawner_net_listen(const struct session *session, uint16_t *port, struct err *err);
int spawner_net_rules(struct spawner_net *net, int memfd, struct err *err);
/* REFUSAL_NONE: *fd is where the answer comes. */
enum refusal spawner_net_lookup(struct spawner_net *net, const struct hosts_target *target, int *fd,
				struct err *err);
enum refusal spawner_net_check(const struct spawner_net *net, const struct spawner_order *order);
/* REFUSAL_NONE: *fd is a socket that connects, without waiting for it. */
enum refusal spawner_net_dial(const struct spawner_net *net, const struct spawner_order *order,
			      int *fd);
/* Reaps what has ended. */
void spawner_net_reap(struct spawner_net *net);

#endif
