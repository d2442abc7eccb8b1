"""What cells do to the workspace, and what can be asked: `files`, `images`, `outputs`."""
import os
import shutil

import pytest

from fumehood_kit import Refused

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\n"


@pytest.fixture
def keeper(house):
    with house.keeper(house.session()) as keeper:
        yield keeper


@pytest.fixture
def shared(house, folder):
    """A keeper whose workspace is the folder of the test."""
    with house.keeper(house.session(workspace=folder)) as keeper:
        yield keeper


def files(cell):
    """{path: change} of a finished cell."""
    return {item["path"]: item["change"] for item in cell.finished["files"]}


def answer(reply):
    return {item["path"]: item["change"] for item in reply["files"]}


# ------------------------------------------------------------------------------------ in `finished`

def test_nothing(keeper):
    cell = keeper.run("x = 1")
    assert cell.finished["files"] == []
    assert "files_more" not in cell.finished and "files_incomplete" not in cell.finished


def test_created_changed_deleted(keeper):
    cell = keeper.run("open('a.csv', 'w').write('1,2\\n')")
    assert cell.finished["files"] == [
        {"path": "a.csv", "change": "created", "bytes": 4, "mime": "text/csv"}]
    assert files(keeper.run("open('a.csv', 'w').write('3,4\\n')")) == {"a.csv": "changed"}
    assert files(keeper.run("open('a.csv').read()")) == {}
    assert files(keeper.run("import os\nos.rename('a.csv', 'b.csv')")) == {
        "a.csv": "deleted", "b.csv": "created"}
    assert files(keeper.run("os.remove('b.csv')")) == {"b.csv": "deleted"}
    assert files(keeper.run("open('t', 'w').close()\nos.remove('t')")) == {}


def test_same_size_at_once(keeper):
    """Cells faster than the clock that stamps files."""
    for text in ("one", "two", "six", "ten"):
        cells = keeper.run("open('f', 'w').write(%r)" % text)
        assert files(cells) == {"f": "created" if text == "one" else "changed"}


def test_sub_folders(keeper):
    made = keeper.run("import os, shutil\nos.makedirs('out/deep/er')\n"
                      "open('out/deep/er/x.txt', 'w').write('x')\nos.mkdir('empty')")
    assert files(made) == {"out/deep/er/x.txt": "created"}
    changed = keeper.run("open('out/deep/er/x.txt', 'a').write('y')")
    assert files(changed) == {"out/deep/er/x.txt": "changed"}
    assert files(keeper.run("os.rename('out', 'in')")) == {
        "out/deep/er/x.txt": "deleted", "in/deep/er/x.txt": "created"}
    assert files(keeper.run("shutil.rmtree('in')")) == {"in/deep/er/x.txt": "deleted"}


def test_figures_with_capital_endings_in_sub_folders(keeper):
    cell = keeper.run(PLOT + "import os\nos.makedirs('out')\nplt.savefig('out/PLOT.PNG')\n"
                      "plt.savefig('out/p.svg')\nplt.savefig('out/noname', format='png')\n"
                      "plt.close()")
    assert {item["path"]: item["mime"] for item in cell.finished["files"]} == {
        "out/PLOT.PNG": "image/png", "out/p.svg": "image/svg+xml", "out/noname": "image/png"}


def test_noise_is_left_out(keeper):
    keeper.run("open('helper.py', 'w').write('n = 1')")
    cell = keeper.run("import sys, os\nsys.dont_write_bytecode = False\nimport helper\n"
                      "os.makedirs('.git/objects')\nopen('.git/HEAD', 'w').write('x')\n"
                      "os.mkdir('.ipynb_checkpoints')\n"
                      "open('.ipynb_checkpoints/n.ipynb', 'w').write('{}')")
    assert cell.status == "ok" and files(cell) == {}


def test_odd_names_and_kinds(keeper):
    cell = keeper.run("import os\nopen('line\\nbreak', 'w').write('x')\n"
                      "open(b'\\xff.txt', 'w').write('x')\nos.mkfifo('fifo')\n"
                      "os.symlink('/etc/passwd', 'link')")
    found = {item["path"]: item for item in cell.finished["files"]}
    assert set(found) == {"line\nbreak", "\ufffd.txt", "fifo", "link"}
    assert found["\ufffd.txt"]["path_base64"] == "/y50eHQ="
    assert found["\ufffd.txt"]["mime"] == "text/plain"
    assert found["fifo"]["mime"] == "inode/special" and found["link"]["mime"] == "inode/symlink"


