/*
 * The variables by which programs find the proxy: HTTP_PROXY and its like, in both spellings,
 * because curl heeds only `http_proxy` and others only one of the two.
 */
#ifndef FH_SANDBOX_PROXY_VARIABLES_H
#define FH_SANDBOX_PROXY_VARIABLES_H

#include <stdint.h>

#include "sandbox/hosts.h"

/* Calls `put` for each variable: the proxy listens on 127.0.0.1:port. In NO_PROXY are the names of
 * the loopback that no rule of `hosts` is about: programs in the box reach their own directly,
 * unless the user has allowed the host's. */
void proxy_variables(const struct hosts *hosts, uint16_t port,
		     void (*put)(void *data, const char *name, const char *value), void *data);

#endif
