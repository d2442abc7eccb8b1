/*
 * The outline of a JSON text: where its members and elements begin and end.
 *
 * A notebook of 200 MB as one tree takes a multiple of that. Its outline costs nothing, and each
 * cell can then be parsed alone (base/json does that, and finds what is wrong inside), so that
 * memory is needed for the text and the present cell only. On the way the scan counts what the
 * parser repairs silently: NaN and infinities, which are not JSON, and lone surrogates.
 */
#ifndef FH_NOTEBOOK_SCAN_H
#define FH_NOTEBOOK_SCAN_H

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

struct scan {
	const char *text;
	size_t len;
	size_t at;
	size_t nans;       /* NaN, Infinity and -Infinity that were passed */
	size_t surrogates; /* escapes \uD800 to \uDFFF without their partner */
};

struct scan_part {
	size_t at;
	size_t len;
};

/* Goes over white space and the bracket, '{' or '['. ERR_INVALID when it is not there. */
int scan_open(struct scan *scan, char bracket, struct err *err);

/*
 * The next member of the object, or element of the array, that was opened: 1, or 0 after the
 * closing bracket, or -1. `first` is true for the first call after scan_open(). *key (not for
 * elements: NULL) is a JSON string, owned by the caller. The value is passed over, not parsed.
 */
int scan_member(struct scan *scan, bool first, struct json **key, struct scan_part *value,
		struct err *err);
int scan_element(struct scan *scan, bool first, struct scan_part *value, struct err *err);

/* ERR_INVALID when anything but white space follows. */
int scan_end(struct scan *scan, struct err *err);

/* The value of a part (*value may be NULL: null). ERR_INVALID with line and column in the whole
 * text. */
int scan_parse(const struct scan *scan, const struct scan_part *part, struct json **value,
	       struct err *err);

#endif
