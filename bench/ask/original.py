"""The original's own class, run once in a process of its own; only its engine is exchanged.

    original.py URL INSTRUCTION PROGRAMS RESULT

slm-code-interpreter (PyPI) is imported as it is: its prompt, its reading of code, its history, its
child process of 10 seconds. Its ONNX engine is not, because both sides shall ask one server: what
stands for it below takes the ChatML text apart into the messages that it was made of, which the
server's chat template puts together again, and asks greedily, as the original does. Every program
that it runs is written down. The current folder is the task's.
"""

import json
import os
import re
import sys
import time
import types
import urllib.request

CHATML = re.compile(r"<\|im_start\|>(system|user|assistant)\n(.*?)<\|im_end\|>\n", re.DOTALL)
ANSWER_SECONDS_MAX = 1800


class Prompt(str):
    """The `tokens` of a prompt: the text itself. No length, so that max_length is the answer's."""

    def __len__(self):
        return 0


class Tokenizer:
    def __init__(self, model):
        pass

    def encode(self, text):
        return Prompt(text)

    def decode(self, tokens):
        return "".join(tokens)


class GeneratorParams:
    def __init__(self, model):
        self.options = {}

    def set_search_options(self, **options):
        self.options.update(options)


class Generator:
    """One generation: a token is a piece of the server's stream."""

    def __init__(self, model, params):
        self.options, self.pieces, self.next, self.now = params.options, None, None, []
        self.usage = {}
        self.began = self.first = None
        model.generations.append(self)
        self.url = model.url

    def append_tokens(self, prompt):
        messages = [
            {"role": role, "content": text} for role, text in CHATML.findall(str.__str__(prompt))
        ]
        request = {
            "messages": messages,
            "temperature": self.options["temperature"],
            "max_tokens": self.options["max_length"],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        self.began = time.monotonic()
        answer = urllib.request.urlopen(
            urllib.request.Request(
                self.url + "/chat/completions",
                json.dumps(request).encode(),
                {"Content-Type": "application/json"},
            ),
            timeout=ANSWER_SECONDS_MAX,
        )
        self.pieces = self.read(answer)
        self.advance()

    def read(self, answer):
        with answer:
            for line in answer:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[len(b"data: "):])
                if "error" in event:
                    raise RuntimeError(event["error"])
                self.usage = event.get("usage") or self.usage
                for choice in event.get("choices", ()):
                    text = choice["delta"].get("content")
                    if text:
                        self.first = self.first or time.monotonic()
                        yield text
        self.seconds = time.monotonic() - self.began

    def advance(self):
        self.next = next(self.pieces, None)

    def is_done(self):
        return self.next is None

    def generate_next_token(self):
        self.now = [self.next]
        self.advance()

    def get_next_tokens(self):
        return self.now

    def summary(self):
        cached = (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return {
            "tokens": self.usage.get("completion_tokens", 0),
            "prompt_tokens": self.usage.get("prompt_tokens", 0),
            "cached_tokens": cached,
            "model_seconds": self.seconds,
            "first_token_seconds": (self.first or time.monotonic()) - self.began,
        }


def here():
    """The files of the current folder: {name: content}."""
    found = {}
    for top, _, names in os.walk("."):
        for name in names:
            path = os.path.normpath(os.path.join(top, name))
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                found[path] = file.read(1 << 20)
    return found


def main(url, instruction, programs, result):
    from slm_code_interpreter import code_interpreter as original

    model = types.SimpleNamespace(url=url, generations=[])
    original.og = types.SimpleNamespace(
        Model=lambda path: model,
        Tokenizer=Tokenizer,
        GeneratorParams=GeneratorParams,
        Generator=Generator,
    )
    ran, run = [], original.run_code_safely

    def watched(code, timeout=10.0):
        began = time.monotonic()
        status, stdout, stderr = run(code, timeout)
        ran.append(
            {
                "generation": len(model.generations) - 1,
                "code": code,
                "status": "ok" if status == 0 else "timeout" if status == -1 else "error",
                "stdout": stdout,
                "stderr": stderr,
                "files": here(),
                "run_seconds": time.monotonic() - began,
            }
        )
        return status, stdout, stderr

    original.run_code_safely = watched
    began = time.monotonic()
    answer = original.SLMCodeInterpreter(model_path=".").run(instruction, max_retries=programs)
    seconds = time.monotonic() - began
    attempts = [{"status": "no_code", **one.summary()} for one in model.generations]
    for program in ran:
        attempts[program.pop("generation")].update(program)
    with open(result, "w", encoding="utf-8") as file:
        json.dump({"answer": answer, "programs": attempts, "seconds": seconds}, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
