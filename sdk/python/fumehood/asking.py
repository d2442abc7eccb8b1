"""Asking: an instruction that a model writes programs for, under way.

The loop is the program's (`fumehood ask --json`, doc/ask.md): it is started as a child, and what it
prints is read here. A daemon does the same behind POST /v1/ask, so both are a Source of lines.

    lines ──> Asking: an iterator over them, and result() for the Answer

The instruction goes in by stdin, options by another descriptor (a command line can be read by every
user), and these and stderr are files without a name: nothing but stdout has to be read, so no
thread is needed and nothing can wait for each other. Who leaves without
waiting (Ctrl-C, an exception of a callback, `break`) ends model and programs: nobody would see
them.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from types import TracebackType
from typing import (Any, Callable, Dict, IO, Iterator, List, Mapping, Optional, Protocol, Sequence,
                    Type, Union)

from . import errors, install
from .answer import Answer, Line

Texts = Union[str, "re.Pattern[str]", Sequence[Union[str, "re.Pattern[str]"]]]
LINE_BYTES_MAX = 256 << 20  # the result holds every program with its output
_STOP_S = 5                 # from SIGTERM to SIGKILL; it is to take 0.2
_SAID_BYTES = 8 << 10       # of stderr
_FLAGS = {"model": "--model", "url": "--url", "key_env": "--key-env", "script": "--script",
          "session": "--session", "workspace": "--workspace", "effort": "--effort",
          "programs": "--programs", "tokens": "--tokens", "seconds": "--time",
          "run_seconds": "--timeout", "expect": "--expect", "assert": "--assert",
          "input": "--input", "template": "--template", "temperature": "--temperature",
          "seed": "--seed", "attempts": "--attempts"}


def body(instruction: str, *, model: Optional[str] = None, url: Optional[str] = None,
         key_env: Optional[str] = None, script: Optional[str] = None, effort: Optional[str] = None,
         programs: Optional[int] = None, tokens: Optional[int] = None,
         seconds: Optional[float] = None, run_seconds: Optional[float] = None,
         expect: Optional[Texts] = None, asserts: Optional[Texts] = None,
         input: Optional[str] = None, system: Optional[str] = None,
         template: Optional[str] = None, temperature: Optional[float] = None,
         seed: Optional[int] = None, attempts: Optional[str] = None,
         session: Optional[str] = None, workspace: Optional[str] = None) -> Dict[str, Any]:
    """The members of POST /v1/ask, which are the options of `fumehood ask` too.

    model, url    doc/ask.md, "Options"; key_env: the variable that has the key for `url`
    script        a file with answers instead of a model
    effort        "low", "medium" or "high": at most 1, 3 or 5 programs
    programs, tokens, seconds, run_seconds    budgets: programs in all, tokens that the model may
                  write, seconds of all, seconds of one program
    expect        what the output must be: text, or a compiled regular expression; or several
    asserts       code that must hold after the program; or several
    input         what the programs read: input() and stdin
    system, template    another system prompt; a file with another set of prompts
    temperature, seed   of the first program
    attempts      "show" or "hide": whether the notebook keeps the attempts
    """
    if not isinstance(instruction, str):
        raise errors.UsageError("the instruction is text, not %s" % type(instruction).__name__)
    if not instruction.strip():
        raise errors.UsageError("the instruction is empty: say what is to be done")
    made = {"instruction": instruction, "model": model, "url": url, "key_env": key_env,
            "script": script, "effort": effort, "programs": programs, "tokens": tokens,
            "seconds": seconds, "run_seconds": run_seconds, "expect": _texts(expect, "expect"),
            "assert": _texts(asserts, "asserts"), "input": input, "system": system,
            "template": template, "temperature": temperature, "seed": seed, "attempts": attempts,
            "session": session, "workspace": workspace}
    return {key: value for key, value in made.items() if value is not None}


def _texts(given: Optional[Texts], name: str) -> Union[None, str, List[str]]:
    if given is None:
        return None
    if isinstance(given, (str, re.Pattern)):
        return _one(given, name)
    found = [_one(item, name) for item in given]
    return found or None


def _one(item: object, name: str) -> str:
    if isinstance(item, re.Pattern) and isinstance(item.pattern, str):
        if item.flags & ~(re.UNICODE | re.IGNORECASE | re.MULTILINE):
            raise errors.UsageError("of a pattern's flags %s knows re.IGNORECASE and re.MULTILINE"
                                    % name)
        return "/%s/%s" % (item.pattern, "i" if item.flags & re.IGNORECASE else "")
    if not isinstance(item, str):
        raise errors.UsageError("%s is text, or a list of texts" % name)
    return item


def _words(asked: Mapping[str, Any]) -> bytes:
    """The options of the program as its --options takes them: each ended by a NUL byte."""
    made = [] if "session" in asked or "workspace" in asked else ["--private"]
    for key, flag in _FLAGS.items():
        values = asked.get(key)
        for value in values if isinstance(values, list) else [] if values is None else [values]:
            text = "%.15g" % value if isinstance(value, float) else os.fsdecode(value) \
                if isinstance(value, (bytes, os.PathLike)) else str(value)
            if "\0" in text:
                raise errors.UsageError("%s holds a NUL character" % key)
            made.append("%s=%s" % (flag, text))  # one word: a value may begin with a dash
    return b"".join(_bytes(word) + b"\0" for word in made)


def _text(value: object) -> bytes:
    return str(value).encode("utf-8", "replace")


def _bytes(text: str) -> bytes:
    """As a word of a command line: paths are the bytes that they are."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, which is no character
        return _text(text)


