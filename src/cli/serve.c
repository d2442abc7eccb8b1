/*
 * fumehood serve: the daemon, a program of its own (serve_main.c), which takes this one's place.
 */
#include "cli/command.h"

const struct command COMMAND_SERVE = {
	.name = "serve",
	.summary = "serve sessions over HTTP",
	.example = "fumehood serve --listen 127.0.0.1:8000",
	.help = "Usage: fumehood serve [options]\n"
		"\n"
		"Serves all sessions of this user over a Unix socket, and over TCP if asked: REST, "
		"events,\n"
		"WebSocket. It may end at any time: sessions run on, and are found again.\n"
		"\n"
		"  fumehood serve                              $XDG_RUNTIME_DIR/fumehood/api.sock\n"
		"  fumehood serve --listen 127.0.0.1:8000      and TCP, with tokens (fumehood "
		"token)\n"
		"  fumehood serve --listen 0.0.0.0:8000 --behind-proxy code.example.org\n"
		"  fumehood serve --original                   and the original's service "
		"(fumehood "
		"slm)\n"
		"\n"
		"Options:\n"
		"  -l, --listen ADDRESS     127.0.0.1:PORT or [::1]:PORT; port 0: any\n"
		"      --behind-proxy HOST  a proxy with TLS stands before it, reached as HOST; "
		"then other\n"
		"                           addresses can be listened on\n"
		"      --origin ORIGIN      pages of https://... may use it, too (CORS)\n"
		"      --idle TIME          stop sessions that nobody has used for so long: 30m\n"
		"      --max-sessions N     that run at once (default 100)\n"
		"      --max-connections N  (default 4096)\n"
		"      --max-streams N      runs, streams and channels of one token (default "
		"1024)\n"
		"      --rate N             requests a second of one token (default 2000)\n"
		"      --head-time TIME     for a request's head, and its body's first bytes "
		"(default 10)\n"
		"      --write-time TIME    without a byte taken by a client (default 30)\n"
		"      --redis URL          publish events to the channels fumehood:<session>:\n"
		"                           redis://[:PASSWORD@]HOST[:PORT][/DB], unix:///PATH\n"
		"      --redis-stream N     and to streams of that name, the last N of each\n"
		"      --max-asks N         asks of a model that run at once (default 8)\n"
		"      --ask-url BASE       an OpenAI-compatible endpoint that tokens may name, "
		"too\n"
		"      --original           the original's service on 127.0.0.1:8085, as fumehood "
		"slm\n"
		"      --port N             ... on this port; 0: any\n"
		"      --original-events    and the original's messages to task:<name>:messages, "
		"and "
		"at\n"
		"                           the WebSocket path /task/<name>\n",
	.program = "fumehood-serve",
};
