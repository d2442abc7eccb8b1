/*
 * Imports that a program has forgotten: small models use `csv` or `datetime` and do not import
 * them. What is meant is certain, so it is put in front and the program runs again: that costs
 * milliseconds and no tokens, where a repair by the model costs a whole program.
 */
#ifndef FH_AGENT_FORGOTTEN_H
#define FH_AGENT_FORGOTTEN_H

enum {
	FORGOTTEN_MAX = 4, /* imports put in front of one program */
	FORGOTTEN_BYTES = 64,
};

/* The import (without LF) that `code` needs because it failed with this NameError: modules of the
 * standard library, what is commonly taken from them, numpy and its like under their usual names.
 * 0 and a statement in `statement`; -1: it is another error or another name, or nothing may stand
 * in front of the code. Pure; NULL for `ename` and `evalue` is fine. */
int forgotten_import(const char *code, const char *ename, const char *evalue,
		     char statement[static FORGOTTEN_BYTES]);

#endif