class Source(Protocol):
    """Where the lines of an ask come from."""

    def next(self) -> Optional[bytes]:
        """The next line; None at the end."""

    def stop(self) -> None:
        """Lets it end soon, from any thread."""

    def close(self) -> None:
        """Ends it."""

    def why(self) -> errors.Error:
        """Why it has ended without a result; after its end."""


def _file(name: str, data: bytes) -> int:
    """A file without a name that holds this, at its beginning."""
    handle = os.memfd_create("fumehood-" + name, os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(handle, 0, os.SEEK_SET)
    except BaseException:
        os.close(handle)
        raise
    return handle


class Child:
    """`fumehood ask --json`. Started at once. Without session and workspace it gets a session with
    a private one: the program by itself would show the current directory to what a model has
    written."""

    def __init__(self, asked: Mapping[str, Any], environment: Optional[Mapping[str, str]] = None
                 ) -> None:
        handles = [_file("instruction", _text(asked["instruction"]))]
        try:
            handles.append(_file("stderr", b""))
            handles.append(_file("options", _words(asked)))
            words = [str(install.program()), "ask", "--json",
                     "--options=/proc/self/fd/%d" % handles[2]]
            if "system" in asked:  # a file for itself, for it may begin with an @
                handles.append(_file("system", _text(asked["system"])))
                words.append("--system=@/proc/self/fd/%d" % handles[3])
            words.append("-")
            self._said, self._words = handles[1], b""
            try:
                self.process: subprocess.Popen[bytes] = subprocess.Popen(
                    words, stdin=handles[0], stdout=subprocess.PIPE, stderr=handles[1],
                    pass_fds=handles[2:], env={**os.environ, **(environment or {})},
                    start_new_session=True)
            except OSError as error:
                raise errors.from_os(error, "cannot start %s" % words[0]) from error
            handles.remove(self._said)
        finally:
            for handle in handles:
                os.close(handle)
        assert self.process.stdout is not None
        self.out: IO[bytes] = self.process.stdout

    def next(self) -> Optional[bytes]:
        line = self.out.readline(LINE_BYTES_MAX)
        if len(line) >= LINE_BYTES_MAX:
            raise errors.LimitError("fumehood ask printed a line of more than %d MiB"
                                    % (LINE_BYTES_MAX >> 20))
        return line or None

    def stop(self) -> None:
        self.process.terminate()

    def close(self) -> None:
        if self._said < 0:
            return
        try:
            if self.process.poll() is None:
                self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        finally:
            self.release()

    def release(self) -> None:
        """Closes our ends; the process has ended, or is about to."""
        said, self._said = self._said, -1
        self.out.close()
        if said >= 0:
            self._words = os.pread(said, _SAID_BYTES, max(0, os.fstat(said).st_size - _SAID_BYTES))
            os.close(said)

    def why(self) -> errors.Error:
        status = self.process.poll()
        said = self._words.decode("utf-8", "replace").strip()
        named = re.findall(r"^fumehood(?:-ask)?: (?:error: )?(.*)", said, re.M)
        said = named[-1] if named else said.rpartition("\n")[2]  # an example may stand behind it
        if status == 130:
            return errors.make("cancelled", said or "the ask was cancelled")
        if status == 2:
            return errors.UsageError(said or "fumehood ask does not understand its options")
        how = "ended with status %s" % status
        if status is not None and status < 0:
            how = "was killed by signal %d" % -status
        return errors.GoneError("fumehood ask %s%s" % (how, ": " + said if said else ""))


def read(data: bytes) -> Line:
    """A line as an object."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise errors.CorruptError("fumehood ask printed what is no JSON object: %r" % data[:200])
    return Line(value)


class Fold:
    """What the lines say at their end."""

    def __init__(self) -> None:
        self.answer: Optional[Answer] = None
        self.failure: Optional[errors.Error] = None

    def take(self, line: Line) -> None:
        if line.type == "result":
            self.answer = Answer.read(line)
        elif line.type == "error":
            self.failure = errors.make(str(line.get("code", "internal")),
                                       str(line.get("message", "the ask failed")))

    def result(self, source: Source, stopped: bool) -> Answer:
        if stopped and not (self.answer and self.answer.success):
            raise errors.make("cancelled", "the ask was cancelled")
        if self.answer is not None:
            return self.answer
        raise self.failure or source.why()


class Asking:
    """An ask under way. Made by Session.start_ask()."""

    def __init__(self, source: Source, on_line: Optional[Callable[[Line], object]] = None) -> None:
        self._source, self._on_line = source, on_line
        self._fold = Fold()
        self._reading = threading.Lock()
        self._ended = self._stopped = False

    def _next(self) -> Optional[Line]:
        with self._reading:
            if self._ended:
                return None
            data = self._source.next()
            if data is None:
                self._ended = True
                self._source.close()
                return None
            line = read(data)
            self._fold.take(line)
            return line

    def __iter__(self) -> Iterator[Line]:
        """The lines as they come, to the last. Leaving early cancels the ask."""
        try:
            while (line := self._next()) is not None:
                if self._on_line:
                    self._on_line(line)
                yield line
        except BaseException:
            self.close()
            raise
        if self._fold.answer is None:
            self.result()  # raises what is wrong

    def result(self) -> Answer:
        """Waits for the end. Raises what kept it from an answer: no model, no server."""
        try:
            while (line := self._next()) is not None:
                if self._on_line:
                    self._on_line(line)
        except BaseException:
            self.close()
            raise
        return self._fold.result(self._source, self._stopped)

    @property
    def done(self) -> bool:
        return self._ended

    def cancel(self) -> None:
        """Stops model and programs, from any thread; what there was is in the journal. Then
        result() raises an Error with the code "cancelled"."""
        if not self._ended:
            self._stopped = True
            self._source.stop()

    def close(self) -> None:
        """Ends it, if it has not ended."""
        self._stopped = self._stopped or not self._ended
        self._ended = True
        self._source.close()

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def start_ask(instruction: str, *, on_line: Optional[Callable[[Line], object]] = None,
              daemon: Optional[str] = None, token: Optional[str] = None, **options: Any) -> Asking:
    """Begins an ask in a session of its own, on this machine or with a daemon."""
    asked = body(instruction, **options)
    if daemon is None:
        if token is not None:
            raise errors.UsageError("a token is for a daemon: give its address as `daemon`")
        return Asking(Child(asked), on_line)
    from .daemon import Daemon

    return Asking(Daemon(daemon, token).asking(asked), on_line)


def ask(instruction: str, *, on_line: Optional[Callable[[Line], object]] = None,
        daemon: Optional[str] = None, token: Optional[str] = None, **options: Any) -> Answer:
    """Has a model write programs for the instruction, runs them, and answers with one whose outcome
    holds. `workspace`: the folder that they see. Other options: body()."""
    return start_ask(instruction, on_line=on_line, daemon=daemon, token=token, **options).result()
