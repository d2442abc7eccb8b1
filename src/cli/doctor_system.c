/*
 * Doctor: the kernel, the clock, the locale and the terminal.
 */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "cli/graphics.h"
#include "cli/sixel.h"

#define CLOCK_US_MIN \
	(INT64_C(1735689600) * 1000000) /* 2025-01-01: before this program was made \
					 */

/* --- system ----------------------------------------------------------------------------------- */

/* A system call that Fumehood cannot do without and that is missing here, or NULL. Each is made
 * with arguments that a kernel which knows it refuses, with another errno than ENOSYS. */
static const char *missing_call(void)
{
	static const struct {
		const char *name;
		long number;
	} calls[] = {
		{"pidfd_open (Linux 5.3)", SYS_pidfd_open},
		{"clone3 (Linux 5.3)", SYS_clone3},
		{"openat2 (Linux 5.6)", SYS_openat2},
		{"close_range (Linux 5.9)", SYS_close_range},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (syscall(calls[i].number, -1L, 0L, -1L, 0L, 0L, 0L) < 0 && errno == ENOSYS)
			return calls[i].name;
	return NULL;
}

static void check_kernel(struct doctor *doctor)
{
	const char *missing = missing_call();
	cleanup_free char *detail = NULL;
	struct utsname name;

	if (uname(&name) != 0)
		return;
	detail = mem_format("%s %s, %s, %ld CPUs%s%s", name.sysname, name.release, name.machine,
			    sysconf(_SC_NPROCESSORS_ONLN), missing ? "; without " : "",
			    missing ? missing : "");
	doctor_note(doctor, missing ? DOCTOR_FAILED : DOCTOR_OK, "kernel", detail,
		    "no session can start", "use Linux 5.9 or later, or allow this system call");
}

static void check_clock(struct doctor *doctor)
{
	int64_t now = clock_wall_us();
	char text[CLOCK_TEXT_SIZE];

	clock_format(now, text);
	doctor_note(doctor, now < CLOCK_US_MIN ? DOCTOR_WARNING : DOCTOR_OK, "clock", text,
		    "records bear wrong times, and fumehood gc goes by them",
		    "set the clock: timedatectl set-ntp true");
}

/* Which variable decides about characters, locale(7). */
static const char *locale_variable(const char **value)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < 3; i++) {
		*value = getenv(names[i]);
		if (*value && **value)
			return names[i];
	}
	*value = "";
	return "LANG";
}

static void check_locale(struct doctor *doctor)
{
	const char *value;
	const char *variable = locale_variable(&value);
	locale_t locale = newlocale(LC_CTYPE_MASK, "", NULL);
	const char *codeset = locale ? nl_langinfo_l(CODESET, locale) : NULL;
	bool good = codeset && strcmp(codeset, "UTF-8") == 0;
	cleanup_free char *detail =
		mem_format("%s=%s: %s", variable, value, codeset ? codeset : "not installed here");

	doctor_note(doctor, good ? DOCTOR_OK : DOCTOR_WARNING, "locale", detail,
		    "Fumehood prints UTF-8; this terminal, and programs behind a pipe, may take it "
		    "for something else",
		    "export LC_ALL=C.UTF-8");
	if (locale)
		freelocale(locale);
}

static const char *get_variable(const char *name)
{
	return getenv(name);
}

static void check_terminal(struct doctor *doctor)
{
	static const char *const shown[] = {[GRAPHICS_PATH] = "as paths",
					    [GRAPHICS_KITTY] = "by kitty's protocol",
					    [GRAPHICS_ITERM] = "by iTerm2's protocol",
					    [GRAPHICS_SIXEL] = "as sixels"};
	const char *term = getenv("TERM");
	enum graphics graphics = GRAPHICS_PATH;
	struct err err = ERR_INIT;
	int known = graphics_from_environment(&graphics, get_variable, &err);
	bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
	cleanup_free char *detail = NULL;

	if (known < 0) {
		doctor_note(doctor, DOCTOR_WARNING, "terminal", err.text, "fumehood repl refuses",
			    "unset FUMEHOOD_IMAGES");
		return;
	}
	if (known && graphics == GRAPHICS_SIXEL && !sixel_is_there()) {
		doctor_note(doctor, DOCTOR_WARNING, "terminal",
			    "images in repl as sixels, without the program fumehood-sixel",
			    "fumehood repl refuses",
			    "apt-get install libsixel-dev libpng-dev and build Fumehood anew, or "
			    "unset FUMEHOOD_IMAGES");
		return;
	}
	detail = mem_format("TERM=%s; images in repl: %s", term ? term : "",
			    known      ? shown[graphics]
			    : terminal ? "what it answers when it is asked"
				       : "as paths, this is no terminal");
	doctor_note(doctor, DOCTOR_OK, "terminal", detail, NULL, NULL);
}

void doctor_system(struct doctor *doctor)
{
	check_kernel(doctor);
	check_clock(doctor);
	check_locale(doctor);
	check_terminal(doctor);
}
