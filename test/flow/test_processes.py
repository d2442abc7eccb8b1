"""multiprocessing and ProcessPoolExecutor with functions and classes of cells, all start methods.

Each test runs with every Python that test/kit/guest_env.py finds. `fork` is there to show that
nothing has changed for it.
"""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kit"))
import guest_kit  # noqa: E402
from guest_env import PACKAGE, python, version  # noqa: E402, F401

METHODS = ("spawn", "forkserver", "fork")
FRESH = ("spawn", "forkserver")  # the child is no copy of the guest


@pytest.fixture
def guest(python):
    guest = guest_kit.ColdGuest(python, PACKAGE)
    yield guest
    guest.close()


def ok(guest, code):
    """Runs a cell that must end well; its result."""
    cell = guest.run(code, timeout=60)
    assert cell.status == "ok", cell.events
    return cell.result


SESSION = (
    "import math, dataclasses, os.path\nfrom math import sqrt as root\nimport collections as c",
    "LIMIT = 10\nprint('effect')\nlog = open('effects', 'a')\nlog.write('x')\nlog.flush()",
    "@dataclasses.dataclass\nclass Point:\n    x: float\n    y: float = LIMIT\n\n"
    "    def length(self):\n        return root(self.x ** 2 + self.y ** 2)",
    "def scale(p, by=LIMIT):\n    return Point(p.x * by, p.y * by)",
    "Pair = c.namedtuple('Pair', 'a b')\nhalf = lambda v: v / 2",
    "class Far(Exception):\n    pass",
    "def f(p):\n    if p.x > 100:\n        raise Far(p.x)\n"
    "    return Pair(math.floor(half(scale(p).length())), os.path.basename('/a/b'))",
)


@pytest.fixture
def session(guest):
    for code in SESSION:
        ok(guest, code)
    yield guest
    # No cell has run a second time.
    assert ok(guest, "open('effects').read()") == "'x'"


@pytest.mark.parametrize("method", METHODS)
def test_pool(session, method):
    ok(session, "import multiprocessing as mp\ncontext = mp.get_context(%r)" % method)
    code = "with context.Pool(2) as pool:\n" \
           "    found = pool.map(f, [Point(3, 4), Point(6, 8)])\nfound"
    assert ok(session, code) == "[Pair(a=25, b='b'), Pair(a=50, b='b')]"
    assert ok(session, "type(found[0]) is Pair") == "True"
    cell = session.run("with context.Pool(1) as pool:\n    pool.map(f, [Point(101, 1)])",
                       timeout=60)
    assert (cell.error["ename"], cell.error["evalue"]) == ("Far", "101")
    # The child's traceback names the cells and shows their lines.
    assert 'File "<cell 7>", line 3, in f' in cell.traceback
    assert "raise Far(p.x)" in cell.traceback


@pytest.mark.parametrize("method", METHODS)
def test_process(session, method):
    ok(session, "import multiprocessing as mp\ncontext = mp.get_context(%r)\n"
                "queue = context.SimpleQueue()" % method)
    ok(session, "def work(q, p):\n    q.put((__name__, f(p)))")
    ok(session, "child = context.Process(target=work, args=(queue, Point(3, 4)))\nchild.start()")
    assert ok(session, "queue.get()") == "('__main__', Pair(a=25, b='b'))"
    assert ok(session, "child.join()\nchild.exitcode") == "0"
    ok(session, "class Worker(context.Process):\n    def run(self):\n        print('in', LIMIT)\n"
                "child = Worker()\nchild.start()\nchild.join()")
    assert session.cell.stdout == "in 10\n"


@pytest.mark.parametrize("method", METHODS)
def test_executor(session, method):
    ok(session, "import concurrent.futures, multiprocessing\n"
                "context = multiprocessing.get_context(%r)" % method)
    code = "with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:\n" \
           "    found = list(pool.map(f, [Point(3, 4), Point(6, 8)]))\nfound"
    assert ok(session, code) == "[Pair(a=25, b='b'), Pair(a=50, b='b')]"


@pytest.mark.parametrize("method", METHODS)
def test_default_method(session, method):
    ok(session, "import multiprocessing\nmultiprocessing.set_start_method(%r)" % method)
    assert ok(session, "with multiprocessing.Pool(2) as pool:\n    found = pool.starmap(scale, "
                       "[(Point(1, 2), 3)])\nfound") == "[Point(x=3, y=6)]"


