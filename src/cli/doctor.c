/*
 * fumehood doctor: can this machine run sessions, what is lost on it, and what is to be done?
 *
 * The groups are a table; each is a file doctor_*.c or a part of one. Here their findings are
 * gathered and shown. What was found may quote names, paths and the words of other programs, so it
 * is escaped for people; JSON carries it as it is.
 */
#include "cli/doctor.h"

#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/find.h"
#include "cli/say.h"
#include "cli/table.h"

static const struct {
	const char *name;
	void (*check)(struct doctor *doctor);
} GROUPS[] = {
	{"system", doctor_system},
	{"sandbox", doctor_sandbox},
	{"programs", doctor_programs},
	{"directories", doctor_directories},
	{"disk", doctor_disk},
	{"limits", doctor_limits},
	{"python", doctor_python},
	{"session", doctor_session},
	{"fonts", doctor_fonts},
	{"records", doctor_records},
	{"models", doctor_models},
	{"environments", doctor_environments},
};

enum { GROUP_COUNT = sizeof(GROUPS) / sizeof(GROUPS[0]), NAME_WIDTH_MAX = 24 };

static const char *const STATUS_NAMES[] = {
	[DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_FAILED] = "failed"};

void doctor_note(struct doctor *doctor, enum doctor_status status, const char *check,
		 const char *detail, const char *effect, const char *cure)
{
	struct json *item = json_new_object();
	bool ok = status == DOCTOR_OK;

	json_set_string(item, "group", doctor->group);
	json_set(item, "check", json_new_string(check, strlen(check)));
	json_set_string(item, "status", STATUS_NAMES[status]);
	json_set(item, "ok", json_new_bool(status != DOCTOR_FAILED));
	json_set(item, "detail", json_new_string(detail, strlen(detail)));
	json_set(item, "effect", ok || !effect ? NULL : json_new_string(effect, strlen(effect)));
	json_set(item, "cure", ok || !cure ? NULL : json_new_string(cure, strlen(cure)));
	json_push(doctor->checks, item);
	doctor->failed += status == DOCTOR_FAILED;
	doctor->warned += status == DOCTOR_WARNING;
}

static size_t group_find(const char *name)
{
	size_t i = 0;

	while (i < GROUP_COUNT && strcmp(GROUPS[i].name, name) != 0)
		i++;
	return i;
}

static bool is_chosen(const struct options *options, const char *group)
{
	for (size_t i = 0; i < options->word_count; i++)
		if (strcmp(options->words[i], group) == 0)
			return true;
	return options->word_count == 0;
}

