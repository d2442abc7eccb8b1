"""What people do in notebooks and what used to fail, or might: each cell with what must come out.

A row: the cells (all but the last only prepare), and the expected events of the last one: texts of
streams, the text of a result, kinds of displays, an error's name. Names of modules that the row
needs stand first.
"""
import pytest

PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
       "rkJggg==")


def row(*cells, out=None, err=None, result=None, shows=None, error=None, name=None):
    wanted = {"out": out, "err": err, "result": result, "shows": shows, "error": error}
    return pytest.param(cells, {key: value for key, value in wanted.items() if value is not None},
                        id=name or cells[-1].split("\n")[0][:50])


def kinds(cell):
    """What a cell has displayed: the MIME types of each display, update and result."""
    return [sorted(event["data"]) for event in cell.of("display", "update_display", "result")]


ROWS = [
    # ---- code that looks at itself
    row("class P:\n    def m(self): return 1",
        "import inspect\nprint(inspect.getsource(P), end='')",
        out="class P:\n    def m(self): return 1\n", name="source of a class"),
    row("from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int = 1",
        "import inspect\nprint(inspect.getsource(D).splitlines()[-1])", out="    a: int = 1\n",
        name="source of a dataclass"),
    row("def f(x): return x  # mine", "import inspect\nprint(inspect.getsource(f), end='')",
        out="def f(x): return x  # mine\n", name="source of a function"),
    row("class P: pass\ndef sq(x): return x * x",
        "import pickle\npickle.loads(pickle.dumps(P())).__class__ is P, "
        "pickle.loads(pickle.dumps(sq))(3)", result="(True, 9)"),
    row("from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\n"
        "class F:\n    x: F", "import typing\ntyping.get_type_hints(F)['x'] is F", result="True"),
    row("def dt(x):\n    '''\n    >>> dt(2)\n    4\n    '''\n    return 2 * x",
        "import doctest\ndoctest.testmod()", result="TestResults(failed=0, attempted=1)"),
    row("import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass",
        "unittest.main(argv=[''], exit=False).result.testsRun", result="1"),
    row("import argparse\nargparse.ArgumentParser().parse_args()", result="Namespace()"),

    # ---- processes and threads
    row("import multiprocessing as mp\ndef sq(x): return x * x",
        "if __name__ == '__main__':\n    with mp.get_context('fork').Pool(2) as p:\n"
        "        print(p.map(sq, [1, 2, 3]))", out="[1, 4, 9]\n"),
    row("import math, multiprocessing as mp",
        "with mp.get_context('spawn').Pool(1) as p: print(p.map(math.sqrt, [4]))", out="[2.0]\n"),
    row("from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\n"
        "import multiprocessing as mp\ndef sq(x): return x * x",
        "with ProcessPoolExecutor(2, mp.get_context('fork')) as ex: print(*ex.map(sq, [4, 5]))",
        out="16 25\n"),
    row("import subprocess", "subprocess.run('echo hi; echo no >&2', shell=True,\n"
        "               capture_output=True, text=True).stdout", result="'hi\\n'"),
    row("import os\nos.system('echo from the shell')", out="from the shell\n", result="0"),
    row("import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n"
        "    f.write('x'); f.seek(0); print(f.read())", out="x\n"),
    row("import sqlite3\nc = sqlite3.connect('f.db')\nc.execute('create table t(a)')\n"
        "c.execute('insert into t values(1)')\nlist(c.execute('select * from t'))",
        result="[(1,)]"),
    row("import faulthandler\nfaulthandler.enable()\nfaulthandler.dump_traceback_later(100)\n"
        "faulthandler.cancel_dump_traceback_later()\nprint(1)", out="1\n"),

    # ---- messages
    row("import logging\nlogging.warning('w')\nlogging.getLogger('a').error('e')",
        err="WARNING:root:w\nERROR:a:e\n"),
    row("import logging\nlogging.basicConfig(level=logging.INFO, force=True)\nlogging.info('i')",
        err="INFO:root:i\n"),
    row("import warnings\nwarnings.warn('once')", "warnings.warn('again')",
        err="<cell 2>:1: UserWarning: again\n  warnings.warn('again')\n"),
    row("import warnings\nfor _ in range(2): warnings.warn('same')",
        "for _ in range(2): warnings.warn('same')",
        err="<cell 2>:1: UserWarning: same\n  for _ in range(2): warnings.warn('same')\n",
        name="a warning comes again in the next cell"),

    # ---- asyncio
    row("import asyncio\nasync def a(i):\n    await asyncio.sleep(0.001)\n    return i",
        "print(*await asyncio.gather(a(1), a(2)))\nprint(await asyncio.to_thread(int, 3))\n"
        "print(asyncio.run(a(4)))", out="1 2\n3\n4\n"),
    row("import asyncio\nasync def a(): return 5", "asyncio.run(a())", result="5"),
    row("import asyncio\nasync def bad(): raise ValueError('x')",
        "await asyncio.gather(bad(), return_exceptions=True)", result="[ValueError('x')]"),
    row("%%capture c\nimport asyncio\nawait asyncio.sleep(0)\nprint('in')", "c.stdout",
        result="'in\\n'", name="await inside %%capture"),
    row("import asyncio\nawait asyncio.sleep(0)\n"
        "get_ipython().run_cell('await asyncio.sleep(0)\\nprint(7)').success",
        out="7\n", result="True", name="await inside a nested cell of a cell that awaits"),

    # ---- displays
    row("from IPython.display import display\nh = display('a', display_id='d')\nh.update('b')",
        shows=[["text/plain"], ["text/plain"]]),
    row("from IPython.display import *\nHTML('<b>')", shows=[["text/html", "text/plain"]]),
    row("from IPython.display import *\nJSON({'a': 1})",
        shows=[["application/json", "text/plain"]]),
    row("from IPython.display import *\nimport base64\n"
        "open('i.png', 'wb').write(base64.b64decode('%s'))\nImage(filename='i.png')" % PNG,
        shows=[["image/png", "text/plain"]], name="an image of a file"),
    row("from IPython.display import *\nAudio(data=[0.0] * 10, rate=10)",
        shows=[["text/html", "text/plain"]], name="audio"),
    row("from IPython.display import *\nopen('v.mp4', 'wb').write(b'1')\n"
        "Video('v.mp4', embed=True)", shows=[["text/html", "text/plain"]], name="video"),
    row("from IPython.display import *\nfor _ in ProgressBar(2): pass",
        shows=[["text/html", "text/plain"]] * 4, name="a progress bar"),
    row("from IPython.display import *\nCode('x=1', language='python')",
        shows=[["text/html", "text/latex", "text/plain"]]),
    row("class A:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'application/vnd.vegalite.v5+json': {}, 'text/plain': 'alt'}\nA()",
        shows=[["application/vnd.vegalite.v5+json", "text/plain"]], name="altair's way"),
    row("class B:\n    def _ipython_display_(self): print('own')\nB()", out="own\n"),
    row("class C:\n    def _repr_html_(self): return 1/0\nC()",
        result="<unprintable C object: ZeroDivisionError: division by zero>"),

    # ---- libraries
    row("import pandas as pd\npd.DataFrame({'a': [1]})", shows=[["text/html", "text/plain"]]),
    row("import plotly.graph_objects as go\nf = go.Figure(data=go.Bar(y=[1, 2]))\nf",
        shows=[["application/vnd.plotly.v1+json"]], name="plotly, as a value"),
    row("import plotly.graph_objects as go\ngo.Figure(data=go.Bar(y=[1, 2])).show()",
        shows=[["application/vnd.plotly.v1+json"]], name="plotly, shown"),
    row("from rich.table import Table\nt = Table('a')\nt.add_row('1')\nt",
        shows=[["text/html", "text/plain"]], name="a table of rich"),
    row("from rich import print as rprint\nrprint('[bold]hi[/bold]')",
        shows=[["text/html", "text/plain"]]),
    row("import sys\nfrom tqdm.auto import tqdm\nfor i in tqdm(range(3), file=sys.stdout): pass\n"
        "print('end')", name="tqdm without widgets"),
    row("import sympy as sp\nx = sp.symbols('x')\nsp.init_printing()\nx**2",
        shows=[["image/png", "text/latex", "text/plain"]], name="sympy"),
    row("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig",
        shows=[["image/png", "text/plain"]], name="a figure as a value comes once"),
    row("import pandas as pd\npd.DataFrame({'a': [1, 2]}).plot.bar();\n"
        "import matplotlib.pyplot as plt\nplt.show()", shows=[["image/png", "text/plain"]],
        name="a plot of pandas"),
    row("%config InlineBackend.figure_format = 'svg'",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
        shows=[["image/svg+xml", "text/plain"]], name="figures as SVG"),

    # ---- the end of a cell
    row("raise SystemExit(3)", error="SystemExit"),
    row("quit()", error="SystemExit"),
    row("input('x')", error="EOFError"),
    row("import urllib.request\nurllib.request.urlopen('http://example.com', timeout=5)",
        error="URLError"),
]


