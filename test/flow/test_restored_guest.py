"""A copy of the guest that has been woken, without a box or keeper (test/kit/copy_kit.py): one test
for each row of test/kit/restored_rows.py and of its like, with each Python that
test/kit/guest_env.py finds.

The same with whole sessions: test_restored_state.py.
"""
import os
import select
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kit"))
import copy_kit  # noqa: E402
import guest_kit  # noqa: E402
from guest_env import PACKAGE, has, python, version  # noqa: E402, F401
from restored_native import HANGING, NATIVE  # noqa: E402
from restored_rows import ROWS, complaints  # noqa: E402
from restored_sqlite import DATABASES  # noqa: E402

CELL_S = 60


def need_row(python, row):
    for name in row.needs:
        if not has(python, name):
            pytest.skip("missing optional component: %s of %s" % (name, python))
    if version(python) < row.oldest:
        pytest.skip("missing optional component: a newer Python than %s" % python)


@pytest.fixture
def guest(python):
    guest = guest_kit.ColdGuest(python, PACKAGE)
    yield guest
    copy_kit.end(guest)


def run(guest, code):
    cell = guest.run(code, timeout=CELL_S)
    assert cell.status == "ok", cell.traceback
    return cell


def woken(guest, change="", then="\nimport os; os._exit(7)"):
    """A copy, made before the guest changes something and dies, and a guest of it."""
    copy = copy_kit.Copy(guest)
    cell = copy_kit.die(guest, change + then)
    assert not cell.of("error"), cell.traceback
    copy_kit.kill_group(guest)
    return copy, copy.wake()


@pytest.mark.parametrize("row", ROWS + DATABASES + NATIVE, ids=str)
def test_row(guest, python, row):
    need_row(python, row)
    for code in row.make:
        run(guest, code)
    copy, other = woken(guest, row.change)
    try:
        cell = run(other, row.check)
        assert row.stderr in (None, cell.stderr) and other.late == []
        bad = list(complaints(row, other.hello.get("lost")))
        assert not bad, bad
    finally:
        copy_kit.end(other)
        copy.drop()


@pytest.mark.parametrize("row", HANGING, ids=str)
def test_what_hangs_is_told(guest, python, row):
    """Native threads are named, because what needs them may wait for ever."""
    need_row(python, row)
    for code in row.make:
        run(guest, code)
    copy, other = woken(guest, row.change)
    try:
        assert not list(complaints(row, other.hello["lost"]))
        assert run(other, "1 + 1").result == "2"
    finally:
        copy_kit.end(other)
        copy.drop()


def test_again_and_again(guest):
    """One copy can be woken any number of times, and a woken one can be copied."""
    run(guest, "import asyncio, threading\nx = [1]\nawait asyncio.sleep(0)")
    copy, first = woken(guest, "x.append(2)")
    run(first, "x.append(3)")
    second = copy.wake()  # while the first lives: a branch
    run(second, "x.append(4)")
    assert first.run("x").result == "[1, 3]" and second.run("x").result == "[1, 4]"
    inner = copy_kit.Copy(second)
    copy_kit.end(second)
    third = inner.wake()
    assert third.run("x").result == "[1, 4]" and "lost" not in third.hello
    assert third.run("await asyncio.sleep(0, 5)").result == "5"
    for other in (first, third):
        copy_kit.end(other)
    copy.drop()
    inner.drop()


def test_a_branch_leaves_a_transaction_alone(guest):
    """The guest lives and is in the midst of it: the copy that wakes beside it is not."""
    run(guest, """
import os, sqlite3
file = sqlite3.connect("a.db"); file.execute("create table t(a, b)")
file.executemany("insert into t values (?, ?)", [(n, "x" * 500) for n in range(1000)])
file.commit(); file.execute("pragma cache_size = 2"); file.execute("update t set b = 'y'")
""")
    copy = copy_kit.Copy(guest)
    other = copy.wake()
    assert [os.path.basename(path) for path in other.hello["lost"]["transactions"]] == ["a.db"]
    check = "assert file.execute('pragma integrity_check').fetchall() == [('ok',)]\n" \
            "assert file.execute('select distinct b from t').fetchall() == [('y',)]"
    run(guest, "assert sorted(os.listdir()) == ['a.db', 'a.db-journal']\nfile.commit()\n" + check)
    run(other, "file = sqlite3.connect('a.db', timeout=1)\n" + check +
        "\nfile.execute('delete from t'); file.commit()")
    assert guest.run("file.execute('select count(*) from t').fetchall()").result == "[(0,)]"
    copy_kit.end(other)
    copy.drop()


def test_copies_are_no_children(guest):
    """Nor do they answer, print, or hold anything open."""
    run(guest, "import os\nread, write = os.pipe()")
    copy = copy_kit.Copy(guest)
    run(guest, "os.close(write); assert os.read(read, 1) == b''")
    run(guest, "try:\n    os.wait()\n    assert False\nexcept ChildProcessError: pass")
    assert not select.select([guest.out, guest.err, guest.control], [], [], 0.1)[0]
    measured = copy.measure()
    assert 0 < measured["private_bytes"] <= measured["rss_bytes"]
    copy.drop()
    assert guest.run("1").result == "1"


