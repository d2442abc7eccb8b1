/*
 * The Python face of the extension: thin functions that turn arguments into C and -errno into
 * OSError. What they are for is said in guest.h and native.h.
 */
#include "guest.h"

#include <errno.h>
#include <stdio.h>

static PyObject *none_or_error(int rc)
{
	if (rc < 0) {
		errno = -rc;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	Py_RETURN_NONE;
}

/* send(socket, type, flags, cell, body, fd=-1) */
static PyObject *guest_send(PyObject *module, PyObject *args)
{
	int sock, type, flags, fd = -1;
	unsigned int cell;
	PyObject *body;
	char *bytes;
	Py_ssize_t len;
	struct guest_header header;

	(void)module;
	if (!PyArg_ParseTuple(args, "iiiIO|i:send", &sock, &type, &flags, &cell, &body, &fd) ||
	    PyBytes_AsStringAndSize(body, &bytes, &len) < 0)
		return NULL;
	header = (struct guest_header){.type = (uint8_t)type, .flags = (uint8_t)flags};
	header.cell = cell;
	if (channel_send(sock, header, bytes, (size_t)len, &fd, fd >= 0 ? 1 : 0) < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* receive(socket) -> (type, flags, cell, body, fds) or None at end of file */
static PyObject *guest_receive(PyObject *module, PyObject *args)
{
	struct channel_message message;
	PyObject *fds, *result;
	int sock, rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "i:receive", &sock))
		return NULL;
	rc = channel_receive(sock, &message);
	if (rc < 0)
		return NULL;
	if (rc == 0)
		Py_RETURN_NONE;
	fds = PyTuple_New((Py_ssize_t)message.fd_count);
	for (size_t i = 0; fds && i < message.fd_count; i++) {
		PyObject *number = PyLong_FromLong(message.fds[i]);

		if (!number || PyTuple_SetItem(fds, (Py_ssize_t)i, number) < 0)
			Py_CLEAR(fds);
	}
	if (!fds) {
		Py_DECREF(message.body);
		return NULL;
	}
	result = Py_BuildValue("(iiINN)", (int)message.header.type, (int)message.header.flags,
			       (unsigned int)message.header.cell, message.body, fds);
	return result;
}

static PyObject *guest_own_pidfd(PyObject *module, PyObject *args)
{
	int fd = channel_own_pidfd();

	(void)module;
	(void)args;
	return fd < 0 ? none_or_error(fd) : PyLong_FromLong(fd);
}

static PyObject *guest_map_word(PyObject *module, PyObject *args)
{
	int fd;

	(void)module;
	return PyArg_ParseTuple(args, "i:map_word", &fd) ? none_or_error(word_map(fd)) : NULL;
}

static PyObject *guest_word(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	return PyLong_FromUnsignedLong(word_value());
}

static PyObject *guest_own_signal(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	return PyBool_FromLong(word_own_signal());
}

static PyObject *guest_signal_of_init(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	return PyBool_FromLong(word_signal_of_init());
}

static PyObject *guest_watch_signal(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	return none_or_error(word_watch_signal());
}

static PyObject *guest_open_pipes(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	return none_or_error(order_open());
}

static PyObject *guest_restore_pipes(PyObject *module, PyObject *args)
{
	int restored;
	int rc = order_restore(&restored);

	(void)module;
	(void)args;
	return rc < 0 ? none_or_error(rc) : PyLong_FromLong(restored);
}

static PyObject *guest_settle(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	if (!order_settled()) {
		Py_BEGIN_ALLOW_THREADS order_settle();
		Py_END_ALLOW_THREADS
	}
	Py_RETURN_NONE;
}

/* Flushes what C code of libraries has printed; other threads may hold a stream's lock, hence
 * without the GIL. */
static PyObject *guest_flush_c(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	Py_BEGIN_ALLOW_THREADS fflush(NULL);
	Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *guest_own_arenas(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	pages_own_arenas();
	Py_RETURN_NONE;
}

static PyObject *guest_large_pages(PyObject *module, PyObject *args)
{
	(void)module;
	(void)args;
	return PyLong_FromSize_t(pages_collapse());
}

/* enter(message, fds, plain) -> None in the guest, True in the zygote, or (step, errno) in the
 * zygote */
static PyObject *guest_enter(PyObject *module, PyObject *args)
{
	struct zygote_enter message;
	struct enter_request request = {.plain = 0};
	struct enter_result result = {.step = "", .error = 0};
	PyObject *body, *fds;
	char *bytes;
	Py_ssize_t len;
	int rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO!p:enter", &body, &PyTuple_Type, &fds, &request.plain) ||
	    PyBytes_AsStringAndSize(body, &bytes, &len) < 0)
		return NULL;
	if ((size_t)len != sizeof(message) - sizeof(message.header) ||
	    PyTuple_Size(fds) != ZYGOTE_FDS) {
		PyErr_SetString(PyExc_ValueError, "malformed request to enter a box");
		return NULL;
	}
	memcpy((char *)&message + sizeof(message.header), bytes, (size_t)len);
	if (message.tasks_count > ZYGOTE_FDS - ZYGOTE_FD_TASKS) {
		PyErr_SetString(PyExc_ValueError, "malformed request to enter a box");
		return NULL;
	}
	message.workspace[sizeof(message.workspace) - 1] = '\0';
	for (Py_ssize_t i = 0; i < ZYGOTE_FDS; i++)
		request.fds[i] = (int)PyLong_AsLong(PyTuple_GetItem(fds, i));
	if (PyErr_Occurred())
		return NULL;
	request.limits = (struct lockdown_limits){.processes_max = message.processes_max,
						  .files_max = message.files_max,
						  .file_bytes_max = message.file_bytes_max};
	request.has_ruleset = message.has_ruleset != 0;
	request.tasks_count = (unsigned)message.tasks_count;
	request.workspace = message.workspace;
	rc = enter_box(&request, &result);
	if (rc == 0)
		Py_RETURN_NONE;
	if (rc > 0)
		Py_RETURN_TRUE;
	return Py_BuildValue("(si)", result.step, result.error);
}

/* copy(control, number, body) -> None in the guest, (sockets, pipes, others) in a woken copy */
static PyObject *guest_copy(PyObject *module, PyObject *args)
{
	struct copy_plugged plugged;
	unsigned int number;
	PyObject *body;
	char *bytes;
	Py_ssize_t len;
	int control, rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "iIO:copy", &control, &number, &body) ||
	    PyBytes_AsStringAndSize(body, &bytes, &len) < 0)
		return NULL;
	rc = copy_make(control, number, bytes, (size_t)len, &plugged);
	if (rc != 0)
		return none_or_error(rc);
	return Py_BuildValue("(iii)", plugged.sockets, plugged.pipes, plugged.others);
}