@pytest.mark.parametrize("cells,wanted", ROWS)
def test_habit(house, cells, wanted):
    with house.pipe() as pipe:
        for code in cells[:-1]:
            assert pipe.run(code).status == "ok"
        cell = pipe.run(cells[-1], timeout=50)
    assert cell.status == ("error" if "error" in wanted else "ok"), cell
    for key in ("out", "err", "result", "error"):
        if key in wanted:
            assert getattr(cell, key) == wanted[key], cell
    if "shows" in wanted:
        assert kinds(cell) == wanted["shows"]


# ---------------------------------------------------------------- fonts

FONT = """
import os
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
characters = [0x4e2d, 0x6587, *range(32, 127)]  # no minus sign, no kana
glyphs = [".notdef"] + ["g%x" % c for c in characters]
pen = TTGlyphPen(None)
pen.moveTo((0, 0)); pen.lineTo((0, 800)); pen.lineTo((800, 800)); pen.lineTo((800, 0))
pen.closePath()
shape = pen.glyph()
builder = FontBuilder(1000, isTTF=True)
builder.setupGlyphOrder(glyphs)
builder.setupCharacterMap({c: "g%x" % c for c in characters})
builder.setupGlyf({glyph: shape for glyph in glyphs})
builder.setupHorizontalMetrics({glyph: (900, 0) for glyph in glyphs})
builder.setupHorizontalHeader(ascent=800, descent=-200)
builder.setupNameTable({"familyName": "Mine", "styleName": "Regular"})
builder.setupOS2()
builder.setupPost()
os.makedirs("assets/fonts", exist_ok=True)
builder.save("assets/fonts/mine.ttf")
open("broken.ttf", "wb").write(b"no font")
"""


