/*
 * fumehood model list, path, rm, status, stop: what is there, and what runs.
 *
 * A file that cannot be used is listed with the reason: it takes space, and somebody wonders why it
 * is not taken.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/model_verb.h"
#include "cli/say.h"
#include "cli/table.h"
#include "model/gguf.h"
#include "model/lease.h"
#include "model/pull.h"

enum { NAME_CHARS = 22, SIZE_CHARS = 7, CONTEXT_CHARS = 7, KIND_CHARS = 8, STATE_CHARS = 9 };

/* --- list ------------------------------------------------------------------------------------- */

static struct json *row_new(const char *name, const struct catalog_model *model)
{
	struct json *row = json_new_object(), *from = json_new_array();

	json_set_string(row, "name", name);
	if (model && model->alias)
		json_set_string(row, "alias", model->alias);
	if (model && model->title)
		json_set_string(row, "title", model->title);
	if (model && model->licence)
		json_set_string(row, "licence", model->licence);
	if (model && model->sha256)
		json_set_string(row, "sha256", model->sha256);
	if (model && model->bytes)
		json_set_int(row, "bytes", (int64_t)model->bytes);
	if (model && model->url)
		json_push(from, json_new_string("hub", 3));
	if (model && model->packages)
		json_push(from, json_new_string("packages", 8));
	json_set(row, "from", from);
	return row;
}

/* What its file says, if there is one. */
static void set_file(struct json *row, const char *path)
{
	struct err err = ERR_INIT;
	struct gguf gguf;
	struct stat st;
	bool here = path && stat(path, &st) == 0;

	json_set(row, "here", json_new_bool(here));
	if (!here)
		return;
	json_set_string(row, "path", path);
	json_set_int(row, "bytes", (int64_t)st.st_size);
	if (gguf_load(path, &gguf, &err) != 0) {
		json_set_string(row, "error", err.text);
		return;
	}
	json_set_string(row, "architecture", gguf.architecture);
	json_set_string(row, "quantisation", gguf.quantisation);
	json_set_int(row, "parameters", (int64_t)gguf.parameters);
	json_set_int(row, "context", (int64_t)gguf.context);
}

static void add_row(struct json *rows, const struct model_house *house, const char *name,
		    const struct catalog_model *model, const char *chosen)
{
	struct json *row = row_new(name, model);
	cleanup_free char *path = catalog_resolve(&house->catalog, name, NULL);

	set_file(row, path);
	json_set(row, "default", json_new_bool(path && chosen && strcmp(path, chosen) == 0));
	json_push(rows, row);
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
	return strcmp((*left)->d_name, (*right)->d_name);
}

/* Files in the folder that no table has. */
static void add_files(struct json *rows, const struct model_house *house, const char *chosen)
{
	cleanup_free char *folder = catalog_folder(NULL);
	struct dirent **entries = NULL;
	int count = folder ? scandir(folder, &entries, NULL, by_name) : 0;

	for (int i = 0; i < count; i++) {
		size_t len = strlen(entries[i]->d_name);
		cleanup_free char *name = mem_copy(entries[i]->d_name, len > 5 ? len - 5 : 0);

		if (len > 5 && strcmp(entries[i]->d_name + len - 5, ".gguf") == 0 &&
		    catalog_is_name(name) && !catalog_find(&house->catalog, name))
			add_row(rows, house, name, NULL, chosen);
		free(entries[i]);
	}
	free(entries);
}

static struct json *list_rows(const struct model_house *house)
{
	struct json *rows = json_new_array();
	cleanup_free char *chosen = model_file(house, NULL, NULL);

	for (size_t i = 0; i < house->catalog.count; i++) {
		const struct catalog_model *model = &house->catalog.models[i];

		add_row(rows, house, model->name, model, chosen);
	}
	add_files(rows, house, chosen);
	return rows;
}

static void put_size(struct buf *out, const struct json *row)
{
	size_t start = out->len;
	int64_t bytes = json_get_int(row, "bytes", 0);

	if (bytes > 0)
		table_size(out, bytes);
	table_pad(out, start, SIZE_CHARS);
}

