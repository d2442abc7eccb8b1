/*
 * Doctor: can a model of this machine be asked?
 *
 * All of this is optional, as one can ask a server elsewhere: so what is missing is told and is no
 * warning, but what is there and cannot be used is one. The program of `fumehood ask` looks, since
 * it is the one that knows models; this one is not linked with it.
 */
#include <string.h>

#include "base/mem.h"
#include "base/paths.h"
#include "cli/doctor.h"

enum { LOOK_MS = 20000 };

static void note_line(struct doctor *doctor, const struct json *line)
{
	const char *status = json_get_string(line, "status");
	const char *check = json_get_string(line, "check");
	const char *detail = json_get_string(line, "detail");

	if (!status || !check || !detail)
		return;
	doctor_note(doctor, strcmp(status, "ok") == 0 ? DOCTOR_OK : DOCTOR_WARNING, check, detail,
		    json_get_string(line, "effect"), json_get_string(line, "cure"));
}

static void note_lines(struct doctor *doctor, const struct buf *answer)
{
	const char *at = buf_bytes(answer), *end = at + answer->len;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((stop ? stop : end) - at);
		cleanup_json struct json *line = json_parse(at, len, &JSON_LIMITS, NULL);

		if (line)
			note_line(doctor, line);
		at += len + 1;
	}
}

void doctor_models(struct doctor *doctor)
{
	struct err err = ERR_INIT;
	cleanup_free char *program = paths_helper("fumehood-ask", &err);
	const char *const argv[] = {"model", "findings", NULL};
	cleanup_buf struct buf answer = BUF_INIT;

	if (!program || doctor_ask(program, argv, LOOK_MS, &answer, &err) != 0) {
		doctor_note(doctor, DOCTOR_WARNING, "fumehood-ask", err.text,
			    "fumehood ask and fumehood model cannot be used",
			    "install libcurl4, or install Fumehood anew");
		return;
	}
	note_lines(doctor, &answer);
}
