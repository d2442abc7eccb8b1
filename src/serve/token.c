/*
 * Tokens: their files, and checking a text against them. See token.h.
 */
#include "serve/token.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/paths.h"

enum { TOKEN_FILE_BYTES_MAX = 64 << 10, SETTLE_US = 1000000 };

static const struct {
	const char *name;
	enum scope scope;
} SCOPES[] = {
	{"read", SCOPE_READ},     {"run", SCOPE_RUN},         {"files", SCOPE_FILES},
	{"manage", SCOPE_MANAGE}, {"metrics", SCOPE_METRICS}, {"all", SCOPE_ALL},
};
enum { SCOPE_COUNT = sizeof(SCOPES) / sizeof(SCOPES[0]) };

/* --- scopes ----------------------------------------------------------------------------------- */

int scopes_read(const char *text, unsigned *scopes, struct err *err)
{
	*scopes = 0;
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		size_t i = 0;

		while (i < SCOPE_COUNT &&
		       (strlen(SCOPES[i].name) != len || memcmp(SCOPES[i].name, at, len) != 0))
			i++;
		if (i == SCOPE_COUNT)
			return err_set(err, ERR_USAGE,
				       "there is no scope \"%.*s\": they are read, run, files, "
				       "manage, metrics and all, with commas between",
				       (int)(len > 40 ? 40 : len), at);
		*scopes |= SCOPES[i].scope;
		at += len;
		if (*at == '\0')
			return 0;
	}
}

void scopes_write(struct buf *out, unsigned scopes)
{
	const char *comma = "";

	for (size_t i = 0; i + 1 < SCOPE_COUNT; i++) {
		if (!(scopes & SCOPES[i].scope))
			continue;
		buf_printf(out, "%s%s", comma, SCOPES[i].name);
		comma = ",";
	}
}

/* --- one file --------------------------------------------------------------------------------- */

static bool is_token_id(const char *id)
{
	return strlen(id) == TOKEN_ID_SIZE - 1 &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyz234567") == TOKEN_ID_SIZE - 1;
}

static int take_text(const struct json *object, const char *key, char *to, size_t size)
{
	size_t len = 0;
	const char *text = json_string(json_get(object, key), &len);

	if (!text || len >= size || strlen(text) != len)
		return -1;
	memcpy(to, text, len + 1);
	return 0;
}

int token_read(const char *bytes, size_t len, struct token *token)
{
	cleanup_json struct json *object = json_parse(bytes, len, &JSON_LIMITS, NULL);
	const char *scopes = json_get_string(object, "scopes");
	const char *created = json_get_string(object, "created");
	const char *expires = json_get_string(object, "expires");
	int64_t sessions_max = json_get_int(object, "sessions_max", 0);

	*token = (struct token){.expires_us = INT64_MAX};
	if (json_get_int(object, "format", 0) != 1 || !scopes ||
	    take_text(object, "id", token->id, sizeof(token->id)) != 0 ||
	    take_text(object, "name", token->name, sizeof(token->name)) != 0 ||
	    take_text(object, "sessions", token->prefix, sizeof(token->prefix)) != 0 ||
	    take_text(object, "sha256", token->sha256, sizeof(token->sha256)) != 0 ||
	    !is_token_id(token->id) || !hash_is_hex(token->sha256) || sessions_max < 0 ||
	    scopes_read(scopes, &token->scopes, NULL) != 0)
		return -1;
	token->sessions_max = (uint64_t)sessions_max;
	token->created_us = created ? clock_parse(created) : 0;
	if (expires)
		token->expires_us = clock_parse(expires);
	return 0;
}

void token_write(struct buf *out, const struct token *token)
{
	cleanup_json struct json *object = json_new_object();
	cleanup_buf struct buf scopes = BUF_INIT;
	char time[CLOCK_TEXT_SIZE];

	scopes_write(&scopes, token->scopes);
	json_set_int(object, "format", 1);
	json_set_string(object, "id", token->id);
	json_set_string(object, "name", token->name);
	json_set_string(object, "scopes", buf_bytes(&scopes));
	json_set_string(object, "sessions", token->prefix);
	json_set_int(object, "sessions_max", (int64_t)token->sessions_max);
	clock_format(token->created_us, time);
	json_set_string(object, "created", time);
	if (token->expires_us == INT64_MAX) {
		json_set(object, "expires", NULL);
	} else {
		clock_format(token->expires_us, time);
		json_set_string(object, "expires", time);
	}
	json_set_string(object, "sha256", token->sha256);
	json_write(out, object);
	buf_append_char(out, '\n');
}

/* --- the folder ------------------------------------------------------------------------------- */

