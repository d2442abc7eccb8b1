"""The guest against a small keeper (test/kit/guest_kit.py), without a box.

Each test runs with every Python that test/kit/guest_env.py finds. Boxes: test_guest_box.py.
"""
import base64
import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kit"))
import guest_kit  # noqa: E402
from guest_env import PACKAGE, need, python, version  # noqa: E402, F401


@pytest.fixture
def guest(python):
    guest = guest_kit.ColdGuest(python, PACKAGE)
    yield guest
    guest.close()


def events(cell):
    """Types in order, streams with their text."""
    return [(e["name"], "".join(e["parts"])) if e["type"] == "stream" else e["type"]
            for e in cell.events]


# ---------------------------------------------------------------- hello and values

def test_hello_says_who_it_is(guest, python):
    assert guest.hello["protocol"] == 1
    assert guest.hello["python"].startswith("%d.%d." % version(python))
    assert guest.hello["shell"] in ("plain", "ipython")
    assert guest.hello["language_info"]["name"] == "python"


def test_last_value_and_history(guest):
    assert guest.run("x = 20\nx + 1").result == "21"
    assert guest.run("_ + 1").result == "22"
    assert guest.run("(_, __, Out[1], In[1])").result == "(22, 21, 21, 'x = 20\\nx + 1')"
    assert guest.run("_ = 'mine'").result is None
    assert guest.run("5").result == "5"
    assert guest.run("_").result == "'mine'"
    assert guest.run("None").events == []


@pytest.mark.parametrize("code", ["5;", "5 ;  # c", "(5);", "(5  # c\n);", "x = 1", "# only\n", "",
    "5\nx=2"])
def test_nothing_to_show(guest, code):
    cell = guest.run(code)
    assert (cell.status, cell.events) == ("ok", [])


@pytest.mark.parametrize("code,result", [
    ("';'", "';'"), ("5  # ; not", "5"), ("\ufeff1", "1"), ("if 1:\r\n    x = 7\r\nx", "7"),
        ("1\r2", "2"),
    ("__name__", "'__main__'"), ("import sys; sys.argv", "['']"), ("import sys; sys.path[0]", "''"),
    ("len('" + "a" * 1_000_000 + "')", "1000000")])
def test_value(guest, code, result):
    assert guest.run(code).result == result


def test_future_imports_persist(guest):
    guest.run("from __future__ import annotations")
    assert guest.run("def f(x: Nowhere): return 1\nf(2)").result == "1"


def test_large_code_and_large_result(guest):
    cell = guest.run("x = '" + "é" * 200_000 + "'\nx")
    assert cell.result == "'" + "é" * 200_000 + "'"


# ---------------------------------------------------------------- errors

def test_traceback_has_only_the_cells_frames(guest):
    guest.run("def f(a):\n    return a['k']")
    cell = guest.run("f({})")
    assert cell.status == "error"
    assert cell.traceback.startswith('Traceback (most recent call last):\n  File "<cell 2>", line '
        '1, in <module>')
    assert "return a['k']" in cell.traceback
    assert "fumehood" not in cell.traceback


def test_traceback_of_an_awaiting_cell(guest):
    cell = guest.run("import asyncio\nawait asyncio.sleep(0)\n1/0")
    assert cell.traceback.count("File ") == 1 and "1/0" in cell.traceback


