/*
 * fumehood sandbox: the box as a tool of its own.
 *
 *	sandbox run      any program in a box, without session, keeper or journal (sandbox_run.c)
 *	sandbox explain  what would hold it, step by step, and why
 *	sandbox schema   the JSON Schema of a policy
 *
 * What a session may, by the same options; what is not asked for is as in a session.
 */
#include "cli/sandbox.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/begin.h"
#include "cli/find.h"
#include "cli/say.h"
#include "client/policy.h"
#include "sandbox/explain.h"

/* --- the policy ----------------------------------------------------------------------------- */

/* An empty folder of our own, beside other temporary files. */
static char *make_folder(const char *what, struct err *err)
{
	const char *tmp = getenv("TMPDIR");
	cleanup_free char *template =
		mem_format("%s/fumehood-%s-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp", what);

	if (!mkdtemp(template)) {
		err_sys(err, "a folder for the program");
		return NULL;
	}
	return mem_take(template);
}

static int name_workspace(struct sandbox_policy *made, const char *text, struct err *err)
{
	cleanup_free char *path = begin_split_workspace(text, &made->policy.workspace_mode, err);

	if (!path)
		return -1;
	if (made->policy.workspace_mode == WORKSPACE_OVERLAY)
		return err_set(err, ERR_UNSUPPORTED,
			       "changes can only be kept aside in a session: use "
			       "fumehood run -w %.100s, or :ro",
			       text);
	made->workspace = realpath(path, NULL);
	return policy_check_workspace(made->workspace ? made->workspace : path, true, err);
}

static int choose_workspace(struct sandbox_policy *made, const char *named, struct err *err)
{
	if (named)
		return name_workspace(made, named, err);
	made->policy.workspace_private = true;
	made->workspace = make_folder("box", err);
	made->private = made->workspace;
	return made->workspace ? 0 : -1;
}

int sandbox_policy_make(struct sandbox_policy *made, const struct sandbox_options *options,
			struct err *err)
{
	cleanup_json struct json *asked = NULL;
	struct policy *policy = &made->policy;

	policy_init(policy);
	if (policy_options_read(&options->policy, &asked, err) != 0 ||
	    policy_take_variables(asked, err) != 0 ||
	    (asked && policy_wish_read(&made->wish, asked, "policy", err) != 0))
		return -1;
	policy_wish_apply(&made->wish, policy);
	if (policy_check_paths(policy->read, policy->write, err) != 0 ||
	    choose_workspace(made, options->workspace, err) != 0)
		return -1;
	policy->workspace = made->workspace;
	return 0;
}

int sandbox_policy_make_tmp(struct sandbox_policy *made, struct err *err)
{
	made->tmp = make_folder("tmp", err);
	made->policy.tmp = made->tmp;
	return made->tmp ? 0 : -1;
}

void sandbox_policy_release(struct sandbox_policy *made)
{
	struct err err = ERR_INIT;

	if (made->private && file_remove_tree(AT_FDCWD, made->workspace, &err) != 0)
		say("%s could not be removed: %s", made->workspace, err.text);
	if (made->tmp && file_remove_tree(AT_FDCWD, made->tmp, &err) != 0)
		say("%s could not be removed: %s", made->tmp, err.text);
	free(made->workspace);
	free(made->tmp);
	policy_wish_release(&made->wish);
	*made = (struct sandbox_policy)SANDBOX_POLICY_INIT;
}

/* --- explain -------------------------------------------------------------------------------- */

static void put_step(struct buf *out, size_t number, const struct json *step)
{
	buf_printf(out, "%4zu  %s\n      %s\n      needs: %s\n", number,
		   json_get_string(step, "what"), json_get_string(step, "why"),
		   json_get_string(step, "needs"));
}

static int print_steps(const struct json *steps)
{
	cleanup_buf struct buf out = BUF_INIT;
	const char *by = "";

	for (size_t i = 0; i < json_length(steps); i++) {
		const struct json *step = json_at(steps, i);
		const char *now = json_get_string(step, "by");

		if (strcmp(by, now) != 0)
			buf_append_string(&out, strcmp(now, "box") == 0
							? "The box:\n"
							: "\nEach program in it:\n");
		by = now;
		put_step(&out, i + 1, step);
	}
	return say_out(buf_bytes(&out), out.len);
}