@pytest.mark.parametrize("method", FRESH)
def test_what_python_can_define(guest, method):
    """Decorators, closures, classes in classes, enums, metaclasses, methods, cycles, submodules."""
    ok(guest, "import abc, enum, functools, multiprocessing, typing\nimport xml.dom.minidom\n"
              "import numbers as n\ncontext = multiprocessing.get_context(%r)" % method)
    ok(guest, "def twice(f):\n    @functools.wraps(f)\n    def wrapper(*args):\n"
              "        return f(*args) * factor\n    return wrapper\nfactor = 2")
    ok(guest, "@twice\ndef g(x):\n    return x + 1\n\ndef even(k):\n"
              "    return k == 0 or odd(k - 1)\n\ndef odd(k):\n    return k != 0 and even(k - 1)")
    ok(guest, "class Color(enum.Enum):\n    RED = 1\n    BLUE = 2\n\n"
              "class Meta(abc.ABCMeta):\n    pass\n\n"
              "class Base(metaclass=Meta):\n    __slots__ = 'v'\n"
              "    class Inner:\n        w = 7\n    @abc.abstractmethod\n    def m(self): ...\n"
              "    @staticmethod\n    def s(x):\n        return [x, Color(x).name]\n\n"
              "class Child(Base):\n    def __init__(self):\n        super().__init__()\n"
              "    def m(self, x=0):\n        return (even(x), self.Inner.w)\n"
              "    @classmethod\n    def k(cls, x):\n        return cls.__name__, x")
    ok(guest, "@functools.lru_cache\ndef cached(x):\n    return x * factor\n"
              "def later(x):\n    return x\nlater = functools.lru_cache(later)\n"
              "origin = Child()\ndef h(x):\n    return origin.m(x), T.__name__, Text(x)\n"
              "T = typing.TypeVar('T')\nText = typing.NewType('Text', str)\n"
              "def sub(x):\n    return xml.dom.minidom.__name__, isinstance(x, n.Number)")
    ok(guest, "if True:\n    try:\n        async def co(x):\n            return x\n"
              "    finally:\n        pass\ndef drive(x):\n    import asyncio\n"
              "    return asyncio.run(co(x)), [g(i) for i in range(x)]")
    code = "with context.Pool(1) as pool:\n    found = [pool.map(f, [2])[0] for f in (" \
           "g, even, Base.s, Child().m, Child.k, cached, later, h, sub, drive)]\nfound"
    assert ok(guest, code) == ("[6, True, [2, 'BLUE'], (True, 7), ('Child', 2), 4, 2, "
                               "((True, 7), 'T', 2), ('xml.dom.minidom', True), (2, [2, 4])]")
    assert ok(guest, "with context.Pool(1) as pool:\n    c, = pool.map(Color, [2])\n"
                     "c is Color.BLUE") == "True"


@pytest.mark.parametrize("method", FRESH)
def test_what_changes_arrives(guest, method):
    """A function that is defined anew reaches a pool that runs; what an initializer set stays."""
    ok(guest, "import multiprocessing\ncontext = multiprocessing.get_context(%r)\nbase = None\n"
              "def begin(b):\n    global base\n    base = b\n"
              "def f(x):\n    return base + x" % method)
    ok(guest, "pool = context.Pool(1, begin, (10,))")
    assert ok(guest, "pool.map(f, [1])") == "[11]"
    ok(guest, "def f(x):\n    return base - x")
    assert ok(guest, "pool.map(f, [1])") == "[9]"
    ok(guest, "def helper():\n    return 5\ndef f(x):\n    return helper() + x")
    assert ok(guest, "pool.map(f, [1])") == "[6]"
    ok(guest, "pool.terminate()\npool.join()")
    # Another pool has the values of now, whatever changed in place.
    ok(guest, "data = []\ndef last(_):\n    return data[-1]")
    for n in (1, 2):
        ok(guest, "data.append(%d)" % n)
        assert ok(guest, "with context.Pool(1) as p:\n    r = p.map(last, [0])\nr") == "[%d]" % n


@pytest.mark.parametrize("method", FRESH)
def test_large_values_are_sent_once(guest, method):
    ok(guest, "import multiprocessing, os\ncontext = multiprocessing.get_context(%r)\n"
              "table = list(range(500_000))\ndef f(x):\n    return table[x], id(table)" % method)
    ok(guest, "with context.Pool(1) as pool:\n    found = pool.map(f, range(100), 1)")
    assert ok(guest, "[v for v, _ in found] == list(range(100)), len({i for _, i in found})") == \
        "(True, 1)"
    # The same bundle again is the same file.
    ok(guest, "with context.Pool(1) as pool:\n    found = pool.map(f, range(3), 1)")
    assert ok(guest, "len([n for n in os.listdir('/proc/self/fd') if 'fumehood-bundle' in "
                     "os.path.realpath('/proc/self/fd/' + n)])") == "1"


