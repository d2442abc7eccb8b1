/*
 * Doctor: other Python environments that --python could name.
 *
 * Looked for where their makers put them: ./.venv, pyenv, conda, uv, PATH. Each is run and asked
 * for its version, with the least that a Python needs (-E -s -S: no variables, no site), so that
 * also a 2.7 answers, in a few milliseconds.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/doctor.h"

enum { ENVIRONMENTS_MAX = 32, ANSWER_WAIT_MS = 3000, ENTRIES_MAX = 1000 };

struct search {
	struct doctor *doctor;
	char *seen[ENVIRONMENTS_MAX]; /* resolved paths of what was shown; owned */
	size_t count;
};

/* False when it was shown before, or enough have been. */
static bool search_take(struct search *search, const char *path)
{
	char *real = realpath(path, NULL);

	if (!real) /* dangling: shown by its own name */
		real = mem_string(path);
	for (size_t i = 0; i < search->count; i++) {
		if (strcmp(search->seen[i], real) == 0) {
			free(real);
			return false;
		}
	}
	if (search->count == ENVIRONMENTS_MAX) {
		free(real);
		return false;
	}
	search->seen[search->count++] = real;
	return true;
}

/* Runs `python` and notes what it says under the name `check`; `option` is what --python takes. */
static void try_python(struct search *search, const char *check, const char *python,
		       const char *option)
{
	const char *const argv[] = {python, "-E",
				    "-s",   "-S",
				    "-c",   "import sys; print('%d.%d.%d' % sys.version_info[:3])",
				    NULL};
	cleanup_buf struct buf answer = BUF_INIT;
	cleanup_free char *detail = NULL;
	struct err err = ERR_INIT;
	unsigned major = 0, minor = 0;

	if (doctor_ask(python, argv, ANSWER_WAIT_MS, &answer, &err) != 0) {
		detail = mem_format("%s: %s", python, err.text);
		doctor_note(search->doctor, DOCTOR_WARNING, check, detail,
			    "--python with it would fail", "mend or remove it");
		return;
	}
	if (sscanf(buf_bytes(&answer), "%u.%u", &major, &minor) != 2 || major < 3 ||
	    (major == 3 && minor < 9))
		detail =
			mem_format("%s: too old for Fumehood, which needs 3.9", buf_bytes(&answer));
	else
		detail = mem_format("%s: --python %s", buf_bytes(&answer), option);
	doctor_note(search->doctor, DOCTOR_OK, check, detail, NULL, NULL);
}

/* A directory that may be an environment: venv, conda, or the prefix of an installation. */
static void try_directory(struct search *search, const char *check, const char *directory)
{
	static const char *const names[] = {"python", "python3"};
	cleanup_free char *dangling = doctor_dangling(directory);

	if (dangling) {
		cleanup_free char *cure = mem_format(
			"python3 -m venv --clear '%s', and install its packages anew", directory);

		if (search_take(search, directory))
			doctor_note(search->doctor, DOCTOR_WARNING, check, dangling,
				    "--python with it would fail", cure);
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		cleanup_free char *python = mem_format("%s/bin/%s", directory, names[i]);

		if (access(python, X_OK) != 0)
			continue;
		if (search_take(search, directory))
			try_python(search, check, python, directory);
		return;
	}
}

static int by_name(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Each directory in `folder`, by name: "pyenv 3.12.1". */
static void try_each(struct search *search, const char *kind, const char *folder)
{
	DIR *dir = opendir(folder);
	char **names = NULL;
	size_t count = 0;

	if (!dir)
		return;
	for (struct dirent *item; count < ENTRIES_MAX && (item = readdir(dir));) {
		if (item->d_name[0] == '.')
			continue;
		names = mem_resize(names, count + 1, sizeof(*names));
		names[count++] = mem_string(item->d_name);
	}
	closedir(dir);
	if (count)
		qsort(names, count, sizeof(*names), by_name);
	for (size_t i = 0; i < count; i++) {
		cleanup_free char *check = mem_format("%s %s", kind, names[i]);
		cleanup_free char *path = mem_format("%s/%s", folder, names[i]);

		try_directory(search, check, path);
		free(names[i]);
	}
	free(names);
}

static void try_variable(struct search *search, const char *variable)
{
	const char *value = getenv(variable);

	if (value && value[0] == '/')
		try_directory(search, variable, value);
}

static void try_conda(struct search *search, const char *home)
{
	static const char *const roots[] = {"miniconda3", "anaconda3", "miniforge3", "mambaforge"};

	try_variable(search, "CONDA_PREFIX");
	for (size_t i = 0; home && i < sizeof(roots) / sizeof(roots[0]); i++) {
		cleanup_free char *root = mem_format("%s/%s", home, roots[i]);
		cleanup_free char *environments = mem_format("%s/envs", root);

		try_directory(search, "conda base", root);
		try_each(search, "conda", environments);
	}
	try_directory(search, "conda base", "/opt/conda");
	try_each(search, "conda", "/opt/conda/envs");
}

/* python3.9 to python3.14 on PATH, and what python3 is. */
static void try_path(struct search *search)
{
	const char *at = getenv("PATH");

	while (at) {
		size_t len = strcspn(at, ":");

		for (int minor = 8; len && at[0] == '/' && minor <= 14; minor++) {
			cleanup_free char *name = minor == 8 ? mem_string("python3")
							     : mem_format("python3.%d", minor);
			cleanup_free char *path = mem_format("%.*s/%s", (int)len, at, name);

			/* Shims stand for what pyenv and the like show by themselves. */
			if (access(path, X_OK) == 0 && !strstr(path, "/shims/") &&
			    search_take(search, path))
				try_python(search, name, path, path);
		}
		at = at[len] ? at + len + 1 : NULL;
	}
}

void doctor_environments(struct doctor *doctor)
{
	struct search search = {.doctor = doctor};
	const char *home = getenv("HOME");
	const char *pyenv = getenv("PYENV_ROOT");
	cleanup_free char *versions = pyenv && *pyenv
					      ? mem_format("%s/versions", pyenv)
					      : mem_format("%s/.pyenv/versions", home ? home : "");
	cleanup_free char *uv = mem_format("%s/.local/share/uv/python", home ? home : "");

	try_variable(&search, "VIRTUAL_ENV");
	try_directory(&search, "./.venv", ".venv");
	try_directory(&search, "./venv", "venv");
	try_each(&search, "pyenv", versions);
	try_conda(&search, home);
	try_each(&search, "uv", uv);
	try_path(&search);
	if (search.count == 0)
		doctor_note(doctor, DOCTOR_OK, "others", "none was found", NULL, NULL);
	for (size_t i = 0; i < search.count; i++)
		free(search.seen[i]);
}
