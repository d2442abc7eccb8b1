/*
 * Doctor: the Python of a session that names none: which, why that one, and does it work?
 *
 * It is asked twice. Alone, it says what it is and whether Fumehood's extension loads, which works
 * also where no pool could start. Then its pool is started, as a session would do it, and the
 * zygote says which modules it has imported and which it had to leave out.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/paths.h"
#include "base/python.h"
#include "base/settings.h"
#include "cli/doctor.h"
#include "pool/pool.h"

enum { PYTHON_WAIT_MS = 20000, ZYGOTE_WAIT_MS = 60000, MINOR_MIN = 9, MINOR_MAX = 14 };

static const char NO_SESSION[] = "no session can start";

/* --- which ------------------------------------------------------------------------------------ */

/* The commands that make Fumehood's own environment. The caller owns them. */
static char *venv_commands(const char *words)
{
	cleanup_free char *data = paths_data(NULL);

	return mem_format("python3 -m venv%s '%s/venv' && '%s/venv/bin/pip' install ipython numpy "
			  "pandas matplotlib",
			  words, data ? data : "~/.local/share/fumehood",
			  data ? data : "~/.local/share/fumehood");
}

/* Fumehood's own environment is taken when its Python can be run. If it is there and cannot, the
 * next choice is taken without a word: here the word is said. */
static void check_own_environment(struct doctor *doctor)
{
	cleanup_free char *data = paths_data(NULL);
	cleanup_free char *python = data ? mem_format("%s/venv/bin/python", data) : NULL;
	cleanup_free char *folder = data ? mem_format("%s/venv", data) : NULL;
	cleanup_free char *dangling = NULL, *cure = NULL, *detail = NULL;

	if (!data || access(folder, F_OK) != 0 || access(python, X_OK) == 0)
		return;
	dangling = doctor_dangling(python);
	detail = dangling ? mem_take(dangling) : mem_format("%s cannot be run", python);
	cure = venv_commands(" --clear");
	doctor_note(doctor, DOCTOR_WARNING, "own environment", detail,
		    "it is passed over: sessions get another Python, with other packages", cure);
}

/* The first python3 on PATH, and whether it is a version manager's shim, which chooses by the
 * current directory. The caller owns the words. */
static char *found_on_path(void)
{
	const char *at = getenv("PATH");

	while (at) {
		size_t len = strcspn(at, ":");
		cleanup_free char *path = mem_format("%.*s/python3", (int)len, at);

		if (len && access(path, X_OK) == 0)
			return mem_format("python3 on PATH, %s%s", path,
					  strstr(path, "/shims/") ? ", a shim" : "");
		at = at[len] ? at + len + 1 : NULL;
	}
	return mem_string("being there");
}

/* What decided, in words. The caller owns it. */
static char *chosen_by(const struct settings *settings)
{
	const struct setting *setting = &settings->items[SETTING_PYTHON];
	cleanup_free char *data = NULL, *own = NULL;

	if (settings_given(settings, SETTING_PYTHON) && setting->source == SETTING_FROM_FILE)
		return mem_format("python \"%s\" in %s", settings_text(settings, SETTING_PYTHON),
				  settings->file ? settings->file : "the file");
	if (settings_given(settings, SETTING_PYTHON))
		return mem_format("FUMEHOOD_PYTHON=%s", settings_text(settings, SETTING_PYTHON));
	data = paths_data(NULL);
	own = data ? mem_format("%s/venv/bin/python", data) : NULL;
	if (own && access(own, X_OK) == 0)
		return mem_string("Fumehood's own environment");
	return found_on_path();
}

static void note_missing(struct doctor *doctor, const char *by, const char *chosen,
			 const struct err *err)
{
	cleanup_free char *dangling = chosen ? doctor_dangling(chosen) : NULL;
	cleanup_free char *detail = mem_format("chosen by %s: %s%s%s", by, err->text,
					       dangling ? "; " : "", dangling ? dangling : "");
	const char *slash = dangling && chosen ? strstr(chosen, "/bin/") : NULL;
	cleanup_free char *folder =
		dangling ? mem_copy(chosen, slash ? (size_t)(slash - chosen) : strlen(chosen))
			 : NULL;
	cleanup_free char *cure =
		dangling ? mem_format("python3 -m venv --clear '%s', and install its packages anew",
				      folder)
			 : mem_string("apt-get install python3, or name another by "
				      "FUMEHOOD_PYTHON");

	doctor_note(doctor, DOCTOR_FAILED, "python", detail, NO_SESSION, cure);
}

