/*
 * The protocol's numbers by name (protocol.h). One table for both doors that Python has to them:
 * the extension, and the shared library that plain.py opens.
 */
#include "native.h"

static const struct guest_constant constants[] = {
	{"PROTOCOL", GUEST_PROTOCOL},
	{"FLAG_MEMFD", GUEST_FLAG_MEMFD},
	{"FLAG_ALLOW_STDIN", GUEST_FLAG_ALLOW_STDIN},
	{"FLAG_STDERR", GUEST_FLAG_STDERR},
	{"FLAG_PASSWORD", GUEST_FLAG_PASSWORD},
	{"FLAG_EOF", GUEST_FLAG_EOF},
	{"FLAG_WAIT", GUEST_FLAG_WAIT},
	{"FLAG_SCRIPT", GUEST_FLAG_SCRIPT},
	{"RUN", GUEST_RUN},
	{"INPUT", GUEST_INPUT},
	{"HELLO", GUEST_HELLO},
	{"DISPLAY", GUEST_DISPLAY},
	{"UPDATE", GUEST_UPDATE},
	{"RESULT", GUEST_RESULT},
	{"CLEAR", GUEST_CLEAR},
	{"ERROR", GUEST_ERROR},
	{"INPUT_REQUEST", GUEST_INPUT_REQUEST},
	{"TAGGED", GUEST_TAGGED},
	{"DONE", GUEST_DONE},
	{"ASK", GUEST_ASK},
	{"ANSWER", GUEST_ANSWER},
	{"ENVIRONMENT", GUEST_ENVIRONMENT},
	{"COPY", GUEST_COPY},
	{"COPY_FAILED", GUEST_COPY_FAILED},
	{"ANSWER_BYTES_MAX", GUEST_ANSWER_BYTES_MAX},
	{"BODY_BYTES_MAX", GUEST_BODY_BYTES_MAX},
	{"INLINE_BYTES_MAX", GUEST_INLINE_BYTES_MAX},
	{"MESSAGE_BYTES_MAX", GUEST_MESSAGE_BYTES_MAX},
	{"READY", ZYGOTE_READY},
	{"FAILED", ZYGOTE_FAILED},
	{"ENTER", ZYGOTE_ENTER},
	{"ENTERED", ZYGOTE_ENTERED},
	{"REFUSED", ZYGOTE_REFUSED},
};

const struct guest_constant *guest_constant(size_t index)
{
	return index < sizeof(constants) / sizeof(constants[0]) ? &constants[index] : NULL;
}