def test_fonts_of_the_workspace(house):
    """A font in the workspace is there by its name and as the fallback for CJK; the minus sign
    comes from matplotlib's own font; a missing glyph is told once a cell."""
    with house.pipe() as pipe:
        assert pipe.run(FONT).status == "ok"
        cell = pipe.run("import matplotlib.pyplot as plt\n"
                        "plt.rcParams['font.sans-serif'] = ['SimHei']\n"
                        "plt.plot([-1, 1]); plt.title('\u4e2d\u6587'); plt.xlabel('Mine')\n"
                        "plt.gca().xaxis.label.set_family('Mine'); plt.show()")
        assert (cell.status, cell.err) == ("ok", "")
        assert kinds(cell) == [["image/png", "text/plain"]]
        cell = pipe.run("plt.title('\u3042\u3044\u3046'); plt.xlabel('\uac00'); plt.show()")
        assert cell.err.count("Warning") == 1 and "U+" in cell.err and len(cell.err) < 400
        cell = pipe.run("plt.title('plain'); plt.show()")
        assert cell.err == ""


def test_figures_without_fonts_of_their_own(house):
    with house.pipe() as pipe:
        cell = pipe.run("import matplotlib.pyplot as plt\nplt.plot([-1, 1]); plt.title('x')")
        assert (cell.status, cell.err) == ("ok", "")