/* --- what it says ----------------------------------------------------------------------------- */

/* Runs checkup.py with it. The caller owns the JSON. */
static struct json *ask_python(const char *python, struct err *err)
{
	cleanup_free char *folder = paths_helper("python", err);
	cleanup_free char *script =
		folder ? mem_format("%s/fumehood_guest/checkup.py", folder) : NULL;
	const char *const argv[] = {python, "-I", "-X", "utf8", script, NULL};
	cleanup_buf struct buf answer = BUF_INIT;

	if (!folder || doctor_ask(python, argv, PYTHON_WAIT_MS, &answer, err) != 0)
		return NULL;
	return json_parse(buf_bytes(&answer), answer.len, &JSON_LIMITS, err);
}

/* -1: too old, 0: supported, 1: newer than what was tried. */
static int judge_version(const char *version)
{
	unsigned major = 0, minor = 0;

	if (sscanf(version, "%u.%u", &major, &minor) != 2 || major < 3 ||
	    (major == 3 && minor < MINOR_MIN))
		return -1;
	return major > 3 || minor > MINOR_MAX;
}

/* Returns whether a pool can be started with it. */
static bool check_version(struct doctor *doctor, const char *python, const char *by,
			  const struct json *answer)
{
	const char *version = json_get_string(answer, "version");
	const char *implementation = json_get_string(answer, "implementation");
	int judged = version ? judge_version(version) : -1;
	bool cpython = implementation && strcmp(implementation, "cpython") == 0;
	cleanup_free char *detail =
		mem_format("%s, %s %s; chosen by %s", python,
			   cpython ? "CPython" : "not CPython:", version ? version : "?", by);

	if (judged < 0 || !cpython)
		doctor_note(doctor, DOCTOR_FAILED, "python", detail, NO_SESSION,
			    "set FUMEHOOD_PYTHON to a CPython from 3.9 to 3.14");
	else
		doctor_note(doctor, judged ? DOCTOR_WARNING : DOCTOR_OK, "python", detail,
			    "this version is newer than what Fumehood was tried with (3.9 to 3.14)",
			    "set FUMEHOOD_PYTHON to one of these");
	return judged >= 0 && cpython;
}

static bool check_extension(struct doctor *doctor, const struct json *answer)
{
	const char *error = json_get_string(answer, "extension");

	doctor_note(doctor, error ? DOCTOR_FAILED : DOCTOR_OK, "extension",
		    error ? error : "fumehood_guest._guest loads", NO_SESSION,
		    "install Fumehood anew; it must be built for this processor and C library");
	return !error;
}

static void check_owner(struct doctor *doctor, const struct json *answer)
{
	const char *open_path = json_get_string(answer, "open");
	const struct json *owner = json_get(answer, "owner");
	const char *strange = json_get_string(owner, "path");
	cleanup_free char *detail = NULL, *cure = NULL;

	if (open_path) {
		detail = mem_format("anybody may write to %s", open_path);
		cure = mem_format("chmod -R o-w '%s'", open_path);
	} else if (strange) {
		detail = mem_format("%s belongs to uid %lld", strange,
				    (long long)json_get_int(owner, "uid", -1));
		cure = mem_format("use an environment of your own, or trust that user: chown -R "
				  "%u '%s'",
				  (unsigned)geteuid(), strange);
	} else {
		detail = mem_string("it belongs to you or root, and nobody else may write to it");
	}
	doctor_note(doctor, open_path || strange ? DOCTOR_WARNING : DOCTOR_OK, "owner", detail,
		    "others can put code into it that runs before the sandbox is entered", cure);
}

/* --- what its zygote says --------------------------------------------------------------------- */

struct package {
	const char *module, *effect;
};

static const struct package PACKAGES[] = {
	{"IPython", "no %magic, !command and name? in cells"},
	{"numpy", "code that imports it fails"},
	{"pandas", "code that imports it fails; no tables"},
	{"matplotlib", "code that imports it fails; no figures"},
};

enum { PACKAGE_COUNT = sizeof(PACKAGES) / sizeof(PACKAGES[0]) };

