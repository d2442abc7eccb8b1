/*
 * The parameters of a notebook and the paths made of them. See notebook_run.h.
 *
 * In papermill's order, each over the one before: paths, base64, files, YAML texts, typed values,
 * raw values; whatever the order on the command line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/notebook_run.h"
#include "cli/template.h"
#include "cli/yaml.h"

enum { TEXT_BYTES_MAX = 4 << 20, UUID_SIZE = 37 };

/* One text of parameters: JSON, or else YAML. */
static int add_text(struct notebook_run *run, const char *text, size_t len, const char *what,
		    struct err *err)
{
	cleanup_json struct json *value = NULL;

	if (!text_is_utf8(text, len))
		return err_set(err, ERR_INVALID, "%s is not UTF-8", what);
	if (parameters_parse(text, len, &value) == 0 &&
	    yaml_read(text, len, what, run->begin_options, &value, err) != 0)
		return -1;
	return parameters_merge(&run->parameters, value, err) == 0 ? 0 : err_wrap(err, "%s", what);
}

static int add_base64(struct notebook_run *run, const char *text, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;

	if (hash_base64_decode(&bytes, text, strlen(text)) != 0)
		return err_set(err, ERR_INVALID, "--parameters-base64 %.40s is no base64", text);
	return add_text(run, buf_bytes(&bytes), bytes.len, "--parameters-base64", err);
}

static int add_file(struct notebook_run *run, const char *path, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT;

	if (file_read(AT_FDCWD, path, TEXT_BYTES_MAX, &bytes, err) != 0)
		return -1;
	return add_text(run, buf_bytes(&bytes), bytes.len, path, err);
}

/* Pairs of -p (typed) or -r. */
static int add_pairs(struct notebook_run *run, const struct option_list *pairs, bool typed,
		     struct err *err)
{
	for (size_t i = 0; i + 1 < pairs->count; i += 2) {
		const char *text = pairs->items[i + 1];
		size_t len = strlen(text);

		if (!text_is_utf8(pairs->items[i], strlen(pairs->items[i])) ||
		    !text_is_utf8(text, len))
			return err_set(err, ERR_USAGE,
				       "a parameter on the command line is not UTF-8");
		parameters_set(&run->parameters, pairs->items[i],
			       typed ? parameters_infer(text, len) : json_new_string(text, len));
	}
	return 0;
}

static int add_all(struct notebook_run *run, struct err *err)
{
	const struct notebook_options *options = run->options;

	/* Their place is before all others; their values come with the paths. */
	if (options->inject_paths || options->inject_input_path)
		parameters_set(&run->parameters, "PAPERMILL_INPUT_PATH", NULL);
	if (options->inject_paths || options->inject_output_path)
		parameters_set(&run->parameters, "PAPERMILL_OUTPUT_PATH", NULL);
	for (size_t i = 0; i < options->base64.count; i++)
		if (add_base64(run, options->base64.items[i], err) != 0)
			return -1;
	for (size_t i = 0; i < options->files.count; i++)
		if (add_file(run, options->files.items[i], err) != 0)
			return -1;
	for (size_t i = 0; i < options->yaml.count; i++)
		if (add_text(run, options->yaml.items[i], strlen(options->yaml.items[i]),
			     "--parameters-yaml", err) != 0)
			return -1;
	if (add_pairs(run, &options->parameters, true, err) != 0 ||
	    add_pairs(run, &options->raw, false, err) != 0)
		return -1;
	return parameters_check(&run->parameters, err);
}

/* A random UUID (RFC 9562, version 4). */
static void make_uuid(char text[static UUID_SIZE])
{
	unsigned char bytes[16];
	size_t at = 0;

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		abort(); /* 16 bytes are always given whole (getrandom(2)) */
	bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[at++] = '-';
		at += (size_t)snprintf(text + at, UUID_SIZE - at, "%02x", bytes[i]);
	}
}

/* A file whose name has braces in it is that file. */
static char *fill_input(const struct notebook_run *run, const char *path,
			const struct template_builtins *builtins, struct err *err)
{
	if (!strpbrk(path, "{}") || access(path, F_OK) == 0)
		return mem_string(path);
	return template_fill(path, &run->parameters, builtins, err);
}

int notebook_run_gather(struct notebook_run *run, const char *input_path, const char *output_path,
			struct err *err)
{
	struct template_builtins builtins = {.now_us = clock_wall_us()};
	char uuid[UUID_SIZE];
	bool found;

	if (add_all(run, err) != 0)
		return -1;
	make_uuid(uuid);
	builtins.run_uuid = uuid;
	run->input_path = fill_input(run, input_path, &builtins, err);
	if (!run->input_path)
		return -1;
	if (run->options->inplace)
		run->output_path = mem_string(run->input_path);
	else if (output_path)
		run->output_path = template_fill(output_path, &run->parameters, &builtins, err);
	if (!run->output_path && output_path)
		return -1;
	if (!parameters_get(&run->parameters, "PAPERMILL_INPUT_PATH", &found) && found)
		parameters_set(&run->parameters, "PAPERMILL_INPUT_PATH",
			       json_new_string(run->input_path, strlen(run->input_path)));
	if (!parameters_get(&run->parameters, "PAPERMILL_OUTPUT_PATH", &found) && found &&
	    run->output_path)
		parameters_set(&run->parameters, "PAPERMILL_OUTPUT_PATH",
			       json_new_string(run->output_path, strlen(run->output_path)));
	return 0;
}