def test_what_was_interrupted_meanwhile(guest):
    """The word is new: an interrupt of before hits nothing, one of now does."""
    copy = copy_kit.Copy(guest)
    guest.start_cell("while True: pass")
    guest.interrupt()
    assert guest.finish().status == "interrupted"
    copy_kit.end(guest_kit_twin(guest))
    other = copy.wake()
    assert other.run("1").result == "1"
    other.start_cell("print('on', flush=True)\nwhile True: pass")
    other.wait(lambda: "on" in other.cell.stdout)
    other.interrupt()
    assert other.finish().status == "interrupted"
    copy_kit.end(other)
    copy.drop()


def guest_kit_twin(guest):
    """The fixture ends the guest itself: what is ended here has descriptors of its own."""
    twin = guest_kit.Guest()
    twin.handed_over()
    twin.pidfd, twin.group = os.dup(guest.pidfd), guest.group
    return twin


# ---------------------------------------------------------------- what is watched looks as ever

@pytest.mark.parametrize("module,name", [
    ("subprocess", "Popen"), ("concurrent.futures", "ThreadPoolExecutor"),
    ("concurrent.futures", "ProcessPoolExecutor"), ("multiprocessing.pool", "Pool"),
    ("multiprocessing.process", "BaseProcess"), ("asyncio", "SelectorEventLoop")])
def test_classes_look_as_ever(guest, module, name):
    cell = run(guest, """
import importlib, inspect, pickle, subprocess, sys
kind = getattr(importlib.import_module(%r), %r)
assert pickle.loads(pickle.dumps(kind)) is kind
here = [str(inspect.signature(kind)), kind.__init__.__doc__, kind.__init__.__qualname__,
        inspect.getsource(kind.__init__), kind.__name__, kind.__module__]
code = '''import importlib, inspect
kind = getattr(importlib.import_module(%r), %r)
print([str(inspect.signature(kind)), kind.__init__.__doc__, kind.__init__.__qualname__,
       inspect.getsource(kind.__init__), kind.__name__, kind.__module__])'''
plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
print(plain == str(here) + "\\n", plain, here)
class Own(kind):
    __eq__ = None
    __hash__ = None
""" % (module, name, module, name))
    assert cell.stdout.startswith("True"), cell.stdout


def test_connections_look_as_ever(guest, python):
    run(guest, """
import inspect, pickle, sqlite3, weakref
file = sqlite3.connect("a.db")
assert isinstance(file, sqlite3.Connection) and type(file) is sqlite3.Connection
assert repr(type(file)) == "<class 'sqlite3.Connection'>" and weakref.ref(file)() is file
class Own(sqlite3.Connection):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.mine = 1
own = sqlite3.connect("a.db", factory=Own)
assert type(own) is Own and own.mine == 1
assert sqlite3.connect("a.db", 5.0, 0, None, True, Own).mine == 1
assert sqlite3.connect(":memory:").execute("select 1").fetchall() == [(1,)]
assert sqlite3.connect.__name__ == "connect" and sqlite3.dbapi2.connect is sqlite3.connect
for value in (file, own):
    try:
        pickle.dumps(value)
        assert False
    except TypeError as error:
        assert "pickle" in str(error)
""")


def test_errors_show_only_the_programs_frames(guest):
    cell = guest.run("import subprocess\nsubprocess.Popen(['/does/not/exist'])")
    assert cell.error["ename"] == "FileNotFoundError"
    assert "fumehood" not in cell.traceback and "<cell 1>" in cell.traceback


def test_what_is_watched_can_go(guest):
    """Nothing is kept alive by being watched."""
    assert run(guest, """
import concurrent.futures, gc, sqlite3, subprocess, sys
for _ in range(50):
    subprocess.run(["true"]); sqlite3.connect("a.db").close()
    with concurrent.futures.ThreadPoolExecutor(1) as pool: pool.submit(int).result()
del pool; gc.collect()
tracking = sys.modules["fumehood_guest.tracking"]
print(sum(len(thing) for thing in gc.get_objects() if isinstance(thing, tracking.Tracked)
          if not any(type(item).__name__.endswith("EventLoop") for item in thing)))
""").stdout == "0\n"


# ---------------------------------------------------------------- what it costs

TIMED = """
import time
from fumehood_guest import restore
took = {}
def timed(name):
    call = getattr(restore, name)
    def measured(*arguments):
        began = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            took.setdefault(name, []).append(time.perf_counter() - began)
    setattr(restore, name, measured)
timed("before_copy"); timed("after_wake")
"""


def test_what_it_costs(guest, capsys):
    """Printed, never asserted: the machine may be busy."""
    run(guest, TIMED)
    copies = [copy_kit.Copy(guest) for _ in range(20)]
    others = [copy.wake() for copy in copies]
    before = eval(run(guest, "took").result)["before_copy"]
    after = [eval(run(other, "took").result)["after_wake"][0] for other in others]
    for other, copy in zip(others, copies):
        copy_kit.end(other)
        copy.drop()
    with capsys.disabled():
        print("\nbefore_copy p50 %.0f us, after_wake p50 %.0f us" % (
            sorted(before)[10] * 1e6, sorted(after)[10] * 1e6))
