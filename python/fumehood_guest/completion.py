"""Completing code at a cursor.

Where IPython's instance exists its own completer answers, without jedi: with it an answer took 8 to
25 ms instead of 1 to 2, the first one a second, and some came back empty that were there without.
Everywhere else the one below: keys of dicts and columns of tables, paths in strings, modules after
`import`, attributes, arguments of the call that the cursor is in, names, keywords. It looks at live
values and calls nothing; a `__getattr__` or `__dir__` of the session's may run (asking.py bounds
that).
"""
__builtins__ = dict(__builtins__)

import builtins
import importlib.util
import inspect
import keyword
import os
import pkgutil
import re
import sys
import types

from fumehood_guest import looking

MATCHES_MAX = 1000
SCANNED_MAX = 200_000     # characters before the cursor that are looked at
DIRECTORY_MAX = 5000      # entries of a directory
TYPES = "_jupyter_types_experimental"  # the key that JupyterLab reads

_token = re.compile(r"#[^\n]*|(?<![\w])([rRbBuUfF]{0,2})('''|\"\"\"|'|\")|[()\[\]{}]|['\"]")
_name_at_end = re.compile(r"[^\W\d]\w*$|$")
_object_at_end = re.compile(
    r"((?:[^\W\d]\w*|'[^'\n]*'|\"[^\"\n]*\"|\[[^\[\]\n]*\]|\{[^{}\n]*\})"
    r"(?:\s*\.\s*[^\W\d]\w*|\[[^\[\]\n]*\])*)\s*$")
_import = re.compile(r"(?:^|[;\n])[ \t]*import\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*([\w.]*)$")
_from = re.compile(r"(?:^|[;\n])[ \t]*from\s+([\w.]*)$")
_from_import = re.compile(
    r"(?:^|[;\n])[ \t]*from\s+([\w.]+)\s+import\s+\(?(?:[^\W\d]\w*(?:\s+as\s+\w+)?\s*,\s*)*(\w*)$")
PAIRS = {")": "(", "]": "[", "}": "{"}


_may_be_magic = re.compile(r"(?:^|\n)[ \t]*%*\w*$|=[ \t]*%\w*$")


def complete(shell, code, cursor, answer):
    """Fills the answer: matches, cursor_start, cursor_end, metadata."""
    if shell.ipython is not None:
        _complete_with_ipython(shell, code, cursor, answer)
        return
    Completer(shell, code[:cursor][-SCANNED_MAX:], cursor, answer).complete()


def _complete_with_ipython(shell, code, cursor, answer):
    from IPython.core.completer import provisionalcompleter, rectify_completions
    found = []
    with provisionalcompleter():
        completions = shell.ipython.ip.Completer.completions(code, cursor)
        for completion in rectify_completions(code, completions):
            if completion.text.startswith("%") and not _may_be_magic.search(code[:cursor]):
                continue  # IPython offers magics wherever a name may stand
            found.append(completion)
            if len(found) >= MATCHES_MAX:
                break
    if not found:
        return
    start, end = found[0].start, found[0].end
    texts = [completion.text for completion in found]
    if code[start:start + 1] == "." and all(text.startswith(".") for text in texts):
        start, texts = start + 1, [text[1:] for text in texts]  # the dot is there already
    answer["cursor_start"], answer["cursor_end"] = start, end
    typer = Typer(shell, code[:start])
    for completion, text in zip(found, texts):
        kind = completion.type
        if not kind or kind in ("<unknown>", "attribute", "variable"):
            kind = typer.kind(text)
        _add(answer, text, kind, start, end)


def _add(answer, text, kind, start, end):
    answer["matches"].append(text)
    answer["metadata"].setdefault(TYPES, []).append(
        {"start": start, "end": end, "text": text, "type": kind})


