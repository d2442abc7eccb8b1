/*
 * Host, Origin and token; see gate.h.
 */
#include "serve/gate.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"

enum { FAILURES_MAX = 20, FAILURES_PER_S = 5 };

static const char TOKEN_PROTOCOL[] = "fumehood.token.";

void gate_init(struct gate *gate, struct tokens *tokens, double rate_max)
{
	*gate = (struct gate){.tokens = tokens, .failures = FAILURES_MAX, .rate_max = rate_max};
}

void gate_release(struct gate *gate)
{
	for (size_t i = 0; i < gate->host_count; i++)
		free(gate->hosts[i]);
	for (size_t i = 0; i < gate->origin_count; i++)
		free(gate->origins[i]);
	gate->host_count = gate->origin_count = 0;
}

static bool is_authority(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len < 200 && text[0] != '-' && text[0] != '.' &&
	       strspn(text,
		      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") == len;
}

int gate_add_host(struct gate *gate, const char *host, struct err *err)
{
	if (!is_authority(host))
		return err_set(err, ERR_USAGE, "%s is no host: it has the form name or name:port",
			       host);
	if (gate->host_count == GATE_NAMES_MAX)
		return err_set(err, ERR_USAGE, "at most %d hosts can be named", GATE_NAMES_MAX);
	gate->hosts[gate->host_count++] = mem_string(host);
	return 0;
}

int gate_add_origin(struct gate *gate, const char *origin, bool foreign, struct err *err)
{
	const char *mark = strstr(origin, "://");

	if (!mark || !is_authority(mark + 3) ||
	    (strncmp(origin, "http://", 7) != 0 && strncmp(origin, "https://", 8) != 0))
		return err_set(err, ERR_USAGE,
			       "%s is no origin: it has the form https://name or https://name:port",
			       origin);
	if (gate->origin_count == GATE_NAMES_MAX)
		return err_set(err, ERR_USAGE, "at most %d origins can be named", GATE_NAMES_MAX);
	gate->foreign[gate->origin_count] = foreign;
	gate->origins[gate->origin_count++] = mem_string(origin);
	return 0;
}

/* A bucket that fills by `rate` a second up to `most`. */
static bool take_one(double *allowance, int64_t *at_us, double rate, double most, int64_t now_us)
{
	if (*at_us)
		*allowance += rate * (double)(now_us - *at_us) / 1e6;
	else
		*allowance = most;
	*at_us = now_us;
	if (*allowance > most)
		*allowance = most;
	if (*allowance < 1)
		return false;
	*allowance -= 1;
	return true;
}

static void refuse(struct verdict *verdict, int status, const char *detail)
{
	verdict->status = status;
	verdict->detail = detail;
}

static bool is_host(const struct gate *gate, const struct slice *host)
{
	for (size_t i = 0; i < gate->host_count; i++)
		if (slice_is_word(host, gate->hosts[i]))
			return true;
	return false;
}

static bool check_origin(const struct gate *gate, const struct head *head, struct verdict *verdict)
{
	const struct slice *origin = head_find(head, "origin", NULL);
	const struct slice *site = head_find(head, "sec-fetch-site", NULL);

	for (size_t i = 0; origin && i < gate->origin_count; i++) {
		if (!slice_is(origin, gate->origins[i]))
			continue;
		if (gate->foreign[i])
			snprintf(verdict->cors_origin, sizeof(verdict->cors_origin), "%s",
				 gate->origins[i]);
		return true;
	}
	if (origin)
		refuse(verdict, 403, "pages of this origin may not use this daemon (--origin)");
	else if (site && !slice_is(site, "same-origin") && !slice_is(site, "none"))
		refuse(verdict, 403, "a browser has sent this for a page of another site");
	else
		return true;
	return false;
}

/* The token's text: of Authorization, or of a browser's WebSocket, which can set no field but its
 * protocols. */
static struct slice presented(const struct head *head)
{
	const struct slice *authorization = head_find(head, "authorization", NULL);
	const struct slice *protocols = head_find(head, "sec-websocket-protocol", NULL);
	const char *at, *end;

	if (authorization) {
		if (authorization->len > 7 && strncasecmp(authorization->at, "Bearer ", 7) == 0)
			return (struct slice){authorization->at + 7, authorization->len - 7};
		return (struct slice){"", 0};
	}
	if (!protocols || !head_find(head, "upgrade", NULL))
		return (struct slice){NULL, 0};
	at = memmem(protocols->at, protocols->len, TOKEN_PROTOCOL, sizeof(TOKEN_PROTOCOL) - 1);
	if (!at)
		return (struct slice){NULL, 0};
	at += sizeof(TOKEN_PROTOCOL) - 1;
	end = at;
	while (end < protocols->at + protocols->len && *end != ',' && *end != ' ')
		end++;
	return (struct slice){at, (size_t)(end - at)};
}

static void admit(const struct token *token, struct principal *who)
{
	memcpy(who->id, token->id, sizeof(token->id));
	who->scopes = token->scopes;
	memcpy(who->prefix, token->prefix, sizeof(who->prefix));
	who->sessions_max = token->sessions_max;
}

static void check_token(struct gate *gate, const struct head *head, bool local, int64_t now_us,
			struct verdict *verdict)
{
	struct slice text = presented(head);
	struct token *token;

	if (!text.at && local) {
		verdict->who = (struct principal){.id = "unix", .scopes = SCOPE_ALL};
		return;
	}
	tokens_refresh(gate->tokens);
	token = text.at ? tokens_check(gate->tokens, text.at, text.len) : NULL;
	if (!token) {
		bool often = !take_one(&gate->failures, &gate->failures_us, FAILURES_PER_S,
				       FAILURES_MAX, now_us);

		refuse(verdict, often && text.at ? 429 : 401,
		       often && text.at ? "too many wrong tokens; try again later"
		       : text.at        ? "the token is wrong, has ended, or was revoked"
				 : "a token is needed: Authorization: Bearer ... (fumehood token)");
		return;
	}
	if (!take_one(&token->allowance, &token->allowance_us, gate->rate_max, 2 * gate->rate_max,
		      now_us)) {
		refuse(verdict, 429, "this token asks too often; try again later");
		return;
	}
	admit(token, &verdict->who);
}

void gate_check(struct gate *gate, const struct head *head, bool local, int64_t now_us,
		struct verdict *verdict)
{
	const struct slice *host = head_find(head, "host", NULL);

	*verdict = (struct verdict){.status = 0, .detail = ""};
	if (!local && (!host || !is_host(gate, host))) {
		refuse(verdict, 421, "this daemon is not reached by that name (--behind-proxy)");
		return;
	}
	if (!check_origin(gate, head, verdict))
		return;
	if (verdict->cors_origin[0] && slice_is(&head->method, "OPTIONS") &&
	    head_find(head, "access-control-request-method", NULL)) {
		verdict->status = 204;
		return;
	}
	check_token(gate, head, local, now_us, verdict);
}

bool principal_sees(const struct principal *who, const char *name)
{
	size_t len = strlen(who->prefix);

	return len == 0 || (name && strncmp(name, who->prefix, len) == 0);
}