@pytest.mark.parametrize("method", FRESH)
def test_a_child_has_children(guest, method):
    ok(guest, "import concurrent.futures as cf, multiprocessing\n"
              "context = multiprocessing.get_context(%r)\nplus = 3\n"
              "def leaf(x):\n    return x + plus\n"
              "def branch(x):\n    with cf.ProcessPoolExecutor(1, mp_context=context) as pool:\n"
              "        return list(pool.map(leaf, [x, x + 1]))" % method)
    assert ok(guest, "with cf.ProcessPoolExecutor(1, mp_context=context) as pool:\n"
                     "    found = list(pool.map(branch, [5]))\nfound") == "[[8, 9]]"


@pytest.mark.parametrize("method", FRESH)
def test_what_cannot_be_sent(guest, method):
    ok(guest, "import multiprocessing, threading\ncontext = multiprocessing.get_context(%r)\n"
              "pool = context.Pool(1)\nlock = threading.Lock()" % method)
    cell = guest.run("pool.map(lambda x: x, [1])", timeout=60)
    assert cell.error["ename"] == "PicklingError" and "define it with def" in cell.error["evalue"]
    cell = guest.run("exec('def made(x): return x')\npool.map(made, [1])", timeout=60)
    assert cell.error["ename"] == "PicklingError" and "no cell defines it" in cell.error["evalue"]
    # Only its use fails, and only where nobody has set it.
    ok(guest, "def f(x):\n    if x:\n        with lock:\n            return 1\n    return 0")
    assert ok(guest, "pool.map(f, [0])") == "[0]"
    cell = guest.run("pool.map(f, [1])", timeout=60)
    assert cell.error["ename"] == "PicklingError"
    assert "'lock'" in cell.error["evalue"] and "initializer" in cell.error["evalue"]
    ok(guest, "def begin(l):\n    global lock\n    lock = l\n"
              "pool.terminate()\npool.join()\nshared = context.Lock()\n"
              "pool = context.Pool(1, begin, (shared,))")
    assert ok(guest, "pool.map(f, [1])") == "[1]"
    ok(guest, "pool.terminate()\npool.join()")
    # A function that goes to the process with its start may use what can be inherited.
    ok(guest, "queue = context.Queue()\ndef put():\n    queue.put(1)\n"
              "child = context.Process(target=put)\nchild.start()")
    assert ok(guest, "queue.get(timeout=30)") == "1"
    ok(guest, "child.join()")


@pytest.mark.parametrize("method", FRESH)
def test_functions_of_magics_and_modules(guest, method, python):
    """%%time and %run define things too; a module of the workspace needs nothing."""
    ok(guest, "open('local.py', 'w').write('def m(x): return x * 3')\n"
              "open('script.py', 'w').write('from __future__ import annotations\\nk = 4\\n"
              "def r(x: Nowhere):\\n    return x * k\\n')\n"
              "import multiprocessing, local\ncontext = multiprocessing.get_context(%r)" % method)
    functions = ["local.m"]
    if guest.run("import IPython").status == "ok":
        ok(guest, "%%time\ndef t(x):\n    return x * 2")
        ok(guest, "%run script.py")
        functions += ["t", "r"]
    code = "with context.Pool(1) as pool:\n    found = [pool.map(f, [5])[0] for f in (%s,)]\nfound"
    assert ok(guest, code % ",".join(functions)) in ("[15, 10, 20]", "[15]")


def test_nothing_changes_before_it_is_needed(guest):
    """With `fork` alone functions travel by name, as ever."""
    ok(guest, "import multiprocessing, sys\ndef f(x):\n    return x + 1")
    assert ok(guest, "with multiprocessing.get_context('fork').Pool(1) as pool:\n"
                     "    found = pool.map(f, [1])\nfound") == "[2]"
    assert ok(guest, "from multiprocessing.reduction import ForkingPickler\n"
                     "len(ForkingPickler.dumps(f)) < 60") == "True"
    assert ok(guest, "with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
                     "    size = len(ForkingPickler.dumps(f))\nsize > 60") == "True"
    # It is over, and a function that no cell defines is good enough for a copy.
    ok(guest, "pool.join()\nexec('def made(x): return x')")
    assert ok(guest, "len(ForkingPickler.dumps(f)) < 60") == "True"
    assert ok(guest, "with multiprocessing.get_context('fork').Pool(1) as pool:\n"
                     "    found = pool.map(made, [1])\nfound") == "[1]"
