/*
 * config.yaml and model folders of the original; see slm_config.h.
 */
#include "serve/slm_config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

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

static bool is_blank(char byte)
{
	return byte == ' ' || byte == '\t';
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && is_blank(*at))
		at++;
	return at;
}

/* Behind the quote that closes the scalar at `at`; NULL: none does in this line. In double quotes a
 * backslash takes the next byte with it; in single ones a quote is written twice. */
static const char *quoted_end(const char *at, const char *end)
{
	char quote = *at++;

	for (; at < end; at++) {
		if (*at == '\\' && quote == '"')
			at++;
		else if (*at == quote && quote == '\'' && at + 1 < end && at[1] == '\'')
			at++;
		else if (*at == quote)
			return at + 1;
	}
	return NULL;
}

/* A scalar in quotes, whole; what is behind it may be a comment. Escapes are those of JSON, which
 * are the common ones of YAML. */
static int read_quoted(struct reading *reading, const char *at, const char *end, struct buf *out)
{
	const char *stop = quoted_end(at, end), *rest = stop ? skip_blanks(stop, end) : NULL;
	cleanup_json struct json *text = NULL;
	const char *bytes;
	size_t len = 0;

	if (!stop)
		return fail(reading, "a quote is not closed in its line");
	if (rest < end && *rest != '#')
		return fail(reading, "text behind a closing quote");
	if (*at == '"') {
		text = json_parse(at, (size_t)(stop - at), &JSON_LIMITS, NULL);
		bytes = json_string(text, &len);
		if (!bytes)
			return fail(reading, "this escape is not known here: write the path in "
					     "single quotes");
		buf_append(out, bytes, len);
	}
	for (at++; !text && at < stop - 1; at++) {
		buf_append_char(out, *at);
		at += *at == '\'';
	}
	return 1;
}

static int read_plain(struct reading *reading, const char *at, const char *end, struct buf *out)
{
	static const char *const nulls[] = {"~", "null", "Null", "NULL"};

	if (strchr("{[&*!|>%@`", *at))
		return fail(reading, "models.code_interpreter.path is no plain text");
	for (const char *hash = at + 1; hash < end; hash++)
		if (*hash == '#' && is_blank(hash[-1]))
			end = hash;
	while (end > at && is_blank(end[-1]))
		end--;
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		if (strlen(nulls[i]) == (size_t)(end - at) &&
		    memcmp(nulls[i], at, strlen(nulls[i])) == 0)
			return 0;
	buf_append(out, at, (size_t)(end - at));
	return 1;
}

/* 0: it says nothing. */
static int read_scalar(struct reading *reading, const char *at, const char *end, struct buf *out)
{
	int found;

	if (at == end || *at == '#')
		return 0;
	found = *at == '"' || *at == '\'' ? read_quoted(reading, at, end, out)
					  : read_plain(reading, at, end, out);
	for (size_t i = 0; found > 0 && i < out->len; i++)
		if ((unsigned char)buf_bytes(out)[i] < ' ')
			return fail(reading, "the path has a control character");
	return found > 0 && out->len == 0 ? 0 : found;
}

/* Where the value of "key: value" begins; NULL when the line is no such. */
static const char *split_key(const char *at, const char *end, const char **key, size_t *key_len)
{
	const char *stop;

	if (*at == '"' || *at == '\'') {
		stop = memchr(at + 1, *at, (size_t)(end - at - 1));
		if (!stop)
			return NULL;
		*key = at + 1;
		*key_len = (size_t)(stop - *key);
		at = skip_blanks(stop + 1, end);
	} else {
		stop = memchr(at, ':', (size_t)(end - at));
		if (!stop || stop == at || (*at == '-' && is_blank(at[1])))
			return NULL;
		*key = at;
		at = stop;
		while (is_blank(stop[-1]))
			stop--;
		*key_len = (size_t)(stop - *key);
	}
	if (at == end || *at != ':' || (at + 1 < end && !is_blank(at[1])))
		return NULL;
	return skip_blanks(at + 1, end);
}