static PyMethodDef methods[] = {
	{"send", guest_send, METH_VARARGS, "send(socket, type, flags, cell, body, fd=-1)"},
	{"receive", guest_receive, METH_VARARGS, "receive(socket) -> message | None"},
	{"own_pidfd", guest_own_pidfd, METH_NOARGS, "A pidfd of this process."},
	{"map_word", guest_map_word, METH_VARARGS, "Map the interrupt word, close its fd."},
	{"word", guest_word, METH_NOARGS, "The number of the cell to interrupt."},
	{"own_signal", guest_own_signal, METH_NOARGS, "Was the last SIGINT its own?"},
	{"signal_of_init", guest_signal_of_init, METH_NOARGS, "Was the last SIGINT from PID 1?"},
	{"watch_signal", guest_watch_signal, METH_NOARGS, "Note from now on who sends SIGINT."},
	{"open_pipes", guest_open_pipes, METH_NOARGS, "Keep copies of descriptors 1 and 2."},
	{"restore_pipes", guest_restore_pipes, METH_NOARGS, "Undo redirections of 1 and 2."},
	{"settle", guest_settle, METH_NOARGS, "Wait until both pipes are empty, 5 ms at most."},
	{"flush_c", guest_flush_c, METH_NOARGS, "Flush all C streams."},
	{"set_fast", stream_set_fast, METH_VARARGS,
	 "set_fast(stream, raw, fd): the stream to write straight through; None, None, -1: none."},
	{"set_hook", stream_set_hook, METH_O, "hook(stream, text), for all others."},
	{"own_arenas", guest_own_arenas, METH_NOARGS, "Arenas of Python lie side by side."},
	{"large_pages", guest_large_pages, METH_NOARGS, "Make large pages; how many."},
	{"enter", guest_enter, METH_VARARGS, "enter(message, fds, plain): None in the new guest."},
	{"copy", guest_copy, METH_VARARGS,
	 "copy(control, number, body): None; in a woken copy (sockets, pipes, others)."},
	{NULL, NULL, 0, NULL},
};

PyMODINIT_FUNC PyInit__guest(void);

PyMODINIT_FUNC PyInit__guest(void)
{
	static struct PyModuleDef definition = {
		PyModuleDef_HEAD_INIT,
		.m_name = "_guest",
		.m_doc = "The part of a Fumehood guest that cannot be written in Python.",
		.m_size = -1,
		.m_methods = methods,
	};
	PyObject *module = PyModule_Create(&definition);
	const struct guest_constant *constant;

	if (!module)
		return NULL;
	for (size_t i = 0; (constant = guest_constant(i)); i++)
		if (PyModule_AddIntConstant(module, constant->name, constant->value) < 0)
			goto failed;
	if (stream_add_types(module) < 0)
		goto failed;
	return module;
failed:
	Py_DECREF(module);
	return NULL;
}
