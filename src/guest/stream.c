/*
 * The types behind sys.stdout and sys.stderr: io.FileIO and io.TextIOWrapper with few methods
 * replaced.
 *
 * Raw.write keeps the order of the two pipes (order.c): when the other one was written last, it
 * waits until both are empty. It is the last step before the kernel, so it also sees what goes
 * through sys.stdout.buffer.
 *
 * Text.write must look at two things more, before the text disappears in a buffer: whether the
 * other stream still holds unflushed text, and which cell the writer belongs to. Both are decided
 * in Python (the hook, streams.py). But a cell prints a hundred thousand lines to the same stream
 * from one thread, and a method in Python would cost as much as the printing itself: so the hook
 * names one stream as `fast`, until it says otherwise.
 *
 * Short text of the fast stream does not pass through TextIOWrapper and BufferedWriter either,
 * which cost twice as much as the write(2) at each line's end: what is behind the last newline is
 * held here. The hook calls a stream fast only while nobody has touched its encoding, its buffer or
 * its life, so the bytes are the same.
 *
 * Threads: the GIL is given up around write(2). The bytes are taken out of `held` before that, so
 * that another thread that prints meanwhile neither writes them again nor loses its own.
 */
#include "guest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	HELD_BYTES_MAX = 8192,    /* longer text goes through TextIOWrapper */
	LONG_CHARS_MIN = 1 << 20, /* text so long is handed on in pieces, the first of which is */
	PIECE_CHARS = 256 << 10,  /* on its way while the next one is encoded */
};

/* Static: see guest.h. `fast`, `fast_raw` and `last` are only compared, never followed. */
static struct {
	PyObject *raw_write, *text_write, *text_flush; /* the methods of the base types */
	PyObject *hook;
	const PyObject *fast, *fast_raw;
	int fast_fd;
	const PyObject *last;
	char held[4 * HELD_BYTES_MAX]; /* more than the first part only for bytes given back */
	size_t held_len;
} stream;

/* Waits until it is `raw`'s turn to write. */
static void take_turn(const PyObject *raw)
{
	if (raw == stream.last)
		return;
	if (!order_settled()) {
		Py_BEGIN_ALLOW_THREADS order_settle();
		Py_END_ALLOW_THREADS
	}
	stream.last = raw;
}

static PyObject *raw_write(PyObject *self, PyObject *data)
{
	take_turn(self);
	return PyObject_CallFunctionObjArgs(stream.raw_write, self, data, NULL);
}

/* An interrupt came before these bytes were written: they are the first of the next write. */
static void give_back(const char *bytes, size_t len)
{
	if (stream.held_len + len > sizeof(stream.held))
		return;
	memmove(stream.held + len, stream.held, stream.held_len);
	memcpy(stream.held, bytes, len);
	stream.held_len += len;
}

/* Writes what is held. -1 with an exception: an interrupt, or the descriptor does not take it. */
static int write_held(void)
{
	char bytes[sizeof(stream.held)];
	size_t len = stream.held_len, done = 0;

	memcpy(bytes, stream.held, len);
	stream.held_len = 0;
	if (len > 0)
		take_turn(stream.fast_raw);
	while (done < len) {
		ssize_t wrote;
		int error;

		Py_BEGIN_ALLOW_THREADS wrote = write(stream.fast_fd, bytes + done, len - done);
		error = errno;
		Py_END_ALLOW_THREADS if (wrote >= 0)
		{
			done += (size_t)wrote;
		}
		else if (error != EINTR)
		{
			errno = error;
			PyErr_SetFromErrno(PyExc_OSError);
			return -1;
		}
		else if (PyErr_CheckSignals() < 0)
		{
			give_back(bytes + done, len - done);
			return -1;
		}
	}
	return 0;
}

/* 1: the text is held or written; 0: it has to go the long way, and nothing is held; -1: exception.
 */
static int write_short(PyObject *text)
{
	PyObject *encoded = PyUnicode_AsUTF8String(text);
	char *bytes;
	Py_ssize_t len;
	int outcome = 1;

	if (!encoded) { /* a lone surrogate: the stream's own error handler knows what to do */
		PyErr_Clear();
		return write_held();
	}
	PyBytes_AsStringAndSize(encoded, &bytes, &len);
	if (stream.held_len + (size_t)len > HELD_BYTES_MAX)
		outcome = write_held() < 0 ? -1 : len <= HELD_BYTES_MAX;
	if (outcome == 1) {
		memcpy(stream.held + stream.held_len, bytes, (size_t)len);
		stream.held_len += (size_t)len;
		if ((memchr(bytes, '\n', (size_t)len) || memchr(bytes, '\r', (size_t)len)) &&
		    write_held() < 0)
			outcome = -1;
	}
	Py_DECREF(encoded);
	return outcome;
}

static PyObject *write_pieces(PyObject *target, PyObject *self, PyObject *text, Py_ssize_t len)
{
	for (Py_ssize_t at = 0; at < len; at += PIECE_CHARS) {
		PyObject *piece = PyUnicode_Substring(text, at, at + PIECE_CHARS);
		PyObject *count =
			piece ? PyObject_CallFunctionObjArgs(target, self, piece, NULL) : NULL;

		Py_XDECREF(piece);
		if (!count)
			return NULL;
		Py_DECREF(count);
	}
	return PyLong_FromSsize_t(len);
}

