/*
 * Library calls that have no place here, made into compile errors.
 *
 * Each of them either writes without a bound, keeps hidden state, or depends on the locale.
 * This header is force-included in every translation unit (see meson.build), after the system
 * headers it poisons have had their chance through <stdio.h>, <string.h>, <stdlib.h> and <time.h>.
 */
#ifndef FH_BASE_BANNED_H
#define FH_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef FH_ALLOW_BANNED
/* Under _FORTIFY_SOURCE clang gets this one as a macro, and to poison a macro is a warning. */
#undef sprintf
#pragma GCC poison strcpy strcat strncpy strncat strtok sprintf vsprintf gets
#pragma GCC poison atoi atol atof asctime ctime gmtime localtime tmpnam mktemp rand srand
#endif

#endif
