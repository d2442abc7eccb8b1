"""The backend `local`: a real llama.cpp server with a real small model, shared, killed, ended.

The server is the wheel that `fumehood model engine` fetches, once a machine; the model is the
smallest there is (it writes no usable code, which nobody asks of it here). What drives it is
model_probe, as `ask` would.
"""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

import pytest

import llama_kit
from fumehood_kit import BUILD, FAULT, LONG, WAIT_S, House, is_alive, parent_of, wait_gone

PROBE = BUILD / "src" / "model" / "model_probe"
LOAD_S = 600  # until a server that others crowd out has answered
# What stands where llama-server would: takes its options, and is the wheel's server behind them.
STAND_IN = """#!{python}
import os, sys
if sys.argv[1:] == ["--help"]:
    print("--host HOST --kv-unified --log-verbosity N --offline")
    sys.exit(0)
words = sys.argv[1:]
def value(name):
    return words[words.index(name) + 1]
assert "--kv-unified" in words and "--spec-type" not in words, words
os.execv({python!r}, [{python!r}, "-I", {script!r}, {site!r}, value("--model"), value("--host"),
                      value("--ctx-size"), value("--parallel"), value("--threads")])
"""


class LocalHouse(House):
    def __init__(self, data):
        super().__init__()
        (self.dir / "data" / "fumehood").mkdir()
        if data:
            (self.dir / "data" / "fumehood" / "engine").symlink_to(data / "fumehood" / "engine")
        self.probes = []

    def servers(self):
        done = self.cli("model", "status", "--json")
        assert done.status == 0, done.err
        return list(map(json.loads, done.out.splitlines()))

    def server(self):
        server, = self.servers()
        return server

    def probe(self, **wish):
        probe = Probe(self, {"threads": 1, "context_max": 1024, **wish})
        self.probes.append(probe)
        return probe

    def once(self, **wish):
        """Asks one thing; the last line of the answer."""
        probe = self.probe(prompts=["Say hello."], tokens=4, **wish)
        lines = probe.rest()
        return lines[-1]

    def program(self, text):
        path = self.dir / "llama-server"
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def close(self):
        for probe in self.probes:
            probe.end()
        self.cli("model", "stop")
        return super().close()


