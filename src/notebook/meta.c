/*
 * Metadata rules of nbformat.v4.5.schema.json; see meta.h.
 */
#include "notebook/meta.h"

#include <stddef.h>
#include <string.h>

#include "notebook/undone.h"

/* A member that is not of the wanted type, null included, goes. */
static void require_type(struct json *object, const char *key, enum json_type type)
{
	if (json_type_of(json_get(object, key)) != type)
		json_remove(object, key);
}

/* Schema: ^.+$, and '.' matches no line feed. */
static void clean_name(struct json *metadata)
{
	size_t len = 0;
	const char *name = json_string(json_get(metadata, "name"), &len);

	if (name == NULL || len == 0 || memchr(name, '\n', len) != NULL)
		json_remove(metadata, "name");
}

static bool tags_hold(const struct json *tags, const struct json *tag)
{
	for (size_t i = 0; i < json_length(tags); i++)
		if (json_equal(json_at(tags, i), tag))
			return true;
	return false;
}

/* Schema: unique strings of at least one character without a comma. */
static void clean_tags(struct json *metadata)
{
	enum { TAGS_MAX = 1000 }; /* each is compared with all before it */
	const struct json *tags = json_get(metadata, "tags");
	struct json *good;

	if (json_type_of(tags) != JSON_ARRAY) {
		json_remove(metadata, "tags");
		return;
	}
	good = json_new_array();
	for (size_t i = 0; i < json_length(tags) && json_length(good) < TAGS_MAX; i++) {
		size_t len = 0;
		const char *tag = json_string(json_at(tags, i), &len);

		if (tag == NULL || len == 0 || memchr(tag, ',', len) != NULL)
			continue;
		if (!tags_hold(good, json_at(tags, i)))
			json_push(good, json_new_string(tag, len));
	}
	json_set(metadata, "tags", good);
}

static void clean_scrolled(struct json *metadata)
{
	const struct json *scrolled = json_get(metadata, "scrolled");
	const char *text = json_string(scrolled, NULL);

	if (json_type_of(scrolled) != JSON_BOOL && (text == NULL || strcmp(text, "auto") != 0))
		json_remove(metadata, "scrolled");
}

void meta_add_tag(struct json *metadata, const char *tag)
{
	struct json *tags = json_get(metadata, "tags");
	struct json *added = json_new_string(tag, strlen(tag));

	if (tags == NULL) {
		tags = json_new_array();
		json_set(metadata, "tags", tags);
	}
	if (tags_hold(tags, added))
		json_free(added);
	else
		json_push(tags, added);
}

static void remove_tag(struct json *metadata, const char *tag)
{
	const struct json *tags = json_get(metadata, "tags");
	struct json *left = json_new_array();

	for (size_t i = 0; i < json_length(tags); i++) {
		const char *name = json_string(json_at(tags, i), NULL);

		if (name == NULL || strcmp(name, tag) != 0)
			json_push(left, json_keep(json_at(tags, i)));
	}
	json_set(metadata, "tags", left);
	if (json_length(left) == 0)
		json_remove(metadata, "tags");
}

void meta_remove_run(struct json *metadata)
{
	struct json *ours = json_get(metadata, "fumehood");

	json_remove(metadata, "execution");
	if (json_type_of(json_get(ours, "rolled_back")) == JSON_NULL)
		return;
	json_remove(ours, "rolled_back");
	if (json_length(ours) == 0)
		json_remove(metadata, "fumehood");
	remove_tag(metadata, UNDONE_TAG);
}

struct json *meta_cell(const struct json *given, bool is_code)
{
	struct json *metadata;

	if (json_type_of(given) != JSON_OBJECT)
		return json_new_object();
	metadata = json_copy(given);
	json_remove(metadata, "trusted");
	clean_name(metadata);
	clean_tags(metadata);
	require_type(metadata, "jupyter", JSON_OBJECT);
	if (is_code) {
		meta_remove_run(metadata);
		require_type(metadata, "collapsed", JSON_BOOL);
		clean_scrolled(metadata);
	} else {
		require_type(metadata, "format", JSON_STRING);
	}
	return metadata;
}

