/*
 * fumehood model test: does the model answer, is it right, and how fast is it here?
 *
 * Five small instructions whose answers are known, each given to `fumehood ask` as a user would, in
 * a folder and sessions of its own that are removed. What it takes is added up from the lines that
 * ask prints. It proves that everything works together; how good a model is needs more questions
 * (bench/ask).
 */
#include <fcntl.h>
#include <fumehood.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/paths.h"
#include "cli/model_verb.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "model/gguf.h"
#include "model/tool.h"

enum { EXIT_CANCELLED = 130, ASK_MS_MAX = 20 * 60 * 1000, LINES_BYTES_MAX = 16 << 20 };

static const struct question {
	const char *instruction, *answer;
} QUESTIONS[] = {
	{"Print the sum of the whole numbers from 1 to 100.", "5050"},
	{"Print the word fumehood in capital letters.", "FUMEHOOD"},
	{"Print the 10th prime number.", "29"},
	{"Print the sum of the digits of 2**100.", "115"},
	{"Print the words 'pear', 'fig' and 'apple' in alphabetical order, one a line.",
	 "apple\nfig\npear"},
};

enum { QUESTION_COUNT = sizeof(QUESTIONS) / sizeof(QUESTIONS[0]) };

struct testing {
	const char *program, *model, *place; /* fumehood-ask, the file, where everything goes */
	bool json;
	int cancel_fd;
	unsigned right;
	double first_s, prompt_tokens, tokens, decode_s; /* sums over programs that were written */
	unsigned programs;
};

/* --- one question ----------------------------------------------------------------------------- */

/* Adds what a finished program says of the model's work. */
static void add_program(struct testing *testing, const struct json *line)
{
	double first = json_get_double(line, "first_token_seconds", -1);
	double seconds = json_get_double(line, "model_seconds", -1);
	double tokens = json_get_double(line, "tokens", 0);
	double cached = json_get_double(line, "cached_tokens", 0);

	if (first < 0 || seconds < first || tokens < 2)
		return;
	testing->programs++;
	testing->first_s += first;
	testing->prompt_tokens += json_get_double(line, "prompt_tokens", 0) - cached;
	testing->tokens += tokens - 1;
	testing->decode_s += seconds - first;
}

/* Reads the lines; the result, owned by the caller, or NULL. */
static struct json *read_lines(struct testing *testing, const struct buf *lines)
{
	const char *at = buf_bytes(lines), *end = at + lines->len;
	struct json *result = NULL;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((stop ? stop : end) - at);
		cleanup_json struct json *line = json_parse(at, len, &JSON_LIMITS, NULL);
		const char *type = json_get_string(line, "type");
		const char *state = json_get_string(line, "state");

		at += len + 1;
		if (type && strcmp(type, "attempt") == 0 && state && strcmp(state, "finished") == 0)
			add_program(testing, line);
		if (type && (strcmp(type, "result") == 0 || strcmp(type, "error") == 0)) {
			json_free(result);
			result = json_keep(line);
		}
	}
	return result;
}

/* Gives it to fumehood ask; its result, or NULL with *err. */
static struct json *ask(struct testing *testing, const struct question *question, struct err *err)
{
	cleanup_free char *workspace = mem_format("%s/work", testing->place);
	const char *const argv[] = {"ask",
				    "--json",
				    "--model",
				    testing->model,
				    "--effort",
				    "low",
				    "--workspace",
				    workspace,
				    "--expect",
				    question->answer,
				    question->instruction,
				    NULL};
	cleanup_fd int output = memfd_create("lines", MFD_CLOEXEC);
	const struct tool tool = {.path = testing->program,
				  .argv = argv,

				  .output = output,
				  .cancel_fd = testing->cancel_fd,
				  .wait_ms = ASK_MS_MAX};
	cleanup_buf struct buf words = BUF_INIT, lines = BUF_INIT;
	struct json *result;
	struct err why = ERR_INIT;

	if (output < 0) {
		err_sys(err, "memfd_create");
		return NULL;
	}
	if (file_make_dirs(workspace, 0700, err) != 0)
		return NULL;
	(void)tool_run(&tool, &words, &why); /* a wrong answer is a status other than 0, too */
	if (why.code == ERR_GONE || why.code == ERR_TIMEOUT) {
		*err = why;
		return NULL;
	}
	tool_read(output, LINES_BYTES_MAX, &lines);
	result = read_lines(testing, &lines);
	if (!result)
		*err = why.code ? why : (struct err){.code = ERR_ENGINE, .text = "no result"};
	return result;
}

