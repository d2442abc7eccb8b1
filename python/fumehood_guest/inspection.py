"""What is the thing at the cursor? Its signature, documentation, and source on request.

Where IPython's instance exists its inspector answers, with the text that `name?` and `name??` show;
the hooks that it respects (`_repr_mimebundle_` of objects, set_custom_exc and so on) are
respected here too. Everywhere else, and when IPython's answer was interrupted, the plain text is
made here from what can be found without running the object's own code.
"""
__builtins__ = dict(__builtins__)

import inspect as _inspect
import io
import re
import tokenize

from fumehood_guest import looking, traceback_text, variables

TEXT_CHARS_MAX = 200_000
SCANNED_MAX = 200_000
_name = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")


def inspect(shell, code, cursor, detail, answer):
    """Fills the answer: found, data, metadata."""
    text, at = code[max(0, cursor - SCANNED_MAX):cursor + SCANNED_MAX], min(cursor, SCANNED_MAX)
    interrupted = None
    for name in names_at(text, at):
        try:
            value = looking.resolve(name, shell.ns)
        except looking.Unknown:
            if not _magic(shell, name):
                continue
            value = None
        answer["found"] = True
        try:
            if shell.ipython is not None and _inspect_with_ipython(shell, name, detail, answer):
                return
        except KeyboardInterrupt as error:
            interrupted = error
        except Exception:
            pass
        answer["data"]["text/plain"] = ""
        for line in describe(value, name, detail, interrupted is None):
            answer["data"]["text/plain"] += line + "\n"
        if interrupted is not None:
            raise interrupted
        return


def _magic(shell, name):
    return name.startswith("%") and shell.ipython is not None \
        and shell.ipython.ip.find_magic(name.lstrip("%")) is not None


def _inspect_with_ipython(shell, name, detail, answer):
    bundle = shell.ipython.ip.object_inspect_mime(name, detail_level=detail)
    if not bundle or not bundle.get("text/plain"):
        return False
    for mime, text in bundle.items():
        if isinstance(text, str):
            answer["data"][mime] = _ansi.sub("", text[:TEXT_CHARS_MAX])
    return True


_ansi = re.compile("\x1b\\[[0-9;]*m")


def names_at(text, at):
    """Candidates, best first: the name under the cursor or just before it, up to the cursor's
    part; then the function of the call that the cursor is in."""
    line_start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    line = text[line_start:line_end if line_end >= 0 else len(text)]
    magic = re.match(r"\s*(%%?[\w.]+)", line)
    if magic and at - line_start <= magic.end():
        yield magic.group(1)
    for match in _name.finditer(text, line_start):
        if match.start() > at:
            break
        if match.start() <= at <= match.end():
            whole = match.group()
            tail = whole[at - match.start():]
            rest = re.match(r"\w*", tail).group()
            yield re.sub(r"\s", "", whole[:at - match.start()] + rest)
    yield from _functions_around(text[:at])


def _functions_around(text):
    """Names before the brackets that are still open at the end of the text, the inner first."""
    depth = 0
    tokens = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            tokens.append(token)
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass
    for index in range(len(tokens) - 1, 0, -1):
        string = tokens[index].string
        if string in (")", "]", "}"):
            depth += 1
        elif string in ("(", "[", "{"):
            if depth == 0 and string == "(":
                name = _dotted_before(tokens, index)
                if name:
                    yield name
            depth = max(0, depth - 1)


def _dotted_before(tokens, index):
    parts = []
    at = index - 1
    while at >= 0 and tokens[at].type == tokenize.NAME:
        parts.insert(0, tokens[at].string)
        if at < 2 or tokens[at - 1].string != ".":
            break
        at -= 2
    return ".".join(parts)


def describe(value, name, detail, all_of_it):
    """Lines of plain text, each when it is known."""
    last = name.split(".")[-1]
    signature = _signature(value)
    if signature is not None:
        yield "Signature: %s%s" % (last, signature)
    kind = traceback_text.type_name(value)
    if not isinstance(value, type) and signature is None:
        yield "Type: %s" % kind
        yield "String form: %s" % (variables.short_repr(value) if all_of_it else "<%s>" % kind)
        length = variables.length_of(value)
        if length is not None:
            yield "Length: %d" % length
    source = _source(value) if detail else None
    doc = _doc(value)
    if doc and source is None:
        yield "Docstring:\n" + doc[:TEXT_CHARS_MAX]
    if source is not None:
        yield "Source:\n" + source[:TEXT_CHARS_MAX].rstrip("\n")
    if signature is not None or isinstance(value, type) or kind == "module":
        file = _file(value)
        if file:
            yield "File: %s" % file
        yield "Type: %s" % kind


def _signature(value):
    if not callable(value):
        return None
    try:
        return str(_inspect.signature(value))
    except Exception:
        return None


def _doc(value):
    try:
        doc = _inspect.getdoc(value)
    except Exception:
        return None
    return doc if isinstance(doc, str) else None


def _source(value):
    for thing in (value, type(value)):
        try:
            return _inspect.getsource(thing)
        except Exception:
            continue
    return None


def _file(value):
    try:
        return _inspect.getfile(value)
    except Exception:
        return None
