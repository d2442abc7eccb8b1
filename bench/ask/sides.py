"""The two sides: each answers a task in a folder of its own, and gives a row of one form.

row: task, side, success, confidence, agreement, right, stdout, message, seconds, model_seconds,
tokens, prompt_tokens, cached_tokens, and programs: [{status, right, code, stdout, stderr, tokens,
prompt_tokens, cached_tokens, model_seconds, first_token_seconds, run_seconds}]. It holds all that
was said and done, so that it can be judged again without either side.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile

import tasks

ASK_SECONDS_MAX = 3600
SUMS = ("tokens", "prompt_tokens", "cached_tokens", "model_seconds")
PROGRAM = (
    *("attempt", "kind", "of", "temperature", "seed", "status", "group", "code", "response"),
    *("stdout", "stderr", "result", "error", "files", "suspicions", "tokens", "prompt_tokens"),
    *("cached_tokens", "model_seconds", "first_token_seconds", "run_seconds", "message"),
)
ANSWER = (
    *("success", "confidence", "agreement", "stdout", "code", "message", "seconds"),
    *("model_seconds", "tokens", "prompt_tokens", "cached_tokens", "suspicions"),
)


class Failed(Exception):
    """A side did not answer at all; the message says what it said."""


class Original:
    """slm-code-interpreter; original.py runs it."""

    name = "original"

    def __init__(self, url, environment, programs=3):
        self.url, self.environment, self.programs = url, environment, programs

    def ask(self, task, folder):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "original.py")
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            done = subprocess.run(
                [sys.executable, script, self.url, task["instruction"], str(self.programs)]
                + [result.name],
                cwd=folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ASK_SECONDS_MAX,
            )
            if done.returncode:
                said = done.stderr.decode(errors="replace").strip().splitlines() or ["no word"]
                raise Failed(f"exit {done.returncode}: {said[-1]}")
            said = json.load(result)
        answer, programs = said["answer"], said["programs"]
        for program in programs:
            program["right"] = "code" in program and tasks.is_right(
                task, program["stdout"], program["files"]
            )
        row = {name: sum(program[name] for program in programs) for name in SUMS}
        row.update(
            success=answer["success"],
            confidence="ran" if answer["success"] else None,
            agreement=None,
            stdout=answer["stdout"],
            code=answer["code"],
            message=answer["stderr"],
            seconds=said["seconds"],
            programs=programs,
        )
        # It strips its stdout, so the last program's own is what counts.
        row["right"] = bool(answer["success"] and programs[-1]["right"])
        return row


class Fumehood:
    """`fumehood ask --json` of one effort."""

    def __init__(self, url, environment, program, effort, extra=()):
        self.name, self.url, self.environment = effort, url, environment
        self.command = [program, "ask", "--json", "--url", url, "--effort", effort, *extra]

    def ask(self, task, folder):
        done = subprocess.run(
            [*self.command, "--workspace", folder, task["instruction"]],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_SECONDS_MAX,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        last = lines[-1] if lines else {}
        if last.get("type") != "result":
            said = done.stderr.decode(errors="replace")[-2000:]
            raise Failed(f"exit {done.returncode}: {last.get('message') or said}")
        programs = [
            {name: program[name] for name in PROGRAM if program.get(name) is not None}
            for program in last["programs"]
        ]
        faults = [one.get("message", "") for one in programs if one["status"] == "model"]
        if faults:
            raise Failed(f"{len(faults)} answers of the model are missing: {faults[0]}")
        for program in programs:
            program["right"] = program["status"] == "ok" and _is_right_by_hash(task, program)
        for program in programs:  # the same code as another's, which alone was run
            if program["status"] == "repeated":
                program["right"] = any(
                    one["right"] for one in programs if one.get("attempt") == program.get("of")
                )
        row = {name: last.get(name) for name in ANSWER}
        row["programs"] = programs
        # The result's stdout is stripped, as the original's: the chosen program's own counts.
        chosen = [one for one in programs if one.get("attempt") == last.get("attempt")]
        row["right"] = bool(last["success"] and chosen) and tasks.is_right(
            task, _text(chosen[0]), tasks.written(task, folder)
        )
        return row


def _text(program):
    """What a program says: its output, or the value of its last line."""
    return program.get("stdout") or program.get("result") or ""


def _hashes(content):
    """SHA-256 of a text with and without its last line end, and with either kind of line end."""
    base = content.replace("\r\n", "\n").rstrip("\n")
    texts = [base, base + "\n"]
    texts += [text.replace("\n", "\r\n") for text in texts]
    return {hashlib.sha256(text.encode()).hexdigest() for text in texts}


def _is_right_by_hash(task, program):
    """Of a program that left no trace but its record, which has hashes of the files."""
    hashes = {file["path"]: file.get("sha256") for file in program.get("files", ())}
    return tasks.is_right({**task, "expect_files": {}}, _text(program), {}) and all(
        hashes.get(name) in _hashes(content) for name, content in task["expect_files"].items()
    )