@pytest.mark.parametrize("code,name,value", [
    ("1/0", "ZeroDivisionError", "division by zero"),
    ("import sys; sys.exit(3)", "SystemExit", "3"),
    ("exit()", "SystemExit", "None"),
    ("raise KeyboardInterrupt('own')", "KeyboardInterrupt", "own"),
    ("raise GeneratorExit", "GeneratorExit", ""),
    ("import asyncio; raise asyncio.CancelledError('own')", "CancelledError", "own"),
    ("import asyncio\nawait asyncio.sleep(0)\nraise asyncio.CancelledError('own')",
        "CancelledError", None),
    ("class B(BaseException): pass\nraise B('b')", "B", "b"),
    ("def f(): f()\nf()", "RecursionError", None),
    ("raise MemoryError", "MemoryError", ""),
    ("x = [0] * (1 << 60)", "MemoryError", ""),
    ("class O(Exception):\n  def __str__(self): 1/0\nraise O", "O", "<exception str() failed>"),
    ("class M(type):\n  @property\n  def __name__(c): 1/0\nclass E(Exception, metaclass=M): pass\n"
        "raise E('m')",
     "E", "m"),
    ("raise Exception('a\\ud8ffb')", "Exception", "a\ufffdb"),
    ("raise SyntaxError('made up', ('no.py', 99, 50, 'x\\n'))", "SyntaxError", None),
    ("raise SyntaxError('made up', ('no.py', -3, 'x', 7))", "SyntaxError", None),
    ("x = (1 +", "SyntaxError", None),
    ("if 1:\nprint()", "IndentationError", None),
    ("a\x00b", "SyntaxError", None),
    ("return 5", "SyntaxError", None),
    ("(" * 500 + ")" * 500, None, None),
])
def test_error(guest, code, name, value):
    cell = guest.run(code)
    assert cell.status == "error"
    if name:
        assert cell.error["ename"] == name
    if value is not None:
        assert cell.error["evalue"] == value
    assert cell.traceback.split(":")[0] or cell.traceback
    assert guest.run("1").result == "1"


def test_chain_notes_and_groups(guest, python):
    cell = guest.run("try:\n  int('x')\nexcept ValueError as e:\n  raise "
        "RuntimeError('row') from e")
    assert "direct cause" in cell.traceback and "int('x')" in cell.traceback
    if version(python) >= (3, 11):
        cell = guest.run("e = ValueError('v'); e.add_note('see row 4'); raise ExceptionGroup('g', "
            "[e, TypeError()])")
        assert "see row 4" in cell.traceback and "TypeError" in cell.traceback


def test_hostile_environment_of_the_engine(guest):
    guest.run("import sys, warnings; sys.excepthook = None; warnings.simplefilter('error')")
    guest.run("print = repr = str = len = list = type = isinstance = None")
    assert guest.run("1 + 1").result == "2"
    guest.run("import builtins\nfor n in ('len', 'isinstance', 'str', 'print', 'repr'): "
        "delattr(builtins, n)")
    assert guest.run("x = 2\nx").status == "ok"
    cell = guest.run("1/0")
    assert (cell.status, cell.error["ename"]) == ("error", "ZeroDivisionError")


def test_globals_clear(guest):
    guest.run("globals().clear()")
    assert guest.run("__name__").result == "'__main__'"


# ---------------------------------------------------------------- streams

def test_order_of_streams_and_messages(guest):
    code = ("import sys\nfor i in range(300):\n"
            "    print('o', i)\n    print('e', i, file=sys.stderr)\n    display(i)\n"
            "    print('p', end='')\n    sys.stderr.write('q')\n")
    expected = []
    for i in range(300):
        expected += [("stdout", "o %d\n" % i), ("stderr", "e %d\n" % i),
                     "display", ("stdout", "p"), ("stderr", "q")]
    assert events(guest.run(code)) == expected


def test_saved_write_methods_keep_the_order(guest):
    code = ("import sys\no, e = sys.stdout.write, sys.stderr.write\n"
            "for i in range(200):\n  n = o('o'); n = e('e')")
    assert events(guest.run(code)) == [("stdout", "o"), ("stderr", "e")] * 200


def test_buffer_and_descriptor(guest):
    cell = guest.run("import sys, os\nprint('t', flush=True); n = "
        "sys.stdout.buffer.write(b'b\\n')\n"
                     "sys.stdout.flush(); n = os.write(1, b'd\\n'); (sys.stdout.fileno(), "
                     "sys.stdout.isatty(), "
                     "sys.stdout.encoding, sys.stdout.name, sys.stdout.line_buffering)")
    assert cell.stdout == "t\nb\nd\n"
    assert cell.result.replace("\n", "") == "(1, False, 'utf-8', '<stdout>', True)"


