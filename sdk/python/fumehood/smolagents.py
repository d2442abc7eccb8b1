"""FumehoodExecutor: the Python executor of smolagents' CodeAgent, in a session.

    from fumehood.smolagents import FumehoodExecutor

    with FumehoodExecutor(memory=1 << 30) as executor:
        agent = CodeAgent(tools=[…], model=…, executor=executor,
                          additional_authorized_imports=["*"])
        agent.run("…")

The model's code runs in the sandbox; the agent's tools run here, where their secrets and their
network are. A tool in the session is a function that asks: its call goes out as a prompt (op
`input`), and the answer comes back the same way. What comes from the session is JSON and is never
unpickled: nothing in it can run here. What goes in may be a pickle: there it can do no harm.
"""
from __future__ import annotations

import base64
import contextlib
import io
import json
import pickle
import secrets
from types import TracebackType
from typing import Any, Dict, Optional, Type

from smolagents.local_python_executor import CodeOutput, PythonExecutor

from . import errors
from .result import Result
from .session import Session

# Defines in the session: a function for each tool, and how values travel.
BRIDGE = '''\
def _fumehood_bridge(secret):
    import base64, getpass, json, pickle, threading
    lock = threading.Lock()

    def pack(value):
        if value is None or isinstance(value, (bool, str)):
            return value
        if type(value) in (int, float):
            return value
        if isinstance(value, list):
            return [pack(item) for item in value]
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": {key: pack(item) for key, item in value.items()}}
        if isinstance(value, (tuple, set, frozenset)):
            return {type(value).__name__: [pack(item) for item in value]}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": base64.b64encode(bytes(value)).decode()}
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            return pack(value.item())
        if hasattr(value, "tolist"):
            return pack(value.tolist())
        if hasattr(value, "to_dict") and hasattr(value, "columns"):
            return pack(value.to_dict("list"))
        if hasattr(value, "save") and hasattr(value, "convert"):
            import io
            file = io.BytesIO()
            value.save(file, format="PNG")
            return {"image": base64.b64encode(file.getvalue()).decode()}
        return {"text": str(value)}

    class FinalAnswer(BaseException):
        """The agent has its answer: the cell ends here."""

    def ask(name, arguments, named):
        with lock:
            text = getpass.getpass(secret + json.dumps(
                [name, pack(list(arguments)), pack(named)]))
        kind, value = json.loads(text)
        if kind == "final":
            raise FinalAnswer()
        if kind == "error":
            raise RuntimeError(value)
        return unpack(kind, value)

    def unpack(kind, value):
        return pickle.loads(base64.b64decode(value)) if kind == "pickle" else value

    def tool(name):
        def call(*arguments, **named):
            return ask(name, arguments, named)
        call.__name__ = call.__qualname__ = name
        return call
    return tool, unpack
'''


def _unpack(value: Any) -> Any:
    """A value from the session. It may be anything, and is only ever data."""
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    if not isinstance(value, dict) or len(value) != 1:
        return value
    kind, inner = next(iter(value.items()))
    if kind == "dict" and isinstance(inner, dict):
        return {key: _unpack(item) for key, item in inner.items()}
    if kind in ("tuple", "set", "frozenset") and isinstance(inner, list):
        items = [_unpack(item) for item in inner]
        with contextlib.suppress(TypeError):
            return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](items)
        return items
    if kind == "bytes":
        return base64.b64decode(str(inner))
    if kind == "image":
        from PIL import Image  # of smolagents' own requirements

        return Image.open(io.BytesIO(base64.b64decode(str(inner))), formats=["PNG"])
    return inner


def _pack(value: Any) -> "list[Any]":
    """A value for the session: JSON when it is that, else a pickle."""
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        if json.loads(json.dumps(value, allow_nan=False)) == value and not isinstance(value, tuple):
            return ["json", value]
    return ["pickle", base64.b64encode(pickle.dumps(value)).decode("ascii")]


class FumehoodExecutor(PythonExecutor):
    """Parameters: those of Session; or `session`, one that is there, and stays."""

    def __init__(self, session: Optional[Session] = None, **options: Any) -> None:
        if session is not None and options:
            raise errors.UsageError("a session that is there has its options already")
        self._owns = session is None
        self.session = session or Session(**options)
        self.state: Dict[str, Any] = {"_print_outputs": ""}  # read by the agent after an error
        self._tools: Dict[str, Any] = {}
        self._secret = "fumehood-tool-%s:" % secrets.token_hex(8)
        self._final: "list[Any]" = []
        self._bridge_of: Optional[str] = None

    # ---- what smolagents calls

    def send_tools(self, tools: Dict[str, Any]) -> None:
        """The names by which the session may call; the tools stay here."""
        self._tools.update(tools)
        self._define()

    def send_variables(self, variables: Dict[str, Any]) -> None:
        """Puts values into the session."""
        lines = []
        for name, value in variables.items():
            if not name.isidentifier():
                raise errors.UsageError("%r is no name of a variable" % name)
            try:
                lines.append("globals()[%r] = _fumehood_unpack(*%r)" % (name, _pack(value)))
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                raise errors.UsageError("the variable %s cannot be sent: %s" % (name, error)
                                        ) from None
        if lines:
            self._define()
            self._run("\n".join(lines)).raise_for_error()

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs the model's code."""
        self._define()
        self._final.clear()
        result = self._run(code_action)
        self.state["_print_outputs"] = logs = result.stdout + result.stderr
        if self._final:
            return CodeOutput(output=self._final[0], logs=logs, is_final_answer=True)
        if not result.ok:
            raise errors.CellError(str(result.error) or result.explain(), result)
        return CodeOutput(output=result.result, logs=logs, is_final_answer=False)

    def cleanup(self) -> None:
        """Ends the session, unless it was there before."""
        if self._owns:
            self.session.close()

    def __enter__(self) -> FumehoodExecutor:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.cleanup()

    # ---- how

    def _run(self, code: str) -> Result:
        result = self.session.run(code, max_chars=0, input=self._answer)
        if result.state != "kept":
            self._bridge_of = None  # the interpreter is another one
        return result

    def _define(self) -> None:
        """Defines the functions, once, and again when an interpreter is new or tools have come."""
        names = sorted(name for name in self._tools if name.isidentifier())
        want = " ".join(names)
        if self._bridge_of == want:
            return
        code = BRIDGE + "_fumehood_tool, _fumehood_unpack = _fumehood_bridge(%r)\n" % self._secret
        code += "".join("%s = _fumehood_tool(%r)\n" % (name, name) for name in names)
        self._run(code).raise_for_error()
        self._bridge_of = want

    def _answer(self, prompt: str, _password: bool) -> Optional[str]:
        """A prompt: a tool call of the session, or a question that nobody can answer."""
        if not prompt.startswith(self._secret):
            return None
        try:
            name, arguments, named = json.loads(prompt[len(self._secret):])
            tool = self._tools.get(name)
            if tool is None:
                return json.dumps(["error", "there is no tool %s" % name])
            value = tool(*_unpack(arguments), **_unpack(named))
        except Exception as error:  # of the tool: the model shall see it
            return json.dumps(["error", "%s: %s" % (type(error).__name__, error)])
        if name == "final_answer":
            self._final.append(value)
            return json.dumps(["final", None])
        try:
            return json.dumps(_pack(value))
        except Exception as error:
            return json.dumps(["error", "what %s returned cannot be sent: %s" % (name, error)])
