"""The works: what both sides do, how often, and what must come out.

A work is a generator of rows, given a Bench. It asks both sides in turn (A B A B …), so that
whatever else happens on the machine happens to both. `full` and `quick` sizes are given side by
side: quick is to show that the benchmark works, and its figures mean nothing.
"""

import contextlib
import json
import os
import time

import machine
from sides import expect

IMPORTS = "import numpy, pandas, matplotlib.pyplot\n"
FIGURE = (
    "import matplotlib.pyplot as plt\n"
    "plt.figure()\nplt.plot([i % 37 for i in range(1000)])\nplt.show()"
)


class Row:
    """Samples of both sides for one thing. `goal`: the largest ratio of medians that will do."""

    def __init__(self, work, what, ours, peers=(), unit="ms", goal=None, note=""):
        self.work, self.what, self.unit, self.goal, self.note = work, what, unit, goal, note
        self.ours, self.peers = list(ours), list(peers)
        self.noise = None

    @property
    def ratio(self):
        if not self.peers:
            return None
        return machine.median(self.ours) / machine.median(self.peers)

    @property
    def met(self):
        return None if self.goal is None or self.ratio is None else self.ratio <= self.goal


class Bench:
    def __init__(self, fumehood, ipykernel, folder, quick):
        self.fumehood, self.ipykernel, self.folder, self.quick = fumehood, ipykernel, folder, quick

    def size(self, full, quick):
        return quick if self.quick else full

    @contextlib.contextmanager
    def session(self, side, code="1+1"):
        session = side.session()
        session.start(code)
        try:
            yield session
        finally:
            session.stop()


def start(bench):
    """From before the start until the client has the answer of
    `import numpy, pandas, matplotlib.pyplot; 1+1`."""

    def once(side):
        session = side.session()
        times = session.start(IMPORTS + "1+1")
        session.stop()
        return times

    def once_spare():
        bench.fumehood.until_spare()
        session = bench.fumehood.session()
        times = session.start(IMPORTS + "1+1", spare=True)
        session.stop()
        return times[1]

    once(bench.fumehood)  # starts the pool
    once(bench.ipykernel)  # fills the file cache
    ours, ready, peers, cold, spares = [], [], [], [], []
    for _ in range(bench.size(5, 1)):
        for _ in range(bench.size(5, 2)):
            times = once(bench.fumehood)
            ready.append(times[0])
            ours.append(times[1])
            spares.append(once_spare())
        peers.append(once(bench.ipykernel)[1])
    for _ in range(bench.size(3, 1)):
        bench.fumehood.stop_pool()
        cold.append(once(bench.fumehood)[1])
        peers.append(once(bench.ipykernel)[1])
    yield Row(
        "start",
        "first answer, warm pool, p50",
        ours,
        peers,
        goal=1 / 50,
        note=f"ready for cells after {machine.median(ready):.1f} ms",
    )
    yield Row("start", "first answer, with the pool's spare, p50", spares, peers, goal=1 / 500)
    yield Row(
        "start",
        "first answer, warm pool, p95",
        [machine.quantile(ours, 0.95)],
        [machine.quantile(peers, 0.95)],
    )
    yield Row(
        "start",
        "first answer, first session of a cold pool",
        cold,
        peers,
        note="once in the life of a pool: it imports and warms up first",
    )


def roundtrip(bench):
    """The cell `x=1`, until its end is in."""
    ours, peers, floor = [], [], []
    with bench.session(bench.fumehood) as mine, bench.session(bench.ipykernel) as theirs:
        for session in (mine, theirs):
            session.run("x=1", 50)
        for _ in range(bench.size(4, 1)):
            n = bench.size(250, 20)
            ours += check(mine.run("x=1", n))
            peers += check(theirs.run("x=1", n))
            floor += bench.fumehood.floor(n)
    yield Row(
        "roundtrip",
        "x=1, p50",
        ours,
        peers,
        goal=1 / 25,
        note=f"the wake-ups that nobody can avoid: p50 {machine.median(floor):.3f} ms",
    )
    yield Row(
        "roundtrip",
        "x=1, p95",
        [machine.quantile(ours, 0.95)],
        [machine.quantile(peers, 0.95)],
        note=f"... p95 {machine.quantile(floor, 0.95):.3f} ms",
    )


def check(cells, chars=0):
    for cell in cells:
        expect(cell.status == "ok", f"a cell ended as {cell.status}")
        expect(cell.chars == chars, f"{cell.chars} of {chars} characters came")
    return [cell.ms for cell in cells]


def output(bench):
    """From the request until the client has counted every character; a new session each."""
    many, flushed, big = bench.size((200_000, 20_000, 50_000_000), (2_000, 200, 200_000))
    for what, code, chars, goal in (
        (f"{many:,} prints", f"for i in range({many}): print(i)", digits(many), 1 / 3),
        (
            f"{flushed:,} flushed prints",
            f"for i in range({flushed}): print(i, flush=True)",
            digits(flushed),
            1 / 50,
        ),
        (f"one print of {big:,} characters", f"print('x' * {big})", big + 1, 1 / 3),
    ):
        ours, peers = [], []
        for _ in range(bench.size(3, 1)):
            for side, times in ((bench.fumehood, ours), (bench.ipykernel, peers)):
                with bench.session(side) as session:
                    times += check(session.run(code), chars)
        yield Row("output", what, ours, peers, goal=goal)


