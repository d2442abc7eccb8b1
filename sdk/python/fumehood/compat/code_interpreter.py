"""SLMCodeInterpreter: a small local model writes Python, Fumehood runs it and has it corrected.

    from fumehood.compat import SLMCodeInterpreter

    interpreter = SLMCodeInterpreter()
    result = interpreter.run("Print the first ten prime numbers")
    result["success"], result["stdout"], result["code"], result["attempts"], result["response"]

Parameters, keys and defaults are the original's; `fumehood ask` does the work (doc/ask.md), so
programs run in sandboxes, several are compared, and the dict has more keys: `confidence`,
`agreement`, `programs` (each one with its code, output and error), `message`, `session` … A run
without success has the original's values in the original's keys, and all that is known in the
others. What is different, and why: doc/decisions/084-*.
"""
from __future__ import annotations

import collections.abc
import os
from types import TracebackType
from typing import Any, Dict, Generator, List, Optional, Set, Tuple, Type

from .. import asking, errors
from ..answer import Answer, Line
from ..start import PathLike
from . import executor, model_path as models

FAILED = "Max correction loops reached."
RUN_S = 10.0  # one program


class TextStream(collections.abc.Generator[str, None, Dict[str, Any]]):
    """What the model writes, as it comes; programs are run and corrected meanwhile.

    It is a generator of text. Programs are told one after the other, with an empty line between,
    also when they are written at the same time; `attempt` says which one it is at. At the end
    `result` is the dict that run() gives without `stream` (it is StopIteration's value, too).
    Leaving it ends model and programs.
    """

    def __init__(self, interpreter: SLMCodeInterpreter, asked: Dict[str, Any],
                 max_retries: int) -> None:
        self.attempt = 0
        self.result: Optional[Dict[str, Any]] = None
        self._generator = self._text(interpreter, asked, max_retries)

    def _text(self, interpreter: SLMCodeInterpreter, asked: Dict[str, Any], max_retries: int
              ) -> Generator[str, None, Dict[str, Any]]:
        if max_retries <= 0:
            self.result = failure(max_retries)
            return self.result
        order = _Order()
        with interpreter._begin(asked) as under_way:
            for line in under_way:
                for attempt, text in order.take(line):
                    self.attempt = attempt
                    yield text
            self.result = as_dict(under_way.result(), max_retries)
        return self.result

    def send(self, value: None) -> str:
        return self._generator.send(value)

    def throw(self, kind: Any, value: Any = None, trace: Optional[TracebackType] = None) -> str:
        return self._generator.throw(kind if value is None else value)

    def close(self) -> None:
        self._generator.close()


class _Order:
    """Tokens of programs that are written at once, one program after the other. Pure."""

    def __init__(self) -> None:
        self._at = 0
        self._waiting: Dict[int, List[str]] = {}
        self._written: Set[int] = set()

    def take(self, line: Line) -> List[Tuple[int, str]]:
        """The texts that can be told now, each with its program."""
        attempt, made = line.attempt, []
        if line.type == "token" and not line.reasoning:
            self._at = self._at or attempt
            if attempt != self._at:
                self._waiting.setdefault(attempt, []).append(line.text)
            elif line.text:
                made.append((attempt, line.text))
        elif line.type == "code" or (line.type == "attempt" and line.get("state") == "finished"):
            self._written.add(attempt)
        while self._at in self._written and self._waiting:
            self._at = min(self._waiting)
            made += [(self._at, "\n\n")] + [(self._at, text)
                                            for text in self._waiting.pop(self._at)]
        return made


def as_dict(answer: Answer, max_retries: int) -> Dict[str, Any]:
    """The answer under the original's keys, and the others."""
    made = {key: value for key, value in answer.raw.items() if key != "type"}
    if not answer.success:
        return {**made, **failure(max_retries), "message": answer.message,
                "programs": made.get("programs") or []}
    return {**made, "success": True, "stdout": answer.stdout.strip(),
            "stderr": answer.stderr.strip(), "code": answer.code.strip(),
            "attempts": answer.attempts, "response": answer.response}


def failure(max_retries: int) -> Dict[str, Any]:
    """What the original returns without success."""
    return {"success": False, "stdout": "", "stderr": FAILED, "code": "", "attempts": max_retries,
            "response": "", "message": "no program was asked for", "programs": []}


