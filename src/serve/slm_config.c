/*
 * config.yaml and model folders of the original; see slm_config.h.
 */
#include "serve/slm_config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

static const char *const KEYS[] = {"models", "code_interpreter", "path"};

enum { KEY_COUNT = 3 };

/* --- the file --------------------------------------------------------------------------------- */

struct level {
	size_t indent;
	bool on_way; /* its key and all above are those of KEYS */
};

struct reading {
	struct level levels[SLM_CONFIG_DEPTH_MAX];
	size_t depth;
	size_t line;
	struct err *err;
};

static int fail(struct reading *reading, const char *what)
{
	return err_set(reading->err, ERR_INVALID, "line %zu: %s", reading->line, what);
}

/* A scalar in quotes, whole; what is behind it may be a comment. */
static int read_quoted(struct reading *reading, const char *at, const char *end, struct buf *out)
{
	char quote = *at++;

	for (; at < end; at++) {
		if (*at == quote && quote == '\'' && at + 1 < end && at[1] == '\'') {
			buf_append_char(out, *at++);
		} else if (*at == quote) {
			for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
				;
			return at == end || *at == '#'
				       ? 1
				       : fail(reading, "text behind a closing quote");
		} else if (*at == '\\' && quote == '"') {
			if (at + 1 == end || (at[1] != '\\' && at[1] != '"' && at[1] != '/'))
				return fail(reading, "this escape is not known here: write the "
						     "path in single quotes");
			buf_append_char(out, *++at);
		} else {
			buf_append_char(out, *at);
		}
	}
	return fail(reading, "a quote is not closed in its line");
}

static int read_scalar(struct reading *reading, const char *at, const char *end, struct buf *out)
{
	const char *comment;

	if (at == end || *at == '#')
		return fail(reading, "models.code_interpreter.path has no value");
	if (*at == '"' || *at == '\'')
		return read_quoted(reading, at, end, out);
	if (strchr("{[&*!|>%@`", *at))
		return fail(reading, "models.code_interpreter.path is no plain text");
	comment = memmem(at, (size_t)(end - at), " #", 2);
	if (comment)
		end = comment;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	buf_append(out, at, (size_t)(end - at));
	return 1;
}

/* Where the value of "key: value" begins; NULL when the line is no such. */
static const char *split_key(const char *at, const char *end, const char **key, size_t *key_len)
{
	const char *stop;

	if (at < end && (*at == '"' || *at == '\'')) {
		stop = memchr(at + 1, *at, (size_t)(end - at - 1));
		if (!stop)
			return NULL;
		*key = at + 1;
		*key_len = (size_t)(stop - *key);
		at = stop + 1;
	} else {
		stop = memchr(at, ':', (size_t)(end - at));
		if (!stop)
			return NULL;
		*key = at;
		*key_len = (size_t)(stop - at);
		at = stop;
	}
	while (at < end && *at == ' ')
		at++;
	if (at == end || *at != ':' || (at + 1 < end && at[1] != ' ' && at[1] != '\t'))
		return NULL;
	for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
		;
	return at;
}

static int take_line(struct reading *reading, const char *line, const char *end, struct buf *path)
{
	const char *at = line, *key = NULL, *value;
	size_t key_len = 0, indent;
	bool on_way;

	while (at < end && *at == ' ')
		at++;
	indent = (size_t)(at - line);
	if (at == end || *at == '#')
		return 0;
	if (*at == '\t')
		return fail(reading, "YAML is not indented with tabs");
	value = split_key(at, end, &key, &key_len);
	while (reading->depth > 0 && reading->levels[reading->depth - 1].indent >= indent)
		reading->depth--;
	on_way = reading->depth == 0 || reading->levels[reading->depth - 1].on_way;
	if (!value)
		return 0; /* an item of a list, a part of a text, the beginning of a document */
	if (reading->depth == SLM_CONFIG_DEPTH_MAX)
		return fail(reading, "it is nested too deeply");
	on_way = on_way && reading->depth < KEY_COUNT && strlen(KEYS[reading->depth]) == key_len &&
		 memcmp(KEYS[reading->depth], key, key_len) == 0;
	if (on_way && reading->depth == KEY_COUNT - 1)
		return read_scalar(reading, value, end, path);
	if (on_way && value < end && *value != '#')
		return fail(reading, "write models, code_interpreter and path each on a line of "
				     "its own");
	reading->levels[reading->depth++] = (struct level){.indent = indent, .on_way = on_way};
	return 0;
}

int slm_config_read(const char *text, size_t len, struct buf *path, struct err *err)
{
	struct reading reading = {.depth = 0, .err = err};
	const char *end = text + len;
	int outcome = 0;

	if (len > SLM_CONFIG_BYTES_MAX || memchr(text, '\0', len))
		return err_set(err, ERR_INVALID, "it is no YAML of at most 1 MiB");
	while (outcome == 0 && text < end) {
		const char *lf = memchr(text, '\n', (size_t)(end - text));
		const char *stop = lf ? lf : end;
		const char *next = lf ? lf + 1 : end;

		if (stop > text && stop[-1] == '\r')
			stop--;
		reading.line++;
		outcome = take_line(&reading, text, stop, path);
		text = next;
	}
	return outcome;
}

