/*
 * Fetching the wheel xllamacpp: a llama.cpp server as one native library, prebuilt, MIT.
 *
 * pip puts its files into a folder of their own, checked by pinned hashes, without any dependency;
 * so nothing of the user's environments is touched, and the server has nothing but itself and the
 * standard library. The stable ABI lets any CPython from 3.10 on load it; which one it was is
 * noted, so that another FUMEHOOD_PYTHON later does not matter.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/paths.h"
#include "base/python.h"
#include "model/llama.h"
#include "model/tool.h"

#define VERSION "2026.10.11549"

const char *const LLAMA_WHEEL_VERSION = VERSION;

/* cp310-abi3, manylinux2014: x86_64, aarch64. */
static const char REQUIREMENT[] =
	"xllamacpp==" VERSION
	" --hash=sha256:c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261"
	" --hash=sha256:e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e\n";

enum { ASK_MS_MAX = 30000 };

/* Whether it is a CPython of at least 3.10 that has pip. */
static bool fits(const char *python)
{
	const char *const argv[] = {
		python, "-c",
		"import sys, pip; sys.exit(not (sys.version_info >= (3, 10) and "
		"sys.implementation.name == 'cpython'))",
		NULL};
	const struct tool ask = {
		.argv = argv, .output = -1, .cancel_fd = -1, .wait_ms = ASK_MS_MAX};
	cleanup_buf struct buf words = BUF_INIT;

	return tool_run(&ask, &words, NULL) == 0;
}

/* A Python that can install and run it; owned by the caller. */
static char *find_python(struct err *err)
{
	static const char *const names[] = {"python3", "/usr/bin/python3"};
	char *python = python_default(NULL);

	if (python && !python_is_made(python) && fits(python))
		return python;
	free(python);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		python = python_resolve(names[i], NULL);
		if (python && fits(python))
			return python;
		free(python);
	}
	err_set(err, ERR_UNSUPPORTED,
		"a Python of 3.10 or newer with pip is needed: apt install python3-pip, or set "
		"FUMEHOOD_PYTHON; or install " LLAMA_SERVER);
	return NULL;
}

static int write_file(const char *folder, const char *name, const char *text, struct err *err)
{
	cleanup_fd int dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dirfd < 0)
		return err_sys(err, "cannot open %s", folder);
	return file_replace(dirfd, name, text, strlen(text), 0600, err);
}

static int run_pip(const char *python, const char *folder, int cancel_fd, struct err *err)
{
	cleanup_free char *requirement = mem_format("%s/requirements.txt", folder);
	cleanup_free char *site = mem_format("%s/site", folder);
	const char *const argv[] = {python,
				    "-m",
				    "pip",
				    "install",
				    "--quiet",
				    "--no-input",
				    "--disable-pip-version-check",
				    "--no-deps",
				    "--no-compile",
				    "--only-binary",
				    ":all:",
				    "--require-hashes",
				    "--target",
				    site,
				    "-r",
				    requirement,
				    NULL};
	const struct tool pip = {.argv = argv, .output = -1, .cancel_fd = cancel_fd, .wait_ms = -1};
	cleanup_buf struct buf words = BUF_INIT;

	if (tool_run(&pip, &words, err) == 0)
		return 0;
	if (strstr(buf_bytes(&words), "No matching distribution"))
		return err_set(err, ERR_UNSUPPORTED,
			       "there is no wheel xllamacpp " VERSION
			       " for this machine, or the package index cannot be reached: "
			       "install " LLAMA_SERVER);
	return err_wrap(err, "pip cannot install xllamacpp");
}

static int note(const char *python, const char *folder, struct err *err)
{
	cleanup_json struct json *json = json_new_object();
	cleanup_buf struct buf text = BUF_INIT;

	json_set_string(json, "python", python);
	json_set_string(json, "version", VERSION);
	json_write(&text, json);
	buf_append_char(&text, '\n');
	return write_file(folder, "engine.json", buf_bytes(&text), err);
}

/* Puts the new folder into the place of the old one. */
static int replace(const char *new, const char *place, struct err *err)
{
	if (renameat2(AT_FDCWD, new, AT_FDCWD, place, RENAME_EXCHANGE) == 0)
		return file_remove_tree(AT_FDCWD, new, err);
	if (rename(new, place) != 0)
		return err_sys(err, "cannot make %s", place);
	return 0;
}

static int install(const char *python, const char *new, const char *place, int cancel_fd,
		   struct err *err)
{
	if (file_remove_tree(AT_FDCWD, new, err) != 0 || file_make_dirs(new, 0700, err) != 0 ||
	    write_file(new, "requirements.txt", REQUIREMENT, err) != 0 ||
	    run_pip(python, new, cancel_fd, err) != 0 || note(python, new, err) != 0)
		return -1;
	return replace(new, place, err);
}

/* Whether this very version is there and its Python still runs. */
static bool is_there(void)
{
	cleanup_llama struct llama llama = LLAMA_INIT;
	cleanup_free char *library = NULL;

	if (llama_find_wheel(&llama) != 0 || !llama.version || strcmp(llama.version, VERSION) != 0)
		return false;
	library = mem_format("%s/xllamacpp", llama.site);
	return access(library, F_OK) == 0;
}

int llama_install(int cancel_fd, bool *done, struct err *err)
{
	cleanup_free char *data = paths_data(err);
	cleanup_free char *place = data ? mem_format("%s/engine", data) : NULL;
	cleanup_free char *new = data ? mem_format("%s/engine.new", data) : NULL;
	cleanup_fd int dirfd = data ? open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	cleanup_free char *python = NULL;
	cleanup_fd int lock = -1;
	int outcome;

	*done = false;
	if (dirfd < 0)
		return data ? err_sys(err, "cannot open %s", data) : -1;
	lock = file_lock(dirfd, "engine.lock", err);
	if (lock < 0)
		return err_wrap(err, "another process is fetching the server");
	if (is_there())
		return 0;
	python = find_python(err);
	if (!python)
		return -1;
	outcome = install(python, new, place, cancel_fd, err);
	if (outcome != 0)
		(void)file_remove_tree(AT_FDCWD, new, NULL);
	*done = outcome == 0;
	return outcome;
}
