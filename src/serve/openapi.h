/*
 * The interface in its own words: openapi.json, of this folder, as it is in the program.
 */
#ifndef FH_SERVE_OPENAPI_H
#define FH_SERVE_OPENAPI_H

extern const char OPENAPI[];
extern const char OPENAPI_END[]; /* behind its last byte */

#endif
