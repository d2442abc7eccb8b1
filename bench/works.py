"""The works: what both sides do, how often, and what must come out.

A work is a generator of rows, given a Bench. It asks both sides in turn (A B A B …), so that
whatever else happens on the machine happens to both. `full` and `quick` sizes are given side by
side: quick is to show that the benchmark works, and its figures mean nothing.
"""

import concurrent.futures
import contextlib
import json
import os
import shutil
import subprocess
import time

import checkpoints as checkpoint_rows
import machine
import serve as serve_rows
import sides
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
        times = session.start(IMPORTS + "1+1", "spare")
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


def sdk(bench):
    """Both clients in Python, in this process: from before the session is asked for until `x=1` has
    ended; and `x=1`, until its end is in, with the text for a model and without."""
    side = sides.Sdk(bench.fumehood)

    def once(spare):
        if spare:
            bench.fumehood.until_spare()
        session = side.session()
        times = session.start("x=1", spare)
        session.stop()
        return times[1]

    once(False)  # starts the pool, and asks `fumehood` for the settings, once in a process
    spares, ours, peers = [], [], []
    for _ in range(bench.size(5, 1)):
        for _ in range(bench.size(5, 2)):
            spares.append(once(True))
            ours.append(once(False))
        session = bench.ipykernel.session()
        peers.append(session.start("x=1")[1])
        session.stop()
    yield Row("sdk", "Session() and run x=1, with the pool's spare", spares, peers, goal=1 / 200)
    yield Row("sdk", "Session() and run x=1, warm pool", ours, peers, goal=1 / 20)
    ours, bare, peers = [], [], []
    with bench.session(side) as mine, bench.session(bench.ipykernel) as theirs:
        for session in (mine, theirs):
            session.run("x=1", 50)
        for _ in range(bench.size(4, 1)):
            n = bench.size(250, 20)
            ours += check(mine.run("x=1", n))
            bare += check(mine.run("x=1", n, max_chars=0))
            peers += check(theirs.run("x=1", n))
    yield Row("sdk", "x=1, p50", ours, peers, goal=1 / 10)
    yield Row("sdk", "x=1 without its text, p50", bare, peers, goal=1 / 10)


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
    write_notebook(notebook, ["print(1)"])

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


def roundtrip_without(bench):
    """The cell `x=1` in the sandbox, and (right) in tier none. In an environment that has nothing,
    with the loop made: else one interpreter would have to look after more than the other."""
    ours, bare = [], []
    python = without_ipython(bench)
    sessions = bench.fumehood.session(python), bench.fumehood.session(python)
    try:
        for session, how in zip(sessions, ("start", "bare")):
            session.start("import asyncio\nawait asyncio.sleep(0)", how)
            session.run("x=1", 50)
        for _ in range(bench.size(10, 1)):
            for session, times in zip(sessions, (ours, bare)):
                times += check(session.run("x=1", bench.size(200, 20)))
    finally:
        for session in sessions:
            session.stop()
    return Row("sandbox", "x=1, beside the same in tier none", ours, bare, goal=1.1,
               note="both columns are Fumehood's")


def sandbox(bench):
    """A session in tier full, without the spare, until the answer of a cell that uses numpy, pandas
    and matplotlib, beside bwrap and a Python that does nothing; whole one-shot runs with numpy,
    four at a time; a cell with and without the sandbox; and what each layer costs."""

    def started():
        session = bench.fumehood.session()
        times = session.start(IMPORTS + "1+1")
        session.stop()
        return times[1]

    def boxed(code):
        began = time.perf_counter()
        done = bench.fumehood.bubblewrap(code)
        expect(done.returncode == 0, f"bwrap: {done.stderr[-300:]}")
        return (time.perf_counter() - began) * 1e3

    def rate(run, n):
        """Milliseconds for each of n runs, four at a time."""
        began = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for done in threads.map(run, ["import numpy; print(1)"] * n):
                expect(done.stdout == b"1\n", f"one-shot: {done.stdout} {done.stderr[-300:]}")
        return (time.perf_counter() - began) * 1e3 / n

    started()
    ours, peers, rates, peer_rates = [], [], [], []
    for _ in range(bench.size(20, 2)):
        ours.append(started())
        peers.append(boxed("pass"))
    for _ in range(bench.size(3, 1)):
        rates.append(rate(bench.fumehood.oneshot, bench.size(40, 4)))
        peer_rates.append(rate(bench.fumehood.bubblewrap, bench.size(40, 4)))
    yield Row("sandbox", "start, libraries ready, beside bwrap --unshare-all python3 -c pass",
              ours, peers, goal=1)
    yield Row("sandbox", "a one-shot run with numpy, four at a time, beside bwrap + python",
              rates, peer_rates, goal=1, note="milliseconds a run: 1,000 / x a second")
    yield roundtrip_without(bench)
    layers = bench.fumehood.layers(bench.size(100, 5), bench.folder)
    bare = layers.pop("a process")
    for name, samples in layers.items():
        yield Row("sandbox", name, samples, bare, note="beside a process without any")


