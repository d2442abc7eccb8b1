/*
 * fumehood token: who may use the daemon over TCP. Tokens are files (serve/token.h), so that this
 * needs no daemon, and one that runs sees at once what has changed.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/find.h"
#include "cli/say.h"
#include "cli/table.h"
#include "serve/token.h"

struct token_options {
	const char *scope, *sessions, *name;
	double expires_s;
	uint64_t sessions_max;
	bool json;
};

static int set_name(char *to, const char *text, const char *what)
{
	size_t len = text ? strlen(text) : 0;

	if (len > TOKEN_NAME_BYTES_MAX || (text && !text_is_utf8(text, len))) {
		say("the %s has at most %d bytes of UTF-8", what, TOKEN_NAME_BYTES_MAX);
		return -1;
	}
	memcpy(to, text ? text : "", len + 1);
	return 0;
}

static int create(struct tokens *tokens, const struct token_options *options)
{
	struct token token = {.expires_us = INT64_MAX, .sessions_max = options->sessions_max};
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;
	char text[TOKEN_TEXT_SIZE];

	if (scopes_read(options->scope ? options->scope : "read,run", &token.scopes, &err) != 0)
		return say_err(&err);
	if (set_name(token.name, options->name, "name") != 0 ||
	    set_name(token.prefix, options->sessions, "prefix") != 0)
		return EXIT_USAGE;
	if (options->expires_s > 0)
		token.expires_us = clock_wall_us() + (int64_t)(options->expires_s * 1e6);
	if (tokens_create(tokens, &token, true, text, &err) != 0)
		return say_err(&err);
	if (options->json)
		buf_printf(&out, "{\"id\":\"%s\",\"token\":\"%s\"}\n", token.id, text);
	else
		buf_printf(&out, "%s\n", text);
	if (!options->json)
		say("this is the only time that the token is shown; its id is %s", token.id);
	return say_out(buf_bytes(&out), out.len);
}

static void put_json(struct buf *out, const struct token *token)
{
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_json struct json *object = NULL;

	token_write(&text, token);
	object = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
	(void)json_remove(object, "sha256");
	(void)json_remove(object, "format");
	json_write(out, object);
	buf_append_char(out, '\n');
}

static void put_row(struct buf *out, const struct token *token)
{
	cleanup_buf struct buf scopes = BUF_INIT;
	char time[CLOCK_TEXT_SIZE] = "never";

	scopes_write(&scopes, token->scopes);
	if (token->expires_us != INT64_MAX) {
		clock_format(token->expires_us, time);
		time[10] = '\0';
	}
	table_cell(out, token->id, 12);
	table_cell(out, token->name[0] ? token->name : "-", 16);
	table_cell(out, buf_bytes(&scopes), 30);
	table_cell(out, time, 10);
	text_escape(out, token->prefix[0] ? token->prefix : "(all)",
		    strlen(token->prefix[0] ? token->prefix : "(all)"), false, false);
	buf_append_char(out, '\n');
}

static int list_all(const struct tokens *tokens, bool json)
{
	cleanup_buf struct buf out = BUF_INIT;

	if (!json && tokens->count > 0)
		buf_append_string(&out,
				  "ID           NAME             SCOPES                       "
				  "  EXPIRES    SESSIONS\n");
	for (size_t i = 0; i < tokens->count; i++) {
		if (json)
			put_json(&out, &tokens->items[i]);
		else
			put_row(&out, &tokens->items[i]);
	}
	return say_out(buf_bytes(&out), out.len);
}

static int revoke_one(struct tokens *tokens, const char *word)
{
	struct err err = ERR_INIT;
	const struct token *token = tokens_find(tokens, word, &err);

	if (!token || tokens_revoke(tokens, token, &err) != 0)
		return say_err(&err);
	say("token %s is revoked", token->id);
	return 0;
}

static int command_token(const struct command *command, int argc, char **argv)
{
	struct token_options options = {.scope = NULL};
	const struct option table[] = {
		{"scope", '\0', OPTION_TEXT, &options.scope},
		{"sessions", '\0', OPTION_TEXT, &options.sessions},
		{"name", '\0', OPTION_TEXT, &options.name},
		{"expires", '\0', OPTION_SECONDS, &options.expires_s},
		{"max-sessions", '\0', OPTION_COUNT, &options.sessions_max},
		{"json", 'j', OPTION_FLAG, &options.json},
	};
	cleanup_options struct options words = {.words = NULL};
	cleanup_tokens struct tokens tokens = TOKENS_INIT;
	struct err err = ERR_INIT;
	int status = command_begin(command, &words, table, 6, argc, argv, 1, 2);
	const char *verb;

	if (status >= 0)
		return status;
	verb = words.words[0];
	if (tokens_open(&tokens, &err) != 0)
		return say_err(&err);
	if (strcmp(verb, "create") == 0 && words.word_count == 1)
		return create(&tokens, &options);
	if (strcmp(verb, "list") == 0 && words.word_count == 1)
		return list_all(&tokens, options.json);
	if (strcmp(verb, "revoke") == 0 && words.word_count == 2)
		return revoke_one(&tokens, words.words[1]);
	return say_usage(command, "token needs create, list, or revoke and one token");
}

const struct command COMMAND_TOKEN = {
	.name = "token",
	.summary = "make, list and revoke the daemon's tokens",
	.example = "fumehood token create --scope read,run --expires 30d",
	.help = "Usage: fumehood token create [options]\n"
		"       fumehood token list [--json]\n"
		"       fumehood token revoke ID|NAME\n"
		"\n"
		"Tokens are for clients that reach fumehood serve over TCP. A token is shown once, "
		"when it\n"
		"is made; kept is its hash.\n"
		"\n"
		"  fumehood token create --name bot --scope read,run,manage --sessions bot-\n"
		"  fumehood token create --scope metrics --expires 365d\n"
		"\n"
		"Options:\n"
		"      --scope LIST         of read, run, files, manage, metrics; or all (default "
		"read,run)\n"
		"      --sessions PREFIX    only sessions whose names begin with it\n"
		"      --name NAME          to know it by\n"
		"      --expires TIME       ends after so long: 12h, 30d\n"
		"      --max-sessions N     that it may have running\n"
		"  -j, --json               one JSON object a token\n",
	.run = command_token,
};
