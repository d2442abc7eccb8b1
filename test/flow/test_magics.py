"""IPython's magics beside a real IPython: the same cells in an ipykernel and in a session.

The kernel is the reference (test/kit/ipykernel_oracle.py, in the environment that the sessions
use). All cells of a chapter run in one kernel and one session, in order; each is a test. Times,
addresses, paths, colours and the pager's way of coming (a payload there, a display here) are
normalised. What differs for a reason is in DIFFERENT, with that reason: it must really differ.
"""
import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

import fumehood_kit

NOTEBOOK = json.dumps({
    "cells": [{"cell_type": "code", "execution_count": None, "id": "c1", "metadata": {},
               "outputs": [], "source": ["nbv = 3\n", "print(nbv)"]}],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
CHAPTERS = {
    "where": ["%pwd", "%cd /tmp", "%cd -", "%cd -q /tmp", "%cd", "%ls /usr/share/fonts",
              "%pushd /tmp", "%popd", "%dirs", "%dhist", "%bookmark b1",
              "%bookmark -l", "%mkdir made", "%ls", "%rmdir made", "_dh[0] == _dh[2]",
              "%env FOO=bar",
              "%env FOO", "import os; os.environ['FOO']", "%set_env FOO=2",
              "print(os.environ['FOO'])", "%env FOO={1+2}", "%rehashx"],
    "commands": ["!echo hi", "x = !echo a b", "x", "!!echo hi", "%sx echo hi", "%system echo hi",
                 "x.s, x.n, x.p", "def f(p):\n    !echo {p} $p\nf('arg')",
                 "a, b = 1, 2\n!echo $a {b+1} $$HOME | head -c 4", "!exit 3", "_exit_code",
                 "!echo to stderr >&2", "!printf 'no end'", "%alias hello echo hi %s", "hello you",
                 "%hello", "%hello you", "%unalias hello", "hello",
                 "%%bash\necho one\necho two >&2", "%%bash\nexit 3",
                 "%%bash --out o --err e\necho x; echo y >&2", "o, e", "%%sh\necho sh",
                 "%%script python3\nprint(1 + 1)", "%%bash --no-raise-error\nexit 2",
                 "%%python3\nprint('p3')", "%%perl\nprint 5;", "%%!\necho cell",
                 "get_ipython().system('echo s')", "get_ipython().getoutput('echo g')",
                 "%%capture c\n!echo captured", "c.stdout.strip()", "!sleep 1 &"],
    "variables": ["a = 1\nb = 'two'\nc = [1, 2]\nimport json\ndef func(): pass", "%who", "%who_ls",
                  "%whos", "%who int", "%who_ls str", "%store a", "%store", "del a\n%store -r a\na",
                  "%store -d a", "%xdel b", "'b' in globals()", "%reset_selective -f ^c$",
                  "%who_ls", "%psearch fun*", "*unc?", "%reset -f", "%who_ls", "Out"],
    "time": ["a = 1", "%timeit -n1 -r1 a + 1", "%timeit -n10 -r2 -q a",
             "r = %timeit -n1 -r1 -o a\ntype(r).__name__, r.loops", "%time a + 1",
             "%%time\nz = 5\nz", "%%timeit -n1 -r1\na + 1", "%%timeit -n1 -r1 q = 1\nq + 1",
             "%time import math", "%%time\n1/0", "%time 1/0", "%timeit 1/0", "%%time\n# nothing",
             "%prun -q sum(range(10))", "%prun -l 1 sum(range(10))", "%%prun -q\nsum(range(3))"],
    "capture": ["%%capture cap\nprint('in'); display(5)\n7", "cap.stdout, len(cap.outputs)",
                "cap.show()", "cap()", "%%capture\n1/0",
                "%%capture --no-stderr c2\nimport sys\nprint('o'); print('e', file=sys.stderr)",
                "c2.stdout", "%%capture --no-display c3\ndisplay(1); print(2)", "c3.stdout"],
    "files": ["%%writefile f.py\nprint('from f', __name__)\nval = 5",
              "%%writefile -a f.py\nval2 = 6", "%run f.py", "val, val2", "%run -i f.py",
              "%run -t f.py", "%run -n f.py", "%run -e f.py", "%run nosuch.py",
              "%%file g.txt\nabc", "%pycat f.py", "%load f.py", "%cat f.py",
              "%%writefile nb.ipynb\n" + NOTEBOOK, "%run nb.ipynb", "nbv",
              "%%writefile bad.py\ndef g():\n    1/0\ng()", "%run bad.py", "%save -f s.py 2",
              "%notebook out.ipynb", "import json\nlen(json.load(open('out.ipynb'))['cells']) > 9",
              "%%writefile modx.py\ndef f(): return 1", "%load_ext autoreload\n%autoreload 2",
              "import modx; modx.f()", "_ = open('modx.py', 'w').write('def f(): return 22222')",
              "modx.f()", "%%writefile ext.py\ndef load_ipython_extension(ip):\n"
              "    print('loaded'); ip.push({'fromext': 1})\n"
              "def unload_ipython_extension(ip): print('unloaded')",
              "%load_ext ext", "fromext", "%load_ext ext", "%reload_ext ext", "%unload_ext ext",
              "%load_ext nosuch", "%edit"],
    "history": ["x = 1", "x + 1", "'%pwd'", "%history", "%history -n 1-3", "%history -o 2",
                "%hist -l 2", "%history -g 'x ='", "In[2]", "Out[2]", "_2", "_i2", "_", "__", "_i",
                "_ii", "_i1", "%recall 2", "%rerun 2", "%macro mm 1-2", "mm", "%macro",
                "print(mm)", "%pwd;", "In[24]", "%logstate"],
    "display": ["%precision 3", "3.14159265", "[1.23456]", "%precision", "3.14159265", "%pprint",
                "{'a': list(range(40))}", "%pprint", "%%html\n<b>x</b>", "%%javascript\nalert(1)",
                "%%latex\n$x$", "%%markdown\n# hi", "%%svg\n<svg></svg>", "%matplotlib inline",
                "%page [1, 2]", "%xmode", "%xmode Minimal", "1/0", "%xmode Context",
                "%colors NoColor", "%doctest_mode", "3", "%doctest_mode", "%gui", "%killbgscripts"],
    "look": ["def ff(a, b=1):\n    'doc of ff'\n    return a", "ff?", "ff??", "?ff", "%pinfo ff",
             "%pinfo2 ff", "%pdef ff", "%pdoc ff", "%psource ff", "len?", "nosuch?", "%nosuch",
             "%%nosuch\nx", "%pip --version", "%conda list", "%debug", "1/0", "%debug", "%tb",
             "%lsmagic", "%quickref", "%alias", "%magic"],
    "settings": ["%automagic", "pwd", "%automagic", "cd -q /tmp", "%autocall 1", "len 'abc'",
                 "%autocall 0", "%config InteractiveShell.ast_node_interactivity = 'all'",
                 "1\n2\n3", "x = 5\nx", "1; 2;",
                 "%config InteractiveShell.ast_node_interactivity = 'last_expr_or_assign'", "y = 7",
                 "y2 = 3;", "%config InteractiveShell.ast_node_interactivity = 'none'", "5",
                 "%config InteractiveShell.ast_node_interactivity = 'last_expr'",
                 "from IPython.core.interactiveshell import InteractiveShell as S\n"
                 "S.ast_node_interactivity = 'all'", "5\n6",
                 "S.ast_node_interactivity = 'last_expr'",
                 "%config IPCompleter.greedy", "%config InlineBackend.figure_formats = {'png'}",
                 "%autoawait"],
    "own": ["from IPython.core.magic import (register_line_magic, register_cell_magic, Magics,\n"
            "    magics_class, line_magic, needs_local_scope)\n@register_line_magic\n"
            "def lm(line): return line[::-1]\n@register_cell_magic\n"
            "def cm(line, cell): return line + cell", "%lm abc", "%%cm x\nbody", "r = %lm abc\nr",
            "@magics_class\nclass M(Magics):\n    @line_magic\n"
            "    def mym(self, line): return self.shell is get_ipython()\n"
            "get_ipython().register_magics(M)", "%mym",
            "ip = get_ipython()\ndef pre(info): print('pre', info.raw_cell)\n"
            "def post(r): print('post', r.result, r.error_in_exec, r.success)\n"
            "ip.events.register('pre_run_cell', pre); ip.events.register('post_run_cell', post)",
            "40 + 2", "1/0",
            "ip.events.unregister('pre_run_cell', pre)\n"
            "ip.events.unregister('post_run_cell', post)",
            "def h(self, et, ev, tb, tb_offset=None):\n    print('custom', et.__name__)\n"
            "    return ['line1']\nip.set_custom_exc((ZeroDivisionError,), h)", "1/0",
            "ip.set_custom_exc((), None)", "1/0",
            "import ast\nclass T(ast.NodeTransformer):\n    def visit_Constant(self, n):\n"
            "        new = n.value * 2 if isinstance(n.value, int) else n.value\n"
            "        return ast.copy_location(ast.Constant(new), n)\n"
            "t = T(); ip.ast_transformers.append(t)", "10", "ip.ast_transformers.remove(t)", "10",
            "def tr(lines): return [l.replace('PLUS', '+') for l in lines]\n"
            "ip.input_transformers_cleanup.append(tr)", "1 PLUS 2",
            "ip.input_transformers_cleanup.remove(tr)", "1 PLUS 2",
            "fmt = ip.display_formatter.formatters['text/html']\nclass Z:\n"
            "    def __repr__(self): return 'Z!'\nfmt.for_type(Z, lambda z: '<i>z</i>')\nZ()",
            "fmt.for_type(int, lambda i: '<b>%d</b>' % i)\n5", "fmt.pop(int);", "5",
            "plain = ip.display_formatter.formatters['text/plain']\n"
            "plain.for_type(int, lambda i, p, c: p.text('int %d' % i))\n7", "plain.pop(int);",
            "class R(Exception):\n    def _render_traceback_(self): return ['custom']\n"
            "raise R('x')",
            "ip.run_cell('print(1 + 1)').success", "ip.ev('1 + 1')", "ip.ex('ww = 5'); ww",
            "ip.run_line_magic('lm', 'xy')", "ip.user_ns is globals()",
            "ip.push({'pushed': 1}); pushed", "ip.run_cell('1/0').error_in_exec"],
}

USAGE = "UsageError goes to stderr there; here a cell that ends in an error has an error event"
NO_DEBUGGER = "nobody can answer the debugger: it says so, and the kernel raises"
WIDER = "the kernel's list has magics and aliases of its own (%connect_info, ls --color)"
DIFFERENT = {
    "%nosuch": USAGE,
    "%%nosuch\nx": USAGE,
    "%edit": "a frontend may open an editor; here nothing can, and it says so",
    "%debug": NO_DEBUGGER,
    "%lsmagic": WIDER,
    "%alias": WIDER,
    "%hello": USAGE,
    "%pwd;": USAGE,
    "%tb": NO_DEBUGGER,
    "len 'abc'": "the kernel transforms the cell twice and prints the rewritten line twice",
}
# Cells whose text is long or tells of places; only the kinds of events are compared.
KINDS_ONLY = {"%magic", "%quickref", "ff?", "ff??", "?ff", "%pinfo ff", "%pinfo2 ff",
              "%prun -l 1 sum(range(10))", "%pip --version", "%pdef ff"}

REPLACED = [
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\r\n"), "\n"),
    (re.compile(r"\d[\d.]*(?:e[+-]?\d+)? (?:[nmuμµ]?s|min|h)\b"), "TIME"),
    (re.compile(r"(?:User|System|Wall time) *: +[\d.]+ s"), "TIME"),
    (re.compile(r"0x[0-9a-f]+"), "ADDRESS"),
    (re.compile(r"(File `'|line )[^\n]*?\.py"), "PLACE"),
    (re.compile(r"\((?:<cell \d+>|\d+\.py), line"), "(CELL, line"),
]


def normal(value, home):
    """Texts without what cannot be the same."""
    if isinstance(value, dict):
        return {key: normal(item, home) for key, item in value.items()}
    if isinstance(value, list):
        return [normal(item, home) for item in value]
    if not isinstance(value, str):
        return value
    value = value.replace(home, "HOME")
    for pattern, text in REPLACED:
        value = pattern.sub(text, value)
    return value


def events_of(cell):
    found = []
    for event in cell.events:
        kind = event["type"]
        if kind == "stream":
            if found and found[-1][0] == event["name"]:
                found[-1][1] += event["text"]
            else:
                found.append([event["name"], event["text"]])
        elif kind in ("result", "display", "update_display"):
            found.append([kind.split("_")[0], event["data"]])
        elif kind == "error":
            found.append(["error", event["ename"], event["evalue"]])
        elif kind == "clear":
            found.append(["clear", event["wait"]])
    return [cell.status, found]


def in_kernel(cells):
    home = os.path.realpath(tempfile.mkdtemp(prefix="oracle-"))
    try:
        env = {**os.environ, "HOME": home, "IPYTHONDIR": home + "/.ipython"}
        oracle = fumehood_kit.ROOT / "test" / "kit" / "ipykernel_oracle.py"
        text = subprocess.run([fumehood_kit.PYTHON, oracle, home], input=json.dumps(cells),
                              stdout=subprocess.PIPE, text=True, env=env, check=True).stdout
        return normal(json.loads(text), home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def runs(run_house):
    """{chapter: (the kernel's answers, the session's)}, each made when first asked for."""
    made = {}

    def get(chapter):
        if chapter not in made:
            cells = CHAPTERS[chapter]
            with run_house.pipe() as pipe:
                ours = [events_of(pipe.run(code, timeout=30)) for code in cells]
            made[chapter] = in_kernel(cells), normal(ours, "/workspace")
        return made[chapter]
    return get


@pytest.mark.parametrize("chapter,number", [
    pytest.param(chapter, number, id="%s-%d %s" % (chapter, number, code.split("\n")[0][:40]))
    for chapter, cells in CHAPTERS.items() for number, code in enumerate(cells)])
def test_magic(house, runs, chapter, number):
    theirs, ours = (answers[number] for answers in runs(chapter))
    code = CHAPTERS[chapter][number]
    if code in KINDS_ONLY:
        theirs, ours = ([status, sorted(event[0] for event in events)]
                        for status, events in (theirs, ours))
    if code in DIFFERENT:
        assert theirs != ours, "there is no difference any more: " + DIFFERENT[code]
    else:
        assert ours == theirs


@pytest.mark.parametrize("code", ["%pip install nosuch", "!pip install nosuch",
                                  "!python3 -m pip install nosuch"])
def test_installing_says_what_to_do(house, code):
    with house.pipe() as pipe:
        cell = pipe.run(code, timeout=60)
    assert "this session has no network" in cell.err and "restart the session" in cell.err


def test_commands_keep_the_order(house):
    """A command writes to the real pipes: what it prints is in its place."""
    with house.pipe() as pipe:
        cell = pipe.run("print('a')\n!echo b\nprint('c')\n!echo d >&2\nprint('e')")
        assert cell.out == "a\nb\nc\nd\ne\n" and cell.err == ""


def test_an_interrupt_ends_a_command(house):
    with house.pipe() as pipe:
        cell = pipe.start("!echo begins; sleep 1000")
        pipe.event("stream")
        pipe.ask("interrupt", cell=cell)
        assert pipe.finished(cell).status == "interrupted"
        assert pipe.run("1").result == "1"


def test_a_deleted_displayhook(house):
    """What shows values is not Python's hook; without one, they are shown all the same."""
    with house.pipe() as pipe:
        pipe.run("%cd -q .\nimport sys\ndel sys.displayhook")
        assert pipe.run("5").result == "5"