def snapshots(bench):
    """The files of a workspace, kept so that they can be restored: 1,000 files of 10 kB, and one of
    50 MB, beside `cp -a` of the same folder to the same disk (caches warm on both sides)."""

    def copied(name):
        folder, copy = f"{place}/{name}", f"{place}/copy"
        began = time.perf_counter()
        subprocess.run(["cp", "-a", folder, copy], check=True)
        ms = (time.perf_counter() - began) * 1e3
        shutil.rmtree(copy)
        return ms

    place = bench.folder + "/files"
    os.mkdir(place)
    samples, small, large = {}, [], []
    for _ in range(bench.size(10, 1)):
        for name, values in bench.fumehood.snapshots(bench.size(3, 1), place).items():
            samples.setdefault(name, []).extend(values)
        small += [copied("small") for _ in range(3)]
        large += [copied("large") for _ in range(3)]
    many = "1,000 files of 10 kB, "
    yield Row("snapshots", many + "first time", samples["first"], small)
    yield Row("snapshots", many + "unchanged", samples["unchanged"], small, goal=1 / 20)
    yield Row("snapshots", many + "one changed", samples["one changed"], small)
    for what in (
        "differences, 100 changed",
        "restored, 100 changed",
        "restored, 100 changed and open",
    ):
        yield Row("snapshots", many + what, samples[what], small)
    yield Row("snapshots", "one file of 50 MB, first time", samples["large"], large)


def write_notebook(path, sources):
    cells = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3"}
    with open(path, "w") as file:
        json.dump(
            {
                "cells": cells,
                "metadata": {"kernelspec": kernel},
                "nbformat": 4,
                "nbformat_minor": 5,
            },
            file,
        )


def notebook(bench):
    """A notebook of 50 cells from file to file: two whole processes, and what they wrote."""
    plain = [f"x{i} = {i}\nprint(x{i})\nx{i} * 2" for i in range(50)]
    report = list(plain)
    report[0] = IMPORTS
    report[1::10] = ["pandas.DataFrame({'a': range(20), 'b': 1.5}).describe()"] * 5
    report[5::10] = [FIGURE] * 5
    for what, sources, goal, note in (
        ("50 cells that compute, print and show", plain, 1 / 10, ""),
        (
            "50 cells, pandas, five figures",
            report,
            None,
            "most of it is spent by matplotlib, drawing, on both sides",
        ),
    ):
        given, made = bench.folder + "/given.ipynb", bench.folder + "/made.ipynb"
        write_notebook(given, sources)
        ours, peers = [], []
        for times, side, n in ((ours, bench.fumehood, 1), (peers, bench.ipykernel, 1)) + (
            ((ours, bench.fumehood, 4), (peers, bench.ipykernel, 1)) * bench.size(5, 1)
        ):
            times += [executed(side, given, made) for _ in range(n)]
        # The first of each has only warmed up pool and caches.
        yield Row("notebook", what, ours[1:], peers[1:], goal=goal, note=note)


def executed(side, given, made):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(made)
    began = time.perf_counter()
    done = side.execute(given, made)
    ms = (time.perf_counter() - began) * 1e3
    expect(done.returncode == 0, f"the notebook failed: {done.stderr[-300:]}")
    with open(made) as file:
        cells = json.load(file)["cells"]
    expect(
        all(cell["execution_count"] for cell in cells) and cells[-1]["outputs"],
        "a cell of the notebook was not executed",
    )
    return ms


