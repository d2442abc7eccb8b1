/*
 * The two things that systemd and a service say to each other, without its library: sockets that
 * were opened before (sd_listen_fds(3)) and the state (sd_notify(3)).
 */
#ifndef FH_SERVE_NOTIFY_H
#define FH_SERVE_NOTIFY_H

enum { NOTIFY_FDS_START = 3, NOTIFY_FDS_MAX = 8 };

/* How many sockets there are from descriptor 3 on, for this process; 0: none. */
int notify_sockets(void);

/* Sends "READY=1" or the like to $NOTIFY_SOCKET, if that is set. Failures are nobody's business. */
void notify_state(const char *state);

#endif