static int check_names(const struct command *command, const struct options *options)
{
	cleanup_buf struct buf names = BUF_INIT;

	for (size_t i = 0; i < GROUP_COUNT; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", GROUPS[i].name);
	for (size_t i = 0; i < options->word_count; i++)
		if (group_find(options->words[i]) == GROUP_COUNT)
			return say_usage(command, "doctor has no checks called %s, but: %s",
					 options->words[i], buf_bytes(&names));
	return 0;
}

/* --- showing ---------------------------------------------------------------------------------- */

static void put_line(struct buf *out, const char *label, const char *text)
{
	if (!text)
		return;
	buf_printf(out, "           %s ", label);
	text_escape(out, text, strlen(text), false, false);
	buf_append_char(out, '\n');
}

static void put_check(struct buf *out, const struct json *item, size_t width)
{
	const char *detail = json_get_string(item, "detail");

	buf_append_string(out, "  ");
	table_cell(out, json_get_string(item, "status"), 7);
	table_cell(out, json_get_string(item, "check"), width);
	text_escape(out, detail, strlen(detail), false, false);
	while (out->len && buf_bytes(out)[out->len - 1] == ' ')
		buf_truncate(out, out->len - 1);
	buf_append_char(out, '\n');
	put_line(out, "effect:", json_get_string(item, "effect"));
	put_line(out, "cure:  ", json_get_string(item, "cure"));
}

static size_t name_width(const struct json *checks)
{
	size_t width = 0;

	for (size_t i = 0; i < json_length(checks); i++) {
		const char *name = json_get_string(json_at(checks, i), "check");
		size_t count = text_count(name, strlen(name));

		width = count > width ? count : width;
	}
	return width > NAME_WIDTH_MAX ? NAME_WIDTH_MAX : width;
}

static void put_summary(struct buf *out, const struct doctor *doctor)
{
	if (doctor->failed)
		buf_printf(out, "%u failed", doctor->failed);
	if (doctor->warned)
		buf_printf(out, "%s%u %s", doctor->failed ? ", " : "", doctor->warned,
			   doctor->warned == 1 ? "warning" : "warnings");
	buf_append_string(out, doctor->failed || doctor->warned ? "\n" : "all is well\n");
}

static int print_text(const struct doctor *doctor)
{
	cleanup_buf struct buf out = BUF_INIT;
	size_t width = name_width(doctor->checks);
	const char *group = "";

	for (size_t i = 0; i < json_length(doctor->checks); i++) {
		const struct json *item = json_at(doctor->checks, i);

		if (strcmp(json_get_string(item, "group"), group) != 0) {
			group = json_get_string(item, "group");
			buf_printf(&out, "%s\n", group);
		}
		put_check(&out, item, width);
	}
	put_summary(&out, doctor);
	return say_out(buf_bytes(&out), out.len);
}

static int print_json(const struct doctor *doctor)
{
	cleanup_json struct json *all = json_new_object();
	cleanup_buf struct buf out = BUF_INIT;

	json_set(all, "checks", json_keep(doctor->checks));
	json_set(all, "ok", json_new_bool(doctor->failed == 0));
	json_set_int(all, "failed", doctor->failed);
	json_set_int(all, "warnings", doctor->warned);
	json_write(&out, all);
	buf_append_char(&out, '\n');
	return say_out(buf_bytes(&out), out.len);
}

static int command_doctor(const struct command *command, int argc, char **argv)
{
	bool json = false;
	const struct option table[] = {{"json", 'j', OPTION_FLAG, &json}};
	cleanup_options struct options options = {.words = NULL};
	cleanup_json struct json *checks = json_new_array();
	struct doctor doctor = {.checks = checks};
	int status = command_begin(command, &options, table, 1, argc, argv, 0, GROUP_COUNT);

	if (status >= 0)
		return status;
	status = check_names(command, &options);
	if (status)
		return status;
	for (size_t i = 0; i < GROUP_COUNT; i++) {
		doctor.group = GROUPS[i].name;
		if (is_chosen(&options, doctor.group))
			GROUPS[i].check(&doctor);
	}
	status = json ? print_json(&doctor) : print_text(&doctor);
	return status ? status : doctor.failed ? EXIT_FUMEHOOD : 0;
}

const struct command COMMAND_DOCTOR = {
	.name = "doctor",
	.summary = "check what this machine can do",
	.example = "fumehood doctor",
	.help = "Usage: fumehood doctor [--json] [GROUP...]\n"
		"\n"
		"Checks, by doing it, whether sessions can run here and what is lost on this "
		"machine. What is\n"
		"not as it should be is shown with its effect and its cure.\n"
		"\n"
		"  fumehood doctor\n"
		"  fumehood doctor python fonts                only these groups\n"
		"  fumehood doctor --json | jq -r '.checks[] | select(.status!=\"ok\") | .cure'\n"
		"\n"
		"Groups: system, sandbox, programs, directories, disk, limits, python, session, "
		"fonts,\n"
		"records, models, environments.\n"
		"\n"
		"Options:\n"
		"  -j, --json           as one JSON object\n"
		"\n"
		"Exit status: 0, also with warnings; 125 if a check failed: sessions cannot run.\n",
	.run = command_doctor,
};
