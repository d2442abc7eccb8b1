/*
 * The directory of an archive: any bytes. What is taken lies within the archive, apart from each
 * other, under clean names.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "files/tree.h"
#include "files/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zip_index index = ZIP_INDEX_INIT;

	if (zip_read_index(data, size, &index, NULL) == 0) {
		uint64_t total = 0;

		for (size_t i = 0; i < index.count; i++) {
			const struct zip_entry *entry = &index.entries[i];

			if (tree_check_path(entry->name, entry->name_len, NULL) != 0 ||
			    entry->data > size || entry->packed > size - entry->data ||
			    (entry->mode & ~(mode_t)TREE_MODE_MASK))
				abort();
			total += entry->bytes;
		}
		if (total > ZIP_BYTES_MAX)
			abort();
	}
	zip_index_release(&index);
	return 0;
}