def test_short_and_long_text_keep_their_order(guest):
    """Short text takes a way of its own (stream.c); what cannot take it must not be overtaken."""
    cell = guest.run("import sys\n"
                     "print('a', end='')\n"
                     "print('b' * 9000)\n"
                     "print('c\\ud800')\n"
                     "print('d', end='')\n"
                     "sys.stdout.flush()\n"
                     "print('e' * 2_000_000, end='')\n"
                     "print('f')\n"
                     "n = sys.stdout.buffer.write(b'g\\n')\n"
                     "print('h')\n"
                     "sys.stdout.reconfigure(errors='backslashreplace')\n"
                     "print('\\ud801')")
    assert cell.stdout == ("a" + "b" * 9000 + "\nc\ufffd\nd" + "e" * 2_000_000
                           + "f\ng\nh\n\\ud801\n")


def test_threads_print_each_line_once(guest):
    cell = guest.run("import threading\n"
                     "def work(k):\n"
                     "    for i in range(300):\n"
                     "        print('%02d-%03d' % (k, i))\n"
                     "ts = [threading.Thread(target=work, args=(k,)) for k in range(20)]\n"
                     "for t in ts: t.start()\n"
                     "for t in ts: t.join()")
    expected = ["%02d-%03d" % (k, i) for k in range(20) for i in range(300)]
    # A newline is a write of its own, so lines of threads can run into each other; nothing is lost.
    assert sorted(cell.stdout.replace("\n", "")) == sorted("".join(expected))
    assert cell.stdout.count("\n") == 6000


def test_surrogates_and_odd_characters(guest):
    assert guest.run("print('a\\ud800\\udc00b')").stdout == "a\ufffd\ufffdb\n"
    assert guest.run("print('a\\x00\\x1b\\r\\f\\u2028b')").stdout == "a\0\x1b\r\f\u2028b\n"


def test_c_output_and_children(guest):
    cell = guest.run("import ctypes, subprocess, os\nc = ctypes.CDLL(None)\nn = c.printf(b'from "
        "C\\n')\n"
                     "r = subprocess.run(['echo', 'child'])\nr = os.system('echo sh >&2')")
    assert cell.stdout == "child\nfrom C\n" and cell.stderr == "sh\n"


def test_closed_and_replaced_streams(guest):
    guest.run("import sys, os; sys.stdout.close()")
    assert guest.run("print('a')").stdout == "a\n"
    guest.run("os.close(1); os.close(2)")
    cell = guest.run("import sys; print('b'); print('c', file=sys.stderr)")
    assert (cell.stdout, cell.stderr) == ("b\n", "c\n")
    guest.run("fd = os.open('/dev/null', 1); os.dup2(fd, 1); print('lost')")
    assert guest.run("print('d')").stdout == "d\n"
    guest.run("del sys.stdout")
    assert guest.run("print('e')").stdout == "e\n"
    guest.run("import io; keep = sys.stdout; sys.stdout = io.StringIO(); print('x')")
    cell = guest.run("print('y'); 1")
    assert (cell.stdout, cell.result) == ("", "1")
    assert guest.run("sys.stdout = keep; print('f')").stdout == "f\n"


def test_background_thread_is_tagged_with_its_cell(guest):
    guest.run("import threading\ngo = threading.Event()\ndef f():\n    go.wait(); print('late', "
        "end='')\n"
              "    display('shown')\nt = threading.Thread(target=f); t.start()\nprint('now')")
    cell = guest.run("go.set(); t.join(); print('mine')")
    assert cell.stdout == "mine\n"
    assert "".join(text for number, name, text in guest.late if number == 1) == "late"
    assert [e["of"] for e in cell.of("display")] == [1]
    assert guest.run("print('again')").stdout == "again\n"


def test_thread_of_the_running_cell_writes_to_it(guest):
    cell = guest.run("import threading\nt = threading.Thread(target=print, args=('inner',)); "
        "t.start(); t.join()")
    assert cell.stdout == "inner\n" and guest.late == []


def test_background_task_is_tagged_with_its_cell(guest):
    guest.run("import asyncio\nasync def f():\n    await asyncio.sleep(0.05); print('late')\n"
              "t = asyncio.create_task(f())")
    cell = guest.run("await t\nprint('mine')")
    assert cell.stdout == "mine\n"
    assert "".join(text for _, _, text in guest.late) == "late\n" and guest.late[0][0] == 1


