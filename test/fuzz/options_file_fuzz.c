/*
 * Fuzzes the file of --options: whatever its bytes are, all words that are taken are long options,
 * and what stood on the command line is behind them as it was.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[] = "ask", word[] = "-";
	char *argv[] = {name, word, NULL};
	struct options_file file = OPTIONS_FILE_INIT;
	struct err err = ERR_INIT;

	if (options_file_split(&file, (const char *)data, size, 2, argv, &err) != 0) {
		assert(err.code == ERR_USAGE);
	} else {
		assert(file.argc >= 2 && file.argc <= OPTIONS_FILE_WORDS_MAX + 2);
		assert(file.argv[0] == name && file.argv[file.argc - 1] == word);
		assert(!file.argv[file.argc]);
		for (int i = 1; i < file.argc - 1; i++)
			assert(strncmp(file.argv[i], "--", 2) == 0 && file.argv[i][2]);
	}
	options_file_release(&file);
	return 0;
}
