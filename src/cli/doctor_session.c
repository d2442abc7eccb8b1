/*
 * Doctor: a whole session, and the fonts of its figures.
 *
 * What each part promises is proved by all of them together: a session is started as `fumehood run`
 * starts one, calculates, and is removed. Fonts are looked at from inside, since only what is
 * visible in the box counts: a figure with Chinese characters is drawn there.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/begin.h"
#include "cli/doctor.h"
#include "cli/say.h"

enum { START_WAIT_S = 60 };
#define CELL_WAIT_S 30.0

/* Runs code in a session of its own. The caller releases *result. */
static int run_code(const char *code, int64_t *ready_us, bool *degraded, struct fh_result *result,
		    struct err *err)
{
	const struct itimerspec time = {.it_value = {.tv_sec = START_WAIT_S}};
	cleanup_fd int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	const struct begin_options options = {.timeout_s = CELL_WAIT_S,
					      .policy = POLICY_OPTIONS_INIT};
	struct begin begin = BEGIN_INIT;
	struct fh_error error = FH_ERROR_INIT;
	int64_t start_us = clock_monotonic_us();
	int status;

	if (timer < 0 || timerfd_settime(timer, 0, &time, NULL) != 0)
		return err_sys(err, "a timer cannot be made");
	if (begin_session(&begin, &options, NULL, NULL, timer, err) != 0)
		return -1;
	*ready_us = clock_monotonic_us() - start_us;
	*degraded = begin.degraded;
	status = fh_run(begin.session, code, strlen(code), NULL, result, &error);
	if (status != 0)
		say_take(err, &error);
	begin_finish(&begin, false);
	return status;
}

void doctor_session(struct doctor *doctor)
{
	struct fh_result result = FH_RESULT_INIT;
	struct err err = ERR_INIT;
	cleanup_free char *detail = NULL;
	int64_t ready_us = 0;
	bool degraded = false;
	bool runs = run_code("6 * 7", &ready_us, &degraded, &result, &err) == 0;
	bool right = runs && result.status == FH_CELL_OK && result.result &&
		     strcmp(result.result, "42") == 0;

	if (!runs)
		detail = mem_string(err.text);
	else if (!right)
		detail = mem_format("6 * 7 is %s%s%s", result.result ? result.result : "nothing",
				    result.reason ? ": " : "", result.reason ? result.reason : "");
	else
		detail = mem_format("6 * 7 is 42; ready after %.1f ms, the cell took %.1f ms",
				    (double)ready_us / 1e3, (double)result.duration_us / 1e3);
	if (right && degraded)
		doctor_note(doctor, DOCTOR_WARNING, "session", detail,
			    "in the degraded tier: without namespaces, cold starts, weaker walls",
			    "what has failed under \"sandbox\" says what is in the way");
	else
		doctor_note(doctor, right ? DOCTOR_OK : DOCTOR_FAILED, "session", detail,
			    "nothing can be run", "see the message and what else has failed here");
	fh_result_release(&result);
}

/* --- fonts ------------------------------------------------------------------------------------ */

static void check_chinese(struct doctor *doctor, const struct json *fonts)
{
	static const char effect[] =
		"Chinese, Japanese and Korean characters in figures are shown as empty boxes";
	const struct json *found = json_get(fonts, "cjk");
	const char *unknown = json_get_string(fonts, "unknown");
	bool drawn = json_get_bool(fonts, "drawn", false);
	cleanup_free char *detail = NULL;

	if (drawn && json_get_string(found, "name")) {
		detail = mem_format("%s, %s", json_get_string(found, "name"),
				    json_get_string(found, "path"));
		doctor_note(doctor, DOCTOR_OK, "Chinese", detail, NULL, NULL);
	} else if (drawn) {
		doctor_note(doctor, DOCTOR_OK, "Chinese", "the usual font has the characters", NULL,
			    NULL);
	} else if (unknown) {
		detail = mem_format("%s is there, but not in the list of fonts, which is older",
				    unknown);
		doctor_note(doctor, DOCTOR_WARNING, "Chinese", detail, effect,
			    "fumehood pool stop; where no zygote is confined, also: rm "
			    "~/.cache/matplotlib/fontlist-*.json");
	} else {
		detail = mem_format("no font with Chinese characters among %lld fonts in the box",
				    (long long)json_get_int(fonts, "known", 0));
		doctor_note(doctor, DOCTOR_WARNING, "Chinese", detail, effect,
			    "apt-get install fonts-noto-cjk; fumehood pool stop. For one session: "
			    "put a font (.ttf, .otf) into its workspace");
	}
}

static void check_deja_vu(struct doctor *doctor, const struct json *fonts)
{
	const char *path = json_get_string(fonts, "dejavu");

	doctor_note(doctor, path ? DOCTOR_OK : DOCTOR_WARNING, "DejaVu Sans",
		    path ? path : "matplotlib's own font is not there",
		    "minus signs and other marks may be missing in figures",
		    "install matplotlib anew: pip install --force-reinstall matplotlib");
}

void doctor_fonts(struct doctor *doctor)
{
	static const char code[] = "from fumehood_guest import checkup\ncheckup.print_fonts()";
	struct fh_result result = FH_RESULT_INIT;
	cleanup_json struct json *fonts = NULL;
	struct err err = ERR_INIT;
	int64_t ready_us;
	bool degraded = false;

	if (run_code(code, &ready_us, &degraded, &result, &err) == 0) {
		if (result.status == FH_CELL_OK)
			fonts = json_parse(result.out, result.out_len, &JSON_LIMITS, &err);
		else
			err_set(&err, ERR_ENGINE, "%s", result.evalue ? result.evalue : "it died");
	}
	fh_result_release(&result);
	if (!fonts) {
		doctor_note(doctor, DOCTOR_WARNING, "fonts", err.text,
			    "nothing is known about characters in figures",
			    "fumehood doctor session says whether sessions run");
	} else if (!json_get_string(fonts, "matplotlib")) {
		doctor_note(doctor, DOCTOR_OK, "fonts", "no matplotlib here, so no figures", NULL,
			    NULL);
	} else {
		check_chinese(doctor, fonts);
		check_deja_vu(doctor, fonts);
	}
}