def digits(n):
    return sum(len(str(i)) + 1 for i in range(n))


def memory(bench):
    """PSS of idle sessions that have imported numpy and pandas."""
    count, peer_count = bench.size((100, 10), (3, 1))
    code = "import numpy, pandas\n1+1"
    mine, theirs = bench.fumehood.session(), [bench.ipykernel.session() for _ in range(peer_count)]
    try:
        for session in theirs:
            session.start(code)
        time.sleep(bench.size(3, 0.5))
        peer = sum(session.memory() for session in theirs) / peer_count
    finally:
        for session in theirs:
            session.stop()
    try:
        for _ in range(count):
            mine.start(code)
        time.sleep(bench.size(3, 0.5))
        ours, pool = mine.memory() / count, machine.pss_mib(bench.fumehood.pool())
    finally:
        mine.stop()
    what = f"an idle session, one of {count} (peer: of {peer_count})"
    yield Row(
        "memory",
        what,
        [ours],
        [peer],
        unit="MiB",
        goal=1 / 8,
        note=f"pool and zygote once more: {pool:.1f} MiB",
    )
    yield Row(
        "memory", "... with its share of pool and zygote", [ours + pool / count], [peer], unit="MiB"
    )


def growth(bench):
    """Thousands of cells in one session, some of them figures: the last beside the first."""
    count, every = bench.size((5_000, 50), (60, 20))
    edge = count // 10

    def cells(session):
        times = []
        for i in range(count):
            if i % every == every - 1:
                expect(session.run(FIGURE)[0].status == "ok", "a figure failed")
            else:
                times += check(session.run(f"x{i} = {i}\nprint(x{i})"), len(str(i)) + 1)
        return times

    with bench.session(bench.fumehood, IMPORTS) as session:
        keeper = session.keepers[0]
        before = machine.rss_mib(keeper)
        ours = cells(session)
        after = machine.rss_mib(keeper)
        images = len(os.listdir(session.directory + "/images"))
        expect(
            images == count // every,
            f"{images} of {count // every} images in the session's directory",
        )
    with bench.session(bench.ipykernel, IMPORTS) as session:
        peers = cells(session)
    yield Row("growth", f"a cell, the first {edge} of {count:,}", ours[:edge], peers[:edge])
    yield Row("growth", f"a cell, the last {edge}", ours[-edge:], peers[-edge:])
    yield Row(
        "growth",
        "the last beside the first",
        ours[-edge:],
        ours[:edge],
        goal=1.25,
        note="both columns are Fumehood's",
    )
    yield Row(
        "growth", "keeper's RSS at the end, and (right) at the start", [after], [before], unit="MiB"
    )


def interrupt(bench):
    """From the interrupt until the end of the cell is in; the session must answer afterwards."""
    for code in ("while True: pass", "import time; time.sleep(60)"):
        ours, peers = [], []
        with bench.session(bench.fumehood) as mine, bench.session(bench.ipykernel) as theirs:
            for _ in range(bench.size(10, 2)):
                ours.append(mine.interrupt(code))
                peers.append(theirs.interrupt(code))
            check(mine.run("1+1") + theirs.run("1+1"))
        yield Row("interrupt", code, ours, peers)


def oneshot(bench):
    """`print(1)` in a process from start to end; for Fumehood a session is made and removed."""
    notebook = bench.folder + "/one.ipynb"
    with open(notebook, "w") as file:
        json.dump(
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "id": "a",
                        "metadata": {},
                        "execution_count": None,
                        "outputs": [],
                        "source": "print(1)",
                    }
                ],
                "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
                "nbformat": 4,
                "nbformat_minor": 5,
            },
            file,
        )

    def once(times, run, argument):
        began = time.perf_counter()
        done = run(argument)
        times.append((time.perf_counter() - began) * 1e3)
        expect(
            done.returncode == 0 and done.stdout == b"1\n",
            f"print(1): {done.stdout} {done.stderr[-300:]}",
        )

    ours, python, peers = [], [], []
    once([], bench.fumehood.oneshot, "print(1)")
    for _ in range(bench.size(5, 1)):
        for _ in range(4):
            once(ours, bench.fumehood.oneshot, "print(1)")
            once(python, bench.fumehood.plain_python, "print(1)")
        once(peers, bench.ipykernel.oneshot, notebook)
    yield Row("oneshot", "fumehood run -c 'print(1)', beside nbclient", ours, peers)
    yield Row(
        "oneshot",
        "... beside python -c 'print(1)'",
        ours,
        python,
        note="no session, no sandbox, no record",
    )


WORKS = {
    work.__name__: work for work in (start, roundtrip, output, memory, growth, interrupt, oneshot)
}
