"""Rich display: values to MIME bundles, display(), DisplayHandle, clear_output.

The methods `_repr_mimebundle_`, `_repr_html_` and so on are the protocol, with or without IPython.
Where IPython is there, ipython.py replaces `bundle` by its formatters and everything still leaves
through publish().

A value that cannot be shown is no error of the cell: its formatter's traceback goes to stderr, and
the plain text says what is wrong.
"""
__builtins__ = dict(__builtins__)

import sys
import uuid

from fumehood_guest import _guest, traceback_text, wire

METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
CANARY = "_ipython_canary_method_should_not_exist_"  # objects that answer to any name are not asked
PLAIN = frozenset((int, float, complex, bool, str, bytes, type(None)))

# type name -> function(value) -> {mime: data} or None, for types that cannot be given a method
# (figures)
special = []


def report(error):
    """The traceback of something that failed beside the cell, on stderr."""
    try:
        sys.stderr.write(traceback_text.text_of(error))
    except Exception:
        pass


def unprintable(value, error):
    reason = traceback_text.value_of(error)
    return "<unprintable %s object: %s%s>" % (
        traceback_text.type_name(value), traceback_text.name_of(error),
        ": " + reason if reason else "")


def plain_text(value):
    """(repr, None), or the substitute and what went wrong."""
    try:
        text = repr(value)
        return (text if type(text) is str else str.__str__(text)), None
    except Exception as error:
        return unprintable(value, error), error


def _method(value, name):
    if isinstance(value, type):
        return None
    method = getattr(value, name, None)
    return method if callable(method) else None


def _add(data, metadata, mime, answer):
    if answer is None:
        return
    if isinstance(answer, tuple) and len(answer) == 2:
        answer, extra = answer
        if extra:
            metadata[mime] = extra
    data[mime] = answer


def _rich(value, data, metadata):
    """Asks the value for its own renderings. Returns what failed, or None."""
    failure = None
    try:
        if getattr(value, CANARY, None) is not None:
            return None
        method = _method(value, "_repr_mimebundle_")
        if method is not None:
            answer = method(include=None, exclude=None)
            if isinstance(answer, tuple) and len(answer) == 2:
                metadata.update(answer[1] or {})
                answer = answer[0]
            data.update(answer or {})
    except Exception as error:
        failure = error
    for mime, name in METHODS:
        if mime in data:
            continue
        try:
            method = _method(value, name)
            if method is not None:
                _add(data, metadata, mime, method())
        except NotImplementedError:
            pass
        except Exception as error:
            failure = failure or error
    return failure


def bundle(value):
    """(data, metadata) of a value; empty data when the value has displayed itself."""
    if type(value) in PLAIN:
        return {"text/plain": repr(value)}, {}
    data, metadata, failure = {}, {}, None
    try:
        own = None if isinstance(value, type) else _method(value, "_ipython_display_")
        if own is not None and getattr(value, CANARY, None) is None:
            own()
            return {}, {}
    except NotImplementedError:
        pass
    except Exception as error:
        failure = error
    for function in special:
        answer = function(value)
        if answer:
            data.update(answer)
    failure = failure or _rich(value, data, metadata)
    if "text/plain" not in data:
        data["text/plain"], error = plain_text(value)
        failure = failure or error
        if failure is not None and error is None and type(value).__repr__ is object.__repr__:
            data["text/plain"] = unprintable(value, failure)
    if failure is not None:
        report(failure)
    return data, metadata


formatter = [bundle]  # ipython.py puts its own here


def shown(value):
    """What the formatters say, or the plain text when they fail altogether."""
    try:
        return formatter[0](value)
    except Exception as error:
        report(error)
        return {"text/plain": plain_text(value)[0]}, {}


def show_result(value, count):
    """The value of a cell's last expression. Returns its data."""
    data, metadata = shown(value)
    if data:
        wire.emit_json(_guest.RESULT,
                       {"data": data, "metadata": metadata, "execution_count": count})
    return data


def publish(data, metadata=None, display_id=None, update=False):
    """Sends a display, or the new content of an earlier one."""
    body = {"data": data, "metadata": metadata or {}}
    if display_id is not None:
        body["display_id"] = str(display_id)
    wire.emit_json(_guest.UPDATE if update and display_id is not None else _guest.DISPLAY, body)


# ---------------------------------------------------------------- what a cell can call without
# IPython

class DisplayHandle:
    """A display that can be updated."""

    def __init__(self, display_id=None):
        self.display_id = uuid.uuid4().hex if display_id is None else display_id

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, obj, **kwargs):
        display(obj, display_id=self.display_id, **kwargs)

    def update(self, obj, **kwargs):
        update_display(obj, display_id=self.display_id, **kwargs)


def display(*objs, include=None, exclude=None, metadata=None, transient=None, display_id=None,
            raw=False, clear=False, update=False, **kwargs):
    """Show objects in the richest form they have. Returns a handle when a display_id is given."""
    if display_id is True:
        display_id = uuid.uuid4().hex
    if clear:
        clear_output(wait=True)
    for obj in objs:
        data, extra = (obj, {}) if raw else shown(obj)
        if not data:
            continue
        if include:
            data = {mime: item for mime, item in data.items() if mime in include}
        if exclude:
            data = {mime: item for mime, item in data.items() if mime not in exclude}
        publish(data, dict(extra, **(metadata or {})), display_id, update)
    return DisplayHandle(display_id) if display_id is not None else None


def update_display(obj, *, display_id, **kwargs):
    """Replace the content of an earlier display."""
    display(obj, display_id=display_id, update=True, **kwargs)


def clear_output(wait=False):
    """Remove the cell's outputs so far, at once or when the next one comes."""
    wire.emit(_guest.CLEAR, flags=_guest.FLAG_WAIT if wait else 0)