/* --- all of them ------------------------------------------------------------------------------ */

static void show(const struct testing *testing, const struct question *question,
		 const struct json *result, bool right)
{
	cleanup_buf struct buf out = BUF_INIT;
	cleanup_json struct json *line = NULL;

	if (!testing->json) {
		say("%s %s", right ? "right" : "WRONG", question->instruction);
		return;
	}
	line = json_new_object();
	json_set_string(line, "type", "question");
	json_set_string(line, "instruction", question->instruction);
	json_set_string(line, "answer", question->answer);
	json_set(line, "stdout", json_keep(json_get(result, "stdout")));
	json_set(line, "right", json_new_bool(right));
	json_write(&out, line);
	buf_append_char(&out, '\n');
	(void)file_write_all(STDOUT_FILENO, buf_bytes(&out), out.len, NULL);
}

static int ask_all(struct testing *testing, struct err *err)
{
	for (size_t i = 0; i < QUESTION_COUNT; i++) {
		cleanup_json struct json *result = ask(testing, &QUESTIONS[i], err);
		const char *type = json_get_string(result, "type");
		bool right = json_get_bool(result, "success", false);

		if (!result)
			return -1;
		/* The session is kept, as always; this one is of no use to anybody. */
		if (json_get_string(result, "session"))
			(void)fh_remove(json_get_string(result, "session"), NULL);
		if (strcmp(type, "error") == 0)
			return err_set(err, err_from_name(json_get_string(result, "code")), "%s",
				       json_get_string(result, "message"));
		testing->right += right;
		show(testing, &QUESTIONS[i], result, right);
	}
	return 0;
}

static int show_sum(const struct testing *testing)
{
	cleanup_json struct json *line = json_new_object();
	cleanup_buf struct buf out = BUF_INIT;
	double prefill = testing->first_s > 0 ? testing->prompt_tokens / testing->first_s : 0;
	double decode = testing->decode_s > 0 ? testing->tokens / testing->decode_s : 0;
	double first = testing->programs ? testing->first_s / testing->programs : 0;

	if (!testing->json) {
		buf_printf(&out,
			   "%u of %d right; reads %.0f tokens/s, writes %.1f tokens/s, first token "
			   "after %.2f s\n",
			   testing->right, QUESTION_COUNT, prefill, decode, first);
		return say_out(buf_bytes(&out), out.len);
	}
	json_set_string(line, "type", "test");
	json_set_string(line, "model", testing->model);
	json_set_int(line, "right", testing->right);
	json_set_int(line, "questions", QUESTION_COUNT);
	json_set(line, "prefill_tokens_s", json_new_double(prefill));
	json_set(line, "decode_tokens_s", json_new_double(decode));
	json_set(line, "first_token_s", json_new_double(first));
	json_write(&out, line);
	buf_append_char(&out, '\n');
	return say_out(buf_bytes(&out), out.len);
}

static int test(struct testing *testing)
{
	struct err err = ERR_INIT;
	int outcome = ask_all(testing, &err), status;

	(void)file_remove_tree(AT_FDCWD, testing->place, NULL);
	if (outcome != 0 && signals_next(testing->cancel_fd))
		return EXIT_CANCELLED;
	if (outcome != 0)
		return say_err(&err);
	status = show_sum(testing);
	return status ? status : testing->right == QUESTION_COUNT ? 0 : EXIT_CELL_FAILED;
}

int model_test(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	struct err err = ERR_INIT;
	cleanup_free char *program = paths_helper("fumehood-ask", &err);
	cleanup_free char *path = NULL;
	cleanup_fd int signal_fd = -1;
	char place[] = "/tmp/fumehood-model-XXXXXX";
	struct testing testing = {.json = options->json, .place = place};
	struct gguf gguf;

	if (model_house_open(&house, &err) != 0 || !program)
		return say_err(&err);
	path = model_file(&house, name, &err);
	if (!path || gguf_load(path, &gguf, &err) != 0)
		return say_err(&err);
	signal_fd = signals_open(&err);
	if (signal_fd < 0)
		return say_err(&err);
	if (!mkdtemp(place)) {
		err_sys(&err, "cannot make a folder in /tmp");
		return say_err(&err);
	}
	testing.program = program;
	testing.model = path;
	testing.cancel_fd = signal_fd;
	return test(&testing);
}
