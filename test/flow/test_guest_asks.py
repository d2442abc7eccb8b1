"""Questions about the variables (complete, inspect, variables): the guest alone, then the keeper.

The guest's part runs with every Python that test/kit/guest_env.py finds, with and without IPython.
"""
import os
import sys

import pytest

import fumehood_kit

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kit"))
import guest_kit  # noqa: E402
from guest_env import PACKAGE, has, need, python  # noqa: E402, F401

SETUP = """
import math, os
xs = [3, 1, 2]
d = {"key one": 1, "k2": 2, 7: 3}
name_of_mine = 1
def func(first, second=2):
    "Doc of func."
    return first
class Thing:
    "Doc of Thing."
    attribute = 5
    def method(self): return 1
thing = Thing()
"""


@pytest.fixture(params=["plain", "ipython"])
def guest(request, python):
    if request.param == "ipython":
        need(python, "IPython")
    guest = guest_kit.ColdGuest(python, PACKAGE)
    if request.param == "ipython":
        assert guest.run("import IPython; get_ipython() is not None").result == "True"
    guest.kind = request.param
    assert guest.run(SETUP).status == "ok"
    yield guest
    guest.close()


def matches(guest, code, cursor=None):
    """What would stand in the code after each completion, from the beginning of the word."""
    question = {"code": code}
    if cursor is not None:
        question["cursor_pos"] = cursor
    answer = guest.ask("complete", **question)
    assert not answer["partial"]
    assert 0 <= answer["cursor_start"] <= answer["cursor_end"] <= len(code)
    kinds = answer["metadata"].get("_jupyter_types_experimental", [])
    assert [kind["text"] for kind in kinds] == answer["matches"]
    return answer["matches"]


# ---------------------------------------------------------------- complete

@pytest.mark.parametrize("code,expected", [
    ("xs.app", "append"), ("x = xs.app", "append"), ("thing.att", "attribute"),
    ("name_of", "name_of_mine"),
    ("pri", "print"), ("impor", "import"), ("import mat", "math"), ("from math import sq", "sqrt"),
    ("func(fir", "first="), ("d['k", "k2"), ("d[\"key", "key one"), ("for i in xs.cou", "count"),
    ("'abc'.upp", "upper"), ("xs[0].rea", "real"), ("print(name_o", "name_of_mine"),
    ("math.sq", "sqrt"),
    ("a = 1\nxs.so", "sort"), ("os.path.joi", "join"), ("whil", "while")])
def test_complete(guest, code, expected):
    assert expected in matches(guest, code)


def test_completion_replaces_from_its_start(guest):
    answer = guest.ask("complete", code="\U0001f600 = 1; xs.app(1)", cursor_pos=14 - 1)
    assert answer["matches"] == ["append"]
    assert (answer["cursor_start"], answer["cursor_end"]) == (10, 13)  # in code points


def test_complete_paths(guest):
    guest.run("os.makedirs('sub/deep', exist_ok=True); open('sub/file.txt', 'w').close()")
    assert [m for m in matches(guest, "open('sub/fi") if m.endswith("file.txt")]
    assert [m for m in matches(guest, "open('su") if m.rstrip("/") == "sub"]


def test_nothing_to_complete(guest):
    for code in ("nothing_of_that_name.x", "# xs.app", "zzzzzz_no"):
        assert matches(guest, code) == []
    for code in ("", "(((", "1.", "'", "\\", "\"\"\"x"):
        matches(guest, code)


def test_private_names_are_offered_when_asked_for(guest):
    guest.run("_mine = 1")
    assert "__len__" not in matches(guest, "xs.")
    assert "__len__" in matches(guest, "xs.__le")
    assert "_mine" in matches(guest, "_mi")


def test_kinds(guest):
    found = {}
    for code in ("xs.app", "mat", "Thin", "func", "name_o", "whil"):
        for item in guest.ask("complete", code=code)["metadata"]["_jupyter_types_experimental"]:
            found[item["text"]] = item["type"]
    assert found["append"] == found["func"] == "function"
    assert (found["math"], found["Thing"], found["name_of_mine"]) == ("module", "class", "instance")


