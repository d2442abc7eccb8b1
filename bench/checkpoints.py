"""The work `checkpoints`: what a checkpoint, a recovery, a rollback and a fork cost.

The peer has none of these: what its user does is to restart the kernel and run all cells again. So
that stands beside them, with cells that make the same data, in the same run.

The clock is that of a client on the session's socket: a recovery is timed from the kill(2) of the
interpreter until the next cell has been answered, so the kernel's taking it down is in it. What a
copy costs is what the keeper says in `committed` (copy_us: order to hello).
"""

import json
import os
import signal
import socket
import time

import machine
from sides import Failed, expect

PAUSE_S = 0.005


class Wire:
    """A client of a running session, by the session protocol."""

    def __init__(self, directory):
        name = os.path.basename(directory.rstrip("/"))
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"{os.environ['XDG_RUNTIME_DIR']}/fumehood/{name}.sock")
        self.file = self.socket.makefile("rb")
        self.count, self.keeper = 0, json.loads(self.file.readline())["pid"]
        self.ask("events", follow=True, since=self.ask("status")["last_seq"])

    def send(self, op, **fields):
        self.count += 1
        name = f"w{os.getpid()}-{self.count}"
        request = {"op": op, "id": name, **fields}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return name

    def until(self, match):
        while True:
            message = json.loads(self.file.readline())
            if message["type"] == "refused":
                expect(False, f"refused: {message}")
            if match(message):
                return message

    def ask(self, op, **fields):
        name = self.send(op, **fields)
        return self.until(lambda m: m["type"] == "reply" and m.get("id") == name)

    def run(self, code, **fields):
        """-> (ms until its end was in, the event)"""
        began = time.perf_counter()
        name = self.send("run", code=code, **fields)
        end = self.until(lambda m: m["type"] == "finished" and m.get("cell") == name)
        return (time.perf_counter() - began) * 1e3, end

    def committed(self):
        """Runs a cell and waits until the copy after it sleeps; -> ms that the copy took"""
        _, end = self.run("x=1")
        if end.get("protected") == "no":  # without credit: it comes after a pause
            expect(end.get("protected_reason") == "busy", f"not protected: {end}")
        event = self.until(lambda m: m["type"] == "committed" and m["cell"] == end["cell"])
        return event["copy_us"] / 1e3

    def guest(self):
        """The pid of the interpreter: the one of the box that is no copy and no PID 1."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                inits = [pid for pid in machine.tree(self.keeper) if pid != self.keeper]
                for pid in machine.members(inits):
                    with open(f"/proc/{pid}/status") as file:
                        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file)
                    if lines["Name"] != "fumehood-copy" and lines["NSpid"].split()[-1] != "1":
                        return pid
            except OSError:  # one of them has just ended
                continue
        raise Failed("there is no interpreter")

    def recover(self):
        """-> (ms from its kill until it is told, ms until the next cell has been answered)"""
        guest = self.guest()
        began = time.perf_counter()
        os.kill(guest, signal.SIGKILL)
        died = self.until(lambda m: m["type"] == "died")
        told = (time.perf_counter() - began) * 1e3
        expect(died["state"] == "recovered", f"not recovered: {died}")
        _, end = self.run("x=1")
        answered = (time.perf_counter() - began) * 1e3
        expect(end["status"] == "ok", f"the cell after it: {end}")
        self.until(lambda m: m["type"] == "committed" and m["cell"] == end["cell"])
        return told, answered

    def rollback(self, name):
        """-> ms"""
        began = time.perf_counter()
        self.ask("rollback", to=name, files=False)
        return (time.perf_counter() - began) * 1e3

    def close(self):
        self.file.close()
        self.socket.close()


def data(mib, huge):
    """A cell that makes so much, in one array of 4 KiB or of huge pages."""
    return (
        "import numpy\n"
        f"numpy._core.multiarray._set_madvise_hugepage({huge})\n"
        f"a = numpy.ones({mib} << 17)\n"
    )


def resident(bench, make, row, peers, mib, huge):
    """Rows of one size."""
    n = bench.size(20, 3)
    what = f"{mib + 100:,} MB" + ("" if mib == 0 else ", huge pages" if huge else ", 4 KiB pages")
    session = bench.fumehood.session()
    session.start("1+1")
    wire = Wire(session.directory)
    try:
        wire.ask("limits", set={"memory_bytes": 16 << 30})
        wire.ask("restart")
        _, end = wire.run(make)
        expect(end["status"] == "ok", f"making the data: {end}")
        wire.committed()
        copies = [wire.committed() for _ in range(n)]
        yield row(f"a checkpoint, {what}", copies, peers)
        told, answered = zip(*[wire.recover() for _ in range(n)])
        note = f"... until it is told {machine.median(told):.1f} ms, " \
               f"p95 until answered {machine.quantile(answered, 0.95):.1f} ms"
        yield row(f"kill to next answer, {what}", answered, peers, note)
        wire.ask("checkpoint", name="A", files=False)
        times = []
        for _ in range(n):
            wire.committed()
            times.append(wire.rollback("A"))
        yield row(f"a rollback, {what}", times, peers)
    finally:
        wire.close()
        session.stop()


def replayed(bench, make):
    """Restart and replay, as the peer's user does it. -> [ms]"""
    session, times = bench.ipykernel.session(), []
    session.start("1+1")
    try:
        for _ in range(bench.size(3, 1)):
            began = time.perf_counter()
            session.restart()
            done = session.run(make) + session.run("x=1")
            times.append((time.perf_counter() - began) * 1e3)
            expect(all(cell.status == "ok" for cell in done), "the replay failed")
    finally:
        session.stop()
    return times


