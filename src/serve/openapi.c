/*
 * Takes openapi.json in as it is; the assembler finds it by the path that the build gives.
 */
#include "serve/openapi.h"

__asm__(".section .rodata\n"
	".global OPENAPI\n"
	".hidden OPENAPI\n"
	"OPENAPI:\n"
	".incbin \"" FH_OPENAPI "\"\n"
	".global OPENAPI_END\n"
	".hidden OPENAPI_END\n"
	"OPENAPI_END:\n"
	".byte 0\n"
	".previous\n");