def test_magics_are_offered_where_they_can_stand(guest):
    if guest.kind == "plain":
        pytest.skip("missing optional component: IPython")
    assert "%timeit" in matches(guest, "%time")
    found = matches(guest, "func(ti") + matches(guest, "open('")
    assert not [match for match in found if match.startswith("%")]


# ---------------------------------------------------------------- inspect

@pytest.mark.parametrize("code,cursor", [("func", 4), ("func", 0), ("x = func(1, 2)", 11),
                                         ("func(", 5)])
def test_inspect_function(guest, code, cursor):
    answer = guest.ask("inspect", code=code, cursor_pos=cursor)
    text = answer["data"]["text/plain"]
    assert answer["found"] and "(first, second=2)" in text and "Doc of func." in text
    assert "return first" not in text and "\x1b" not in text


def test_inspect_source(guest):
    assert "return first" in guest.ask("inspect", code="func", detail_level=1)["data"]["text/plain"]
    text = guest.ask("inspect", code="thing.method", detail_level=1)["data"]["text/plain"]
    assert "def method(self)" in text


@pytest.mark.parametrize("code,words", [
    ("xs", ["list", "[3, 1, 2]", "3"]), ("thing", ["Thing", "Doc of Thing."]),
    ("print", ["builtin_function_or_method"]),
    ("math.sin", ["sine"]), ("math", ["module"])])
def test_inspect_values(guest, code, words):
    text = guest.ask("inspect", code=code)["data"]["text/plain"]
    for word in words:
        assert word in text


def test_inspect_nothing(guest):
    for code in ("", "   ", "nothing_of_that_name", "1 + 1"):
        answer = guest.ask("inspect", code=code)
        assert (answer["found"], answer["data"], answer["partial"]) == (False, {}, False)


# ---------------------------------------------------------------- variables

def test_variables(guest):
    answer = guest.ask("variables")
    found = {item["name"]: item for item in answer["variables"]}
    assert set(found) == {"Thing", "d", "func", "math", "name_of_mine", "os", "thing", "xs"} | (
        {"IPython"} if guest.kind == "ipython" else set())
    assert answer["total"] == len(found) and answer["truncated"] is False
    assert found["xs"]["length"] == 3 and found["xs"]["repr"] == "[3, 1, 2]"
    assert found["xs"]["size"] > 0 and "module" not in found["xs"]
    assert found["thing"]["type"] == "Thing" and found["thing"]["module"] == "__main__"
    assert found["thing"]["repr"] == "<__main__.Thing object>"
    assert found["func"]["repr"] == "<function func>" and found["math"]["repr"] == "<module 'math'>"


def test_variables_are_bounded(guest):
    guest.run("for i in range(5000): globals()['v%04d' % i] = 'x' * i\nbig = 1 << 100_000_000\n"
              "deep = []\nfor _ in range(100000): deep = [deep]\nself = []\nself.append(self)")
    answer = guest.ask("variables", pattern="v*", max=3)
    assert [item["name"] for item in answer["variables"]] == ["v0000", "v0001", "v0002"]
    assert (answer["total"], answer["truncated"]) == (5000, True)
    found = {item["name"]: item for item in guest.ask("variables", max=10000)["variables"]}
    assert len(found["v4999"]["repr"]) == 120 and found["v4999"]["length"] == 4999
    assert "bits" in found["big"]["repr"] and found["deep"]["repr"].startswith("[[")
    assert all(len(item["repr"]) <= 120 for item in found.values())
    guest.run("deep = None")


