"""kill -9 at random moments, of everything that a session consists of.

Sessions run side by side, each in rounds: cells that flood, draw, display, fork and outlive
themselves are sent, a client listens, and at a random moment a random victim (keeper, guest, PID 1
of the box, pool, zygote) is killed. After each round: the journal is whole, what the client was
told is in it byte for byte, the notebook on disk is whole, and the session works again. At the end
of a session: the notebook is valid and equals the one rebuilt from the journal, blobs are what
their names say, and nothing is left.

FUMEHOOD_TORTURE: rounds (100; 1,000 with FUMEHOOD_LONG=1). FUMEHOOD_SEED repeats a run's choices.
"""

import collections
import concurrent.futures
import datetime
import hashlib
import json
import os
import random
import secrets
import select
import time

import nbformat
import pytest

import fumehood_kit
from fumehood_kit import WAIT_S, House, is_alive, kill, wait_gone
from process_kit import read_proc

ROUNDS = int(os.environ.get("FUMEHOOD_TORTURE") or (1000 if fumehood_kit.LONG else 100))
SEED = os.environ.get("FUMEHOOD_SEED") or secrets.token_hex(4)
SESSIONS_AT_ONCE = 3
ROUNDS_OF_A_SESSION = 9
VICTIMS = {"keeper": 10, "spawner": 4, "guest": 6, "init": 4, "pool": 1, "zygote": 1}  # weights
FILES = {
    "session.json",
    "lock",
    "journal.ndjson",
    "notebook.ipynb",
    "blobs",
    "images",
    "workspace",
    "keeper.log",
}

# What runs while the blow falls. Each stores `canary` first, and ends by itself within seconds.
CELLS = {
    "flood": "for i in range(30000): print(i, 'x' * (i % 200))",
    "both streams": "import sys\n"
    "for i in range(4000):\n"
    "    print('out', i, flush=True)\n"
    "    print('err', i, file=sys.stderr, flush=True)",
    "one long line": "print('y' * 3_000_000)",
    "figures": "import matplotlib.pyplot as plt\n"
    "for n in range(4):\n"
    "    plt.plot([1, n, 3]); plt.title('figure %d' % n); plt.show(); print(n)",
    "displays": "from time import sleep\n"
    "handle = display('first', display_id='d')\n"
    "for i in range(200):\n"
    "    handle.update('now %d' % i)\n"
    "    display({'text/plain': 'p%d' % i, 'text/html': '<b>%d</b>' % i}, raw=True)\n"
    "    print(i)",
    "big values": "for i in range(12):\n"
    "    display({'text/plain': str(i) * 200_000}, raw=True); print(i)",
    "late threads": "import threading, time\n"
    "def late():\n"
    "    for i in range(100): print('late', i); time.sleep(0.002)\n"
    "for _ in range(4): threading.Thread(target=late).start()",
    "children": "import os, subprocess\n"
    "loop = 'for i in 1 2 3 4 5; do echo child $i; sleep 0.05; done'\n"
    "subprocess.Popen(['sh', '-c', loop])\n"
    "subprocess.run(['sh', '-c', 'yes | head -c 200000'])\n"
    "pid = os.fork()\n"
    "if pid == 0:\n"
    "    os.write(1, b'forked\\n' * 1000); os._exit(0)\n"
    "os.waitpid(pid, 0)\n"
    "'done'",
    "an error": "print('before'); 1 / 0",
    "a wait": "import time\ntime.sleep(1)",
}
AFTER = "print(6 * 7)"


def children(pid):
    """In the order of their making; the guest is PID 1's first."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def guests(init):
    """The guest that lives: its sleeping copies are PID 1's children, too."""
    return [pid for pid in children(init) if read_proc(pid, "comm") != b"fumehood-copy\n"][:1]