static struct json *python_language(const struct json *session)
{
	struct json *language = json_new_object();
	struct json *mode = json_new_object();
	const char *version = json_get_string(json_get(session, "versions"), "python");

	json_set_string(mode, "name", "ipython");
	json_set_int(mode, "version", 3);
	json_set(language, "codemirror_mode", mode);
	json_set_string(language, "file_extension", ".py");
	json_set_string(language, "mimetype", "text/x-python");
	json_set_string(language, "name", "python");
	json_set_string(language, "nbconvert_exporter", "python");
	json_set_string(language, "pygments_lexer", "ipython3");
	if (version != NULL)
		json_set_string(language, "version", version);
	return language;
}

static struct json *python_kernel(void)
{
	struct json *kernel = json_new_object();

	json_set_string(kernel, "display_name", "Python 3");
	json_set_string(kernel, "language", "python");
	json_set_string(kernel, "name", "python3");
	return kernel;
}

static bool kernel_is_valid(const struct json *kernel)
{
	return json_get_string(kernel, "name") != NULL &&
	       json_get_string(kernel, "display_name") != NULL;
}

/* A copy of language_info without members of a wrong type; NULL when it has no name. */
static struct json *language_copy(const struct json *given)
{
	struct json *language;
	enum json_type mode;

	if (json_get_string(given, "name") == NULL)
		return NULL;
	language = json_copy(given);
	require_type(language, "file_extension", JSON_STRING);
	require_type(language, "mimetype", JSON_STRING);
	require_type(language, "pygments_lexer", JSON_STRING);
	mode = json_type_of(json_get(language, "codemirror_mode"));
	if (mode != JSON_OBJECT && mode != JSON_STRING)
		json_remove(language, "codemirror_mode");
	return language;
}

/* The kernelspec of `from`, when it is valid. */
static void take_kernel(struct json *metadata, const struct json *from)
{
	const struct json *kernel = json_get(from, "kernelspec");

	if (kernel_is_valid(kernel))
		json_set(metadata, "kernelspec", json_copy(kernel));
}

static int take_free(const char *key, size_t key_len, struct json *value, void *metadata)
{
	static const char *const skipped[] = {"kernelspec",    "language_info",       "fumehood",
					      "orig_nbformat", "orig_nbformat_minor", "signature"};

	if (strlen(key) != key_len) /* json_set() takes C strings: it would set another key */
		return 0;
	for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++)
		if (strcmp(key, skipped[i]) == 0)
			return 0;
	if (strcmp(key, "title") == 0 && json_type_of(value) != JSON_STRING)
		return 0;
	if (strcmp(key, "authors") == 0 && json_type_of(value) != JSON_ARRAY)
		return 0;
	json_set(metadata, key, json_copy(value));
	return 0;
}

static struct json *origin(const struct json *session)
{
	struct json *fumehood = json_new_object();
	const char *id = json_get_string(session, "id");
	const char *version = json_get_string(json_get(session, "versions"), "fumehood");

	if (id != NULL)
		json_set_string(fumehood, "session", id);
	if (version != NULL)
		json_set_string(fumehood, "version", version);
	return fumehood;
}

struct json *meta_notebook(const struct json *session)
{
	struct json *metadata = json_new_object();
	const struct json *over = json_get(json_get(session, "notebook"), "metadata");
	struct json *language = language_copy(json_get(session, "language_info"));

	if (language == NULL)
		language = language_copy(json_get(over, "language_info"));
	if (language == NULL)
		language = python_language(session);
	json_set(metadata, "language_info", language);
	json_set(metadata, "kernelspec", python_kernel());
	take_kernel(metadata, session);
	take_kernel(metadata, over);
	if (json_get_string(session, "id") != NULL) /* a notebook that was not run has no session */
		json_set(metadata, "fumehood", origin(session));
	if (json_type_of(over) == JSON_OBJECT)
		json_each(over, take_free, metadata);
	return metadata;
}