static void put_row(struct buf *out, const struct json *row)
{
	int64_t context = json_get_int(row, "context", 0);
	cleanup_free char *tokens =
		context ? mem_format("%lld", (long long)context) : mem_string("");
	const char *kind = json_get_string(row, "quantisation");
	const char *error = json_get_string(row, "error"), *title = json_get_string(row, "title");
	const char *words = error ? error : title ? title : json_get_string(row, "path");
	bool here = json_get_bool(row, "here", false);

	buf_append_string(out, json_get_bool(row, "default", false) ? "* " : "  ");
	table_cell(out, json_get_string(row, "name"), NAME_CHARS);
	put_size(out, row);
	table_cell(out, tokens, CONTEXT_CHARS);
	table_cell(out, kind ? kind : "", KIND_CHARS);
	table_cell(out, error ? "unusable" : here ? "here" : "to fetch", STATE_CHARS);
	if (words)
		text_escape(out, words, strlen(words), false, false);
	while (buf_bytes(out)[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_append_char(out, '\n');
}

int model_list(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	cleanup_json struct json *rows = NULL;
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	(void)name;
	if (model_house_open(&house, &err) != 0)
		return say_err(&err);
	rows = list_rows(&house);
	if (!options->json)
		buf_printf(&out, "  %-*s  %-*s  %-*s  %-*s  %s\n", NAME_CHARS, "NAME", SIZE_CHARS,
			   "SIZE", CONTEXT_CHARS, "CONTEXT", KIND_CHARS, "KIND",
			   "STATE");
	for (size_t i = 0; i < json_length(rows); i++) {
		if (options->json) {
			json_write(&out, json_at(rows, i));
			buf_append_char(&out, '\n');
		} else {
			put_row(&out, json_at(rows, i));
		}
	}
	return say_out(buf_bytes(&out), out.len);
}

/* --- path, rm --------------------------------------------------------------------------------- */

int model_path(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	cleanup_free char *path = NULL;
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	if (model_house_open(&house, &err) != 0)
		return say_err(&err);
	path = model_file(&house, name, &err);
	if (!path)
		return say_err(&err);
	if (options->json)
		json_write_string(&out, path, strlen(path));
	else
		buf_append_string(&out, path);
	buf_append_char(&out, '\n');
	return say_out(buf_bytes(&out), out.len);
}

int model_remove(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	const struct catalog_model *model;
	cleanup_free char *path = NULL;
	cleanup_buf struct buf size = BUF_INIT;
	struct err err = ERR_INIT;
	uint64_t bytes = 0;
	unsigned stopped;

	(void)options;
	if (model_house_open(&house, &err) != 0)
		return say_err(&err);
	model = catalog_find(&house.catalog, name);
	name = model ? model->name : name;
	if (!catalog_is_name(name) || (model && model->file))
		return say_usage(&COMMAND_MODEL,
				 "model rm takes the name of a model that was fetched; other files "
				 "are yours");
	path = catalog_resolve(&house.catalog, name, NULL);
	if (path && lease_stop(path, &stopped, &err) != 0)
		return say_err(&err);
	if (pull_remove(name, &bytes, &err) != 0)
		return say_err(&err);
	table_size(&size, (int64_t)bytes);
	say("%s is removed (%s)", name, buf_bytes(&size));
	return 0;
}

/* --- status, stop ----------------------------------------------------------------------------- */

static void put_server(struct buf *out, const struct json *server)
{
	const char *last = json_get_string(server, "last");

	table_cell(out, json_get_string(server, "name"), NAME_CHARS);
	table_cell(out, json_get_string(server, "state"), STATE_CHARS);
	buf_printf(out, "%7lld  %5lld  %7lld  %7lld",
		   (long long)json_get_int(server, "server_pid", 0),
		   (long long)json_get_int(server, "users", 0),
		   (long long)json_get_int(server, "idle_s", 0),
		   (long long)json_get_int(server, "context", 0));
	if (last) {
		buf_append_string(out, "  ");
		text_escape(out, last, strlen(last), false, false);
	}
	buf_append_char(out, '\n');
}

int model_status(const struct model_options *options, const char *name)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *servers = lease_list(&err);
	cleanup_buf struct buf out = BUF_INIT;

	(void)name;
	if (!servers)
		return say_err(&err);
	if (!options->json && json_length(servers))
		buf_printf(&out, "%-*s  %-*s  %7s  %5s  %7s  %7s\n", NAME_CHARS, "NAME",
			   STATE_CHARS, "STATE", "PID", "USERS", "IDLE(s)", "CONTEXT");
	for (size_t i = 0; i < json_length(servers); i++) {
		if (options->json) {
			json_write(&out, json_at(servers, i));
			buf_append_char(&out, '\n');
		} else {
			put_server(&out, json_at(servers, i));
		}
	}
	return say_out(buf_bytes(&out), out.len);
}

int model_stop(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	cleanup_free char *path = NULL;
	struct err err = ERR_INIT;
	unsigned stopped = 0;

	(void)options;
	if (model_house_open(&house, &err) != 0)
		return say_err(&err);
	if (name)
		path = catalog_resolve(&house.catalog, name, NULL);
	/* A model whose file has gone can still run. */
	if (lease_stop(path ? path : name, &stopped, &err) != 0)
		return say_err(&err);
	say("%u %s stopped", stopped, stopped == 1 ? "server" : "servers");
	return 0;
}