class Typer:
    """What a completion is, when IPython does not say."""

    def __init__(self, shell, before):
        self.ns = shell.ns
        self.value = self.has_value = None
        match = _object_at_end.search(before[:-1]) if before.endswith(".") else None
        if match:
            try:
                self.value, self.has_value = looking.resolve(match.group(1), shell.ns), True
            except looking.Unknown:
                pass

    def kind(self, text):
        if text.startswith("%"):
            return "magic"
        if text.endswith("="):
            return "param"
        if self.has_value:
            return looking.kind_of_attribute(self.value, text)
        head, _, tail = text.rpartition(".")
        if not head:
            return looking.kind_of_name(text, self.ns)
        try:
            return looking.kind_of_attribute(looking.resolve(head, self.ns), tail)
        except looking.Unknown:
            return ""


class Place:
    """Where the cursor is: inside a string or not, and in which open brackets."""

    def __init__(self, text):
        self.brackets = []     # (bracket, position) of those that are open
        self.string = None     # position behind the opening quote, when inside a string
        self.quote = self.prefix = ""
        self.comment = False
        position = 0
        while True:
            match = _token.search(text, position)
            if match is None:
                return
            position = match.end()
            found = match.group()
            if found[0] == "#":
                self.comment = position == len(text)
            elif found in "([{":
                self.brackets.append((found, match.start()))
            elif found in ")]}":
                if self.brackets and self.brackets[-1][0] == PAIRS[found]:
                    self.brackets.pop()
            else:
                position = self._end_of_string(text, match)
                if position is None:
                    self.string = match.end()
                    self.quote = match.group(2) or found
                    self.prefix = (match.group(1) or "").lower()
                    return

    @staticmethod
    def _end_of_string(text, match):
        """The position behind a string, None when the text ends in it."""
        quote = match.group(2) or match.group()
        at = match.end()
        while at < len(text):
            if text[at] == "\\":
                at += 2
            elif text.startswith(quote, at):
                return at + len(quote)
            elif text[at] == "\n" and len(quote) == 1:
                return at  # never closed: not ours to complete
            else:
                at += 1
        return None