def test_volume(guest):
    assert len(guest.run("for i in range(100_000): print(i)").stdout) == 588890
    assert len(guest.run("print('é' * 5_000_000)").stdout) == 5_000_001


# ---------------------------------------------------------------- input

def test_input_and_getpass(guest):
    cell = guest.run("import getpass\na = input('a? '); b = getpass.getpass('b? '); (a, b)",
        ["näh", ""])
    assert cell.result == "('näh', '')"
    asked = cell.of("input_request")
    assert [(e["prompt"], e["password"]) for e in asked] == [("a? ", False), ("b? ", True)]


def test_no_one_can_answer(guest):
    cell = guest.run("input('?')")
    assert cell.error["ename"] == "EOFError" and "no one can answer" in cell.error["evalue"]
    assert guest.run("import sys; (sys.stdin.read(), sys.stdin.readline(), "
        "sys.stdin.buffer.read())").result \
        == "('', '', b'')"
    assert guest.run("import pdb; pdb.set_trace()\nx = 1").status in ("ok", "error")
    guest.run("exit()")
    assert guest.run("1").result == "1"
    assert guest.run("input('?')", ["still"]).result == "'still'"


def test_stdin_lines_and_own_stdin(guest):
    cell = guest.run("import sys; [line for line in sys.stdin]", ["a", "b"])
    assert cell.result == "['a\\n', 'b\\n']"
    cell = guest.run("import io\nkeep, sys.stdin = sys.stdin, io.StringIO('own\\n')\nx = "
        "input('p')\n"
                     "sys.stdin = keep\nx")
    assert (cell.result, cell.stdout) == ("'own'", "p")


def test_interrupt_while_waiting_for_input(guest):
    cell = guest.start_cell("input('?')", answers="open")
    guest.wait(lambda: cell.of("input_request"))
    guest.interrupt()
    assert guest.finish().status == "interrupted"
    guest.answer("stale")
    assert guest.run("1").result == "1"


# ---------------------------------------------------------------- interrupts

def started(guest, code):
    """Runs code that prints a line when it is under way."""
    cell = guest.start_cell(code)
    guest.wait(lambda: cell.stdout)
    return cell


@pytest.mark.parametrize("wait", [
    "while True: pass", "import time; time.sleep(60)", "await __import__('asyncio').sleep(60)",
    "import threading; threading.Lock().acquire(); threading.Event().wait()",
    "import asyncio; asyncio.run(asyncio.sleep(60))",
    "import asyncio; await asyncio.sleep(0); asyncio.run(asyncio.sleep(60))",
    "import subprocess; subprocess.run(['sleep', '60'])"])
def test_interrupt(guest, wait):
    started(guest, "try:\n    print('go', flush=True)\n    %s\nfinally:\n    "
        "print('closed')" % wait)
    guest.interrupt()
    cell = guest.finish()
    assert cell.status == "interrupted" and cell.error["ename"] == "KeyboardInterrupt"
    assert cell.stdout == "go\nclosed\n"
    assert guest.run("await __import__('asyncio').sleep(0)\n2").result == "2"


def test_interrupt_that_comes_early_is_not_lost(guest):
    for _ in range(20):
        guest.set_word(guest.number + 1)
        guest.start_cell("while True: pass")
        os.killpg(guest.group, signal.SIGINT)
        assert guest.finish().status == "interrupted"


def test_late_and_foreign_interrupts_touch_nothing(guest):
    guest.run("1")
    guest.interrupt()
    assert guest.run("import time; time.sleep(0.05); 1").result == "1"
    cell = started(guest, "print('go')\nimport time\ntime.sleep(0.2)\n3")
    guest.interrupt(cell=guest.number - 1)
    assert guest.finish().result == "3" and cell.status == "ok"


def test_own_signal_is_the_programs_own(guest):
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)"
    assert guest.run(code).status == "error"
    started(guest, "print('go')\nwhile True: pass")
    guest.interrupt()
    assert guest.finish().status == "interrupted"
    cell = guest.run(code)
    assert (cell.status, cell.error["ename"]) == ("error", "KeyboardInterrupt")