def test_many(keeper):
    cell = keeper.run("for i in range(1000): open('f%d' % i, 'w').close()")
    assert len(cell.finished["files"]) == 200 and cell.finished["files_more"] == 800


def test_long_names_stay_in_the_line(keeper):
    cell = keeper.run("import os\npath = '/'.join(['x' * 250] * 10)\nos.makedirs(path)\n"
                      "for i in range(100): open('%s/%d' % (path, i), 'w').close()")
    listed = cell.finished["files"]
    assert 0 < len(listed) < 100 and len(listed) + cell.finished["files_more"] == 100


def test_cell_that_dies_or_times_out(keeper):
    cell = keeper.run("import os\nopen('a', 'w').write('x')\nos._exit(3)")
    assert cell.status == "died" and files(cell) == {"a": "created"}
    cell = keeper.run("import time\nopen('b', 'w').write('x')\ntime.sleep(60)", timeout=0.2)
    assert cell.status == "timeout" and files(cell) == {"b": "created"}
    cell = keeper.run("open('c', 'w').write('x')\n1/0")
    assert cell.status == "error" and files(cell) == {"c": "created"}
    assert files(keeper.run("open('c').read()")) == {}


def test_memory_map(keeper):
    keeper.run("import mmap, time\nf = open('m', 'wb+')\nf.truncate(100)\n"
               "m = mmap.mmap(f.fileno(), 100)")
    assert files(keeper.run("time.sleep(0.05)\nm[0] = 65")) == {"m": "changed"}


def test_between_cells(shared, folder):
    """An upload is not the next cell's work."""
    (folder / "upload.csv").write_text("1")
    cell = shared.run("open('mine', 'w').write('x')")
    assert {item["path"]: item.get("origin") for item in cell.finished["files"]} == {
        "upload.csv": "background", "mine": None}
    assert files(shared.run("1")) == {}


def test_what_was_there_before(house, folder):
    (folder / "data.csv").write_text("1")
    (folder / "sub").mkdir()
    (folder / "sub" / "old.png").write_bytes(b"x")
    with house.keeper(house.session(workspace=folder)) as keeper:
        assert files(keeper.run("open('data.csv').read()")) == {}
        changed = keeper.run("open('sub/old.png', 'ab').write(b'y')")
        assert files(changed) == {"sub/old.png": "changed"}


def test_large_workspace(house, folder):
    """More than a look takes: what lies on top is seen, and it says that there may be more."""
    for part in range(30):
        place = folder / ("d%d" % part)
        place.mkdir()
        for i in range(1000):
            (place / ("f%d" % i)).touch()
    with house.keeper(house.session(workspace=folder)) as keeper:
        cell = keeper.run("open('top', 'w').write('x')")
        assert files(cell) == {"top": "created"}
        assert cell.finished["files_incomplete"] in ("baseline", "entries", "time")
        cell = keeper.run("import time\ntime.sleep(1)\nopen('top', 'w').write('y')")
        cell = keeper.run("open('top', 'w').write('z')")
        assert files(cell) == {"top": "changed"} and cell.finished["files_incomplete"] == "entries"
    shutil.rmtree(folder)


def test_read_only_workspace(house, folder):
    (folder / "a").write_text("x")
    result = house.cli("run", "-w", "%s:ro" % folder, "--json", "-c", "open('a').read()")
    assert result.status == 0 and '"files":[]' in result.out, result


# ------------------------------------------------------------------------------------ `files`

def test_files_since(keeper):
    keeper.run("import os\nopen('a', 'w').write('x')\nopen('b', 'w').write('x')")
    first = keeper.ask("files")
    assert answer(first) == {"a": "created", "b": "created"}
    keeper.run("open('a', 'w').write('xy')\nos.remove('b')")
    keeper.run("open('c', 'w').write('x')", id="last")
    assert answer(keeper.ask("files", since=first["last_seq"])) == {
        "a": "changed", "b": "deleted", "c": "created"}
    net = keeper.ask("files")
    assert answer(net) == {"a": "created", "c": "created"}
    assert [item["cell"] for item in net["files"] if item["path"] == "c"] == ["last"]
    assert answer(keeper.ask("files", cell="last")) == {"c": "created"}
    assert answer(keeper.ask("files", since=keeper.ask("files")["last_seq"])) == {}


