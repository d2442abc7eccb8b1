"""A session as tools of a model: definitions for OpenAI and Anthropic, and who answers the calls.

    box = fumehood.tools.Toolbox(session)
    reply = client.chat.completions.create(model=…, messages=messages, tools=fumehood.tools.OPENAI)
    for call in reply.choices[0].message.tool_calls or ():
        messages.append(box.openai(call))

    reply = client.messages.create(model=…, messages=messages, tools=fumehood.tools.ANTHROPIC, …)
    messages.append({"role": "user", "content": [
        box.anthropic(block) for block in reply.content if block.type == "tool_use"]})

What a model does wrong (a tool that there is not, arguments that are no JSON, a missing file) is
answered with a sentence that it can act on; every call gets an answer. Only what is wrong with the
session itself is raised.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import calls, errors
from .result import Image
from .session import Session

READ_CHARS = 8000
IMAGES_MAX = 4
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def _definition(name: str, description: str, **properties: Tuple[str, str]) -> Dict[str, Any]:
    return {"name": name, "description": description, "parameters": {
        "type": "object",
        "properties": {key: {"type": kind, "description": about}
                       for key, (kind, about) in properties.items()},
        "required": list(properties), "additionalProperties": False}}


#: Name, description and JSON Schema of each tool.
DEFINITIONS: List[Dict[str, Any]] = [
    _definition(
        "execute_code",
        "Runs Python code in a stateful, sandboxed session and returns what it printed, the value "
        "of the last expression, and the error if there was one. Variables, imports and files stay "
        "from call to call. There is no network unless it was allowed. Figures of matplotlib are "
        "shown by plt.show(). input() does not work.",
        code=("string", "Python code: one or more lines. Print what you want to see.")),
    _definition(
        "list_files", "Lists a folder of the session's working directory.",
        path=("string", "The folder, relative to the working directory; \".\" for that itself.")),
    _definition(
        "read_file", "Returns the beginning of a text file of the session's working directory.",
        path=("string", "The file, relative to the working directory.")),
    _definition(
        "write_file", "Writes a text file in the session's working directory; one that is there is "
        "replaced.",
        path=("string", "The file, relative to the working directory."),
        content=("string", "All of its text.")),
    _definition(
        "restart_session", "Starts a new interpreter: all variables are gone, files stay. For when "
        "the session does not recover by itself."),
]

#: `tools` of OpenAI's chat completions.
OPENAI: List[Dict[str, Any]] = [
    {"type": "function", "function": {**one, "strict": True}} for one in DEFINITIONS]

#: `tools` of OpenAI's responses.
OPENAI_RESPONSES: List[Dict[str, Any]] = [
    {"type": "function", **one, "strict": True} for one in DEFINITIONS]

#: `tools` of Anthropic's messages.
ANTHROPIC: List[Dict[str, Any]] = [
    {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]}
    for one in DEFINITIONS]


@dataclass
class Answer:
    """What a call gives back. `failed`: the model should do something else."""

    text: str
    failed: bool = False
    images: List[Image] = field(default_factory=list)


class Mistake(Exception):
    """What the model has to be told."""


def _member(call: Any, *names: str) -> Any:
    """A member of an object of a client library, or of a dict."""
    for name in names:
        call = call.get(name) if isinstance(call, Mapping) else getattr(call, name, None)
    return call


class Toolbox:
    """Answers calls with a session. `timeout`: seconds a cell may run; `max_chars`: the longest
    answer; `only`: the names of the tools that may be called (None: all)."""

    def __init__(self, session: Session, *, timeout: Optional[float] = None,
                 max_chars: int = calls.TEXT_CHARS, only: Optional[List[str]] = None) -> None:
        self.session, self.timeout, self.max_chars = session, timeout, max_chars
        self._tools: Dict[str, Callable[..., Answer]] = {
            "execute_code": self._execute_code, "list_files": self._list_files,
            "read_file": self._read_file, "write_file": self._write_file,
            "restart_session": self._restart_session}
        if only is not None:
            self._tools = {name: self._tools[name] for name in only}

    # ---- calls

    def call(self, name: str, arguments: Union[str, Mapping[str, Any], None]) -> str:
        """Calls a tool; `arguments`: an object, or its JSON. Returns the text for the model."""
        return self.answer(name, arguments).text

    def answer(self, name: str, arguments: Union[str, Mapping[str, Any], None]) -> Answer:
        """The same, with images, and whether it failed."""
        try:
            tool, found = self._check(name, arguments)
            return tool(**found)
        except Mistake as mistake:
            return Answer(str(mistake), True)
        except (errors.NotFoundError, errors.InvalidError, errors.DeniedError, errors.UsageError,
                errors.LimitError, errors.BusyError, errors.NoSpaceError) as error:
            return Answer("%s: %s" % (error.code, error.message), True)

    def openai(self, call: Any) -> Dict[str, Any]:
        """The message that answers a tool call: of chat completions (`tool_calls[i]`), or an item
        `function_call` of responses."""
        if _member(call, "type") == "function_call":
            return {"type": "function_call_output", "call_id": _member(call, "call_id"),
                    "output": self.call(_member(call, "name"), _member(call, "arguments"))}
        return {"role": "tool", "tool_call_id": _member(call, "id"),
                "content": self.call(_member(call, "function", "name"),
                                     _member(call, "function", "arguments"))}

    def anthropic(self, block: Any) -> Dict[str, Any]:
        """The block `tool_result` that answers a block `tool_use`, with the images."""
        answer = self.answer(_member(block, "name"), _member(block, "input"))
        content: List[Dict[str, Any]] = [{"type": "text", "text": answer.text or "(no output)"}]
        content += [{"type": "image", "source": {
            "type": "base64", "media_type": image.mime, "data": image.base64}}
            for image in answer.images if image.mime in _IMAGE_TYPES][:IMAGES_MAX]
        return {"type": "tool_result", "tool_use_id": _member(block, "id"), "content": content,
                "is_error": answer.failed}

    def _check(self, name: str, arguments: Union[str, Mapping[str, Any], None]
               ) -> Tuple[Callable[..., Answer], Dict[str, Any]]:
        tool = self._tools.get(name)
        if tool is None:
            raise Mistake("there is no tool %s; there are %s" % (name, ", ".join(self._tools)))
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}", strict=False)
            except ValueError as error:
                raise Mistake("the arguments of %s are no JSON: %s" % (name, error)) from None
        if not isinstance(arguments, Mapping) and arguments is not None:
            raise Mistake("the arguments of %s are an object" % name)
        found = dict(arguments or {})
        wanted = next(one for one in DEFINITIONS if one["name"] == name)["parameters"]["required"]
        missing = [key for key in wanted if not isinstance(found.get(key), str)]
        if missing:
            raise Mistake("%s needs %s, as text" % (name, " and ".join(missing)))
        return tool, {key: found[key] for key in wanted}

    # ---- the tools

    def _execute_code(self, code: str) -> Answer:
        result = self.session.run(code, timeout=self.timeout, max_chars=self.max_chars)
        return Answer(result.text, not result.ok, result.images)

    def _list_files(self, path: str) -> Answer:
        lines = ["%s%s  %d bytes" % (entry.name, "/" if entry.type == "folder" else "", entry.bytes)
                 for entry in self.session.files.list(path)]
        return Answer("\n".join(lines) or "(the folder is empty)")

    def _read_file(self, path: str) -> Answer:
        data, total = self.session._ask(calls.read_file(path, 0))
        text = data.decode("utf-8", "replace")
        if "\0" in text[:1000]:
            raise Mistake("%s is no text file: read it with code" % path)
        if len(text) > READ_CHARS or len(data) < total:
            text = text[:READ_CHARS] + "\n… the file has %d bytes; read the rest with code" % total
        return Answer(text or "(the file is empty)")

    def _write_file(self, path: str, content: str) -> Answer:
        return Answer("%d bytes were written to %s" % (self.session.files.put(path, content), path))

    def _restart_session(self) -> Answer:
        self.session.restart()
        return Answer("the interpreter is new; all variables are gone")