/* How to install packages into it. A Python of the system had better be left alone. */
static char *install_cure(const char *python, const struct json *answer, const char *module)
{
	const char *prefix = json_get_string(answer, "prefix");
	const char *base = json_get_string(answer, "base_prefix");
	bool own = prefix && base && (strcmp(prefix, base) != 0 || strncmp(prefix, "/usr", 4) != 0);

	if (own)
		return mem_format("'%s' -m pip install %s", python, module);
	return venv_commands("");
}

static void check_package(struct doctor *doctor, const char *python, const struct json *answer,
			  const struct json *ready, const struct package *package)
{
	const char *version = json_get_string(json_get(ready, "modules"), package->module);
	const char *skipped = json_get_string(json_get(ready, "skipped"), package->module);
	cleanup_free char *cure = NULL;

	if (version) {
		doctor_note(doctor, DOCTOR_OK, package->module, version, NULL, NULL);
		return;
	}
	cure = install_cure(python, answer, package->module);
	doctor_note(doctor, DOCTOR_WARNING, package->module,
		    skipped ? skipped : "it is not installed",
		    skipped ? "it is left out of what sessions begin with: each imports it itself, "
			      "or fails to"
			    : package->effect,
		    cure);
}

static int note_skipped(const char *key, size_t key_len, struct json *value, void *data)
{
	struct doctor *doctor = data;
	const char *reason = json_string(value, NULL);
	cleanup_free char *name = mem_copy(key, key_len);

	for (size_t i = 0; i < PACKAGE_COUNT; i++)
		if (strcmp(name, PACKAGES[i].module) == 0)
			return 0;
	doctor_note(doctor, DOCTOR_WARNING, name, reason ? reason : "it was left out",
		    "sessions begin without it, so the first use takes longer",
		    "mend the module, or take it out of preload (fumehood-config(5))");
	return 0;
}

static void check_zygote(struct doctor *doctor, const char *python, const struct json *answer)
{
	struct err err = ERR_INIT;
	cleanup_fd int fd = pool_connect(python, &err);
	cleanup_fd int family = -1;
	cleanup_json struct json *ready =
		fd < 0 ? NULL : pool_environment(fd, ZYGOTE_WAIT_MS, &family, &err);

	if (!ready) {
		doctor_note(doctor, DOCTOR_FAILED, "zygote", err.text, NO_SESSION,
			    "see the message; fumehood pool stop, then try again");
		return;
	}
	doctor_note(doctor, family < 0 ? DOCTOR_WARNING : DOCTOR_OK, "zygote",
		    family < 0 ? "it has started, but is not confined"
			       : "it has started, is confined, and waits in its pool",
		    "what packages do while they are imported can read your files and reach the "
		    "network",
		    "allow user namespaces, see the group sandbox; the pool's log says what is "
		    "missing");
	for (size_t i = 0; i < PACKAGE_COUNT; i++)
		check_package(doctor, python, answer, ready, &PACKAGES[i]);
	(void)json_each(json_get(ready, "skipped"), note_skipped, doctor);
}

static void check_chosen(struct doctor *doctor, const char *python, const char *by)
{
	struct err err = ERR_INIT;
	cleanup_json struct json *answer = ask_python(python, &err);
	bool works;

	if (!answer) {
		cleanup_free char *detail =
			mem_format("%s, chosen by %s: %s", python, by, err.text);

		doctor_note(doctor, DOCTOR_FAILED, "python", detail, NO_SESSION,
			    "mend or reinstall it, or set FUMEHOOD_PYTHON to a CPython from 3.9 to "
			    "3.14");
		return;
	}
	works = check_version(doctor, python, by, answer);
	works = check_extension(doctor, answer) && works;
	check_owner(doctor, answer);
	if (works)
		check_zygote(doctor, python, answer);
}

void doctor_python(struct doctor *doctor)
{
	cleanup_settings struct settings settings;
	struct err err = ERR_INIT;
	cleanup_free char *by = NULL, *python = NULL;
	const char *chosen;

	if (settings_load(&settings, &err) != 0) {
		doctor_note(doctor, DOCTOR_FAILED, "python", err.text, NO_SESSION,
			    "mend the configuration: fumehood-config(5)");
		return;
	}
	chosen = settings_given(&settings, SETTING_PYTHON)
			 ? settings_text(&settings, SETTING_PYTHON)
			 : NULL;
	check_own_environment(doctor);
	by = chosen_by(&settings);
	python = chosen ? python_resolve(chosen, &err) : python_default(&err);
	if (python)
		check_chosen(doctor, python, by);
	else
		note_missing(doctor, by, chosen, &err);
}