def test_code_of_the_session_is_guarded(guest):
    guest.run("""
class Slow:
    def __repr__(self):
        while True: self.x = 1
class Raises:
    def __repr__(self): raise SystemExit
    def __sizeof__(self): raise ValueError
class Liar:
    __class__ = property(lambda self: 1/0)
    def __repr__(self): return 5
class Big:
    def __repr__(self): return "y" * 1000000
class Meta(type):
    def __getattribute__(self, name): raise RuntimeError(name)
class Hostile(metaclass=Meta): pass
a, b, c, e, f = Slow(), Raises(), Liar(), Big(), Hostile()
""")
    answer = guest.ask("variables")
    found = {item["name"]: item["repr"] for item in answer["variables"]}
    assert not answer["partial"]
    assert found["a"] == "<__main__.Slow object>" and "Raises" in found["b"]
    assert found["e"].startswith("yyy") and "xs" in found and "c" in found and "f" in found


def test_arrays_and_tables(guest, python):
    need(python, "numpy", "pandas")
    guest.run("import numpy as np, pandas as pd\narr = np.zeros((3, 4))\n"
              "obj = np.array([xs, thing], object)\nhuge = np.zeros(10**7)\n"
              "df = pd.DataFrame({'alpha': [1, 2], 'beta': [3, 4]})\nser = df.alpha")
    found = {item["name"]: item for item in guest.ask("variables")["variables"]}
    assert found["arr"]["shape"] == [3, 4] and found["arr"]["size"] == 96
    assert found["df"]["shape"] == [2, 2] and found["df"]["type"] == "DataFrame"
    assert found["df"]["repr"] == "DataFrame(columns: alpha, beta)" and found["df"]["size"] >= 32
    assert found["huge"]["size"] == 8 * 10**7 and "10000000" in found["huge"]["repr"]
    assert "dtype=object" in found["obj"]["repr"] and found["ser"]["shape"] == [2]
    assert "alpha" in matches(guest, "df.al") and matches(guest, "df['al") == ["alpha"]


# ---------------------------------------------------------------- between cells

def test_asking_leaves_no_trace(guest):
    guest.run("5")
    count = guest.run("None").count
    guest.ask("complete", code="xs.")
    guest.ask("inspect", code="func")
    guest.ask("variables")
    cell = guest.run("_, len(In)")
    assert cell.result == "(5, %d)" % (count + 2) and cell.count == count + 1


def test_a_hanging_question_is_interrupted(guest):
    guest.run("import os\nclass Hang:\n    def __dir__(self):\n        os.write(1, b'hangs')\n"
              "        while True: pass\nh = Hang()")
    guest.start_ask("complete", code="h.")
    # Not before: IPython's completer passes over an interrupt that finds it on its way there.
    guest.wait(lambda: "hangs" in guest.cell.text("stdout"))
    guest.interrupt(guest.asked)
    guest.wait(lambda: guest.answered is not None)
    assert guest.answered["partial"] is True and guest.answered["matches"] == []
    assert guest.run("1 + 1").result == "2"
    assert "append" in matches(guest, "xs.app")


def test_an_interrupt_of_a_question_touches_no_cell(guest):
    guest.ask("variables")
    guest.set_word(guest.asked)
    guest.start_cell("import time\nfor i in range(200): time.sleep(0.001)\n'whole'")
    os.killpg(guest.group, 2)
    assert guest.finish().result == "'whole'"


def test_print_and_fork_while_asked(guest):
    guest.run("class F:\n    def __getattr__(self, name):\n"
              "        print('asked', flush=True)\n        os.fork()\n"
              "        raise AttributeError(name)\nf = F()")
    assert guest.ask("inspect", code="f.something")["found"] is False
    assert guest.run("1 + 1").result == "2"


# ---------------------------------------------------------------- the keeper