class Witness:
    """A client that keeps every event line it was told, as bytes."""

    def __init__(self, house, session, since):
        # No subscription yet: so nothing but the hello has been read by the kit.
        keeper = house.keeper(session, since=None)
        self.sock, self.process, self.hello = keeper.sock, keeper.process, keeper.hello
        self.buffer, self.told, self.read_to, self.replies = b"", [], 0, []
        self.send(op="events", since=since, follow=True, inline=False)

    def send(self, **request):
        try:
            self.sock.sendall(json.dumps(request).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # killed meanwhile

    def hear(self, until):
        """Takes what comes next; None when nothing came before `until`, False at the end."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if not poll.poll(max(0, (until - time.monotonic()) * 1000)):
            return None
        try:
            data = self.sock.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            (self.told if line.startswith(b'{"seq":') else self.replies).append(line)
        return len(data) if data else False

    def hear_for(self, seconds, count):
        """Until the time is over, or `count` bytes have come."""
        until = time.monotonic() + seconds
        while count > 0 and (heard := self.hear(until)):
            count -= heard

    def hear_all(self):
        until = time.monotonic() + WAIT_S
        while (heard := self.hear(until)) is not False:
            assert heard is not None, "the connection of a dead keeper stays open"

    def event(self, match, what):
        """The next event that has not been looked at and for which `match` is true."""
        until = time.monotonic() + WAIT_S
        while True:
            while self.read_to < len(self.told):
                event = json.loads(self.told[self.read_to])
                self.read_to += 1
                if match(event):
                    return event
            heard = self.hear(until)
            assert heard is not None, "waited in vain for " + what
            assert heard is not False, "the connection ended before " + what

    def answers(self):
        """To what has been asked; those of a kind that this test never expects to be refused."""
        return [json.loads(line) for line in self.replies]

    def close(self):
        self.sock.close()


def when(event):
    """The moment of an event, in seconds since 1970: not that of its reading, behind a flood."""
    return datetime.datetime.fromisoformat(event["t"].replace("Z", "+00:00")).timestamp()


class Lane:
    """One session after another, in rounds."""

    def __init__(self, house, number, rounds):
        self.house, self.rounds = house, rounds
        self.random = random.Random("%s-%d" % (SEED, number))
        self.kills, self.recoveries, self.count = collections.Counter(), [], 0
        self.cell_count = 0

    def run(self):
        while self.rounds > 0:
            self.session = self.house.session()
            self.journal, self.t = b"", ""
            self.witness = Witness(self.house, self.session, 0)
            self.last_seq = 0
            for _ in range(min(self.rounds, ROUNDS_OF_A_SESSION)):
                self.rounds -= 1
                self.round()
            self.end()
        return self

    # ---- one round

    def round(self):
        victim = self.random.choices(list(VICTIMS), VICTIMS.values())[0]
        names = self.random.sample(list(CELLS), self.random.choice((1, 1, 2, 3)))
        self.what = "seed %s, session %s: %s killed during %s" % (
            SEED,
            self.session.name,
            victim,
            ", ".join(names),
        )
        try:
            for number, name in enumerate(names):
                self.cell_count += 1
                self.witness.send(
                    op="run", id="t%d" % self.cell_count, code="canary = 1\n" + CELLS[name]
                )
                if self.random.random() < 0.3:
                    self.witness.send(
                        op=self.random.choice(("save", "status", "notebook")), id=number
                    )
            self.witness.hear_for(
                self.random.choice((0.01, 0.05, 0.2, 0.5)) * self.random.random(),
                self.random.choice((1000, 100_000, 10_000_000)),
            )
            self.blow(victim)
        except BaseException as error:
            raise AssertionError("%s\n%s" % (self.what, self.scene())) from error

    def scene(self):
        """What a failure looks like: the last lines of journal and log."""
        lines = (self.session / "journal.ndjson").read_bytes().split(b"\n")[-8:]
        log = (self.session / "keeper.log").read_text()[-2000:]
        return "\n".join(line[:300].decode("utf-8", "replace") for line in lines) + log

    def blow(self, victim):
        keeper = self.witness.process.pid
        spawner = children(keeper)[0]
        init = next(iter(children(spawner)), None)
        pids = {
            "keeper": lambda: [keeper],
            "spawner": lambda: [spawner],
            "init": lambda: [init] if init else [],
            "guest": lambda: guests(init) if init else [],
            "pool": lambda: sorted(self.house.pools()),
            "zygote": lambda: sorted(self.house.zygotes()),
        }[victim]()
        inside = [init, *children(init)] if init else []
        inside += [spawner] if victim == "keeper" else []
        self.struck = time.time()
        for pid in pids:
            kill(pid)
            self.kills[victim] += 1
        if victim in ("keeper", "spawner"):
            self.reopen(inside)
        else:
            self.go_on(victim, bool(pids))

    def restarted(self, **fields):
        """A new interpreter is there: this is what recovery means."""
        event = self.witness.event(lambda e: e["type"] == "restarted", "restarted")
        self.recoveries.append((when(event) - self.struck, self.what))
        assert fields.items() <= event.items(), event

    def reopen(self, inside):
        """The keeper is dead: its box goes, and the next keeper finds everything."""
        self.witness.hear_all()
        self.witness.close()
        self.witness.process.wait(WAIT_S)
        for pid in inside:
            assert wait_gone(pid), "process %d of the box outlives its keeper" % pid
        self.check_journal(torn=True)
        self.check_notebook_file()
        cells = {event["cell"] for event in self.events if event["type"] == "cell"}
        finished = {event["cell"] for event in self.events if event["type"] == "finished"}
        started = {event["cell"] for event in self.events if event["type"] == "started"}
        since = len(self.events)
        self.struck = time.time()  # until here the test has looked at what the dead one left
        self.witness = Witness(self.house, self.session, since)
        for cell in sorted(cells - finished, key=lambda name: int(name[1:])):
            event = self.witness.event(lambda e: e["type"] == "finished", "the end of " + cell)
            status = "died" if cell in started else "cancelled"
            assert (event["status"], event["reason"]) == (status, "keeper"), event
        self.restarted(state="reset", reason="reopened", seq=since + len(cells - finished) + 1)
        self.works(False)

    def go_on(self, victim, killed):
        """Keeper and journal go on, and so do the variables, if a copy of the guest lives."""
        if not killed:
            self.works(None)
        elif victim in ("pool", "zygote"):
            self.works(True)
            if self.random.random() < 0.5:
                self.struck = time.time()
                self.witness.send(op="restart", id="again")
                self.restarted(state="reset", reason="restart")
                self.works(False)
        else:
            event = self.witness.event(
                lambda e: e["type"] == "died" or e.get("status") == "died", "the word of a death"
            )
            self.recovered(event)
        self.check_journal()

    def recovered(self, event):
        """The guest is gone: its newest copy has woken, or there was none."""
        if event["state"] == "reset":
            self.restarted(state="reset", reason="died")
            self.works(None)
            return
        assert event["state"] == "recovered", event
        self.recoveries.append((when(event) - self.struck, self.what))
        self.works(None)  # `canary` is set by each cell, the dead one too

    def works(self, canary):
        """A cell after all that was sent runs; `canary`: whether the variables must be there."""
        self.cell_count += 1
        cell = "t%d" % self.cell_count
        self.witness.send(op="run", id=cell, code="%s\n'canary' in globals()" % AFTER)
        event = self.witness.event(
            lambda e: e["type"] == "result" and e["cell"] == cell, "a result"
        )
        if canary is not None:
            assert event["data"]["text/plain"] == str(canary), event
        event = self.witness.event(
            lambda e: e["type"] == "finished" and e["cell"] == cell, "an end"
        )
        assert event["status"] == "ok", event
        refused = [answer for answer in self.witness.answers() if answer["type"] == "refused"]
        assert not refused, refused

    # ---- what must hold

    def check_journal(self, torn=False):
        """Grown at its end only, each line an event, no hole, no step back; and it holds what was
        told."""
        data = (self.session / "journal.ndjson").read_bytes()
        assert data.startswith(self.journal), "the journal has changed where it was whole"
        if torn:
            data = data[: data.rfind(b"\n") + 1]
        assert data.endswith(b"\n") or not data
        if not self.journal:
            self.events, self.lines = [], []
        lines = data[len(self.journal) :].split(b"\n")[:-1]
        self.journal = data
        for line in lines:
            event = json.loads(line.decode("utf-8"))
            self.lines.append(line)
            self.events.append(event)
            assert event["seq"] == len(self.events), "a hole: %r" % line[:200]
            assert event["t"] >= self.t, "time goes back: %r" % line[:200]
            self.t = event["t"]
        assert not self.events or self.events[0]["type"] == "session"
        seq = 0
        for line in self.witness.told:
            seq = int(line[7 : line.index(b",")])
            if seq <= len(self.lines):
                assert line == self.lines[seq - 1], "told otherwise: %r" % line[:200]
            else:
                assert not torn, "told and lost: %r" % line[:200]
        if torn and self.witness.buffer.startswith(b'{"seq":') and seq:
            assert self.lines[seq].startswith(self.witness.buffer), "half told and lost"
        del self.witness.told[: self.witness.read_to]
        self.witness.read_to = 0

    def check_notebook_file(self):
        """Old or new, never torn, at any moment."""
        path = self.session / "notebook.ipynb"
        if path.exists():
            nbformat.validate(json.loads(path.read_bytes()))

    def check_blobs(self):
        for path in (self.session / "blobs").iterdir():
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, path
        for event in self.events:
            for value in event.get("data", {}).values():
                if isinstance(value, dict) and "$blob" in value:
                    path = self.session / "blobs" / value["$blob"]
                    assert path.stat().st_size == value["bytes"], event

    def check_files(self):
        """No other files; but a save that is killed in the moment of its exchange leaves two whole
        ones (notebook/save.c), and nobody can say that the other was not somebody's edit."""
        for path in self.session.iterdir():
            if path.name.startswith(".fumehood-") and path.suffix == ".tmp":
                nbformat.validate(json.loads(path.read_bytes()))
            else:
                assert path.name in FILES, path

    def end(self):
        """Stopped in order: all is there, and nothing else is."""
        try:
            init = children(children(self.witness.process.pid)[0])[0]
            self.witness.send(op="stop", id="stop")
            self.witness.hear_all()
            self.witness.close()
            assert self.witness.process.wait(WAIT_S) == 0
            assert not init or not is_alive(init)
            self.check_journal()
            assert self.events[-1]["type"] == "stopped"
            self.check_blobs()
            self.check_notebook_file()
            rebuilt = self.house.cli("export", self.session.name, "-o", "-")
            assert rebuilt.status == 0, rebuilt
            assert (
                self.session / "notebook.ipynb"
            ).read_bytes() == rebuilt.raw_out, "not the same notebook"
            self.check_files()
            assert (self.session / "keeper.log").read_text() == ""
        except BaseException as error:
            raise AssertionError(
                "seed %s, end of session %s\n%s" % (SEED, self.session, self.scene())
            ) from error


@pytest.fixture
def own_house():
    """A house whose pool nobody else needs."""
    house = House()
    yield house
    if house.sockets():
        house.stop_sessions()
    bad = house.close()
    assert not bad, "\n".join(bad)


def test_killed_at_random_moments(own_house, capsys):
    begin = time.monotonic()
    rounds = [
        ROUNDS // SESSIONS_AT_ONCE + (n < ROUNDS % SESSIONS_AT_ONCE)
        for n in range(SESSIONS_AT_ONCE)
    ]
    lanes = [Lane(own_house, number, count) for number, count in enumerate(rounds)]
    with concurrent.futures.ThreadPoolExecutor(SESSIONS_AT_ONCE) as pool:
        list(pool.map(Lane.run, lanes))
    kills = sum((lane.kills for lane in lanes), collections.Counter())
    recoveries = sorted(entry for lane in lanes for entry in lane.recoveries)
    summary = "seed %s, %d rounds in %.0f s; killed: %s; recovery p50 %.0f ms, worst %.0f ms (%s)"
    with capsys.disabled():
        print(
            "\ntorture: "
            + summary
            % (
                SEED,
                ROUNDS,
                time.monotonic() - begin,
                ", ".join("%s %d" % item for item in sorted(kills.items())),
                recoveries[len(recoveries) // 2][0] * 1e3,
                recoveries[-1][0] * 1e3,
                recoveries[-1][1].split(": ", 1)[1],
            )
        )
