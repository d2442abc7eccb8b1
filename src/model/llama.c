/*
 * Finding a llama.cpp server, and its command line. See llama.h.
 */
#include "model/llama.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/paths.h"
#include "model/tool.h"

enum { HELP_MS_MAX = 20000, NOTE_BYTES_MAX = 4096, CACHE_MIB = 512 };

void llama_release(struct llama *llama)
{
	free(llama->program);
	free(llama->script);
	free(llama->site);
	free(llama->version);
	*llama = (struct llama)LLAMA_INIT;
}

void llama_words_release(struct llama_words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->words[i]);
	free(words->words);
	*words = (struct llama_words){.words = NULL};
}

/* --- finding ---------------------------------------------------------------------------------- */

/* The program's path in the absolute parts of PATH, owned by the caller; NULL. */
static char *on_path(const char *name)
{
	const char *part = getenv("PATH");

	while (part && *part) {
		int len = (int)strcspn(part, ":");
		cleanup_free char *path = mem_format("%.*s/%s", len, part, name);

		if (part[0] == '/' && access(path, X_OK) == 0)
			return mem_take(path);
		part += len + (part[len] == ':');
	}
	return NULL;
}

static int take_chosen(struct llama *llama, const char *chosen, struct err *err)
{
	llama->program = chosen[0] == '/' ? mem_string(chosen) : on_path(chosen);
	if (!llama->program)
		return err_set(err, ERR_NOT_FOUND,
			       "no program %s is on PATH (FUMEHOOD_LLAMA_SERVER, llama.server)",
			       chosen);
	if (access(llama->program, X_OK) != 0)
		return err_sys(err, "cannot use %s (FUMEHOOD_LLAMA_SERVER, llama.server)",
			       llama->program);
	return 0;
}

int llama_find_wheel(struct llama *llama)
{
	cleanup_free char *data = paths_data(NULL);
	cleanup_free char *path = data ? mem_format("%s/engine/engine.json", data) : NULL;
	cleanup_buf struct buf text = BUF_INIT;
	cleanup_json struct json *note = NULL;
	cleanup_free char *scripts = paths_helper("python", NULL);
	const char *python;

	if (!path || !scripts || file_read(AT_FDCWD, path, NOTE_BYTES_MAX, &text, NULL) != 0)
		return -1;
	note = json_parse(buf_bytes(&text), text.len, &JSON_LIMITS, NULL);
	python = json_get_string(note, "python");
	if (!python || access(python, X_OK) != 0)
		return -1;
	llama->program = mem_string(python);
	llama->script = mem_format("%s/fumehood_model/server.py", scripts);
	llama->site = mem_format("%s/engine/site", data);
	llama->version = mem_string(json_get_string(note, "version"));
	return 0;
}

int llama_find(struct llama *llama, const char *chosen, struct err *err)
{
	*llama = (struct llama)LLAMA_INIT;
	if (chosen && chosen[0])
		return take_chosen(llama, chosen, err);
	llama->program = on_path(LLAMA_SERVER);
	if (llama->program || llama_find_wheel(llama) == 0)
		return 0;
	return err_set(err, ERR_NOT_FOUND,
		       "no llama.cpp server is here to run a model: fumehood model engine fetches "
		       "one (34 MB), or install " LLAMA_SERVER
		       ", or name an endpoint: --url http://127.0.0.1:8080/v1");
}

/* --- command lines ---------------------------------------------------------------------------- */

static void add(struct llama_words *words, char *word)
{
	words->words = mem_resize(words->words, words->count + 2, sizeof(*words->words));
	words->words[words->count++] = word;
	words->words[words->count] = NULL;
}

static void add_text(struct llama_words *words, const char *word)
{
	add(words, mem_string(word));
}

static void add_number(struct llama_words *words, const char *option, uint64_t number)
{
	add_text(words, option);
	add(words, mem_format("%llu", (unsigned long long)number));
}

/* Whether the word stands in the text by itself. */
static bool has_word(const char *text, const char *word)
{
	static const char inside[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len) {
		if ((at == text || !strchr(inside, at[-1])) &&
		    (at[len] == '\0' || !strchr(inside, at[len])))
			return true;
	}
	return false;
}

static void add_known(struct llama_words *words, const char *help, const char *option,
		      const char *value)
{
	if (!has_word(help, option))
		return;
	add_text(words, option);
	if (value)
		add_text(words, value);
}

/* Guessing ahead from the text so far, where the server can: programs are repaired by small
 * changes. */
static void add_speculation(struct llama_words *words, const char *help)
{
	static const char *const kinds[] = {"ngram-simple", "ngram-map-k", "ngram-mod"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!has_word(help, "--spec-type") || !has_word(help, kinds[i]))
			continue;
		add_text(words, "--spec-type");
		add_text(words, kinds[i]);
		return;
	}
}

void llama_server_words(struct llama_words *words, const char *program,
			const struct llama_wish *wish, const char *help)
{
	cleanup_free char *cache = mem_format("%d", CACHE_MIB);

	*words = (struct llama_words){.words = NULL};
	add_text(words, program);
	add_text(words, "--model");
	add_text(words, wish->model);
	add_text(words, "--host");
	add_text(words, wish->socket);
	add_number(words, "--ctx-size", wish->context);
	add_number(words, "--parallel", wish->parallel);
	add_number(words, "--threads", wish->threads);
	add_known(words, help, "--kv-unified", NULL);
	add_known(words, help, "--cache-ram", cache);
	add_known(words, help, "--log-verbosity", "2");
	add_known(words, help, "--offline", NULL);
	if (has_word(help, "--no-webui"))
		add_text(words, "--no-webui");
	else
		add_known(words, help, "--no-ui", NULL);
	add_speculation(words, help);
}

int llama_words(struct llama_words *words, const struct llama *llama, const struct llama_wish *wish,
		struct err *err)
{
	const char *const argv[] = {llama->program, "--help", NULL};
	const struct tool ask = {
		.argv = argv, .output = -1, .cancel_fd = -1, .wait_ms = HELP_MS_MAX};
	cleanup_buf struct buf help = BUF_INIT;

	if (llama->script) {
		*words = (struct llama_words){.words = NULL};
		add_text(words, llama->program);
		add_text(words, "-I");
		add_text(words, llama->script);
		add_text(words, llama->site);
		add_text(words, wish->model);
		add_text(words, wish->socket);
		add(words, mem_format("%llu", (unsigned long long)wish->context));
		add(words, mem_format("%u", wish->parallel));
		add(words, mem_format("%u", wish->threads));
		return 0;
	}
	if (tool_run(&ask, &help, err) != 0)
		return err_wrap(err, "the llama.cpp server cannot be used");
	if (!has_word(buf_bytes(&help), "--host"))
		return err_set(err, ERR_UNSUPPORTED, "%.160s is no llama.cpp server",
			       llama->program);
	llama_server_words(words, llama->program, wish, buf_bytes(&help));
	return 0;
}