/* `path` as the file at `config` means it. */
static char *from_config(const char *config, const char *path)
{
	const char *slash = strrchr(config, '/');
	const char *home = getenv("HOME");

	if (path[0] == '~' && (path[1] == '/' || path[1] == '\0') && home)
		return mem_format("%s%s", home, path + 1);
	if (path[0] == '/' || !slash)
		return mem_string(path);
	return mem_format("%.*s/%s", (int)(slash - config), config, path);
}

int slm_config_path(char **path, struct err *err)
{
	const char *named = getenv("SLM_CODE_INTERPRETER_CONFIG");
	const char *cache = getenv("SLM_CODE_INTERPRETER_CACHE_DIR");
	const char *const places[] = {named && named[0] ? named : NULL, "config.yaml",
				      "../config.yaml"};

	*path = NULL;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		cleanup_buf struct buf text = BUF_INIT, value = BUF_INIT;
		int found;

		if (!places[i])
			continue;
		if (file_read(AT_FDCWD, places[i], SLM_CONFIG_BYTES_MAX, &text,
			      i == 0 ? err : NULL) != 0) {
			if (i == 0)
				return err_wrap(err, "SLM_CODE_INTERPRETER_CONFIG");
			continue;
		}
		found = slm_config_read(buf_bytes(&text), text.len, &value, err);
		if (found < 0)
			return err_wrap(err, "%s", places[i]);
		if (found == 0 || value.len == 0)
			continue;
		*path = from_config(places[i], buf_bytes(&value));
		return 0;
	}
	if (cache && cache[0])
		*path = mem_string(cache);
	return 0;
}

int slm_config_environment(struct err *err)
{
	static const struct {
		const char *theirs, *ours;
		unsigned long min, max; /* as the settings have them */
	} variables[] = {
		{"SLM_CODE_INTERPRETER_N_THREADS", "FUMEHOOD_LLAMA_THREADS", 1, 4096},
		{"SLM_CODE_INTERPRETER_N_CTX", "FUMEHOOD_LLAMA_CONTEXT", 512, 1 << 24},
	};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *text = getenv(variables[i].theirs);
		char *end = NULL;
		unsigned long number = text ? strtoul(text, &end, 10) : 0;

		if (!text || !text[0])
			continue;
		if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < variables[i].min ||
		    number > variables[i].max)
			return err_set(err, ERR_USAGE, "%s is a whole number from %lu to %lu",
				       variables[i].theirs, variables[i].min, variables[i].max);
		if (setenv(variables[i].ours, text, 0) != 0)
			return err_sys(err, "cannot set %s", variables[i].ours);
	}
	return 0;
}

/* --- folders ---------------------------------------------------------------------------------- */

struct search {
	char *file; /* the GGUF file that was found */
	char *more; /* and another one */
	bool onnx;
	size_t items;
};

static bool ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcmp(name + len - end_len, end) == 0;
}

/* A GGUF file that is a model by itself: not what only shows it images (mmproj-...), and of one in
 * parts (...-00001-of-00003.gguf) the first, which is what is loaded. */
static bool is_model(const char *name)
{
	static const char end[] = "-00001-of-00001.gguf";
	size_t len = strlen(name);
	const char *part = len > sizeof(end) - 1 ? name + len - (sizeof(end) - 1) : NULL;

	if (!ends_with(name, ".gguf") || strncmp(name, "mmproj", 6) == 0)
		return false;
	return !part || part[0] != '-' || memcmp(part + 6, "-of-", 4) != 0 ||
	       memcmp(part + 1, "00001", 5) == 0;
}

static void search_folder(struct search *search, const char *path, unsigned depth)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;

	while (folder && (entry = readdir(folder)) != NULL &&
	       ++search->items < SLM_FOLDER_ITEMS_MAX) {
		cleanup_free char *item = NULL;
		struct stat st;

		if (entry->d_name[0] == '.')
			continue;
		item = mem_format("%s/%s", path, entry->d_name);
		if (stat(item, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < SLM_FOLDER_DEPTH_MAX)
			search_folder(search, item, depth + 1);
		else if (S_ISREG(st.st_mode) && strcmp(entry->d_name, "genai_config.json") == 0)
			search->onnx = true;
		else if (!S_ISREG(st.st_mode) || !is_model(entry->d_name))
			continue;
		else if (!search->file)
			search->file = mem_take(item);
		else if (!search->more)
			search->more = mem_take(item);
	}
	if (folder)
		closedir(folder);
}

char *slm_model_file(const char *path, struct err *err)
{
	struct search search = {.file = NULL};
	struct stat st;

	if (stat(path, &st) != 0) {
		err_sys(err, "the model %s", path);
		return NULL;
	}
	if (S_ISREG(st.st_mode) && !ends_with(path, ".onnx"))
		return mem_string(path);
	if (S_ISREG(st.st_mode))
		search.onnx = true;
	else
		search_folder(&search, path, 0);
	if (search.more)
		err_set(err, ERR_INVALID,
			"there are several models: give the path of one, such as %s", search.file);
	else if (!search.file && search.onnx)
		err_set(err, ERR_UNSUPPORTED,
			"a model in ONNX form (genai_config.json) is not run here: give the same "
			"model as a GGUF file, or get one with fumehood model pull and leave the "
			"path away; it is %s",
			path);
	else if (!search.file)
		err_set(err, ERR_NOT_FOUND, "there is no GGUF file in %s", path);
	free(search.more);
	if (search.more || !search.file) {
		free(search.file);
		return NULL;
	}
	return search.file;
}
