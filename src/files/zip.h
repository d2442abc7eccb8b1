/*
 * Archives: what a ZIP file holds, checked as a whole before anything is made of it; and the
 * messages between `fumehood` and fumehood-zip, the confined program that reads and writes them.
 *
 * The reader is strict, because what two readers see differently is how something slips past one of
 * them. An archive is refused when
 * - it does not end with its directory, or has anything else than that at its end;
 * - an entry is a symlink, a device or anything but a file or folder, encrypted, or packed by a way
 *   other than 0 and 8;
 * - a name leads out (absolute, "..", a drive, also with '\'), is not clean, or there twice, or as
 * a file and as a folder above another;
 * - an entry's own header says something else than the directory, or two entries overlap;
 * - there are more than ZIP_ENTRIES_MAX of them, more than ZIP_BYTES_MAX bytes would come out, or
 *   more than ZIP_RATIO_MAX times the archive's size beyond ZIP_FREE_BYTES (a bomb).
 * Names are bytes: UTF-8 where an entry says so (checked), else as they are. Modes are masked:
 * never setuid, setgid or sticky.
 *
 * Source: PKWARE APPNOTE.TXT 6.3.10.
 */
#ifndef FH_FILES_ZIP_H
#define FH_FILES_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
	ZIP_ENTRIES_MAX = 20000,
	ZIP_RATIO_MAX = 200,
	ZIP_FREE_BYTES = 64 << 20,
	ZIP_STORED = 0,
	ZIP_DEFLATED = 8,
};
#define ZIP_BYTES_MAX (UINT64_C(2) << 30)

struct zip_entry {
	const char *name; /* in the archive, not ended by NUL; without a '/' at its end */
	size_t name_len;
	bool folder;
	mode_t mode; /* & 0777 */
	uint16_t method;
	uint32_t crc;
	uint64_t start;        /* of its own header */
	uint64_t data, packed; /* where its bytes are, and how many */
	uint64_t bytes;        /* that will come out */
};

struct zip_index {
	struct zip_entry *entries; /* in the order of the directory */
	size_t count;
};

#define ZIP_INDEX_INIT \
	{ \
		.entries = NULL, .count = 0 \
	}

/* Reads and checks the directory of an archive. Pure. The names point into `bytes`. ERR_INVALID
 * when it is none or has been refused, ERR_LIMIT, ERR_UNSUPPORTED. The caller releases *index, also
 * after failure. */
int zip_read_index(const unsigned char *bytes, size_t len, struct zip_index *index,
		   struct err *err);
void zip_index_release(struct zip_index *index);

/* Whether a name (without a '/' at its end) is clean and leads nowhere but down. Pure. */
int zip_check_name(const char *name, size_t len, struct err *err);

/* --- between the programs: each message has this head, and `len` bytes behind it --- */

enum zip_kind {
	/* An archive that is unpacked is told of in whole before its first byte comes: the names of
	 * its files and folders. */
	ZIP_NAME = 1,
	ZIP_NAME_FOLDER,
	ZIP_FOLDER, /* its name */
	ZIP_FILE,   /* its name; what follows are its bytes */
	ZIP_DATA,
	ZIP_DONE,  /* there is no more */
	ZIP_FAULT, /* a sentence; there is no more */
};

enum { ZIP_DATA_MAX = 64 << 10 };

struct zip_head {
	uint32_t kind;
	uint32_t mode; /* of ZIP_FOLDER and ZIP_FILE; of ZIP_FAULT: enum err_code */
	uint64_t len;
};

#endif
