/*
 * The types behind sys.stdout and sys.stderr: io.FileIO and io.TextIOWrapper with one method
 * replaced each.
 *
 * Raw.write keeps the order of the two pipes (order.c): when the other one was written last, it
 * waits until both are empty. It is the last step before the kernel, so it also sees what goes
 * through sys.stdout.buffer.
 *
 * Text.write must look at two things more, before the text disappears in a buffer: whether the
 * other stream still holds unflushed text, and which cell the writer belongs to. Both are decided
 * in Python (the hook, streams.py). But a cell prints a hundred thousand lines to the same stream
 * from one thread, and a method in Python would cost as much as the printing itself: so the hook
 * names one stream as `fast`, and its writes go straight to TextIOWrapper.write until the hook says
 * otherwise.
 */
#include "guest.h"

/* Static: see guest.h. `fast` and `last` are only compared, never followed. */
static struct {
	PyObject *raw_write, *text_write; /* the methods of the base types */
	PyObject *hook;
	const PyObject *fast;
	const PyObject *last;
} stream;

static PyObject *raw_write(PyObject *self, PyObject *data)
{
	if (self != stream.last) {
		if (!order_settled()) {
			Py_BEGIN_ALLOW_THREADS
			order_settle();
			Py_END_ALLOW_THREADS
		}
		stream.last = self;
	}
	return PyObject_CallFunctionObjArgs(stream.raw_write, self, data, NULL);
}

static PyObject *text_write(PyObject *self, PyObject *text)
{
	PyObject *target = self == stream.fast || !stream.hook ? stream.text_write : stream.hook;

	return PyObject_CallFunctionObjArgs(target, self, text, NULL);
}

PyObject *stream_set_fast(PyObject *module, PyObject *object)
{
	(void)module;
	stream.fast = object == Py_None ? NULL : object;
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
		    const char *name, PyObject **write)
{
	PyObject *base = PyObject_GetAttrString(io, base_name);
	PyObject *bases = base ? PyTuple_Pack(1, base) : NULL;
	PyObject *type = bases ? PyType_FromSpecWithBases(spec, bases) : NULL;
	int rc = -1;

	if (type) {
		*write = PyObject_GetAttrString(base, "write");
		rc = *write ? PyModule_AddObject(module, name, type) : -1;
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
	int rc;

	if (!io)
		return -1;
	rc = add_type(module, io, "FileIO", &raw_spec, "Raw", &stream.raw_write);
	if (rc == 0)
		rc = add_type(module, io, "TextIOWrapper", &text_spec, "Text", &stream.text_write);
	Py_DECREF(io);
	return rc;
}
