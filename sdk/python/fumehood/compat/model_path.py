"""Which model: from what the original's `model_path`, variables and config.yaml say.

The original had ONNX directories; here a model is a GGUF file, a name of `fumehood model list`, or
an OpenAI-compatible server. A directory in the ONNX layout is recognised, and told what to do.

config.yaml is looked for where the original did: $SLM_CODE_INTERPRETER_CONFIG, ./config.yaml,
../config.yaml. One key of it counts, models.code_interpreter.path, relative to the file. A file
that happens to lie there and has no such key is not ours; one whose key cannot be read is told of.
Of YAML the reader knows what that key needs: nested mappings by indentation, comments, plain and
quoted values. `fumehood slm` has the same reader (src/serve/slm_config.c), and both are tested by
one table of cases, test/data/config-yaml.json.
"""
from __future__ import annotations

import json
import os
import re
from typing import Dict, List, Optional, Tuple

from .. import errors
from ..start import PathLike

CONFIG_VARIABLE = "SLM_CODE_INTERPRETER_CONFIG"
KEY = ("models", "code_interpreter", "path")
_CONFIG_BYTES_MAX = 1 << 20
_FOLDERS_MAX = 2000  # that are looked at for a model
_ENTRY = re.compile(r"""("[^"]*"|'[^']*'|(?!-[ \t])[^"':][^:]*?)[ \t]*:(?:[ \t]+(.*))?""", re.S)
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[ \t]*(?:#.*)?""", re.S)
_DEPTH_MAX = 32
_PART = re.compile(r"-(\d{5})-of-\d{5}\.gguf$", re.I)
_ONNX = ("%s holds an ONNX model (genai_config.json), and Fumehood runs GGUF files: get one by "
         "`fumehood model pull`, or convert the original weights by llama.cpp's "
         "convert_hf_to_gguf.py, and name that file")


class ModelNotFoundError(errors.NotFoundError, FileNotFoundError):
    """There is no model where one was named."""


def choose(model_path: Optional[PathLike]) -> Dict[str, str]:
    """The options of an ask that the model is chosen by: `model`, `url`, or none of them (then it
    is the user's default model)."""
    if model_path is None:
        configured = configured_path()
        return {} if configured is None else choose(configured)
    name = os.fsdecode(model_path)
    if re.match(r"https?://", name):
        return {"url": name}
    path = os.path.expanduser(name)
    if os.path.isdir(path):
        return {"model": _in_folder(os.path.abspath(path))}
    if os.path.exists(path):
        return {"model": _file(os.path.abspath(path))}
    if "/" in name or name.startswith("~") or name.lower().endswith((".gguf", ".onnx")):
        raise ModelNotFoundError("there is no model at %s: give a GGUF file, a folder with one, a "
                                 "name of `fumehood model list`, or a server's URL" % path)
    if not name.strip():
        raise errors.UsageError("model_path is empty")
    return {"model": name}


def _file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise errors.from_os(error, "cannot read the model %s" % path) from error
    if magic == b"GGUF":
        return path
    if path.lower().endswith(".onnx"):
        raise errors.UnsupportedError(_ONNX % path)
    raise errors.InvalidError("%s is no GGUF file: its first bytes are %r" % (path, magic))


def _in_folder(folder: str) -> str:
    """The one GGUF file below a folder."""
    found: List[str] = []
    onnx = False
    for number, (place, folders, names) in enumerate(os.walk(folder)):
        if number >= _FOLDERS_MAX:
            break
        folders.sort()
        onnx = onnx or "genai_config.json" in names
        for name in sorted(names):
            part = _PART.search(name)
            if name.lower().endswith(".gguf") and not name.lower().startswith("mmproj") \
                    and (part is None or int(part[1]) == 1):
                found.append(os.path.join(place, name))
    if len(found) == 1:
        return _file(found[0])
    if found:
        raise errors.UsageError("%s holds several models: name one of %s" % (
            folder, ", ".join(os.path.relpath(path, folder) for path in found[:10])))
    if onnx:
        raise errors.UnsupportedError(_ONNX % folder)
    raise ModelNotFoundError("the folder %s holds no GGUF file" % folder)


# ---------------------------------------------------------------------------------- config.yaml


def configured_path() -> Optional[str]:
    """What config.yaml says; None: there is none, or it does not say."""
    named = os.environ.get(CONFIG_VARIABLE)
    for path in ([named] if named else ["config.yaml", os.path.join("..", "config.yaml")]):
        if not named and not os.path.isfile(path):
            continue
        value = read_path(path)
        if value is not None:
            value = os.path.expanduser(value)
            if re.match(r"https?://", value):
                return value
            whole = os.path.join(os.path.dirname(os.path.abspath(path)), value)
            if os.path.exists(whole):
                return os.path.normpath(whole)
            if "/" not in value and not value.lower().endswith((".gguf", ".onnx")):
                return value  # a name
            raise ModelNotFoundError("%s names the model %s, which is not there" % (
                os.path.abspath(path), os.path.normpath(whole)))
        if named:
            raise errors.InvalidError("%s (from %s) has no %s" % (
                path, CONFIG_VARIABLE, ".".join(KEY)))
    return None


def read_path(path: str) -> Optional[str]:
    """models.code_interpreter.path of a file. Raises InvalidError with the line."""
    try:
        with open(path, "rb") as file:
            data = file.read(_CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise errors.from_os(error, "cannot read %s" % path) from error
    try:
        if len(data) > _CONFIG_BYTES_MAX:
            raise ValueError("it is longer than %d bytes" % _CONFIG_BYTES_MAX)
        return find_key(data.decode("utf-8-sig"))
    except ValueError as error:
        raise errors.InvalidError("cannot read %s of %s: %s" % (
            ".".join(KEY), os.path.abspath(path), error)) from None


def find_key(text: str) -> Optional[str]:
    """The value of KEY in YAML; None: it is not there, null or empty. Pure. Raises ValueError where
    YAML begins that it does not know, on the way to the key; what else is in the file does not
    matter."""
    above: List[Tuple[int, bool]] = []  # mappings that are open: indentation, on the way to the key
    if "\0" in text:
        raise ValueError("it has a NUL character")
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = line.rstrip(" \t")
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if bare.lstrip("\t ")[:1] in ("", "#"):
            continue
        if bare[0] == "\t":
            raise ValueError("line %d is indented by a tab: YAML wants blanks" % number)
        while above and above[-1][0] >= indent:
            above.pop()
        on_way = not above or above[-1][1]
        found = _ENTRY.fullmatch(bare)
        if found is None:  # an item of a list, a part of a text, the beginning of a document
            if above and on_way:
                raise ValueError("line %d: a key and its value, `key: value`, is expected" % number)
            continue
        if len(above) == _DEPTH_MAX:
            raise ValueError("line %d is nested too deeply" % number)
        key, value = found[1], (found[2] or "").lstrip(" \t")
        if key[0] in "\"'":
            key = key[1:-1]
        on_way = on_way and len(above) < len(KEY) and key == KEY[len(above)]
        if on_way and len(above) == len(KEY) - 1:
            made = _value(value, number)
            if made is not None:
                return made
            continue
        if on_way and value[:1] not in ("", "#"):
            raise ValueError("line %d: write what is in `%s` on lines of its own, indented"
                             % (number, key))
        above.append((indent, on_way))
    return None


def _value(value: str, number: int) -> Optional[str]:
    if value[:1] in ("", "#"):
        return None
    if value[0] in "\"'":
        quoted = _QUOTED.fullmatch(value)
        if quoted is None:
            raise ValueError("line %d: the quotes do not close, or text is behind them" % number)
        value = _unquoted(quoted[1], number)
    elif value[0] in "&*!|>{[@`%":
        raise ValueError("line %d: write the path as plain or quoted text" % number)
    else:
        value = re.sub(r"[ \t]+#.*", "", value, flags=re.S)
        if value in ("~", "null", "Null", "NULL"):
            return None
    if any(character < " " for character in value):
        raise ValueError("line %d: the path has a control character" % number)
    return value or None


def _unquoted(text: str, number: int) -> str:
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    try:
        made = json.loads(text)
        made.encode()
    except ValueError:
        raise ValueError("line %d: this escape is not known here: write the path in single quotes"
                         % number) from None
    return str(made)