int tokens_open(struct tokens *tokens, struct err *err)
{
	cleanup_free char *state = paths_state(err);
	struct stat st;

	if (!state)
		return -1;
	tokens->path = mem_format("%s/tokens", state);
	if (file_make_dirs(tokens->path, 0700, err) != 0)
		return -1;
	tokens->fd = open(tokens->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (tokens->fd < 0 || fstat(tokens->fd, &st) != 0)
		return err_sys(err, "cannot open %s", tokens->path);
	if (st.st_uid != geteuid() || (st.st_mode & 0077))
		return err_set(err, ERR_DENIED, "%s must be yours alone: chmod 700 it",
			       tokens->path);
	tokens_refresh(tokens);
	return 0;
}

void tokens_release(struct tokens *tokens)
{
	free(tokens->items);
	free(tokens->path);
	if (tokens->fd >= 0)
		close(tokens->fd);
	*tokens = (struct tokens)TOKENS_INIT;
}

/* What is left of the rates of those that were there before. */
static void keep_allowances(struct tokens *tokens, const struct token *old, size_t count)
{
	for (size_t i = 0; i < tokens->count; i++) {
		for (size_t k = 0; k < count; k++) {
			if (strcmp(tokens->items[i].id, old[k].id) != 0)
				continue;
			tokens->items[i].allowance = old[k].allowance;
			tokens->items[i].allowance_us = old[k].allowance_us;
		}
	}
}

static void add(struct tokens *tokens, const struct token *token)
{
	if ((tokens->count & (tokens->count - 1)) == 0) /* full: 0, 1, 2, 4, ... */
		tokens->items = mem_resize(tokens->items, tokens->count ? 2 * tokens->count : 1,
					   sizeof(*token));
	tokens->items[tokens->count++] = *token;
}

static void read_folder(struct tokens *tokens)
{
	cleanup_free struct token *old = mem_take(tokens->items);
	size_t old_count = tokens->count;
	int fd = openat(tokens->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	tokens->count = 0;
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *item; (item = readdir(dir)) && tokens->count < TOKENS_MAX;) {
		cleanup_buf struct buf text = BUF_INIT;
		struct token token;
		char name[32];

		if (item->d_name[0] == '.' ||
		    file_read(tokens->fd, item->d_name, TOKEN_FILE_BYTES_MAX, &text, NULL) != 0 ||
		    token_read(buf_bytes(&text), text.len, &token) != 0)
			continue;
		snprintf(name, sizeof(name), "%s.json", token.id);
		if (strcmp(name, item->d_name) != 0)
			continue;
		add(tokens, &token);
	}
	closedir(dir);
	for (size_t i = 0; i < old_count; i++)
		if (old[i].in_memory)
			add(tokens, &old[i]);
	keep_allowances(tokens, old, old_count);
}

void tokens_refresh(struct tokens *tokens)
{
	struct stat st;
	int64_t age_us;

	if (tokens->fd < 0 || fstat(tokens->fd, &st) != 0)
		return;
	/* The clock of a file system is coarse: what changed just now may change once more without
	 * a trace. */
	age_us = clock_wall_us() -
		 ((int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000);
	if (st.st_mtim.tv_sec == tokens->changed.tv_sec &&
	    st.st_mtim.tv_nsec == tokens->changed.tv_nsec && age_us > SETTLE_US)
		return;
	tokens->changed = st.st_mtim;
	read_folder(tokens);
}

static bool same_digest(const char *a, const char *b)
{
	unsigned different = 0;

	for (size_t i = 0; i < HASH_HEX_SIZE - 1; i++)
		different |= (unsigned)(a[i] ^ b[i]);
	return different == 0;
}

struct token *tokens_check(struct tokens *tokens, const char *text, size_t len)
{
	struct token *found = NULL;
	char hex[HASH_HEX_SIZE];

	hash_sha256(text, len, hex);
	for (size_t i = 0; i < tokens->count; i++)
		if (same_digest(tokens->items[i].sha256, hex))
			found = &tokens->items[i];
	return found && found->expires_us > clock_wall_us() ? found : NULL;
}

int tokens_create(struct tokens *tokens, struct token *token, bool keep,
		  char text[static TOKEN_TEXT_SIZE], struct err *err)
{
	cleanup_buf struct buf file = BUF_INIT;
	char half[HASH_ID_SIZE], other[HASH_ID_SIZE], id[HASH_ID_SIZE];
	char name[32];

	if (tokens->count >= TOKENS_MAX)
		return err_set(err, ERR_LIMIT, "there are %d tokens; revoke some", TOKENS_MAX);
	hash_random_id(half);
	hash_random_id(other);
	snprintf(text, TOKEN_TEXT_SIZE, "fh_%s%s", half, other);
	hash_random_id(id);
	memcpy(token->id, id, TOKEN_ID_SIZE - 1);
	token->id[TOKEN_ID_SIZE - 1] = '\0';
	token->created_us = clock_wall_us();
	hash_sha256(text, TOKEN_TEXT_SIZE - 1, token->sha256);
	if (!keep) {
		token->in_memory = true;
		add(tokens, token);
		return 0;
	}
	token_write(&file, token);
	snprintf(name, sizeof(name), "%s.json", token->id);
	return file_replace(tokens->fd, name, buf_bytes(&file), file.len, 0600, err);
}

const struct token *tokens_find(const struct tokens *tokens, const char *word, struct err *err)
{
	const struct token *found = NULL;

	for (size_t i = 0; i < tokens->count; i++) {
		const struct token *token = &tokens->items[i];

		if (strcmp(token->id, word) == 0)
			return token;
		if (strcmp(token->name, word) != 0)
			continue;
		if (found) {
			err_set(err, ERR_INVALID, "several tokens have the name %s: give an id",
				word);
			return NULL;
		}
		found = token;
	}
	if (!found)
		err_set(err, ERR_NOT_FOUND, "there is no token %s (fumehood token list)", word);
	return found;
}

int tokens_revoke(struct tokens *tokens, const struct token *token, struct err *err)
{
	char name[32];

	snprintf(name, sizeof(name), "%s.json", token->id);
	if (unlinkat(tokens->fd, name, 0) != 0)
		return err_sys(err, "cannot remove %s/%s", tokens->path, name);
	(void)fsync(tokens->fd);
	return 0;
}