def test_files_after_the_last_cell(shared, folder):
    shared.run("1")
    (folder / "late").write_text("x")
    [item] = shared.ask("files")["files"]
    assert item["path"] == "late" and item["cell"] is None
    assert files(shared.run("1")) == {"late": "created"}, "and it is told once more, for the record"


def test_files_is_refused(keeper):
    with pytest.raises(Refused) as refused:
        keeper.ask("files", cell="none")
    assert refused.value.code == "not_found"
    with pytest.raises(Refused) as refused:
        keeper.ask("files", since=10 ** 6)
    assert refused.value.code == "invalid"
    cell = keeper.start("input()", allow_stdin=True)
    keeper.event("input_request")
    with pytest.raises(Refused) as refused:
        keeper.ask("files", cell=cell)
    assert refused.value.code == "busy"
    keeper.ask("input", eof=True)
    keeper.finished(cell)


# ------------------------------------------------------------------------------------ sections

def test_images(house):
    session = house.session()
    with house.keeper(session) as keeper:
        keeper.run(PLOT + "plt.show()", id="none")
        keeper.ask("section", title="eda")
        keeper.run(PLOT + "plt.show()\nplt.plot([1])\nplt.show()", id="e1")
        keeper.run(PLOT + "plt.savefig('saved.png')\nplt.close()\n"
                   "open('table.csv', 'w').write('1')", id="e2")
        seen = keeper.ask("images")
        shown = [(item["cell"], item.get("n"), item["path"], item["section"], item["place"])
                 for item in seen["images"]]
        assert shown == [("none", 1, "images/none-1.png", None, "session"),
                         ("e1", 1, "images/e1-1.png", "eda", "session"),
                         ("e1", 2, "images/e1-2.png", "eda", "session"),
                         ("e2", None, "saved.png", "eda", "workspace")]
        for item in seen["images"]:
            place = session if item["place"] == "session" else session / "workspace"
            assert item["mime"] == "image/png"
            assert (place / item["path"]).read_bytes()[:4] == b"\x89PNG"
            assert os.path.getsize(place / item["path"]) == item["bytes"]
        keeper.ask("section", title="ques1")
        keeper.run("import os\nos.remove('saved.png')\n" + PLOT + "plt.show()", id="q1")
        later = keeper.ask("images", since=seen["last_seq"])
        assert [(item["cell"], item["n"]) for item in later["images"]] == [("q1", 1)]
        eda = keeper.ask("images", section="eda")
        assert [item["path"] for item in eda["images"]] == [
            "images/e1-1.png", "images/e1-2.png"]
        assert keeper.ask("images", section="nothing")["images"] == []
    with house.keeper(session) as keeper:  # the same after a keeper's end
        eda = keeper.ask("images", section="eda")
        assert [item["cell"] for item in eda["images"]] == ["e1", "e1"]


def test_outputs(keeper):
    keeper.run("print('before')", id="a")
    keeper.ask("section", title="eda")
    keeper.run("print('one')", id="b")
    keeper.run("1/0", id="c")
    keeper.run("pass", id="d")
    keeper.ask("section", title="ques1")
    keeper.run("print('two' * 1000)", id="e")
    cells = keeper.ask("outputs", section="eda")["cells"]
    assert [cell["cell"] for cell in cells] == ["b", "c", "d"]
    for cell in cells:
        assert cell["text"] == keeper.ask("text", cell=cell["cell"])["text"]
    assert "ZeroDivisionError" in cells[1]["text"] and cells[2]["text"] == "(no output)"
    everything = keeper.ask("outputs", max_chars=100)["cells"]
    assert [cell["cell"] for cell in everything] == ["a", "b", "c", "d", "e"]
    assert all(len(cell["text"]) <= 100 for cell in everything)
    assert keeper.ask("outputs", section="none")["cells"] == []