def test_second_interrupt_after_a_caught_one(guest):
    cell = started(guest, "import time\ntry:\n    print('go')\n    time.sleep(60)\nexcept "
        "KeyboardInterrupt:\n"
                          "    print('caught')\n    time.sleep(60)")
    guest.interrupt()
    guest.wait(lambda: "caught" in cell.stdout)
    guest.interrupt()
    assert guest.finish().status == "interrupted"


def test_interrupt_in_a_repr(guest):
    started(guest, "class R:\n    def __repr__(self):\n        print('go')\n        while True: "
        "pass\nR()")
    guest.interrupt()
    assert guest.finish().status == "interrupted"


def test_sigint_ignored_by_the_launcher(python):
    guest = guest_kit.ColdGuest(python, PACKAGE, ignore_sigint=True)
    try:
        started(guest, "print('go')\nimport time; time.sleep(60)")
        guest.interrupt()
        assert guest.finish().status == "interrupted"
    finally:
        guest.close()


# ---------------------------------------------------------------- asyncio

def test_both_worlds(guest):
    guest.run("import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    return 5")
    assert guest.run("asyncio.run(main())").result == "5"
    assert guest.run("asyncio.get_event_loop().run_until_complete(main())").result == "5"
    assert guest.run("await main()").result == "5"
    assert guest.run("a = await main()\nb = asyncio.run(main())\nc = await main()\n"
        "a + b + c").result == "15"
    assert guest.run("asyncio.run(main())\nl = asyncio.get_event_loop()\nl is "
        "asyncio.get_running_loop()").result \
        == "True"
    assert guest.run("[i async for i in __import__('asyncio') and (x async for x "
        "in g())]").status == "error"
    assert guest.run("async with asyncio.Lock():\n    x = 1\nx").result == "1"


def test_context_variables_persist(guest):
    guest.run("from contextvars import ContextVar\nimport asyncio\nv = ContextVar('v', "
        "default=0)\nt = v.set(1)")
    assert guest.run("v.get()").result == "1"
    assert guest.run("await asyncio.sleep(0)\nt = v.set(2)\nv.get()").result == "2"
    assert guest.run("v.get()").result == "2"
    assert guest.run("await asyncio.sleep(0)\nv.get()").result == "2"


def test_tasks_go_on_between_cells(guest):
    guest.run("import asyncio, os\nasync def f():\n    await asyncio.sleep(0.01)\n    open('fed', "
        "'w').close()\n"
              "    r = os.write(1, b'!')\nt = asyncio.ensure_future(f())")
    cell = guest.cell
    guest.wait(lambda: cell.stdout == "!")
    assert os.path.exists(os.path.join(guest.workspace, "fed"))
    assert guest.run("t.done()").result == "True"


def test_loop_closed_or_replaced(guest):
    guest.run("import asyncio\nawait asyncio.sleep(0)")
    guest.run("asyncio.get_event_loop().close()")
    assert guest.run("await asyncio.sleep(0, 4)").result == "4"
    guest.run("mine = asyncio.new_event_loop(); asyncio.set_event_loop(mine)")
    assert guest.run("asyncio.get_event_loop() is mine").result == "True"
    assert guest.run("await asyncio.sleep(0)\nasyncio.get_running_loop() is mine").result == "True"


def test_task_that_leaves_by_system_exit(guest):
    guest.run("import asyncio, sys\nasync def f():\n    await asyncio.sleep(0); sys.exit(1)\nt = "
        "asyncio.create_task(f())")
    assert guest.run("1").result == "1"


def test_nested_loop_patch(guest, python):
    need(python, "nest_asyncio2")
    guest.run("import asyncio, nest_asyncio2\nnest_asyncio2.apply()\nasyncio.run(asyncio.sleep(0))")
    assert guest.run("await asyncio.sleep(0)\nasyncio.run(asyncio.sleep(0, 3))").result == "3"
    assert guest.run("2").result == "2"


# ---------------------------------------------------------------- processes

