"""The verbs of checkpoints, `run --atomic` and `--try`, and what notebooks and texts say of it.

How the states themselves come back is tested elsewhere; here it is what a person sees of it.
"""
import json
import time

import nbformat
import pytest

from fumehood_kit import CELL_FAILED, FAULT, USAGE, WAIT_S


class Lab:
    """A session that lives on, and the verbs on it."""

    def __init__(self, house, name):
        self.house, self.name = house, name

    def run(self, code, *options, status=0, name=None):
        result = self.house.cli("run", "-s", name or self.name, "-c", code, *options)
        assert result.status == status, result
        self.settle(name)
        return result

    def ask(self, verb, *words, status=0, name=None):
        result = self.house.cli(verb, name or self.name, *words)
        assert result.status == status, result
        return result

    def told(self, verb, *words, **rest):
        return json.loads(self.ask(verb, *words, "--json", **rest).out)

    def settle(self, name=None):
        """Until the present state is held, so that a test does not depend on how soon it is."""
        until = time.monotonic() + WAIT_S
        while not self.told("checkpoints", name=name)["protected"]:
            assert time.monotonic() < until, "the state is not held"
            time.sleep(0.01)

    def cells(self, *options, name=None):
        """The cells of the notebook that export makes, which must be valid."""
        text = self.ask("export", *options, name=name).out
        document = nbformat.reads(text, as_version=4)
        nbformat.validate(document)
        assert nbformat.writes(document) + "\n" == text
        return {cell["id"]: cell for cell in document["cells"]}

    def x(self, name=None):
        return int(self.run("print(x)", name=name).out)


@pytest.fixture
def lab(house):
    lab = Lab(house, "lab")
    lab.run("x = 1")
    lab.run("x = 2")
    lab.run("x = 3")
    yield lab
    for name in ("lab", "branch"):
        house.cli("stop", name)
        house.cli("gc", name)


def marked(cell):
    return "rolled-back" in cell["metadata"].get("tags", [])


# ------------------------------------------------------------------------------------------- verbs

def test_rollback_of_the_last_cell(lab):
    result = lab.ask("rollback")
    assert result.out == "rolled back: c3\nthe state is that after cell c2\n" and not result.err
    assert lab.x() == 2
    result = lab.ask("rollback", "c2")
    assert result.out == "rolled back: c2, c4\nthe state is that after cell c1\n"
    assert lab.x() == 1


def test_named_checkpoint(lab):
    made = lab.told("checkpoint", "clean")
    assert made["name"] == "clean" and made["cell"] == "c3" and made["number"] > 0
    lab.run("x = 4")
    lab.run("y = 5")
    answer = lab.told("rollback", "clean")
    assert (answer["cell"], answer["rolled_back"]) == ("c3", ["c4", "c5"])
    assert lab.x() == 3
    # From somewhere else: what was undone is there again.
    lab.ask("reset")
    lab.run("x = 1")
    assert lab.told("rollback", "clean")["cell"] == "c3"
    assert lab.x() == 3
    assert list(lab.cells()) == ["c1", "c2", "c3", "c8"]


def test_list(lab):
    lab.ask("checkpoint", "a.b-1")
    lines = lab.ask("checkpoints").out.splitlines()
    assert lines[0].split() == ["NAME", "CELL", "AGE", "COST", "MEMORY", "FILES"]
    named = [line.split() for line in lines[1:] if not line.startswith("-")]
    assert [row[:2] for row in named] == [["a.b-1", "c3"]] and len(lines) > 2
    assert "a cell that dies costs nothing else" in lab.ask("checkpoints").err
    answer = lab.told("checkpoints")
    assert answer["recovers_to"] == "c3" and answer["protected"] is True
    assert lab.ask("checkpoints", "--drop", "a.b-1").out == ""
    assert [c for c in lab.told("checkpoints")["checkpoints"] if c["name"]] == []


def test_reset(lab):
    lab.ask("checkpoint", "clean")
    result = lab.ask("reset")
    assert result.out == "rolled back: c1, c2, c3\nthe session is empty\n"
    first = lab.run("print(sorted(n for n in globals() if n == 'x'))")
    assert first.out == "[]\n"
    assert list(lab.cells()) == ["c4"] and lab.cells()["c4"]["execution_count"] == 1
    lab.ask("rollback", "clean")
    assert lab.x() == 3


