"""The product as its users meet it, for the tests in test/flow.

House   the private directories of one run (state, runtime, data), and what is started in them
Pipe    a `fumehood pipe`          Keeper  a connection to a keeper's socket
Script  `fumehood` on a terminal   Result  a `fumehood` that has ended

Nothing here sleeps: what is waited for is a descriptor (output, a pidfd) or the end of a process.
Each wait is bounded by WAIT_S, which is for a broken product and measures nothing.

Environment: FUMEHOOD_BUILD (build directory, default ./build), FUMEHOOD_PYTHON (the sessions'
Python, default build/check-venv), FUMEHOOD_SHARED (default ../shared), FUMEHOOD_LONG=1 (the long
forms), FUMEHOOD_TEST_WAIT_S (another WAIT_S, for a machine that is very slow).
"""
import base64
import fcntl
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import time

from process_kit import (  # noqa: F401 (handed on)
    HOUSE_PREFIX, HOUSES, WAIT_S,
    children, command_of, init_of, is_alive, kill, link_proc, list_proc, memory_peak, mounts,
    parent_of, pids, read_proc, spawner_of, wait_gone, wait_readable,
)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("FUMEHOOD_BUILD") or ROOT / "build").resolve()
SHARED = pathlib.Path(os.environ.get("FUMEHOOD_SHARED") or ROOT.parent / "shared")
PYTHON = os.environ.get("FUMEHOOD_PYTHON") or str(ROOT / "build" / "check-venv" / "bin" / "python")
LONG = os.environ.get("FUMEHOOD_LONG") == "1"
FUMEHOOD = str(BUILD / "fumehood")

# Exit statuses of the program.
CELL_FAILED, USAGE, FAULT = 1, 2, 125
# The reason of a skip that check.py lets pass.
NO_SHARED = "shared is absent: %s (set FUMEHOOD_SHARED)"


class Refused(Exception):
    """The keeper's answer `refused`."""

    def __init__(self, answer):
        super().__init__("%s: %s" % (answer["code"], answer["message"]))
        self.code, self.message = answer["code"], answer["message"]


# ------------------------------------------------------------------------- the session protocol
class Cell:
    """What one run did: the answer to the request and its events."""

    def __init__(self, events):
        self.events = events
        self.finished = self.of("finished")[-1]  # late output can stand behind it
        self.id, self.status = self.finished["cell"], self.finished["status"]

    def of(self, *kinds):
        return [event for event in self.events if event["type"] in kinds]

    def text(self, name):
        return "".join(event["text"] for event in self.of("stream") if event["name"] == name)

    @property
    def out(self):
        return self.text("stdout")

    @property
    def err(self):
        return self.text("stderr")

    @property
    def result(self):
        results = self.of("result")
        return results[0]["data"]["text/plain"] if results else None

    @property
    def error(self):
        errors = self.of("error")
        return errors[-1]["ename"] if errors else None

    def __repr__(self):
        return "Cell(%s)" % json.dumps(self.events)[:4000]