def test_keeper_answers(house):
    with house.pipe() as pipe:
        pipe.run("xs = [1]\ndef func(a): 'Doc.'")
        answer = pipe.ask("complete", code="xs.app")
        assert answer["matches"] == ["append"]
        assert (answer["cursor_start"], answer["cursor_end"]) == (3, 6)
        assert pipe.ask("inspect", code="func")["found"] is True
        answer = pipe.ask("variables")
        assert [item["name"] for item in answer["variables"]] == ["func", "xs"]
        assert pipe.ask("variables", pattern="x*", max=0)["truncated"] is True
        known = ("session", "cell", "started", "finished", "committed")
        assert not [event for event in pipe.events if event["type"] not in known], \
            "a question leaves no event"


@pytest.mark.parametrize("op,fields,code", [
    ("complete", {}, "invalid"), ("complete", {"code": "x", "cursor_pos": -1}, "invalid"),
    ("inspect", {"code": "x", "detail_level": 2}, "invalid"),
    ("variables", {"max": 10001}, "limit"), ("variables", {"pattern": 1}, "invalid")])
def test_keeper_refuses(house, op, fields, code):
    with house.pipe() as pipe:
        with pytest.raises(fumehood_kit.Refused) as refused:
            pipe.ask(op, **fields)
        assert refused.value.code == code


def test_keeper_is_busy_while_a_cell_runs(house):
    with house.pipe() as pipe:
        cell = pipe.start("input()", allow_stdin=True)
        pipe.event("input_request")
        with pytest.raises(fumehood_kit.Refused) as refused:
            pipe.ask("variables")
        assert refused.value.code == "busy"
        pipe.ask("input", text="x")
        pipe.finished(cell)
        assert pipe.ask("variables")["total"] == 0


def test_keeper_queues_questions_and_lets_cells_in(house):
    with house.pipe() as pipe:
        pipe.run("xs = [1]")
        for number in range(8):
            pipe.send("complete", code="xs.app", id="a%d" % number)
        pipe.send("run", code="xs", id="c9")
        for number in range(8):
            assert pipe.answer("a%d" % number)["matches"] == ["append"]
        assert pipe.finished("c9").result == "[1]"


def test_keeper_interrupts_a_hanging_question(house):
    with house.pipe() as pipe:
        pipe.run("class H:\n    def __dir__(self):\n        while True: pass\nh = H()\nkept = 7")
        answer = pipe.ask("complete", code="h.")
        assert answer["partial"] is True
        assert pipe.run("kept").result == "7"


def test_keeper_gives_up_a_question_and_a_cell_ends_it(house):
    """Two interrupts are not heeded: the question is refused; the interpreter dies only when a
    cell needs it."""
    with house.pipe() as pipe:
        pipe.run("import time\nclass H:\n    def __dir__(self):\n        while True:\n"
                 "            try: time.sleep(100)\n"
                 "            except BaseException: pass\nh = H()")
        with pytest.raises(fumehood_kit.Refused) as refused:
            pipe.ask("complete", code="h.")
        assert refused.value.code == "timeout"
        assert pipe.ask("status")["state"] == "asking"
        with pytest.raises(fumehood_kit.Refused) as refused:
            pipe.ask("variables")
        assert refused.value.code == "busy"
        assert pipe.run("1 + 1").result == "2"
        died, = [event for event in pipe.events if event["type"] == "died"]
        assert (died["reason"], died["state"]) == ("ask", "recovered")


def test_keeper_survives_the_death_of_a_guest_that_is_asked(house):
    with house.pipe() as pipe:
        pipe.run("import os\nclass K:\n    def __dir__(self): os.kill(os.getpid(), 9)\nk = K()")
        with pytest.raises(fumehood_kit.Refused) as refused:
            pipe.ask("complete", code="k.")
        assert refused.value.code == "gone"
        assert pipe.run("'k' in globals()").result == "True"


def test_keeper_stops_and_restarts_while_asked(house):
    code = "class H:\n    def __dir__(self):\n        while True: pass\nh = H()"
    with house.pipe() as pipe:
        pipe.run(code)
        pipe.send("complete", code="h.", id="a")
        pipe.ask("restart")
        assert pipe.run("1").result == "1"
        pipe.run(code)
        pipe.send("complete", code="h.", id="b")