class Completer:
    def __init__(self, shell, text, cursor, answer):
        self.shell, self.ns = shell, shell.ns
        self.text, self.cursor, self.answer = text, cursor, answer
        self.seen = set()

    def complete(self):
        place = Place(self.text)
        if place.comment:
            return
        if place.string is not None:
            if not self.keys_in_string(place) and "f" not in place.prefix:
                self.paths(place)
            return
        if self.modules():
            return
        word = _name_at_end.search(self.text).group()
        self.begin(word)
        before = self.text[:len(self.text) - len(word)]
        if before.rstrip(" \t").endswith("."):
            self.attributes(before.rstrip(" \t")[:-1], word)
            return
        if not word and place.brackets and place.brackets[-1][0] == "[":
            at = place.brackets[-1][1]
            if not self.text[at + 1:].strip():
                self.keys(self.text[:at], "", None)
        self.arguments(place, word)
        self.names(word)

    # ---- adding

    def begin(self, word):
        self.answer["cursor_start"] = self.cursor - len(word)

    def add(self, text, kind):
        if text not in self.seen and len(self.seen) < MATCHES_MAX:
            self.seen.add(text)
            _add(self.answer, text, kind, self.answer["cursor_start"], self.cursor)

    def add_all(self, names, word, kind):
        """The names that begin with `word`; private ones only when it asks for them."""
        names = sorted({name for name in names if type(name) is str and name.startswith(word)})
        for group in (False, True):
            for name in names:
                if name.startswith("_") is group and (not group or word.startswith("_")):
                    self.add(name, kind(name))

    # ---- kinds

    def names(self, word):
        found = set(self.ns) | set(vars(builtins)) | set(keyword.kwlist)
        if not word:
            found = set(self.ns) - looking.hidden(self.shell)
        self.add_all(found, word, lambda name: looking.kind_of_name(name, self.ns))

    def object_before(self, text):
        match = _object_at_end.search(text)
        if not match:
            raise looking.Unknown
        return looking.resolve(match.group(1), self.ns)

    def attributes(self, before, word):
        try:
            value = self.object_before(before)
            names = dir(value)
        except Exception:
            return
        self.add_all(names, word, lambda name: looking.kind_of_attribute(value, name))

    def arguments(self, place, word):
        """`name=` of the call that the cursor is in."""
        if not place.brackets or place.brackets[-1][0] != "(":
            return
        at = place.brackets[-1][1]
        if re.search(r"=\s*$", self.text[:len(self.text) - len(word)]):
            return
        try:
            function = self.object_before(self.text[:at])
            parameters = inspect.signature(function).parameters.values()
        except Exception:
            return
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) \
                    and parameter.name.startswith(word):
                self.add(parameter.name + "=", "param")

    def keys_in_string(self, place):
        """Keys of `value["...`: True when the string is a subscript."""
        before = self.text[:place.string - len(place.quote) - len(place.prefix)].rstrip()
        if not before.endswith("[") or not _object_at_end.search(before[:-1]):
            return False
        return self.keys(before[:-1], self.text[place.string:], place.quote)

    def keys(self, before, word, quote):
        try:
            value = self.object_before(before)
            keys = keys_of(value)
        except Exception:
            return False
        self.begin(word)
        for key in keys:
            if quote is None:
                if isinstance(key, (str, int, float, bool)):
                    self.add(repr(key), "dict key")
            elif type(key) is str and key.startswith(word):
                self.add(key.replace("\\", "\\\\").replace(quote[0], "\\" + quote[0]), "dict key")
        return True

    def paths(self, place):
        text = self.text[place.string:]
        folder, _, word = text.rpartition("/")
        self.begin(word)
        if "\n" in text or "\0" in text:
            return
        folder = os.path.expanduser(folder + "/") if folder or text.startswith("/") else "."
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(word) and (word or not entry.name.startswith(".")):
                        found.append(entry.name + ("/" if entry.is_dir() else ""))
                    if len(found) >= DIRECTORY_MAX:
                        break
        except OSError:
            return
        for name in sorted(found):
            self.add(name, "path")

    # ---- modules

    def modules(self):
        """After `import` and `from`: True when the cursor is there."""
        line = self.text[self.text.rfind("\n", 0, max(0, len(self.text) - 2000)) + 1:]
        match = _import.search(line) or _from.search(line)
        if match:
            parent, _, word = match.group(1).rpartition(".")
            self.begin(word)
            self.add_all(submodules(parent) if parent else top_modules(), word,
                         lambda name: "module")
            return True
        match = _from_import.search(line)
        if not match:
            return False
        parent, word = match.groups()
        self.begin(word)
        module = sys.modules.get(parent)
        inside = set(submodules(parent))
        names = set(dir(module)) if isinstance(module, types.ModuleType) else set()
        self.add_all(names | inside, word, lambda name: "module" if name in inside
                     else looking.kind_of_attribute(module, name))
        return True


def keys_of(value):
    """Keys that a subscript of the value could name, a bounded number of them."""
    own = getattr(type(value), "_ipython_key_completions_", None)
    if own is not None:
        keys = own(value)
    elif isinstance(value, dict):
        keys = dict.keys(value)
    elif looking.is_table(value):
        keys = value.columns
    elif looking.root_of(value) == "numpy" and getattr(value.dtype, "names", None):
        keys = value.dtype.names
    else:
        raise looking.Unknown
    found = []
    for key in keys:
        found.append(key)
        if len(found) >= MATCHES_MAX:
            break
    return found


_top = {}  # sys.path -> names; listing all folders takes tens of milliseconds


def top_modules():
    path = tuple(entry for entry in sys.path if type(entry) is str)
    if path not in _top:
        _top.clear()
        _top[path] = set(sys.builtin_module_names) | {
            info.name for info in pkgutil.iter_modules(path)
            if info.module_finder.path not in ("", os.getcwd())}
    here = {info.name for info in pkgutil.iter_modules([os.getcwd()])}  # may change at any time
    return _top[path] | here | {name for name in sys.modules if "." not in name}


def submodules(name):
    """Names of the modules in a package, without importing it."""
    module = sys.modules.get(name)
    path = getattr(module, "__path__", None)
    if module is None and "." not in name:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return []
        path = spec.submodule_search_locations if spec is not None else None
    return [info.name for info in pkgutil.iter_modules(list(path))] if path else []