class SLMCodeInterpreter:
    """Parameters of the original:

    model_path    a GGUF file, a folder with one, a name of `fumehood model list`, or the base URL
                  of an OpenAI-compatible server. None: what config.yaml says (model_path.py), else
                  the user's default model
    cache_dir     where models lie; else $SLM_CODE_INTERPRETER_CACHE_DIR
    n_ctx, n_threads    of a model that Fumehood runs; else $SLM_CODE_INTERPRETER_N_CTX and
                  …_N_THREADS
    system_prompt, user_input    as of run(), for each run that has none

    And others: `workspace` is the folder that programs see (they have a fresh one without);
    `timeout` the seconds of one program; `model` the name of the model on the server of a URL. All
    else is an option of an ask (fumehood.asking.body): effort, expect, asserts, tokens, seconds …
    """

    def __init__(self, model_path: Optional[PathLike] = None,
                 cache_dir: Optional[PathLike] = None,
                 n_ctx: Optional[int] = None, n_threads: Optional[int] = None,
                 system_prompt: Optional[str] = None, user_input: Optional[str] = None, *,
                 workspace: Optional[PathLike] = None, timeout: float = RUN_S,
                 **options: Any) -> None:
        self.n_ctx = _whole("n_ctx", n_ctx)
        self.n_threads = _whole("n_threads", n_threads)
        self.cache_dir = cache_dir if cache_dir is not None else os.environ.get(
            "SLM_CODE_INTERPRETER_CACHE_DIR")
        self.system_prompt, self.user_input = system_prompt, user_input
        self.workspace, self.timeout = workspace, timeout
        # A script stands for a model, in tests; a URL has the model's name beside it.
        chosen = {} if "script" in options or "url" in options else models.choose(model_path)
        self._options = {**chosen, "run_seconds": timeout, **options}
        if workspace is not None:
            self._options["workspace"] = os.path.abspath(os.fsdecode(workspace))
        self._asked("-")  # an option that is not known is told now
        self.model_path = self._options.get("url") or self._options.get("model")

    def run(self, instruction: str, max_retries: int = 3, stream: bool = False,
            system_prompt: Optional[str] = None, user_input: Optional[str] = None) -> Any:
        """Has programs written for the instruction until one holds. `max_retries`: programs in all.
        `user_input`: what they read (input(), stdin). `stream`: returns a TextStream. A failure is
        in the dict; an exception means that there was no model, or nothing to run programs in."""
        if isinstance(max_retries, bool) or not isinstance(max_retries, int):
            raise TypeError("max_retries is a whole number")
        asked = self._asked(instruction, system_prompt, user_input)
        if max_retries > 0:
            asked["programs"] = max_retries
        if stream:
            return TextStream(self, asked, max_retries)
        if max_retries <= 0:
            return failure(max_retries)
        with self._begin(asked) as under_way:
            return as_dict(under_way.result(), max_retries)

    def run_code_safely(self, code: str, timeout: Optional[float] = 10.0) -> Tuple[int, str, str]:
        """(rc, stdout, stderr) of a script; see executor.py."""
        return executor.run_code_safely(code, timeout, workspace=self.workspace)

    def _execute_sandbox(self, code: str, timeout: Optional[float] = 10.0) -> Tuple[int, str, str]:
        return self.run_code_safely(code, timeout)

    def _asked(self, instruction: str, system_prompt: Optional[str] = None,
               user_input: Optional[str] = None) -> Dict[str, Any]:
        given = dict(self._options)
        system = self.system_prompt if system_prompt is None else system_prompt
        text = self.user_input if user_input is None else user_input
        if system is not None:
            given["system"] = system
        if text is not None:
            given["input"] = text
        try:
            return asking.body(instruction, **given)
        except TypeError as error:
            raise TypeError(str(error).replace("body()", "SLMCodeInterpreter()")) from None

    def _begin(self, asked: Dict[str, Any]) -> asking.Asking:
        return asking.Asking(asking.Child(asked, self._environment()))

    def _environment(self) -> Dict[str, str]:
        """How the program is told of what is no option of an ask."""
        made = {"FUMEHOOD_LLAMA_CONTEXT": self.n_ctx, "FUMEHOOD_LLAMA_THREADS": self.n_threads,
                "SLM_CODE_INTERPRETER_CACHE_DIR": self.cache_dir}
        return {name: os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike))
                else str(value) for name, value in made.items() if value is not None}


def _whole(name: str, given: Optional[int]) -> Optional[int]:
    """A number that was given, or that of the original's variable."""
    variable = "SLM_CODE_INTERPRETER_" + name.upper()
    text = os.environ.get(variable)
    value: Any = given
    if given is None and text:
        name = variable
        value = int(text) if text.strip().isdigit() else 0
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise errors.UsageError("%s is a whole number from 1 on, not %s" % (
            name, text if given is None else given))
    return value
