"""The traceback of a cell: CPython's own text, without the engine's frames.

What is left out: everything before the first frame of a cell (the engine, the event loop that ran
it), the engine's frames anywhere, and IPython's (a magic's way to the code that it runs). Library
frames below the cell's stay; the text for a model leaves them out later (src/digest). A program can
make its exceptions as hostile as it likes: each step has a fallback, down to the bare name.
"""
__builtins__ = dict(__builtins__)

import os
import sys
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
CELL = "<cell "
scripts = set()  # paths of files that have run as cells
NO_TEXT = "<exception str() failed>"


def type_name(value):
    """The name of a value's class, whatever its metaclass says."""
    try:
        return str(type(value).__name__)
    except Exception:
        return str(type.__dict__["__name__"].__get__(type(value)))


name_of = type_name


def value_of(error):
    try:
        text = str(error)
        return text if type(text) is str else str.__str__(text)
    except Exception:
        return NO_TEXT


def of_session(name):
    """Is this the file name of a cell's code?"""
    return name.startswith(CELL) or name in scripts


def folders():
    """Whose frames are nobody's business."""
    package = sys.modules.get("IPython")
    try:
        return FOLDER, os.path.dirname(package.__file__) + os.sep
    except (AttributeError, TypeError):
        return (FOLDER,)


def _prune(summary, seen, leading):
    """Removes the engine's frames here and in every exception this one leads to."""
    if summary is None or id(summary) in seen:
        return
    seen.add(id(summary))
    frames = [frame for frame in summary.stack if not frame.filename.startswith(folders())]
    if leading:
        first = next((i for i, frame in enumerate(frames) if of_session(frame.filename)), None)
        if first is not None:
            frames = frames[first:]
    summary.stack[:] = frames
    _prune(summary.__cause__, seen, False)
    _prune(summary.__context__, seen, False)
    for member in getattr(summary, "exceptions", None) or ():
        _prune(member, seen, False)


def text_of(error, compiling=False):
    """The traceback as one string. `compiling`: the code never ran, so no frame is the user's."""
    try:
        summary = traceback.TracebackException(type(error), error, error.__traceback__)
        if compiling:
            return "".join(summary.format_exception_only())
        _prune(summary, set(), True)
        return "".join(summary.format())
    except Exception:
        pass
    try:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__)
                  if not frame.filename.startswith(folders())]
        body = "".join(traceback.format_list(frames))
    except Exception:
        body = ""
    head = "Traceback (most recent call last):\n" if body else ""
    return "%s%s%s: %s\n" % (head, body, name_of(error), value_of(error))


def last_lines(error):
    """The error without its way."""
    try:
        return "".join(traceback.format_exception_only(type(error), error)).rstrip("\n").split("\n")
    except Exception:
        return ["%s: %s" % (name_of(error), value_of(error))]


def describe(error, compiling=False):
    """The body of an error message."""
    name, value = name_of(error), value_of(error)
    text = text_of(error, compiling)
    lines = text.rstrip("\n").split("\n")
    return {"ename": name, "evalue": value, "traceback": lines}
