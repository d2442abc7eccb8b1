/*
 * `fumehood model WORD`: which word, and what all of them need. See model_verb.h.
 */
#include "cli/model_verb.h"

#include <string.h>

#include "base/mem.h"
#include "cli/find.h"
#include "cli/say.h"

static const struct {
	const char *word;
	int (*run)(const struct model_options *options, const char *name);
	size_t names_min, names_max;
} WORDS[] = {
	{"list", model_list, 0, 0},     {"pull", model_pull, 0, 1}, {"use", model_use, 1, 1},
	{"test", model_test, 0, 1},     {"path", model_path, 0, 1}, {"rm", model_remove, 1, 1},
	{"status", model_status, 0, 0}, {"stop", model_stop, 0, 1}, {"engine", model_engine, 0, 0},
	{"findings", model_findings, 0, 0},
};

enum { WORD_COUNT = sizeof(WORDS) / sizeof(WORDS[0]) };

static int check_options(const struct model_options *options, const char *word)
{
	if (strcmp(word, "pull") != 0 &&
	    (options->from || options->sha256 || options->as || options->no_engine))
		return say_usage(&COMMAND_MODEL,
				 "--from, --sha256, --as and --no-engine go with model pull");
	return 0;
}

int model_verb(int argc, char **argv)
{
	struct model_options options = {.json = false};
	const struct option table[] = {
		{"json", 'j', OPTION_FLAG, &options.json},
		{"no-engine", '\0', OPTION_FLAG, &options.no_engine},
		{"from", '\0', OPTION_TEXT, &options.from},
		{"sha256", '\0', OPTION_TEXT, &options.sha256},
		{"as", '\0', OPTION_TEXT, &options.as},
	};
	cleanup_options struct options words = {.words = NULL};
	int status = command_begin(&COMMAND_MODEL, &words, table, sizeof(table) / sizeof(table[0]),
				   argc, argv, 0, 2);
	const char *word;
	size_t i = 0;

	if (status >= 0)
		return status;
	word = words.word_count ? words.words[0] : "list";
	while (i < WORD_COUNT && strcmp(WORDS[i].word, word) != 0)
		i++;
	if (i == WORD_COUNT)
		return say_usage(&COMMAND_MODEL, "model has no word %s", word);
	if (words.word_count && words.word_count - 1 > WORDS[i].names_max)
		return say_usage(&COMMAND_MODEL, "model %s takes %s", word,
				 WORDS[i].names_max ? "one name" : "no name");
	if (words.word_count && words.word_count - 1 < WORDS[i].names_min)
		return say_usage(&COMMAND_MODEL, "model %s needs a name", word);
	status = check_options(&options, word);
	return status ? status
		      : WORDS[i].run(&options, words.word_count > 1 ? words.words[1] : NULL);
}

int model_house_open(struct model_house *house, struct err *err)
{
	house->catalog = (struct catalog)CATALOG_INIT;
	if (settings_load(&house->settings, err) != 0)
		return -1;
	return catalog_load(&house->catalog, err);
}

void model_house_release(struct model_house *house)
{
	settings_release(&house->settings);
	catalog_release(&house->catalog);
}

char *model_file(const struct model_house *house, const char *name, struct err *err)
{
	cleanup_free char *wanted = NULL;

	if (!name || !name[0])
		name = settings_text(&house->settings, SETTING_ASK_MODEL);
	wanted = catalog_default(&house->catalog, name, err);
	return wanted ? catalog_resolve(&house->catalog, wanted, err) : NULL;
}
