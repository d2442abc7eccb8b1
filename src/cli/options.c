/*
 * The option parser. See options.h.
 *
 * getopt_long is not used because it keeps its state in globals, writes to stderr by itself, and
 * takes abbreviated names, which would make every new option a possible break of somebody's script.
 */
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "base/mem.h"

enum { OPTIONS_MAX = 64 };

static bool gathers(const struct option *option)
{
	return option->kind == OPTION_LIST || option->kind == OPTION_PAIRS;
}

void options_release(struct options *options)
{
	for (size_t i = 0; i < options->count; i++) {
		struct option_list *list = options->table[i].value;

		if (!gathers(&options->table[i]))
			continue;
		free(list->items);
		*list = (struct option_list){.items = NULL};
	}
	options->count = 0;
	free(options->words);
	options->words = NULL;
	options->word_count = 0;
}

int options_seconds(const char *text, double *seconds)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = {
		{"", 1}, {"s", 1}, {"ms", 0.001}, {"m", 60}, {"h", 3600}, {"d", 86400},
	};
	char *end;
	double number;

	if (!isdigit((unsigned char)text[0]) && text[0] != '.')
		return -1;
	number = strtod(text, &end);
	if (end == text || !isfinite(number) || strpbrk(text, "xXpP"))
		return -1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		*seconds = number * units[i].factor;
		return 0;
	}
	return -1;
}

int options_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	unsigned shift = 0;
	char *end;
	unsigned long long number;

	if (!isdigit((unsigned char)text[0]))
		return -1;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return -1;
	if (*end) {
		const char *unit = strchr(units, toupper((unsigned char)*end));

		if (!unit || end[1])
			return -1;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	if (number > UINT64_MAX >> shift)
		return -1;
	*bytes = (uint64_t)number << shift;
	return 0;
}

static void gather(struct option_list *list, const char *value)
{
	list->items = mem_resize(list->items, list->count + 1, sizeof(*list->items));
	list->items[list->count++] = value;
}

/* Puts the value where it goes. `shown` is the option as the user wrote it. */
static int store_value(const struct option *option, const char *shown, const char *value,
		       struct err *err)
{
	uint64_t number;
	double seconds;

	switch (option->kind) {
	case OPTION_FLAG:
		*(bool *)option->value = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)option->value = value;
		return 0;
	case OPTION_SECONDS:
		if (options_seconds(value, &seconds) != 0 || seconds <= 0)
			return err_set(err, ERR_USAGE,
				       "%s takes a time above 0, such as 30, 0.5, 2m, not %s",
				       shown, value);
		*(double *)option->value = seconds;
		return 0;
	case OPTION_COUNT:
		if (strspn(value, "0123456789") != strlen(value) ||
		    options_size(value, &number) != 0)
			return err_set(err, ERR_USAGE, "%s takes a number, not %s", shown, value);
		*(uint64_t *)option->value = number;
		return 0;
	case OPTION_SIZE:
		if (options_size(value, &number) != 0)
			return err_set(err, ERR_USAGE,
				       "%s takes a size, such as 500M or 2G, not %s", shown, value);
		*(uint64_t *)option->value = number;
		return 0;
	case OPTION_LIST:
	case OPTION_PAIRS:
		gather(option->value, value);
		return 0;
	}
	return -1;
}

struct reading {
	struct options *options;
	bool seen[OPTIONS_MAX];
	int argc;
	char **argv;
	int at; /* the argument that is being read */
};

static int take(struct reading *reading, size_t index, const char *shown, const char *value,
		struct err *err)
{
	const struct option *option = &reading->options->table[index];

	if (reading->seen[index] && !gathers(option))
		return err_set(err, ERR_USAGE, "%s is given twice", shown);
	reading->seen[index] = true;
	if (option->kind == OPTION_FLAG && value)
		return err_set(err, ERR_USAGE, "%s takes no value", shown);
	if (option->kind != OPTION_FLAG && !value) {
		if (reading->at + 1 >= reading->argc)
			return err_set(err, ERR_USAGE, "%s needs a value", shown);
		value = reading->argv[++reading->at];
	}
	if (option->kind == OPTION_PAIRS) {
		if (reading->at + 1 >= reading->argc)
			return err_set(err, ERR_USAGE, "%s needs a name and a value", shown);
		gather(option->value, value);
		value = reading->argv[++reading->at];
	}
	return store_value(option, shown, value, err);
}

/* Whether the option's name is this one; '_' stands for '-'. */
static bool is_named(const char *name, const char *given, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (name[i] == '\0' || name[i] != (given[i] == '_' ? '-' : given[i]))
			return false;
	return name[len] == '\0';
}

static int read_long(struct reading *reading, const char *arg, struct err *err)
{
	const char *equals = strchr(arg, '=');
	size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
	cleanup_free char *shown = mem_copy(arg, len);

	for (size_t i = 0; i < reading->options->count; i++) {
		if (is_named(reading->options->table[i].name, arg + 2, len - 2))
			return take(reading, i, shown, equals ? equals + 1 : NULL, err);
	}
	return err_set(err, ERR_USAGE, "there is no option %s", shown);
}

/* Letters may stand together: -xy is -x -y, where all but the last are flags. */
static int read_letters(struct reading *reading, const char *arg, struct err *err)
{
	for (const char *letter = arg + 1; *letter; letter++) {
		const char shown[] = {'-', *letter, '\0'};
		const struct option *table = reading->options->table;
		size_t i = 0;

		while (i < reading->options->count && table[i].letter != *letter)
			i++;
		if (i == reading->options->count)
			return err_set(err, ERR_USAGE, "there is no option %s", shown);
		if (table[i].kind != OPTION_FLAG)
			return take(reading, i, shown, letter[1] ? letter + 1 : NULL, err);
		if (take(reading, i, shown, NULL, err) != 0)
			return -1;
	}
	return 0;
}

int options_read(struct options *options, const struct option *table, size_t count, int argc,
		 char **argv, struct err *err)
{
	struct reading reading = {.options = options, .argc = argc, .argv = argv};
	bool ended = false;

	if (count > OPTIONS_MAX)
		return err_set(err, ERR_INTERNAL, "too many options in a table");
	*options = (struct options){.table = table, .count = count};
	options->words = mem_zalloc(((size_t)argc + 1) * sizeof(*options->words));
	for (reading.at = 1; reading.at < argc; reading.at++) {
		const char *arg = argv[reading.at];

		if (ended || arg[0] != '-' || arg[1] == '\0') {
			options->words[options->word_count++] = arg;
		} else if (strcmp(arg, "--") == 0) {
			ended = true;
			options->words_before = options->word_count;
		} else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
			options->help = true;
			return 0;
		} else if ((arg[1] == '-' ? read_long : read_letters)(&reading, arg, err) != 0) {
			return -1;
		}
	}
	if (!ended)
		options->words_before = options->word_count;
	return 0;
}