def test_forked_child_never_answers(guest):
    cell = guest.run("import os\np = os.fork()\nif p: s = os.waitpid(p, 0)[1]; print('parent', s)")
    assert (cell.stdout, cell.status) == ("parent 0\n", "ok")
    cell = guest.run("p = os.fork()\nif not p: print('kid'); raise SystemExit(3)\n"
        "print(os.waitpid(p, 0)[1] >> 8)")
    assert cell.stdout == "kid\n3\n"
    cell = guest.run("p = os.fork()\nif not p: display('x'); 1/0\nprint(os.waitpid(p, 0)[1] >> 8)")
    assert cell.stdout == "1\n" and "ZeroDivisionError" in cell.stderr
    assert [e for e in cell.events if e["type"] != "stream"] == []


def test_multiprocessing(guest):
    cell = guest.run("import multiprocessing as mp\ndef sq(n):\n    print('w', flush=True)\n    "
        "return n * n\n"
                     "with mp.get_context('fork').Pool(2) as pool:\n    print(pool.map(sq, "
                     "[1, 2, 3]))")
    assert cell.stdout == "w\nw\nw\n[1, 4, 9]\n"
    cell = guest.run("import math\nwith mp.get_context('spawn').Pool(1) as pool:\n    r = "
        "pool.map(math.sqrt, [4])\nr")
    assert cell.result == "[2.0]"


def test_pickle_and_inspect(guest):
    guest.run("import pickle, inspect\nclass P:\n    v = 1\ndef f():\n    return 2")
    assert guest.run("pickle.loads(pickle.dumps(P())).v").result == "1"
    assert "return 2" in guest.run("inspect.getsource(f)").result


def test_exit_status_is_the_programs(python):
    guest = guest_kit.ColdGuest(python, PACKAGE)
    with pytest.raises(guest_kit.Died):
        guest.run("import os; os._exit(7)")
    assert os.waitstatus_to_exitcode(guest.close()) == 7


def test_end_of_file_ends_the_guest(python):
    guest = guest_kit.ColdGuest(python, PACKAGE)
    guest.run("import atexit; atexit.register(open, 'left', 'w')")
    assert guest.close() == 0


# ---------------------------------------------------------------- display

def test_display_without_an_import(guest):
    cell = guest.run("h = display('zero', display_id='d')\nh.update('one')\ndisplay(1, [2])\n'r'")
    assert [e["type"] for e in cell.events] == ["display", "update_display", "display", "display",
        "result"]
    assert [e["data"]["text/plain"] for e in cell.events] == ["'zero'", "'one'", "1", "[2]", "'r'"]
    assert [e.get("display_id") for e in cell.events] == ["d", "d", None, None, None]


def test_rich_methods(guest):
    cell = guest.run("class B:\n    def __repr__(self): return 'B()'\n    def _repr_html_(self): "
        "return '<b>'\n"
                     "    def _repr_png_(self): return b'\\x89PNG'\n    def _repr_json_(self): "
                     "return {'v': float('nan')}\n"
                     "B()")
    data = cell.events[0]["data"]
    assert data["text/plain"] == "B()" and data["text/html"] == "<b>"
    assert base64.b64decode(data["image/png"]) == b"\x89PNG"
    assert data["application/json"] == {"v": "nan"}


def test_odd_json(guest):
    cell = guest.run("a = []; a += [a, a, a]\ndisplay({'application/json': {1: {2, }, 'b': b'x', "
        "'i': float('inf'), "
                     "'o': object, (1, 2): 3, 's': '\\ud800', 'c': [a, a, a]}, 'text/plain': 'p'}, "
                     "raw=True)")
    value = cell.events[0]["data"]["application/json"]
    assert value["1"] == [2] and value["b"] == "eA==" and value["i"] == "inf"
    assert value["(1, 2)"] == 3
    assert value["s"] == "\ufffd"


@pytest.mark.parametrize("method", ["__repr__", "_repr_html_", "_repr_mimebundle_",
    "_ipython_display_"])
def test_failing_formatters(guest, method):
    cell = guest.run("class Chart:\n    def %s(self, *a, **k): raise ValueError('no "
        "speed')\nChart()" % method)
    assert cell.status == "ok"
    assert cell.result == "<unprintable Chart object: ValueError: no speed>"
    assert "no speed" in cell.stderr and "fumehood" not in cell.stderr