static int take_line(struct reading *reading, const char *line, const char *end, struct buf *path)
{
	const char *at = line, *key = NULL, *value;
	size_t key_len = 0, indent;
	bool on_way;

	while (at < end && *at == ' ')
		at++;
	indent = (size_t)(at - line);
	value = skip_blanks(at, end);
	if (value == end || *value == '#')
		return 0;
	if (*at == '\t')
		return fail(reading, "YAML is not indented with tabs");
	value = split_key(at, end, &key, &key_len);
	while (reading->depth > 0 && reading->levels[reading->depth - 1].indent >= indent)
		reading->depth--;
	on_way = reading->depth == 0 || reading->levels[reading->depth - 1].on_way;
	/* An item of a list, a part of a text, the beginning of a document. */
	if (!value)
		return reading->depth > 0 && on_way
			       ? fail(reading, "a key and its value, `key: value`, is expected")
			       : 0;
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

	if (len > SLM_CONFIG_BYTES_MAX || memchr(text, '\0', len) || !text_is_utf8(text, len))
		return err_set(err, ERR_INVALID, "it is no YAML in UTF-8 of at most 1 MiB");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (outcome == 0 && text < end) {
		const char *stop = text;

		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		reading.line++;
		outcome = take_line(&reading, text, stop, path);
		if (end - stop >= 2 && stop[0] == '\r' && stop[1] == '\n')
			stop++;
		text = stop < end ? stop + 1 : end;
	}
	return outcome;
}

static bool is_url(const char *text)
{
	return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

static bool ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcasecmp(name + len - end_len, end) == 0;
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

/* A server's address, a path, or a name: what is there beside the file is a path. */
static int take_value(struct slm_model *model, const char *config, const char *value,
		      struct err *err)
{
	cleanup_free char *path = from_config(config, value);
	struct stat st;

	if (is_url(value))
		model->url = mem_string(value);
	else if (stat(path, &st) == 0)
		model->path = mem_take(path);
	else if (!strchr(value, '/') && strcmp(value, "~") != 0 && !ends_with(value, ".gguf") &&
		 !ends_with(value, ".onnx"))
		model->name = mem_string(value);
	else
		return err_set(err, ERR_NOT_FOUND, "%s names the model %s, which is not there",
			       config, path);
	return 0;
}

void slm_model_release(struct slm_model *model)
{
	free(model->url);
	free(model->name);
	free(model->path);
	*model = (struct slm_model){.url = NULL};
}

/* 1: taken; 0: the file is not there, or says nothing. */
static int take_config(struct slm_model *model, const char *config, bool named, struct err *err)
{
	cleanup_buf struct buf text = BUF_INIT, value = BUF_INIT;
	struct err why = ERR_INIT;
	int found;

	if (file_read(AT_FDCWD, config, SLM_CONFIG_BYTES_MAX, &text, &why) != 0) {
		/* What is no file is not ours. */
		if (!named && (why.code == ERR_NOT_FOUND || why.code == ERR_INVALID))
			return 0;
		*err = why;
		return named ? err_wrap(err, "SLM_CODE_INTERPRETER_CONFIG") : -1;
	}
	found = slm_config_read(buf_bytes(&text), text.len, &value, err);
	if (found < 0)
		return err_wrap(err, "%s", config);
	if (found == 0 && named)
		return err_set(err, ERR_INVALID,
			       "%s (from SLM_CODE_INTERPRETER_CONFIG) has no "
			       "models.code_interpreter.path",
			       config);
	if (found == 0)
		return 0;
	return take_value(model, config, buf_bytes(&value), err) == 0 ? 1 : -1;
}

int slm_config_model(struct slm_model *model, struct err *err)
{
	const char *named = getenv("SLM_CODE_INTERPRETER_CONFIG");
	const char *cache = getenv("SLM_CODE_INTERPRETER_CACHE_DIR");
	static const char *const places[] = {"config.yaml", "../config.yaml"};

	*model = (struct slm_model){.url = NULL};
	if (named && named[0])
		return take_config(model, named, true, err) < 0 ? -1 : 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int found = take_config(model, places[i], false, err);

		if (found != 0)
			return found < 0 ? -1 : 0;
	}
	if (cache && cache[0])
		model->path = mem_string(cache);
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