def test_what_is_refused(lab, house):
    lab.ask("checkpoint", "clean")
    assert "clean" in lab.ask("checkpoint", "clean", status=FAULT).err
    assert "nosuch" in lab.ask("checkpoints", "--drop", "nosuch", status=FAULT).err
    words = lab.ask("rollback", "nosuch", status=FAULT).err
    assert "clean" in words  # what there is to return to
    for name in ("-a", "7", "a/b", "", "a" * 65):
        result = house.cli("checkpoint", "lab", "--", name)
        assert result.status == FAULT and "name" in result.err, result
    for words in (["checkpoint", "lab"], ["checkpoint", "lab", "a", "b"], ["rollback"],
                  ["rollback", "lab", "a", "b"], ["reset"], ["checkpoints"], ["fork"],
                  ["rollback", "lab", "--files", "maybe"],
                  ["checkpoint", "lab", "a", "--files", "1"]):
        assert house.cli(*words).status == USAGE, words
    assert lab.x() == 3


def test_a_busy_session_is_left_alone(lab, house):
    with house.script("run", "-s", "lab", "-c", "print('runs'); input()") as script:
        script.expect("runs\n")
        for words in (["rollback"], ["reset"], ["checkpoint", "a"]):
            assert "cell" in lab.ask(*words, status=FAULT).err
        script.type("\n")
        assert script.end() == 0
    assert lab.x() == 3


def test_a_session_that_does_not_run(lab, house):
    house.cli("stop", "lab")
    for words in (["rollback"], ["reset"], ["checkpoint", "a"], ["checkpoints"], ["fork"]):
        assert "not running" in lab.ask(*words, status=FAULT).err, words
    assert "no session" in house.cli("rollback", "nosuch").err


# ------------------------------------------------------------------------------- atomic and try

def test_try(lab):
    result = lab.run("x = 99; print('seen', x)", "--try")
    assert result.out == "seen 99\n"
    assert "fumehood: rolled back: the variables are as they were just before" in result.err
    assert lab.x() == 3
    result = lab.run("x = 99; 1 / 0", "--try", status=CELL_FAILED)
    assert "ZeroDivisionError" in result.err and "rolled back" in result.err
    assert lab.x() == 3
    assert lab.run("x = 99", "--try", "-q").err == ""


def test_atomic(lab):
    assert "rolled back" not in lab.run("x = 4", "--atomic").err
    assert lab.x() == 4
    result = lab.run("x = 99; del y", "--atomic", status=CELL_FAILED)
    assert "NameError" in result.err and "rolled back" in result.err
    assert lab.x() == 4
    result = lab.run("x = 99\nwhile True: pass", "--atomic", "-t", "0.2", status=CELL_FAILED)
    assert "rolled back" in result.err
    assert lab.x() == 4
    result = lab.run("import os; x = 99; os._exit(7)", "--atomic", status=CELL_FAILED)
    assert "exit status 7" in result.err and "just before this cell" in result.err
    assert lab.x() == 4


def test_text_for_a_model(lab):
    text = lab.run("x = 99; print('seen')", "--try", "--text").out
    assert text == "seen\n[rolled back: variables are as they were just before this cell]\n"
    text = lab.run("import os; os._exit(7)", "--text", status=CELL_FAILED).out
    assert text.startswith("(no output)\n[died: the interpreter ended (exit status 7); variables "
                           "are as they were just before this cell")
    text = lab.run("x = 99", "--try", "--text", "--marks").out
    assert text == "[rolled back: variables are as they were just before this cell]\n"


def test_text_of_a_cell_undone_later(lab):
    """The stored journal and the keeper say the same; a checkpoint that brings it back ends it."""
    lab.ask("section", "S")
    undone = "[rolled back later%s: what this cell did is not in the variables any more]\n"
    lab.run("x = 4; print('four')")
    lab.ask("checkpoint", "four")
    with lab.house.connect(lab.house.find("lab")) as session:
        def texts():
            told = session.ask("text", cell="c4")["text"]
            assert [cell["text"] for cell in session.ask("outputs", section="S")["cells"]] == [told]
            assert lab.ask("text", "c4").out == told + "\n"
            assert lab.told("text", "--section", "S")["cells"] == [{"cell": "c4", "text": told}]
            return told + "\n"
        assert texts() == "four\n"
        lab.ask("rollback", "c4")
        assert texts() == "four\n" + undone % ""
        lab.ask("rollback", "four")
        assert texts() == "four\n"
        lab.ask("reset")
        assert texts() == "four\n" + undone % " by a reset"
        assert session.ask("text", cell="c4", marks=True)["text"] == "[stdout]\nfour\n"