def test_recursive_and_large_values(guest):
    assert guest.run("a = [1]; a.append(a); a").result in (
        "[1, [...]]", "[1, <Recursion on list with id=%s>]" % guest.run("id(a)").result)
    assert guest.run("list(range(100_000))").status == "ok"
    cell = guest.run("class D:\n    def __repr__(self): return repr(self)\nD()")
    assert cell.status == "ok" and "RecursionError" in cell.stderr


def test_large_display_goes_by_memfd(guest):
    cell = guest.run("display({'image/png': b'x' * 5_000_000, 'text/plain': 'i'}, raw=True)")
    assert len(base64.b64decode(cell.events[0]["data"]["image/png"])) == 5_000_000


def test_clear_output(guest, python):
    need(python, "IPython")
    cell = guest.run("from IPython.display import clear_output\nprint('a'); "
        "clear_output(wait=True); print('b')")
    assert events(cell) == [("stdout", "a\n"), "clear", ("stdout", "b\n")]
    assert cell.of("clear")[0]["wait"] is True


# ---------------------------------------------------------------- IPython, matplotlib, pandas

def test_ipython_display(guest, python):
    need(python, "IPython")
    cell = guest.run("from IPython.display import display, HTML, Image, DisplayHandle, "
        "publish_display_data\n"
                     "h = display(HTML('<i>'), display_id=True)\nh.update(2)\n"
                     "publish_display_data({'text/plain': 'q'})\n"
                     "get_ipython().user_ns is globals()")
    assert [e["type"] for e in cell.events] == ["display", "update_display", "display", "result"]
    assert cell.events[0]["data"]["text/html"] == "<i>" and cell.result == "True"
    assert cell.events[0]["display_id"] == cell.events[1]["display_id"]


def test_ipython_keeps_what_was_there(guest, python):
    need(python, "IPython")
    guest.run("x = 5\nx")
    assert guest.run("get_ipython()\n(_, Out[1], In[1], x)").result == "(5, 5, 'x = 5\\nx', 5)"


def test_magics(guest, python):
    need(python, "IPython")
    assert guest.run("%time y = 2\ny").result == "2"
    assert "hello" in guest.run("!echo hello").stdout
    assert guest.run("lines = !echo a\nlines[0]").result == "'a'"
    assert guest.run("len?").of("display")
    assert guest.run("%no_such_magic").status == "error"
    assert guest.run("x = (1 +").error["ename"] == "SyntaxError"
    assert guest.run("%%capture got\nprint('q')").stdout == ""
    assert guest.run("got.stdout").result == "'q\\n'"
    assert guest.run("%matplotlib inline").status == "ok"


def test_figures(guest, python):
    need(python, "matplotlib")
    cell = guest.run("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
                     "plt.plot([1, 2]); plt.show()\nprint('x')")
    assert events(cell) == ["display", ("stdout", "x\n")]
    data = cell.events[0]["data"]
    assert data["text/plain"].startswith("<Figure size 640x480 with 1 Axes>")
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    cell = guest.run("plt.plot([1]); 1/0")
    assert sorted(e["type"] for e in cell.events) == ["display", "error"]
    assert guest.run("plt.get_fignums()").result == "[]"
    assert guest.run("f = plt.figure(); plt.plot([1]); plt.close(f)").events == []
    cell = guest.run("f, a = plt.subplots()\nf")
    assert [e["type"] for e in cell.events] == ["result"] and "image/png" in cell.events[0]["data"]
    cell = guest.run("plt.plot([1]); n = plt.title('$x_{$')")
    assert cell.status == "ok" and "title" not in cell.stdout and cell.stderr
    assert guest.run("plt.get_fignums()").result == "[]"


def test_data_frame(guest, python):
    need(python, "pandas")
    cell = guest.run("import pandas as pd\npd.DataFrame({'v': [0.0, float('nan'), float('inf')]})")
    assert "<table" in cell.events[0]["data"]["text/html"] and cell.stderr == ""