static int explain(const struct sandbox_options *options)
{
	cleanup_sandbox_policy struct sandbox_policy made = SANDBOX_POLICY_INIT;
	cleanup_json struct json *answer = json_new_object();
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;
	struct json *steps;

	if (sandbox_policy_make(&made, options, &err) != 0)
		return say_err(&err);
	steps = explain_policy(&made.policy, TIER_FULL, options->argv ? options->argv[0] : NULL,
			       &err);
	if (!steps)
		return say_err(&err);
	json_set(answer, "steps", steps);
	if (!options->json)
		return print_steps(steps);
	json_set_string(answer, "tier", tier_name(TIER_FULL));
	json_set(answer, "policy", policy_describe(&made.policy));
	json_write(&out, answer);
	buf_append_char(&out, '\n');
	return say_out(buf_bytes(&out), out.len);
}

/* --- the command ---------------------------------------------------------------------------- */

static int print_schema(void)
{
	cleanup_buf struct buf schema = BUF_INIT;

	policy_write_schema(&schema);
	return say_out(buf_bytes(&schema), schema.len);
}

static int command_sandbox(const struct command *command, int argc, char **argv)
{
	struct sandbox_options wanted = {.policy = POLICY_OPTIONS_INIT};
	const struct option table[] = {
		{"workspace", 'w', OPTION_TEXT, &wanted.workspace},
		{"timeout", 't', OPTION_SECONDS, &wanted.timeout_s},
		{"tty", '\0', OPTION_FLAG, &wanted.terminal},
		{"json", 'j', OPTION_FLAG, &wanted.json},
		POLICY_OPTION_ROWS(wanted.policy),
	};
	cleanup_options struct options options = {.words = NULL};
	int status = command_begin(command, &options, table, sizeof(table) / sizeof(*table), argc,
				   argv, 1, (size_t)argc);
	const char *verb;

	if (status >= 0)
		return status;
	verb = options.words[0];
	if (options.words_before != 1)
		return say_usage(command, "what is to run stands behind --");
	if (options.word_count > 1)
		wanted.argv = options.words + 1;
	if (strcmp(verb, "run") == 0) {
		if (wanted.json)
			return say_usage(command, "--json is for explain");
		return wanted.argv ? sandbox_run(&wanted)
				   : say_usage(command, "nothing is named behind -- to run");
	}
	if (wanted.terminal || wanted.timeout_s > 0)
		return say_usage(command, "--tty and --timeout are for run");
	if (strcmp(verb, "explain") == 0)
		return explain(&wanted);
	if (strcmp(verb, "schema") == 0 && !wanted.argv)
		return print_schema();
	return say_usage(command, "sandbox takes run, explain or schema, not %s", verb);
}

const struct command COMMAND_SANDBOX = {
	.name = "sandbox",
	.summary = "run any program in a sandbox, or explain it",
	.example = "fumehood sandbox run -w . -- python3 script.py",
	.help = "Usage: fumehood sandbox run [options] -- CMD [ARG...]\n"
		"       fumehood sandbox explain [options] [-- CMD]\n"
		"       fumehood sandbox schema\n"
		"\n"
		"run starts a program in a box as sessions have it, with your stdin, stdout and "
		"stderr: no\n"
		"network, none of your files but those that are named, and limits. explain says "
		"what the box\n"
		"consists of, why, and what each step needs. schema prints the JSON Schema of a "
		"policy.\n"
		"\n"
		"  fumehood sandbox run -- id\n"
		"  fumehood sandbox run -w . --memory 1G -- make test\n"
		"  fumehood sandbox run --read ~/data --tty -- bash\n"
		"  fumehood sandbox explain --write ~/out\n"
		"\n"
		"Options:\n"
		"  -w, --workspace DIR[:rw|:ro]\n"
		"                       directory to work in (default: an empty one, removed "
		"at the end)\n"
		"  -t, --timeout TIME   kill it after that time: 30, 0.5, 2m, 1h\n"
		"      --tty            give it a terminal, for programs that want one; what it "
		"writes there\n"
		"                       is then not looked at\n"
		"  -j, --json           of explain: one JSON object\n",
	.help_end = POLICY_OPTION_HELP
	"\n"
	"What the program leaves running ends with it. SIGINT, SIGTERM and SIGHUP are "
	"passed on.\n"
	"\n"
	"Exit status: that of the program, 128 + N if signal N ended it; 124 after "
	"--timeout, 126 if\n"
	"it cannot be run, 127 if it is not there; 2 for wrong usage, 125 if Fumehood "
	"itself failed.\n",
	.run = command_sandbox,
};