def saves(bench):
    """One more save of a notebook that grows, every fifth cell a figure, beside nbformat.write of
    the same file (papermill's save); both write all of it, as the format wants."""
    import nbformat

    sizes = bench.size((250, 500, 1000), (10, 20, 40))
    count, rows, cells = 0, [], []
    with bench.session(bench.fumehood, IMPORTS) as session:
        path = session.directory + "/notebook.ipynb"
        for size in sizes:
            while count < size:
                count += 1
                code = FIGURE if count % 5 == 0 else f"x{count} = {count}\nprint(x{count})"
                cells += session.run(code)
            expect(all(cell.status == "ok" for cell in cells), "a cell failed")
            ours, peers = [], []
            session.save()
            made = nbformat.read(path, as_version=4)
            expect(len(made.cells) >= size, f"{len(made.cells)} of {size} cells were saved")
            for i in range(bench.size(20, 3)):
                check(session.run("pass"))
                ours.append(session.save())
                began = time.perf_counter()
                nbformat.write(made, bench.folder + "/saved.ipynb")
                peers.append((time.perf_counter() - began) * 1e3)
            rows.append((size, os.path.getsize(path) / 2**20, ours, peers))
    for size, mib, ours, peers in rows:
        yield Row(
            "saves",
            f"a save, {size:,} cells",
            ours,
            peers,
            note=f"{mib:.1f} MiB; nbformat does not wait for the disk, Fumehood does",
        )
    yield Row(
        "saves",
        f"a save for each MiB, {sizes[-1]:,} cells beside {sizes[0]:,}",
        [ms / rows[-1][1] for ms in rows[-1][2]],
        [ms / rows[0][1] for ms in rows[0][2]],
        goal=1.25,
        note="both columns are Fumehood's",
    )


def variables(bench):
    """The list of 10,000 variables: name, type and text of each (ours: size and length, too),
    beside the request of JupyterLab's list of variables."""
    n = bench.size(10_000, 100)
    code = (
        f"for i in range({n}):\n"
        "    globals()[f'name{i}'] = (i, str(i), [i] * 5, {'k': i}, i / 7)[i % 5]"
    )
    ours, peers, few = [], [], []
    with bench.session(bench.fumehood) as mine, bench.session(bench.ipykernel) as theirs:
        check(mine.run(code) + theirs.run(code))
        for _ in range(bench.size(10, 2)):
            ours.append(mine.variables(n))
            few.append(mine.variables(100))
            peers.append(theirs.variables(n))
    yield Row("variables", f"{n:,} variables", ours, peers)
    yield Row("variables", "the first 100 of them", few, peers, note="what is on a screen")


def without_ipython(bench):
    """The Python of an environment that has nothing."""
    import venv

    folder = bench.folder + "/without-ipython"
    if not os.path.exists(folder):
        venv.create(folder, symlinks=True)
    return folder + "/bin/python"


def ipython(bench):
    """A cell in an environment with IPython, and (right) in one without."""
    sessions = bench.fumehood.session(), bench.fumehood.session(without_ipython(bench))
    try:
        for session in sessions:
            session.start()
        for what, code in (("x=1", "x=1"), ("a cell with a value", "x = 1\nx + 1")):
            rows = [], []
            for session in sessions:
                session.run(code, 50)
            for _ in range(bench.size(8, 1)):
                for session, times in zip(sessions, rows):
                    times += check(session.run(code, bench.size(250, 20)))
            yield Row("ipython", what, *rows, goal=1.2, note="both columns are Fumehood's")
    finally:
        for session in sessions:
            session.stop()


def checkpoints(bench):
    """Checkpoints, recoveries, rollbacks and forks, beside restarting the kernel and running all
    cells again (and, for a fork, beside pickling); and what they cost the cells that run."""
    yield from checkpoint_rows.rows(bench, Row)


def serve(bench):
    """The daemon beside jupyter-kernel-gateway: starts, cells, many clients, readers."""
    yield from serve_rows.rows(bench, Row)


WORKS = {
    work.__name__: work
    for work in (
        start,
        roundtrip,
        sdk,
        output,
        memory,
        growth,
        interrupt,
        oneshot,
        sandbox,
        snapshots,
        checkpoints,
        serve,
        notebook,
        saves,
        variables,
        ipython,
    )
}