class Probe:
    def __init__(self, house, wish):
        self.process = subprocess.Popen(
            [PROBE, json.dumps(wish)], env={**house.env, "FUMEHOOD_LIBEXEC": str(BUILD)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def line(self):
        assert select.select([self.process.stdout], [], [], LOAD_S)[0], "the probe is silent"
        text = self.process.stdout.readline()
        return json.loads(text) if text else None

    def until(self, kind):
        while True:
            line = self.line()
            assert line is not None, "it ended before " + kind
            if line["type"] == kind:
                return line

    def rest(self):
        lines = list(iter(self.line, None))
        self.end()
        return lines

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def engine():
    """The folder whose `fumehood/engine` is the wheel."""
    if sys.version_info < (3, 10):
        pytest.skip("missing optional component xllamacpp")
    data = llama_kit.folder() / "data"
    house = House(XDG_DATA_HOME=str(data))
    data.mkdir(exist_ok=True)
    try:
        for _ in range(20):
            done = house.cli("model", "engine", wait_s=LOAD_S)
            if "another process" not in done.err:
                break
            time.sleep(0)
        if done.status:
            pytest.skip("missing optional component xllamacpp")
    finally:
        assert not house.close()
    return data


@pytest.fixture(scope="session")
def model():
    return llama_kit.weights("smol135")


@pytest.fixture
def home(engine):
    home = LocalHouse(engine)
    yield home
    bad = home.close()
    assert not bad, "\n".join(bad)


def test_one_server_for_all(home, model):
    first = home.probe(local=model, prompts=["Say hello."], tokens=4, context=True)
    assert first.until("done")["state"] in ("length", "stopped")
    server = home.server()
    assert server["state"] == "ready" and server["context"] == 1024
    assert home.once(local=model)["type"] == "done"
    again = home.server()
    assert (again["server_pid"], again["starts"]) == (server["server_pid"], 1)
    folder, = (home.runtime / "models").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    stopped = home.cli("model", "stop")
    assert "1 server stopped" in stopped.err
    assert wait_gone(server["server_pid"]) and wait_gone(server["pid"])
    assert os.listdir(folder) == ["lock"] and not home.servers()


def test_another_model_gets_the_memory(home, model):
    """One that nobody uses ends when another is started."""
    assert home.once(local=model)["type"] == "done"
    first = home.server()
    assert home.once(local=model, context_max=600)["type"] == "done"
    assert home.server()["context"] == 600 and wait_gone(first["server_pid"])


def test_the_server_is_killed_in_mid_answer(home, model):
    probe = home.probe(local=model, prompts=["Count to a thousand."], tokens=900)
    probe.until("text")
    pid = home.server()["server_pid"]
    os.kill(pid, signal.SIGKILL)
    done = probe.until("done")
    assert done["state"] == "failed" and "killed by signal 9 (KILL)" in json.dumps(done), done
    assert home.once(local=model)["state"] in ("length", "stopped")
    server = home.server()
    assert server["starts"] == 2 and server["server_pid"] != pid


def test_the_owner_is_killed(home, model):
    assert home.once(local=model)["type"] == "done"
    server = home.server()
    assert parent_of(server["server_pid"]) == server["pid"]
    os.kill(server["pid"], signal.SIGKILL)
    assert wait_gone(server["server_pid"]), "an orphan is left"
    assert home.once(local=model)["state"] in ("length", "stopped")
    assert home.server()["pid"] != server["pid"]


def test_it_ends_when_nobody_uses_it(home, model):
    probe = home.probe(local=model, prompts=["Count to a thousand."], tokens=900,
                       server_idle_ms=1)
    probe.until("text")
    server = home.server()
    assert is_alive(server["server_pid"]) and server["users"] == 1
    probe.end()
    assert wait_gone(server["pid"]) and wait_gone(server["server_pid"])


def test_waiting_for_the_server_can_be_cancelled(home, model):
    """A line on stdin is what Ctrl-C is for ask."""
    slow = home.program("#!/bin/sh\n[ \"$1\" = --help ] && echo --host && exit\nexec sleep 1000\n")
    probe = home.probe(local=model, server=slow, prompts=["Say hello."])
    until = time.monotonic() + WAIT_S
    while not home.servers():
        assert time.monotonic() < until
    probe.process.stdin.write(b"\n")
    probe.process.stdin.flush()
    lines = probe.rest()
    assert "interrupted" in json.dumps(lines[-1])


def test_llama_server_comes_first(home, model, engine):
    python = json.loads((engine / "fumehood" / "engine" / "engine.json").read_text())["python"]
    program = home.program(STAND_IN.format(
        python=python, site=str(engine / "fumehood" / "engine" / "site"),
        script=str(BUILD / "python" / "fumehood_model" / "server.py")))
    home.env["PATH"] = os.path.dirname(program) + ":" + home.env["PATH"]
    assert home.once(local=model)["state"] in ("length", "stopped")
    assert home.server()["state"] == "ready"


@pytest.mark.parametrize("end, words", [
    ("kill -ILL $$", "built for another CPU"),
    ("kill -SEGV $$", "killed by signal 11 (SEGV)"),
    ("echo 'E failed to allocate buffer of size 9'; exit 1", "ran out of memory"),
    ("echo 'E unknown model architecture: zzz'; exit 1", "unknown model architecture: zzz")])
def test_a_server_that_does_not_start(home, model, end, words):
    program = home.program(
        "#!/bin/sh\n[ \"$1\" = --help ] && echo --host && exit\n%s\n" % end)
    assert words in json.dumps(home.once(local=model, server=program))


def test_it_is_confined(home, model):
    """What the server could do: nothing but read, write in its own folder, and listen there."""
    inside = home.dir / "work" / "inside"
    inside.mkdir()
    program = home.program("""#!%s
import os, socket, sys
if sys.argv[1:] == ["--help"]:
    print("--host")
    sys.exit(0)
def can(what):
    try:
        what()
        return "yes"
    except OSError as error:
        return error.strerror
print(sorted(name for name in os.environ if "API" in name), end=" ")
folder = os.path.dirname(sys.argv[sys.argv.index("--host") + 1])
print(*[can(what) for what in (
    lambda: open(folder + "/x", "w"),
    lambda: open(%r, "w"),
    lambda: socket.socket(socket.AF_INET),
    lambda: socket.socket(socket.AF_UNIX).connect(folder + "/owner.sock"),
    lambda: os.kill(os.getppid(), 0))], sep="; ")
sys.exit(1)
""" % (sys.executable, str(inside / "file")))
    home.env.update(OPENAI_API_KEY="sk-1", LLAMA_API_KEY="sk-2", ANTHROPIC_API_KEY="sk-3")
    said = json.dumps(home.once(local=model, server=program))
    assert ("[] yes; Permission denied; Address family not supported by protocol; "
            "Permission denied") in said, said
    assert not list(inside.iterdir())


def test_a_damaged_file(home, model):
    data = pathlib.Path(model).read_bytes()
    damaged = home.dir / "damaged.gguf"
    damaged.write_bytes(data[:len(data) // 2])
    assert "it is cut" in json.dumps(home.once(local=str(damaged)))
    damaged.write_bytes(b"GGUF" + os.urandom(1000))
    assert home.once(local=str(damaged))["type"] == "error"
    assert not home.servers()


def test_no_server_at_all(model):
    home = LocalHouse(None)
    home.env["PATH"] = "/nowhere"
    assert "fumehood model engine" in json.dumps(home.once(local=model))
    done = home.cli("ask", "-m", model, "hello")
    assert done.status == FAULT and "fumehood model engine" in done.err
    bad = home.close()
    assert not bad, "\n".join(bad)


@pytest.mark.skipif(not LONG, reason="FH_TEST_HUGE is not set")
def test_the_smoke_set(home):
    """The real model of half a billion parameters answers some of the five, and all is measured."""
    done = home.cli("model", "test", "--json", llama_kit.weights("q05"), wait_s=5 * LOAD_S)
    lines = list(map(json.loads, done.out.splitlines()))
    assert [line["type"] for line in lines] == ["question"] * 5 + ["test"], done.err
    last = lines[-1]
    assert last["right"] == sum(line["right"] for line in lines[:-1]) >= 1
    assert done.status == (0 if last["right"] == 5 else 1)
    assert last["prefill_tokens_s"] > 0 and last["decode_tokens_s"] > 0