class Client:
    """Someone who speaks the session protocol. Events are kept in `events` as they come."""

    def __init__(self):
        self.events, self._buffer, self._count, self.hello = [], bytearray(), 0, None

    def fileno(self):
        raise NotImplementedError

    def write(self, data):
        raise NotImplementedError

    def send(self, op, **fields):
        self.write(json.dumps({"op": op, **fields}).encode() + b"\n")

    def line(self, wait_s=WAIT_S):
        """The next line as an object; None at the end of the stream."""
        until = time.monotonic() + wait_s
        while b"\n" not in self._buffer:
            wait_readable(self.fileno(), until, "a line of the keeper")
            try:
                data = os.read(self.fileno(), 1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                assert not self._buffer, "the stream ends in a line: %r" % bytes(self._buffer[:200])
                return None
            self._buffer += data
        end = self._buffer.index(b"\n")
        text = bytes(self._buffer[:end])
        del self._buffer[:end + 1]

        def refuse(word):
            raise ValueError(word + " is not JSON")
        message = json.loads(text.decode("utf-8"), parse_constant=refuse)
        if "seq" in message:
            assert not self.events or message["seq"] > self.events[-1]["seq"], message
            self.events.append(message)
        return message

    def begin(self):
        self.hello = self.line()
        assert self.hello, "no hello: the stream ended"
        if self.hello["type"] == "refused":
            raise Refused(self.hello)
        assert self.hello["type"] == "hello", self.hello

    def next(self, match, what, wait_s=WAIT_S):
        """Reads until a line for which `match` is true; returns it."""
        until = time.monotonic() + wait_s
        while True:
            message = self.line(until - time.monotonic())
            assert message is not None, "the stream ended before " + what
            if match(message):
                return message

    def answer(self, number, wait_s=WAIT_S):
        """The reply to request `number`; raises Refused."""
        message = self.next(lambda m: m["type"] in ("reply", "refused") and m.get("id") == number,
                            "the answer", wait_s)
        if message["type"] == "refused":
            raise Refused(message)
        return message

    def ask(self, op, wait_s=WAIT_S, **fields):
        """A request and its reply; raises Refused."""
        if "id" not in fields:
            self._count += 1
            fields["id"] = "q%d" % self._count
        self.send(op, **fields)
        return self.answer(fields["id"], wait_s)

    def event(self, kind, wait_s=WAIT_S, **fields):
        """The next event of this kind (and these values) that has not been read."""
        return self.next(lambda m: m["type"] == kind and "seq" in m
                         and all(m.get(key) == value for key, value in fields.items()),
                         "the event " + kind, wait_s)

    def finished(self, cell, wait_s=WAIT_S):
        if not any(event["type"] == "finished" and event["cell"] == cell for event in self.events):
            self.event("finished", wait_s, cell=cell)
        return Cell([event for event in self.events if event.get("cell") == cell])

    def text_of(self, cell=None):
        """What all streams (of one cell) have brought so far, also after its end."""
        return "".join(event["text"] for event in self.events if event["type"] == "stream"
                       and cell in (None, event["cell"]))

    def wait_text(self, text, cell=None):
        """Reads until it is there; it may come in pieces."""
        while text not in self.text_of(cell):
            assert self.line() is not None, "the stream ended before %r" % text

    def start(self, code, **fields):
        """Sends a run; returns the cell's id once it is accepted."""
        return self.ask("run", code=code, **fields)["cell"]

    def run(self, code, wait_s=WAIT_S, **fields):
        return self.finished(self.start(code, **fields), wait_s)


class Keeper(Client):
    """A connection to a keeper's socket, subscribed to all events unless `since` is None."""

    def __init__(self, sock, since=0, process=None):
        super().__init__()
        self.sock, self.process = sock, process
        self.begin()
        self.pid = self.hello["pid"]
        if since is not None:
            self.ask("events", since=since, follow=True)

    def fileno(self):
        return self.sock.fileno()

    def write(self, data):
        self.sock.sendall(data)

    def stop(self, **fields):
        """Stops the session; returns when the connection has closed."""
        self.ask("stop", **fields)
        while self.line() is not None:
            pass
        self.close()

    def close(self):
        self.sock.close()
        if self.process:
            self.process.wait(WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self.sock.fileno() >= 0 and kind is None:
                self.stop()
        finally:
            if kind and self.process:
                kill(self.process.pid)
            self.close()


class Pipe(Client):
    """A `fumehood pipe`."""

    def __init__(self, house, *options, cwd=None, **environment):
        super().__init__()
        self.process = house.popen("pipe", *options, cwd=cwd, env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        try:
            self.begin()
        except BaseException:
            self.abandon()
            raise

    def fileno(self):
        return self.process.stdout.fileno()

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self):
        """End of stdin; reads to the end of stdout. Returns the exit status."""
        self.process.stdin.close()
        while self.line() is not None:
            pass
        return self.process.wait(WAIT_S)

    def abandon(self):
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        self.process.wait(WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and not self.process.stdin.closed:
                assert self.end() == 0, self.process.stderr.read()
        finally:
            self.abandon()


# ---------------------------------------------------------------------------------- the program

def hear_signals():
    """A run in the background has SIGINT or SIGHUP ignored: every program it starts would too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Result:
    """A program that has ended."""

    def __init__(self, status, out, err):
        self.status, self.raw_out, self.raw_err = status, out, err
        self.out, self.err = out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def __repr__(self):
        return "Result(%d, %r, %r)" % (self.status, self.out[-3000:], self.err[-3000:])


class Script:
    """A program on a terminal of its own, as an expect script sees it."""

    def __init__(self, house, *args, cwd=None, **environment):
        self.master, terminal = os.openpty()
        self.seen, self.at = "", 0

        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.process = house.popen(*args, cwd=cwd, env={"TERM": "xterm", **environment},
                                   stdin=terminal, stdout=terminal, stderr=terminal,
                                   start_new_session=True, preexec_fn=own_terminal)
        os.close(terminal)

    def _read(self, until):
        wait_readable(self.master, until, "output; seen so far: %r" % self.seen[-2000:])
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        self.seen += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)

    def expect(self, pattern, wait_s=WAIT_S):
        """Reads until the pattern is seen behind the last match."""
        until = time.monotonic() + wait_s
        while True:
            match = re.compile(pattern).search(self.seen, self.at)
            if match:
                self.at = match.end()
                return match
            assert self._read(until), "the end came before /%s/ in %r" % (
                pattern, self.seen[self.at:])

    def type(self, text):
        os.write(self.master, text.encode())

    def echoes(self):
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    def end(self, wait_s=WAIT_S):
        """Reads to the end; returns the exit status (negative: a signal)."""
        until = time.monotonic() + wait_s
        while self._read(until):
            pass
        return self.process.wait(WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


class House:
    """Private directories, and what is started in them. One pool serves all tests of a run."""

    def __init__(self, python=PYTHON, **environment):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=HOUSE_PREFIX))
        HOUSES.append(self.dir)
        self.dir.chmod(0o755)  # guests are other users: they must reach the workspaces
        self.count, self._marked = 0, set()
        for name in ("run", "state", "data", "work"):
            (self.dir / name).mkdir()
        (self.dir / "run").chmod(0o700)
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("FUMEHOOD_", "XDG_"))}
        self.env.update(XDG_RUNTIME_DIR=str(self.dir / "run"),
                        XDG_STATE_HOME=str(self.dir / "state"),
                        XDG_CONFIG_HOME=str(self.dir / "config"),
                        XDG_DATA_HOME=str(self.dir / "data"), FUMEHOOD_PYTHON=python)
        self.env.update(environment)
        self.sessions = self.dir / "state" / "fumehood" / "sessions"
        self.runtime = self.dir / "run" / "fumehood"

    # ---- starting things

    def popen(self, *args, cwd=None, env=None, **rest):
        return subprocess.Popen([FUMEHOOD, *args], cwd=cwd or self.dir / "work",
                                env={**self.env, **(env or {})}, **rest)

    def cli(self, *args, stdin=b"", cwd=None, env=None, wait_s=2 * WAIT_S, **rest):
        """Runs `fumehood ARGS` to its end."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        process = self.popen(*args, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, **rest)
        try:
            out, err = process.communicate(data, wait_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError("fumehood %s did not end; it printed %r %r"
                                 % (" ".join(map(repr, args)), out[-2000:], err[-2000:])) from None
        return Result(process.returncode, out, err)

    def pipe(self, *options, **rest):
        return Pipe(self, *options, **rest)

    def script(self, *args, **rest):
        return Script(self, *args, **rest)

    def folder(self):
        """A new empty folder, fit for a workspace."""
        self.count += 1
        path = self.dir / "work" / ("w%d" % self.count)
        path.mkdir()
        return path

    def session(self, name=None, python=None, tier="full", workspace=None,
                ends_with_client=False, limits=None, **more):
        """Makes the directory of a session by hand; returns its path. `more`: other keys."""
        ident = base64.b32encode(secrets.token_bytes(16)).decode().lower().rstrip("=")
        path = self.sessions / ident
        path.mkdir(0o700, parents=True)
        place = workspace or path / "workspace"
        if not workspace:
            place.mkdir()
        config = {"format": 1, "id": ident, "name": name, "created": "2026-01-01T00:00:00.000000Z",
                  "engine": "python", "python": python or self.env["FUMEHOOD_PYTHON"],
                  "workspace": {"path": str(place), "mode": "rw", "private": not workspace},
                  "tier": tier, "limits": limits or {}, "ends_with_client": ends_with_client,
                  **more}
        (path / "session.json").write_text(json.dumps(config))
        return path

    def keeper(self, session, since=0, under=()):
        """Starts a keeper on a session's directory and speaks to it. `under`: the words of a
        program that starts it, such as strace."""
        ours, theirs = socket.socketpair()
        with open(session / "keeper.log", "ab") as log, theirs:
            process = subprocess.Popen(
                [*under, BUILD / "fumehood-keeper", "--session", session,
                 "--fd", str(theirs.fileno())],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[theirs.fileno()], cwd="/", start_new_session=True)
        try:
            return Keeper(ours, since, process)
        except BaseException:
            ours.close()
            kill(process.pid)
            process.wait()
            raise

    def connect(self, session, since=0):
        """A connection to the running keeper of a session: its directory, or its id."""
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(str(self.runtime / (pathlib.Path(session).name + ".sock")))
            return Keeper(sock, since)
        except BaseException:
            sock.close()
            raise

    def find(self, name):
        """The directory of a named session."""
        for line in self.cli("ls", "--json").out.splitlines():
            session = json.loads(line)
            if session["name"] == name:
                return pathlib.Path(session["directory"])
        raise AssertionError("no session is called " + name)

    # ---- counting

    def session_ids(self):
        """Names of the sessions' directories, but of those that wait for a client."""
        names = set(os.listdir(self.sessions)) if self.sessions.is_dir() else set()
        return {name for name in names if not self.waits(name)} if self.pools() else names

    def mark_sessions(self):
        """From here on new_sessions() counts."""
        self._marked = self.session_ids()

    def new_sessions(self):
        """Session directories (and what is left of them) that were not there at the mark."""
        return sorted(self.session_ids() - self._marked)

    def processes(self):
        """What runs in this house but the pools: {pid: command line}."""
        mark, ours = str(self.dir).encode(), link_proc("self", "ns/mnt")
        found = set()
        everyone = pids()
        for pid in everyone:
            if pid == os.getpid():
                continue
            texts = [read_proc(pid, "cmdline"), read_proc(pid, "environ"),
                     os.fsencode(link_proc(pid, "cwd"))]
            if link_proc(pid, "ns/mnt") not in (ours, ""):
                # In a box: the workspace is mounted there. What is mounted, never where: a mount
                # of ours can be seen in anyone's namespace.
                lines = read_proc(pid, "mountinfo").splitlines()
                texts += [line.split(b" ")[3] for line in lines]
            if any(mark in text for text in texts):
                found.add(pid)
        parents = {pid: parent_of(pid) for pid in everyone}
        grown = True
        while grown:
            more = {pid for pid in everyone if parents[pid] in found} - found
            found |= more
            grown = bool(more)
        pools = self.pools()
        kept = pools | self.spares()
        grown = True
        while grown:  # box and guest of a spare; of a pool only the zygote
            more = {pid for pid in found if parents[pid] in kept - pools} - kept
            kept |= more
            grown = bool(more)
        return {pid: command_of(pid) for pid in found
                if pid not in kept and parents[pid] not in pools and is_alive(pid)}

    def waits(self, ident):
        """Whether this session is a spare, that nobody has got yet."""
        folder = self.sessions / ident
        return folder.is_dir() and not (folder / "session.json").exists()

    def spares(self):
        """The keepers that wait for a client, as long as there is a pool that has started them."""
        found = set()
        for pid in pids() if self.pools() else ():
            words = read_proc(pid, "cmdline").split(b"\0")
            if words[0] != b"fumehood-keeper" or b"--spare" not in words:
                continue
            if os.fsencode(self.dir / "run") not in read_proc(pid, "environ"):
                continue
            places = {os.path.dirname(link_proc(pid, "fd/" + fd)) for fd in list_proc(pid, "fd")
                      if link_proc(pid, "fd/" + fd).endswith("/lock")}
            if all(self.waits(os.path.basename(place)) for place in places):
                found.add(pid)
        return found

    def pools(self):
        """The pids of this house's pools."""
        mark = b"XDG_RUNTIME_DIR=" + os.fsencode(self.dir / "run")
        found = {pid for pid in pids()
                 if os.path.basename(link_proc(pid, "exe").split(" ")[0]) == "fumehood-pool"
                 and mark in read_proc(pid, "environ").split(b"\0")}
        # Before it executes another program, a child looks like its parent.
        return {pid for pid in found if parent_of(pid) not in found}

    def zygotes(self):
        return {child for pool in self.pools() for child in children(pool)
                if os.path.basename(link_proc(child, "exe")) != "fumehood-pool"}

    def until_spare(self, state):
        """What `fumehood pool list` says, once the one pool's spare is in this state."""
        until = time.monotonic() + WAIT_S
        while True:
            status, = map(json.loads, self.cli("pool", "list", "--json").out.splitlines())
            if status["spare"] == state:
                return status
            assert time.monotonic() < until, "the spare is not %s but: %s" % (state, status)

    def sockets(self):
        """Sockets of keepers in the runtime directory, but of those that wait for a client."""
        if not self.runtime.is_dir():
            return []
        pools = self.pools()
        return sorted(name for name in os.listdir(self.runtime)
                      if re.fullmatch(r"[a-z2-7]{26}\.sock", name)
                      and not (pools and self.waits(name[:26]))
                      and (self.runtime / name).exists())  # a spare that is let go, just now

    def leftovers(self, wait_s=20):
        """Complaints about what is still there; what still runs is ended."""
        until = time.monotonic() + wait_s
        bad = []
        while True:
            running = self.processes()
            if not running:
                break
            gone = [pid for pid in running if wait_gone(pid, max(0, until - time.monotonic()))]
            if not gone:
                break
        for pid, command in sorted(running.items()):
            bad.append("process %d is left: %s" % (pid, command))
            kill(pid)
        bad += ["socket %s is left" % name for name in self.sockets()]
        for log in self.sessions.glob("*/keeper.log"):
            words = log.read_text(errors="replace")
            if re.search("Sanitizer|runtime error|Assertion", words):
                bad.append("%s: %s" % (log, words[-3000:]))
                log.unlink()
        for name in self.sockets():
            os.unlink(self.runtime / name)
        return bad

    def stop_sessions(self):
        self.cli("stop", "--all")

    def stop_pools(self):
        """Ends the pools; returns complaints."""
        bad, pools = [], self.pools()
        stopped = self.cli("pool", "stop")
        if stopped.status != 0:
            bad.append("fumehood pool stop: %r" % stopped)
        for pid in pools:
            if not wait_gone(pid, 20):
                bad.append("pool %d did not end" % pid)
                kill(pid)
        return bad

    def close(self):
        """Ends the pools and removes the directories; returns complaints."""
        bad = self.leftovers() + self.stop_pools() + self.leftovers(5)
        if not bad:
            shutil.rmtree(self.dir, ignore_errors=True)
        return bad