def trips(bench, row):
    """The cell `pass` with and without automatic checkpoints, back to back and with pauses."""
    session = bench.fumehood.session()
    session.start("1+1")
    wire = Wire(session.directory)
    n = bench.size(400, 20)
    try:
        for pause, words in ((0, "back to back"), (PAUSE_S, "with pauses of 5 ms")):
            found = {}
            for count in (3, 0):
                wire.ask("limits", set={"checkpoints": count})
                wire.run("pass")
                times, reasons = [], {}
                for _ in range(n):
                    time.sleep(pause)
                    ms, end = wire.run("pass")
                    times.append(ms)
                    word = end.get("protected_reason") or end["protected"]
                    reasons[word] = reasons.get(word, 0) + 1
                found[count] = times, reasons
            yield row(f"pass {words}, beside none (checkpoints 0)", found[3][0], found[0][0],
                      f"both columns are Fumehood's; protected: {found[3][1]}")
    finally:
        wire.close()
        session.stop()


def held_memory(bench, row):
    """What ten checkpoints take: eight named ones and two automatic ones, a cell between each."""
    session = bench.fumehood.session()
    session.start("import numpy, pandas")
    wire = Wire(session.directory)
    try:
        wire.ask("limits", set={"checkpoints": 0})
        wire.ask("restart")
        wire.run("import numpy, pandas\nx=1")
        before = session.memory()
        wire.ask("limits", set={"checkpoints": 2})
        for number in range(8):
            wire.committed()
            wire.ask("checkpoint", name=f"n{number}", files=False)
        wire.committed()
        held = len(wire.ask("checkpoints")["checkpoints"])
        after = session.memory()
        yield row("ten checkpoints", [after], [before], f"{held} are held; (right) without any; "
                  "both columns are Fumehood's, PSS of the whole session", "MiB")
    finally:
        wire.close()
        session.stop()


def branches(bench, row):
    """A fork of a session with a big array, until it has answered, beside pickling the array."""
    mib = bench.size(1000, 50)
    session = bench.fumehood.session()
    session.start("1+1")
    wire = Wire(session.directory)
    peer = bench.ipykernel.session()
    peer.start("1+1")
    ours, peers = [], []
    try:
        wire.ask("limits", set={"memory_bytes": 16 << 30})
        wire.ask("restart")
        wire.run(data(mib, True))
        wire.committed()
        peer.run(data(mib, True) + "import pickle")
        for _ in range(bench.size(5, 1)):
            began = time.perf_counter()
            branch = Wire(wire.ask("fork")["session"])
            _, end = branch.run("a[0]")
            ours.append((time.perf_counter() - began) * 1e3)
            expect(end["status"] == "ok", f"a cell of the branch: {end}")
            branch.ask("stop")
            branch.close()
            peers += [cell.ms for cell in peer.run("b = pickle.loads(pickle.dumps(a, 5)); del b")]
        yield row(f"fork with an array of {mib:,} MB, first cell answered", ours, peers,
                  "beside pickle.dumps and loads of the array, protocol 5, in one process")
    finally:
        wire.close()
        session.stop()
        peer.stop()


def rows(bench, new_row):
    def row(what, ours, peers, note="", unit="ms"):
        return new_row("checkpoints", what, ours, peers, unit=unit, note=note)

    yield from trips(bench, row)
    for mib, huge in bench.size(((0, False), (400, False), (400, True), (900, False), (900, True),
                                 (2900, False), (2900, True)), ((0, False), (50, True))):
        make = data(mib, huge) if mib else "import numpy"
        yield from resident(bench, make, row, replayed(bench, make), mib, huge)
    yield from held_memory(bench, row)
    yield from branches(bench, row)
