"""`fumehood ask` for the tests in test/flow: scripts of answers, and what came of them.

ask()       runs it to its end with --json        Asked     the lines it printed
answer()    an answer with a program in a fence   Live      one that runs, read line by line
"""
import json
import os
import pathlib
import subprocess
import tempfile
import time

from fumehood_kit import WAIT_S, wait_readable


def answer(code, fence="```python\n%s\n```", **more):
    """One line of a script."""
    return {"text": fence % code, **more}


def write_script(house, answers):
    """A script file of these answers; texts stand for answers as they are."""
    lines = [one if isinstance(one, dict) else {"text": one} for one in answers]
    handle, path = tempfile.mkstemp(prefix="script-", suffix=".ndjson", dir=house.dir)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


class Lines:
    """What an ask has told."""

    def __init__(self, lines):
        self.lines = lines

    def of(self, kind, **fields):
        return [line for line in self.lines if line["type"] == kind
                and all(line.get(key) == value for key, value in fields.items())]

    @property
    def finished(self):
        """By the number of the attempt, whichever ended first."""
        return sorted(self.of("attempt", state="finished"), key=lambda line: line["attempt"])

    @property
    def statuses(self):
        return [line["status"] for line in self.finished]

    @property
    def verdict(self):
        return self.of("verdict")[-1]

    @property
    def result(self):
        return self.of("result")[-1]


class Asked(Lines):
    """An ask with --json that has ended."""

    def __init__(self, result):
        super().__init__([json.loads(line) for line in result.out.splitlines()])
        self.status, self.err = result.status, result.err
        assert self.lines, result


def ask(house, answers, *options, instruction="Do it.", cwd=None, **rest):
    """Asks with these answers and --json."""
    script = write_script(house, answers)
    return Asked(house.cli("ask", "--json", "--script", script, *options, instruction,
                           cwd=cwd or house.folder(), **rest))


def ask_people(house, answers, *options, instruction="Do it.", cwd=None, **rest):
    """The same as people see it."""
    script = write_script(house, answers)
    return house.cli("ask", "--script", script, *options, instruction,
                     cwd=cwd or house.folder(), **rest)


class Live(Lines):
    """An ask that runs."""

    def __init__(self, house, answers, *options, instruction="Do it.", cwd=None):
        super().__init__([])
        self.process = house.popen("ask", "--json", "--script", write_script(house, answers),
                                   *options, instruction, cwd=cwd or house.folder(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self._buffer = bytearray()

    def line(self):
        """The next line; None at the end."""
        until = time.monotonic() + WAIT_S
        while b"\n" not in self._buffer:
            wait_readable(self.process.stdout.fileno(), until, "a line of the ask")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self._buffer += data
        text, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        self.lines.append(json.loads(text))
        return self.lines[-1]

    def wait_for(self, kind, **fields):
        while not self.of(kind, **fields):
            assert self.line() is not None, (kind, fields, self.lines[-3:])
        return self.of(kind, **fields)[0]

    def end(self):
        """Reads to the end; the exit status."""
        while self.line() is not None:
            pass
        return self.process.wait(WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def journal(house, session):
    """The events of a stored session."""
    path = pathlib.Path(house.sessions) / session / "journal.ndjson"
    return [json.loads(line) for line in path.read_bytes().splitlines()]