def test_events_of_a_try(lab):
    lines = [json.loads(line) for line in lab.run("x = 99", "--try", "--json").out.splitlines()]
    finished = [event for event in lines if event["type"] == "finished"][-1]
    assert finished["state"] == "rolled_back"
    rollback = lines[-1]
    assert rollback["type"] == "rollback" and rollback["reason"] == "try"
    assert rollback["rolled_back"] == [finished["cell"]] and rollback["cell"] == "c3"


def test_options_that_make_no_sense(house, folder):
    notebook = folder / "a.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), notebook)
    for words in (["--atomic", "--try", "-c", "1"], ["--files", "yes", "-c", "1"],
                  ["--try", "--files", "maybe", "-c", "1"], ["--try", str(notebook)]):
        result = house.cli("run", *words)
        assert result.status == USAGE, result


def test_atomic_notebook(house, folder):
    """A cell that fails stays in the person's file as it ended, whatever becomes of variables."""
    path = folder / "a.ipynb"
    cells = [nbformat.v4.new_code_cell(code) for code in ("x = 1", "x = 2; 1 / 0", "x")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    result = house.cli("run", "-s", "lab", "--atomic", str(path), "--inplace")
    try:
        assert result.status == CELL_FAILED and "rolled back" in result.err
        document = nbformat.read(path, as_version=4)
        assert len(document["cells"]) == 3
        assert document["cells"][1]["outputs"][0]["ename"] == "ZeroDivisionError"
        assert not any(marked(cell) for cell in document["cells"])
        done = house.cli("run", "-s", "lab", "-c", "print(x)")
        assert done.out == "1\n"
        # The run goes on where it failed.
        document["cells"][1]["source"] = "x += 10"
        nbformat.write(document, path)
        done = house.cli("run", "-s", "lab", str(path), "--inplace", "--from-cell", "2")
        assert done.status == 0 and "11" in done.out, done
    finally:
        house.cli("stop", "lab")
        house.cli("gc", "lab")


def test_from_cell_after_a_rollback(house, folder):
    path = folder / "a.ipynb"
    cells = [nbformat.v4.new_code_cell(code) for code in ("x = 1", "y = 2", "z = x")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    lab = Lab(house, "lab")
    try:
        assert house.cli("run", "-s", "lab", str(path), "--inplace").status == 0
        lab.ask("reset")
        result = house.cli("run", "-s", "lab", str(path), "--inplace", "--from-cell", "3")
        assert "2 cells before cell 3 have run, but were rolled back" in result.err, result
        assert "NameError" in result.err
    finally:
        house.cli("stop", "lab")
        house.cli("gc", "lab")


def test_pipe_passes_it_on(house):
    with house.pipe() as pipe:
        assert pipe.run("x = 1").status == "ok"
        tried = pipe.run("x = 2", **{"try": True})
        assert tried.finished["state"] == "rolled_back"
        assert pipe.run("x").result == "1"
        assert pipe.ask("rollback")["rolled_back"]


# ------------------------------------------------------------------------------------- notebooks

def test_notebook_leaves_them_out(lab, house):
    lab.run("print('gone')")
    lab.ask("rollback")
    lab.run("x = 99", "--try")
    lab.run("print(x)")
    assert list(lab.cells()) == ["c1", "c2", "c3", "c6"]
    assert lab.cells()["c6"]["execution_count"] == 4  # as in the interpreter that is there
    kept = lab.cells("--rolled-back", "keep")
    assert list(kept) == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert [name for name, cell in kept.items() if marked(cell)] == ["c4", "c5"]
    assert kept["c4"]["metadata"]["fumehood"] == {"rolled_back": {"by": "rollback"}}
    assert kept["c5"]["metadata"]["fumehood"] == {"rolled_back": {"by": "try"}}
    assert kept["c4"]["outputs"][0]["text"] == "gone\n"
    assert kept["c4"]["outputs"][1]["text"].startswith("[fumehood: rolled back")
    assert lab.ask("export", "--rolled-back", "drop", status=USAGE)
    with house.connect(house.find("lab")) as keeper:
        for fields, ids in (({}, 4), ({"rolled_back": "keep"}, 6), ({"rolled_back": "omit"}, 4)):
            assert len(keeper.ask("notebook", **fields)["notebook"]["cells"]) == ids
        keeper.ask("save")
    saved = nbformat.read(house.find("lab") / "notebook.ipynb", as_version=4)
    assert [cell["id"] for cell in saved["cells"]] == ["c1", "c2", "c3", "c6"]


def test_notebook_keeps_them_by_wish(house):
    lab = Lab(house, "lab")
    try:
        lab.run("x = 1", "--rolled-back", "keep")
        lab.run("x = 2")
        lab.ask("rollback")
        with house.connect(house.find("lab")) as keeper:
            keeper.ask("save")
        saved = nbformat.read(house.find("lab") / "notebook.ipynb", as_version=4)
        assert [marked(cell) for cell in saved["cells"]] == [False, True]
        assert [marked(cell) for cell in lab.cells().values()] == [False, True]
        assert list(lab.cells("--rolled-back", "omit")) == ["c1"]
    finally:
        house.cli("stop", "lab")
        house.cli("gc", "lab")


def test_notebook_of_a_session_that_is_opened_again(lab, house):
    lab.run("x = 4")
    lab.ask("rollback")
    before = lab.cells()
    house.cli("stop", "lab")
    lab.run("y = 1")
    after = lab.cells()
    assert list(before) == ["c1", "c2", "c3"] and list(after) == ["c1", "c2", "c3", "c5"]
    with house.connect(house.find("lab")) as keeper:
        ids = [cell["id"] for cell in keeper.ask("notebook")["notebook"]["cells"]]
    assert ids == list(after)


def test_a_cell_that_died_stays(lab):
    lab.run("print('before'); import os; os.kill(os.getpid(), 11)", status=CELL_FAILED)
    assert lab.x() == 3
    died = lab.cells()["c4"]
    assert died["outputs"][0]["text"] == "before\n" and died["outputs"][1]["ename"] == "Died"
    assert not marked(died)


# ------------------------------------------------------------------------------- fork --isolated

def test_isolated(lab, house):
    lab.run("import sys; print('out'); print('err', file=sys.stderr); object()")
    lab.run("x = 99")
    lab.ask("rollback")
    lab.run("x = 99; 1 / 0", "--atomic", status=CELL_FAILED)
    lab.run("import os; os._exit(1)", status=CELL_FAILED)
    lab.run("1 / 0", status=CELL_FAILED)
    result = lab.ask("fork", "branch", "--isolated")
    assert "5 cells were run again, 0 came out otherwise" in result.err, result
    assert house.find("branch").name == result.out.strip()
    assert list(lab.cells(name="branch")) == ["c1", "c2", "c3", "c4", "c8"]
    assert lab.x(name="branch") == 3
    lab.run("x = 5", name="branch")
    assert lab.x() == 3  # nothing is shared


def test_isolated_says_what_differs(lab):
    lab.run("import os, sys; print(os.urandom(8)); 'same'")
    lab.run("import random; random.random()")
    lab.run("import uuid; raise KeyError(uuid.uuid4().hex)", status=CELL_FAILED)
    lab.run("from IPython.display import Image, display\n"
            "import base64, zlib, struct\n"
            "def png(n):\n"
            "    def chunk(kind, data):\n"
            "        return (struct.pack('>I', len(data)) + kind + data +\n"
            "                struct.pack('>I', zlib.crc32(kind + data)))\n"
            "    return (b'\\x89PNG\\r\\n\\x1a\\n' +\n"
            "            chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)) +\n"
            "            chunk(b'IDAT', zlib.compress(bytes([0, n]))) + chunk(b'IEND', b''))\n"
            "display(Image(png(7)))")
    lab.run("display(Image(png(os.urandom(1)[0] // 3 + (os.getpid() % 2) * 128)))")
    answer = lab.told("fork", "branch", "--isolated", status=CELL_FAILED)
    differs = {cell["cell"]: cell["differs"] for cell in answer["cells"]}
    assert differs["c4"] == ["stdout"] and differs["c5"] == ["result"]
    assert differs["c6"] == ["error"] and differs["c7"] == []
    assert differs["c8"] in (["image"], [])  # one in a hundred times it is the same
    assert all(cell["status"] == cell["was"] for cell in answer["cells"])
    assert answer["differing"] == sum(1 for words in differs.values() if words)
    assert answer["name"] == "branch"


def test_isolated_files(lab, house):
    workspace = house.find("lab") / "workspace"
    (house.dir / "given.txt").write_text("given")
    assert house.cli("files", "lab", "put", str(house.dir / "given.txt")).status == 0
    lab.run("open('made.txt', 'x').write('made')")  # fails where the file is there
    lab.run("import os; os.makedirs('sub/deep'); open('sub/deep/b', 'wb').write(bytes(5000))")
    lab.run("open('given.txt', 'a').write('+'); os.symlink('given.txt', 'made')")
    (workspace / "link").symlink_to("given.txt")
    lab.run("open('pid.txt', 'w').write(os.urandom(9).hex())")
    answer = lab.told("fork", "branch", "--isolated")
    assert [cell["cell"] for cell in answer["cells"] if cell["differs"]] == []
    branch = house.find("branch") / "workspace"
    for name in ("given.txt", "made.txt", "sub/deep/b", "pid.txt"):
        assert (branch / name).read_bytes() == (workspace / name).read_bytes(), name
    differ = {item["path"]: item["change"] for item in answer["files"]["differ"]}
    assert differ == {"pid.txt": "changed", "given.txt": "changed"}
    assert (branch / "given.txt").read_text() == "given+" and (branch / "made").is_symlink()
    assert answer["files"]["skipped"] == [{"path": "link", "reason": "a symlink"}]
    house.cli("run", "-s", "branch", "-c", "open('made.txt', 'w').write('other')")
    assert (workspace / "made.txt").read_text() == "made"


def test_isolated_from_an_earlier_state(lab, house):
    lab.run("open('early.txt', 'w').write('1')")
    lab.ask("checkpoint", "mark")
    lab.run("x = 5; open('early.txt', 'a').write('2'); open('late.txt', 'w').write('3')")
    result = lab.ask("fork", "branch", "--isolated", "--from", "mark")
    assert "4 cells were run again" in result.err
    branch = house.find("branch") / "workspace"
    assert (branch / "early.txt").read_text() == "1" and not (branch / "late.txt").exists()
    house.cli("stop", "branch")
    house.cli("gc", "branch")
    lab.ask("fork", "branch", "--isolated", "--from", "c3")
    assert lab.x(name="branch") == 2
    house.cli("stop", "branch")
    house.cli("gc", "branch")
    for place in ("nosuch", "c99"):
        assert place in lab.ask("fork", "--isolated", "--from", place, status=FAULT).err
    lab.run("y = 1", "--try")
    assert "not in the state" in lab.ask("fork", "--isolated", "--from", "c6", status=FAULT).err


def test_isolated_of_a_session_that_has_stopped(lab, house):
    with house.connect(house.find("lab")) as keeper:
        keeper.ask("section", title="Part", level=2)
        keeper.ask("note", text="words")
        cell = keeper.start("import getpass; a = input('a? '); b = input(); a + b",
                            allow_stdin=True)
        for text in ("one", "two"):
            keeper.event("input_request")
            keeper.ask("input", text=text)
        assert keeper.finished(cell).status == "ok"
    house.cli("stop", "lab")
    result = lab.ask("fork", "branch", "--isolated")
    assert "4 cells were run again, 0 came out otherwise" in result.err
    cells = list(lab.cells(name="branch").values())
    assert [cell["source"] for cell in cells[3:5]] == ["## Part", "words"]
    assert not house.cli("variables", "lab").status == 0  # it was not started for it


def test_branch(lab, house):
    result = lab.ask("fork", "branch")
    assert house.find("branch").name == result.out.strip() and not result.err
    assert lab.x(name="branch") == 3
    lab.run("x = 50", name="branch")
    assert lab.x() == 3
    # A branch of a branch, without a box in common: the cells of both, once each.
    result = lab.ask("fork", "other", "--isolated", name="branch")
    try:
        assert "5 cells were run again, 0 came out otherwise" in result.err, result
        assert lab.x(name="other") == 50
        sources = [cell["source"] for cell in lab.cells(name="other").values()]
        assert sources == ["x = 1", "x = 2", "x = 3", "print(x)", "x = 50", "print(x)"]
        lab.ask("rollback", name="branch")
        assert lab.x(name="branch") == 3
    finally:
        house.cli("stop", "other")
        house.cli("gc", "other")
    assert "branch" in lab.ask("fork", "branch", status=FAULT).err  # the name is taken
    assert lab.x() == 3


def test_isolated_that_cannot_be(lab, house):
    lab.run("1", name="branch")
    before = set(house.session_ids())
    assert "branch" in lab.ask("fork", "branch", "--isolated", status=FAULT).err
    assert set(house.session_ids()) == before
