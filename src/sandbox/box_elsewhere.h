/*
 * A box that another process has built and holds: the keeper's, whose spawner has it
 * (keeper/spawner.h).
 *
 * What needs no rights goes on here: the orders to PID 1 over its socket, its reports, its pidfd.
 * What does (groups, pids of the host, the end) is asked of whoever has built it, by four
 * functions. The namespaces, the filter and the ruleset stay there, since nobody here can do
 * anything good with them.
 *
 * While both hold the init's socket, only one may read from it: this side, until `end`.
 */
#ifndef FH_SANDBOX_BOX_ELSEWHERE_H
#define FH_SANDBOX_BOX_ELSEWHERE_H

#include "sandbox/box.h"

struct box_elsewhere {
	/* As box_meet(), box_read_usage() and box_change_limits(). */
	int (*meet)(void *data, int pidfd, struct box_guest *guest, struct err *err);
	void (*read_usage)(void *data, struct box_usage *usage);
	int (*change_limits)(void *data, const struct policy *policy, struct err *err);
	/* Ends the box; returns when it has ended. */
	void (*end)(void *data);
};

/* What a box is made of for somebody who has not built it. */
struct box_parts {
	enum tier tier;
	uid_t uid;     /* the builder's */
	uid_t box_uid; /* of the lease; 0: none */
	uint32_t layers;
	const char *how[BOX_LIMITS]; /* constant */
	uint64_t memory_bytes_max;
	pid_t init_pid;
	int pidfd, socket;
	int overlay; /* -1: none */
	const char *workspace;
	const struct box_elsewhere *elsewhere;
	void *data; /* for these */
};

/* Describes a box: all in *parts but `elsewhere` is borrowed from it. */
void box_give_parts(const struct box *box, struct box_parts *parts);

/* The box on the other side. Takes the descriptors over; the rest is copied. */
struct box *box_take_parts(const struct box_parts *parts);

/* Who holds the limits may change when a guest could not be moved. */
void box_take_how(struct box *box, const char *const how[BOX_LIMITS]);

/* box_guest.c: box_meet() where the box was built. */
int box_guest_meet(struct box *box, int pidfd, struct box_guest *guest, struct err *err);

#endif