static PyObject *write_long(PyObject *self, PyObject *text, Py_ssize_t len)
{
	PyObject *target = self == stream.fast || !stream.hook ? stream.text_write : stream.hook;

	if (len >= LONG_CHARS_MIN)
		return write_pieces(target, self, text, len);
	return PyObject_CallFunctionObjArgs(target, self, text, NULL);
}

static PyObject *text_write(PyObject *self, PyObject *text)
{
	Py_ssize_t len = PyUnicode_CheckExact(text) ? PyUnicode_GetLength(text) : -1;
	PyObject *count, *flushed;
	int outcome;

	if (self != stream.fast)
		return write_long(self, text, len);
	outcome = len >= 0 && len <= HELD_BYTES_MAX ? write_short(text) : write_held();
	if (outcome != 0)
		return outcome < 0 ? NULL : PyLong_FromSsize_t(len);
	count = write_long(self, text, len);
	/* Nothing may stay in TextIOWrapper: the next short text does not pass through it. */
	flushed = count ? PyObject_CallFunctionObjArgs(stream.text_flush, self, NULL) : NULL;
	if (!flushed)
		Py_XDECREF(count);
	Py_XDECREF(flushed);
	return flushed ? count : NULL;
}

static PyObject *text_flush(PyObject *self, PyObject *none)
{
	(void)none;
	if (self == stream.fast && write_held() < 0)
		return NULL;
	return PyObject_CallFunctionObjArgs(stream.text_flush, self, NULL);
}

/* set_fast(stream, raw, fd), or set_fast(None, None, -1). What either stream still holds is written
 * first. */
PyObject *stream_set_fast(PyObject *module, PyObject *arguments)
{
	PyObject *text, *raw;
	int fd;

	(void)module;
	if (!PyArg_ParseTuple(arguments, "OOi", &text, &raw, &fd))
		return NULL;
	if (text == stream.fast)
		Py_RETURN_NONE;
	if (stream.fast && write_held() < 0)
		return NULL;
	stream.fast = NULL;
	if (text != Py_None) {
		PyObject *flushed = PyObject_CallFunctionObjArgs(stream.text_flush, text, NULL);

		if (!flushed)
			return NULL;
		Py_DECREF(flushed);
		stream.fast = text;
		stream.fast_raw = raw;
		stream.fast_fd = fd;
	}
	Py_RETURN_NONE;
}

PyObject *stream_set_hook(PyObject *module, PyObject *hook)
{
	(void)module;
	Py_INCREF(hook);
	Py_XDECREF(stream.hook);
	stream.hook = hook;
	Py_RETURN_NONE;
}

static int add_type(PyObject *module, PyObject *io, const char *base_name, PyType_Spec *spec,
		    const char *name, PyObject **write, PyObject **flush)
{
	PyObject *base = PyObject_GetAttrString(io, base_name);
	PyObject *bases = base ? PyTuple_Pack(1, base) : NULL;
	PyObject *type = bases ? PyType_FromSpecWithBases(spec, bases) : NULL;
	int rc = -1;

	if (type) {
		*write = PyObject_GetAttrString(base, "write");
		*flush = PyObject_GetAttrString(base, "flush");
		rc = *write && *flush ? PyModule_AddObject(module, name, type) : -1;
	}
	if (rc < 0)
		Py_XDECREF(type);
	Py_XDECREF(bases);
	Py_XDECREF(base);
	return rc;
}

int stream_add_types(PyObject *module)
{
	static PyMethodDef raw_methods[] = {
		{"write", raw_write, METH_O, "Write bytes, after the other stream has been read."},
		{NULL, NULL, 0, NULL},
	};
	static PyMethodDef text_methods[] = {
		{"write", text_write, METH_O, "Write text for the caller's cell."},
		{"flush", text_flush, METH_NOARGS, "Write what is held back."},
		{NULL, NULL, 0, NULL},
	};
	static PyType_Slot raw_slots[] = {{Py_tp_methods, raw_methods}, {0, NULL}};
	static PyType_Slot text_slots[] = {{Py_tp_methods, text_methods}, {0, NULL}};
	static PyType_Spec raw_spec = {
		.name = "fumehood_guest._guest.Raw",
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
		.slots = raw_slots,
	};
	static PyType_Spec text_spec = {
		.name = "fumehood_guest._guest.Text",
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
		.slots = text_slots,
	};
	PyObject *io = PyImport_ImportModule("io");
	PyObject *raw_flush = NULL;
	int rc;

	if (!io)
		return -1;
	rc = add_type(module, io, "FileIO", &raw_spec, "Raw", &stream.raw_write, &raw_flush);
	if (rc == 0)
		rc = add_type(module, io, "TextIOWrapper", &text_spec, "Text", &stream.text_write,
			      &stream.text_flush);
	Py_XDECREF(raw_flush);
	Py_DECREF(io);
	return rc;
}
