"""Cells for random sequences: what they do depends on nothing but the variables before them.

So a timeline can be repeated: whoever runs the same cells in the same order has the same variables.
`probe` is a cell that prints them, each by its pickle or, if it has none, by what it consists of.
"""

_DESCRIBE = r'''
import hashlib, os, pickle, sqlite3, types

def code_of(code):
    consts = [code_of(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_name, code.co_code, code.co_names, consts))

def words(value):
    if isinstance(value, types.ModuleType):
        return "module " + value.__name__
    if isinstance(value, types.FunctionType):
        cells = [words(cell.cell_contents) for cell in value.__closure__ or ()]
        return repr((code_of(value.__code__), value.__defaults__, cells))
    if isinstance(value, type):
        return repr([(name, words(part)) for name, part in sorted(vars(value).items())
                     if not name.startswith("__")])
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        parts = sorted(frame.f_locals.items()) if frame else ()
        return repr([(name, words(part)) for name, part in parts])
    if isinstance(value, sqlite3.Connection):
        return repr(list(value.iterdump()))
    return repr(pickle.dumps(value, 4))

for name in sorted(names):
    if not name.startswith("_") and name not in (
            "In", "Out", "get_ipython", "exit", "quit", "open"):
        print(name, type(names[name]).__name__,
              hashlib.sha1(words(names[name]).encode()).hexdigest()[:16],
              repr(names[name])[:40] if isinstance(names[name], (int, list, dict)) else "")
print("cwd", os.getcwd().partition("workspace")[2])
print("env", sorted(item for item in os.environ.items() if item[0].startswith("TIMELINE_")))
'''

FOLDERS = "a", "b", "c"


def probe():
    return "exec(%r, {'names': globals()})" % _DESCRIBE


def _keep(name, first):
    return "%s = globals().get(%r) if %r in globals() else %s\n" % (name, name, name, first)


def _draws(k):
    return "import random\n" \
           "if 'dice' not in globals(): random.seed(%d); dice = []\n" \
           "dice.append(random.random())" % k


def _numpy_draws(k):
    return "import numpy as np\n" \
           "if 'noise' not in globals(): np.random.seed(%d); noise = []\n" \
           "noise.append(float(np.random.normal()))" % k


KINDS = (
    lambda k: "x%d = %d" % (k % 7, k),
    lambda k: _keep("items", "[]") + "items.append(%d)" % k,
    lambda k: _keep("items", "[]") + "items[:] = sorted(items, key=lambda i: (i * 7919) %% 31)"
                                     "[-12:]; items.append([%d])\nitems = [i for i in items "
                                     "if isinstance(i, int)]" % k,
    lambda k: _keep("table", "{}") + "table[%d] = table.setdefault('all', [])\n"
                                     "table['all'].append(%d)" % (k % 5, k),
    lambda k: "import numpy as np\n" + _keep("array", "np.arange(5000.)")
              + "array += %d\narray[::%d] *= 0.5" % (k % 11, 1 + k % 3),
    lambda k: "import pandas as pd\n" + _keep("frame", "pd.DataFrame({'a': [1.0], 'b': [2.0]})")
              + "frame.loc[len(frame)] = [float(%d), frame['a'].sum()]" % k,
    lambda k: "def f%d(n, m=%d):\n    return n * m + %d\nresult = f%d(3)" % (k % 3, k, k, k % 3),
    lambda k: "if 'tick' not in globals():\n    def make():\n        n = 0\n"
              "        def tick(by):\n            nonlocal n\n            n += by\n"
              "            return n\n        return tick\n    tick = make()\nticked = tick(%d)" % k,
    lambda k: "if 'Box' not in globals():\n    class Box:\n        kept = 0\n"
              "        def put(self, n):\n            self.n = n\n            Box.kept += n\n"
              "box = Box()\nbox.put(%d)" % k,
    lambda k: _keep("stream", "(i * i for i in range(10 ** 9))")
              + _keep("taken", "[]") + "taken.append(next(stream))",
    lambda k: "import %s" % ("fractions", "decimal", "textwrap", "colorsys", "shlex")[k % 5],
    _draws,
    _numpy_draws,
    lambda k: "import os\nos.chdir(os.path.join(os.getcwd().partition('workspace')[0], 'workspace',"
              " %r))" % FOLDERS[k % len(FOLDERS)],
    lambda k: "import os\nos.environ['TIMELINE_%d'] = '%d'" % (k % 3, k),
    lambda k: "import asyncio\n" + _keep("items", "[]")
              + "await asyncio.sleep(0)\nitems.append(%d)" % k,
    lambda k: "import threading\n" + _keep("items", "[]")
              + "t = threading.Thread(target=items.append, args=(%d,))\nt.start(); t.join(); del t"
              % k,
    lambda k: "import sqlite3\nif 'db' not in globals():\n"
              "    db = sqlite3.connect(':memory:', isolation_level=None)\n"
              "    db.execute('create table t(v)')\n"
              "db.execute('insert into t values(%d)')\n"
              "print(db.execute('select count(*), sum(v) from t').fetchone())" % k,
    lambda k: _keep("items", "[]") + "items.append(%d)\n1 / 0" % k,
    lambda k: _keep("table", "{}") + "table['all'] = [%d]\nnot_a_name" % k,
    lambda k: "print(%d" % k,
    lambda k: "globals().pop('x%d', None); globals().pop(%r, None)"
              % (k % 7, ("items", "array", "frame", "stream", "Box")[k % 5]),
    lambda k: "items2 = globals().setdefault('items', [])\nitems2.append(%d)" % k,
    lambda k: "print('%d', sorted(n for n in globals() if n[0] == 'x'))" % k,
    lambda k: "open('made-%d', 'w').write('x' * %d)" % (k % 4, k),
)

_SPOIL = "import os, signal\nitems = 'spoilt'; x0 = x1 = 'spoilt'\n"
DEATHS = {
    "exit": _SPOIL + "os._exit(%d)",
    "abort": _SPOIL + "os.abort() # %d",
    "null": _SPOIL + "import ctypes; ctypes.string_at(%d - %d)",
    "kill": _SPOIL + "os.kill(os.getpid(), signal.SIGKILL) # %d",
    "close": _SPOIL + "os.closerange(0, 500) # %d\nwhile True: pass",
    "stack": _SPOIL + "import sys\nsys.setrecursionlimit(10 ** 9)\n"
             "class D:\n    def __repr__(self): return repr(self)\nrepr(D()) # %d",
    "ignore": _SPOIL + "signal.signal(signal.SIGINT, signal.SIG_IGN) # %d\nwhile True: pass",
}
SLOW = "close", "ignore"  # the keeper waits some seconds before it kills these


def cell(rng, number):
    return rng.choice(KINDS)(number)


def death(rng, number):
    """(code, how long it may run; None: it ends by itself)"""
    kinds = sorted(DEATHS)
    kind, = rng.choices(kinds, [1 if kind in SLOW else 8 for kind in kinds])
    code = DEATHS[kind]
    code = code % ((number, number) if code.count("%d") == 2 else number)
    return code, 0.3 if kind in SLOW else None
