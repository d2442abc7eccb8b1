"""Bad input and bad luck: each has a stated outcome, and the session or the program says it.

What has no home elsewhere is here; kills, full disks and slow clients under load have files of
their own.
"""
import json
import os
import pathlib
import re
import subprocess

import nbformat
import pytest

import fumehood_kit
from fumehood_kit import CELL_FAILED, FAULT, USAGE, Refused

MIB = 1 << 20
NO_UTF8 = b"caf\xe9"  # "café" in Latin-1
ODD_NAMES = ["with space", "it's", 'a "quoted" one', "new\nline", "tab\tand\x1b[31m", "-c",
             "ünïcode ☃", "$HOME `id`", "back\\slash", os.fsdecode(NO_UTF8)]
ODD_IDS = ["space", "apostrophe", "quotes", "newline", "escape", "dash", "unicode", "shell",
           "backslash", "latin1"]


@pytest.fixture
def pipe(house, folder):
    """A `fumehood pipe` in an empty folder."""
    with house.pipe(cwd=folder) as pipe:
        yield pipe


def works(client):
    """The session still runs cells and remembers."""
    assert client.run("41 + 1").result == "42"


# ---------------------------------------------------------------------- no Python, or a bad one

def test_missing_python(house):
    result = house.cli("run", "-c", "1", env={"FUMEHOOD_PYTHON": "/nosuch/python"})
    assert result.status == FAULT and "/nosuch/python" in result.err, result


def test_python_that_is_not_on_the_path(house):
    result = house.cli("run", "--python", "nosuch-python", "-c", "1")
    assert result.status == FAULT and "nosuch-python" in result.err, result


@pytest.mark.parametrize("program", ["/bin/true", "/bin/cat", "/etc/passwd"])
def test_python_that_is_none(house, program):
    result = house.cli("run", "--python", program, "-c", "1")
    assert result.status == FAULT and program.rpartition("/")[2] in result.err, result


def test_python_goes_away(house, folder):
    """A session whose environment was removed says so when it is opened again."""
    make_venv(folder / "venv")
    assert house.cli("run", "-s", "gone", "--python", str(folder / "venv"), "-c", "1").status == 0
    assert house.cli("stop", "gone").status == 0
    house.cli("pool", "stop", str(folder / "venv"))
    (folder / "venv").rename(folder / "moved")
    result = house.cli("run", "-s", "gone", "-c", "1")
    assert result.status == FAULT and str(folder / "venv") in result.err, result
    (folder / "moved").rename(folder / "venv")
    assert house.cli("run", "-s", "gone", "-c", "1").status == 0, "and works when it is back"
    house.cli("stop", "gone")
    house.cli("pool", "stop", str(folder / "venv"))
    assert house.cli("gc", "gone").status == 0


def make_venv(path, **files):
    """A venv without pip, of Debian's Python; `files` are put into its site-packages."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", path], check=True)
    site = next(pathlib.Path(path).glob("lib/python3*/site-packages"))
    for name, text in files.items():
        (site / name.replace("__", ".")).write_text(text)
    return str(path)


def test_zygote_that_fails_shows_its_stderr(house, folder):
    python = make_venv(folder / "venv", boom__pth=(
        "import os, sys; print('no licence for today', file=sys.stderr, flush=True); "
        "os._exit(7)\n"))
    result = house.cli("run", "--python", python, "-c", "1")
    assert result.status == FAULT and "no licence for today" in result.err, result
    assert not house.new_sessions()


def test_broken_package_costs_only_itself(house, folder):
    """An environment whose numpy does not import, or prints, runs everything else."""
    python = make_venv(folder / "venv", numpy__py="raise RuntimeError('numpy is broken')\n",
                       pandas__py="print('hello from pandas')\n")
    result = house.cli("run", "--python", python, "-c", "1 + 1")
    assert (result.status, result.out) == (0, "2\n"), result
    result = house.cli("run", "--python", python, "-c", "import numpy")
    assert result.status == CELL_FAILED and "numpy is broken" in result.err, result
    house.cli("pool", "stop", python)


def test_environment_in_the_workspace_starts_cold(house, folder):
    """What a session may write is no zygote; it works all the same."""
    python = make_venv(folder / "venv")
    result = house.cli("run", "-w", str(folder), "--python", python, "-c", "import sys\nsys.prefix")
    assert (result.status, result.out) == (0, "'/workspace/venv'\n"), result


# ------------------------------------------------------------------------------------ folders

@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_workspace_that_cannot_be_mapped(house, folder):
    """Root's session has a uid of its own, and ramfs knows no mapping. What is said first is what
    can be mended, not why there is no weaker tier either."""
    if subprocess.run(["mount", "-t", "ramfs", "none", folder], capture_output=True).returncode:
        pytest.skip("mounting a ramfs is not permitted")
    try:
        for words in (("run", "-w", str(folder), "-c", "print(1)"),
                      ("sandbox", "run", "-w", str(folder), "--", "true")):
            done = house.cli(*words)
            assert done.status == FAULT and done.out == "", done
            assert "cannot be mapped" in done.err and str(folder) in done.err, done
            assert "tier degraded cannot contain root" in done.err
    finally:
        subprocess.run(["umount", folder], check=True)


def test_state_that_cannot_be_written(house):
    result = house.cli("run", "-c", "1", env={"XDG_STATE_HOME": "/proc/nosuch"})
    assert result.status == FAULT and "/proc/nosuch" in result.err, result


def test_runtime_folder_of_others(house, folder):
    (folder / "fumehood").mkdir()
    (folder / "fumehood").chmod(0o777)
    result = house.cli("run", "-c", "1", env={"XDG_RUNTIME_DIR": str(folder)})
    assert result.status == FAULT and str(folder) in result.err, result


def test_output_that_cannot_be_written_is_found_before_the_run(house, folder):
    for path in (str(folder), "nosuch/x.ipynb"):
        result = house.cli("run", "-c", "open('ran', 'w')", "-w", str(folder), "-o", path)
        assert result.status == FAULT and path.rpartition("/")[0] in result.err, result
    assert not (folder / "ran").exists()
    result = house.cli("run", "-c", "print('kept')", "-o", "/proc/x.ipynb")
    assert result.status == FAULT and "/proc" in result.err, result


def test_session_directory_that_is_damaged(house):
    """A session.json that is none is named, and does not hide the others."""
    broken = house.session("broken")
    (broken / "session.json").write_text("{\"format\": 1,")
    assert house.cli("run", "-s", "whole", "-c", "1").status == 0
    sessions = [json.loads(line) for line in house.cli("ls", "--json").out.splitlines()]
    assert {s["id"]: bool(s.get("damaged")) for s in sessions}[broken.name]
    result = house.cli("run", "-s", broken.name, "-c", "1")
    assert result.status == FAULT and "session.json" in result.err, result
    house.cli("stop", "whole")
    assert house.cli("gc", "whole", broken.name).status == 0


def test_damaged_line_of_a_journal(house):
    """It is reported by number, and everything else is still read."""
    assert house.cli("run", "-s", "hurt", "-c", "print('one')").status == 0
    assert house.cli("run", "-s", "hurt", "-c", "print('two')").status == 0
    house.cli("stop", "hurt")
    journal = house.find("hurt") / "journal.ndjson"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[3] = b"\x00" * len(lines[3][:-1]) + b"\n"
    journal.write_bytes(b"".join(lines))
    result = house.cli("log", "hurt", "--json")
    assert result.status == FAULT and "line 4 " in result.err, result
    assert len(result.out.splitlines()) == len(lines) - 1
    assert house.cli("export", "hurt").status == FAULT and house.cli("text", "hurt").out == "two\n"
    assert house.cli("run", "-s", "hurt", "-c", "print('three')").out == "three\n"
    house.cli("stop", "hurt")
    assert house.cli("gc", "hurt").status == 0


# ------------------------------------------------------------------------------ names and paths

@pytest.mark.parametrize("name", ODD_NAMES, ids=ODD_IDS)
def test_odd_session_names(house, name):
    """Accepted whole or refused with a reason; never raw on a terminal."""
    words = ["run", "--session=" + name, "-c", "6 * 7"]
    result = house.cli(*words)
    if result.status != 0:
        assert result.status in (USAGE, FAULT) and result.out == "" and result.err, result
        assert not house.new_sessions()
        assert any(ord(c) < 32 for c in name) or name == os.fsdecode(NO_UTF8) or name == "-c", name
        return
    assert result.out == "42\n"
    assert house.find(name)
    assert all("\x1b" not in line for line in house.cli("ls").out.splitlines())
    assert house.cli("stop", "--", name).status == 0
    assert house.cli("gc", "--", name).status == 0


def test_a_name_wider_than_its_column(house):
    assert house.cli("run", "--session=" + "n" * 128, "-c", "1").status == 0
    assert re.search("n{128} (running|stopped)", house.cli("ls").out)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".", "/etc", "x" * 300])
def test_names_that_are_paths(house, name):
    result = house.cli("run", "--session=" + name, "-c", "1")
    assert result.status in (USAGE, FAULT) and result.err, result
    assert not house.new_sessions()


@pytest.mark.parametrize("name", ODD_NAMES, ids=ODD_IDS)
def test_odd_paths(house, folder, name):
    """A folder, a script, a notebook and an output of such a name."""
    place = folder / name
    place.mkdir()
    (place / (name + ".py")).write_text("open('made', 'w').write('x')\nprint('ran')")
    result = house.cli("run", "-o", "%s/%s.ipynb" % (place, name), "%s/%s.py" % (place, name))
    assert (result.status, result.out) == (0, "ran\n"), result
    assert (place / "made").read_text() == "x"
    nbformat.validate(nbformat.read(place / (name + ".ipynb"), as_version=4))
    result = house.cli("run", "-w", str(place), "%s/%s.ipynb" % (place, name))
    assert (result.status, result.out) == (0, "ran\n"), result


def test_file_names_of_the_guest_are_escaped(house, folder):
    """An image's line on a terminal, a workspace in a list: shown, not obeyed."""
    place = folder / "a\x1b[2J\nb"
    place.mkdir()
    assert house.cli("run", "-s", "odd", "-w", str(place), "-c", "1").status == 0
    listed = house.cli("ls").out
    assert "\x1b" not in listed and len(listed.splitlines()) == 1 + len(house.session_ids())
    house.cli("stop", "odd")
    assert house.cli("gc", "odd").status == 0


# --------------------------------------------------------------------------------- files to run

def notebook_text(**changes):
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
        {"cell_type": "code", "id": "a", "metadata": {}, "source": "print('ran')", "outputs": [],
         "execution_count": None}]}
    whole.update(changes)
    return json.dumps(whole)


VERSION_2 = json.dumps({"nbformat": 2, "metadata": {}, "worksheets": [
    {"cells": [{"cell_type": "code", "input": "print(1)", "language": "python", "outputs": []}]}]})


@pytest.mark.parametrize("text, reason", [
    ("{\"cells\": [", "line 1, column"), (notebook_text()[:-30], "line 1, column"), ("", "JSON"),
    ("[]", "notebook|object"), ("3", "notebook|object"), ("<html>", "JSON"),
    (VERSION_2, "nbconvert|convert"), ("null", "object"), (notebook_text(nbformat=5), "version 5"),
    (notebook_text(cells={}), "cells"), (notebook_text(cells=[3]), "cell 1"),
    (notebook_text(cells=[{"cell_type": "code", "source": 5}]), "cell 1"),
    ("{\"a\":" * 5000 + "1" + "}" * 5000, "deep|level"),
    (notebook_text().replace("ran", "\x00"), "control character"),
], ids=["open", "cut", "empty", "array", "number", "html", "version2", "null", "version5", "cells",
        "cell",
        "source", "deep", "control"])
def test_notebook_that_is_none(house, folder, text, reason):
    (folder / "n.ipynb").write_text(text)
    result = house.cli("run", "n.ipynb", cwd=folder)
    assert result.status == FAULT and "n.ipynb" in result.err and result.out == "", result
    assert re.search(reason, result.err), result


def test_notebook_in_another_encoding(house, folder):
    (folder / "n.ipynb").write_bytes(notebook_text().encode().replace(b"ran", NO_UTF8))
    result = house.cli("run", "n.ipynb", cwd=folder)
    assert result.status == FAULT and "UTF-8" in result.err, result


def test_notebook_of_200_mb(house, folder):
    """Old outputs may be large: they are not kept, and the cells are run."""
    cell = json.loads(notebook_text())["cells"][0]
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * (200 * MIB)}]
    (folder / "n.ipynb").write_text(notebook_text(cells=[cell]))
    result = house.cli("run", "n.ipynb", "-o", "done.ipynb", cwd=folder)
    assert result.status == 0, result
    assert (folder / "done.ipynb").stat().st_size < 10000


def test_notebook_that_is_too_large(house, folder):
    with open(folder / "n.ipynb", "wb") as file:
        file.truncate(600 * MIB)
    result = house.cli("run", "n.ipynb", cwd=folder)
    assert result.status == FAULT and "larger than" in result.err, result
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "x" * (70 * MIB)}
    (folder / "n.ipynb").write_text(notebook_text(cells=[cell]))
    result = house.cli("run", "n.ipynb", cwd=folder)
    assert result.status == FAULT and len(result.err) < 500, result


@pytest.mark.parametrize("name", ["f.py", "f.ipynb"])
def test_file_that_is_none(house, folder, name):
    """A folder, a pipe that nobody writes to, a device: refused at once."""
    (folder / name).mkdir()
    assert house.cli("run", name, cwd=folder).status == FAULT
    (folder / name).rmdir()
    os.mkfifo(folder / name)
    assert house.cli("run", name, cwd=folder).status == FAULT
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert house.cli("run", name, cwd=folder).status == FAULT


@pytest.mark.parametrize("code, out", [
    (b"\xef\xbb\xbfprint('bom')\n", "bom\n"),
    (b"if True:\n\tprint('tab')\n", "tab\n"),
    (b"print('one')\r\nprint('two')\r\n", "one\ntwo\n"),
    (b"print('''a\r\nb''')\r\n", "a\nb\n"),
    (b"x = '" + b"y" * MIB + b"'\nprint(len(x))\n", "1048576\n"),
    (b"#" + b"c" * (15 * MIB) + b"\nprint('end')", "end\n"),
    (b"print('a\\x00b')", "a\0b\n"),
    ("print('☃')".encode(), "☃\n"),
    (b"", ""),
], ids=["bom", "tabs", "crlf", "crlf-string", "long-line", "15-mb", "nul-escape", "snowman",
        "empty"])
def test_odd_code(house, folder, code, out):
    (folder / "f.py").write_bytes(code)
    result = house.cli("run", "f.py", cwd=folder)
    assert (result.status, result.out) == (0, out), repr(result)


@pytest.mark.parametrize("code, status, reason", [
    (b"print('a\x00b')", CELL_FAILED, "null"),
    (b"x = 1\ny = '" + NO_UTF8 + b"'", FAULT, "line 2"),
    (b"#" * (17 * MIB), FAULT, "16"),
    (b"if True:\n        x = 1\n\ty = 1\n", CELL_FAILED, "TabError|inconsistent"),
    (b"x = \xef\xbb\xbf1", CELL_FAILED, "U\\+FEFF"),
    (b"(" * 300, CELL_FAILED, "SyntaxError"),
    (b"-" * 200000 + b"1", CELL_FAILED, "Error"),
], ids=["nul", "latin1", "17-mb", "mixed-tabs", "bom-inside", "parentheses", "minus"])
def test_bad_code(house, folder, code, status, reason):
    (folder / "f.py").write_bytes(code)
    result = house.cli("run", "f.py", cwd=folder)
    assert result.status == status and re.search(reason, result.err), repr(result)


# ------------------------------------------------------------------------------------ requests

def test_lone_surrogates(pipe):
    """In JSON they can be written, in text they are none: U+FFFD."""
    pipe.write(b'{"op":"run","id":"s","code":"print(\'a\\ud800b\', len(\'\\udfff\'))"}\n')
    assert pipe.finished("s").out == "a\ufffdb 1\n"
    assert pipe.run("print('\\ud800')").out == "\ufffd\n" or pipe.events[-1]["status"] == "error"
    works(pipe)


@pytest.mark.parametrize("line, code", [
    (b"", "invalid"), (b"x", "invalid"), (b"[]", "invalid"), (b"null", "invalid"),
    (b"{}", "invalid"),
    (b'{"op":"nosuch"}', "invalid|unsupported"), (b'{"op":3}', "invalid"),
    (b'{"op":"run"}', "invalid"), (b'{"op":"run","code":3}', "invalid"),
    (b'{"op":"run","code":"1","id":"a b"}', "invalid"),
    (b'{"op":"run","code":"1","id":""}', "invalid"),
    (b'{"op":"run","code":"1","id":"%s"}' % (b"x" * 65), "invalid"),
    (b'{"op":"run","code":"1","timeout":0}', "invalid"),
    (b'{"op":"run","code":"1","timeout":-1}', "invalid"),
    (b'{"op":"run","code":"1","timeout":"1"}', "invalid"),
    (b'{"op":"run","code":"1","code":"2"}', "invalid"), (b'{"op":"run","code":"\xff"}', "invalid"),
    (b'{"op":"run","code":"1"}x', "invalid"), (b'{"op":"run","code":"a\tb"}', "invalid"),
    (b'{"op":"run","code":"1","metadata":[]}', "invalid"),
    (b'{"op":"text","cell":"nosuch"}', "not_found"), (b'{"op":"text"}', "invalid"),
    (b'{"op":"input","text":"x"}', "not_found"), (b'{"op":"input"}', "invalid"),
    (b'{"op":"blob","sha256":"../../etc/passwd"}', "invalid"),
    (b'{"op":"blob","sha256":"%s"}' % (b"0" * 64), "not_found"),
    (b'{"op":"section","title":"x","level":7}', "invalid"),
    (b'{"op":"note","text":"x","cell_type":"nosuch"}', "invalid"),
    (b'{"op":"stop","mode":"nosuch"}', "invalid"), (b'{"op":"events","since":-1}', "invalid"),
    (b'{"op":"status","x":' + b"[" * 100 + b"]" * 100 + b"}", "limit|invalid"),
    (b'{"op":"run","code":"%s"}' % (b"#" * (17 * MIB)), "limit"),
    (b'{"op":"status","x":"%s"}' % (b"y" * (65 * MIB)), "limit"),
], ids=lambda value: value.decode("latin1")[:40] if isinstance(value, bytes) else "")
def test_bad_requests(pipe, line, code):
    """Refused at once; the connection and the session go on."""
    if line == b"":
        line = b" "
    pipe.write(line + b"\n")
    answer = pipe.next(lambda m: m["type"] == "refused", "the refusal")
    assert answer["code"] in code.split("|") and 0 < len(answer["message"]) < 400, answer
    works(pipe)


def test_two_runs_with_one_id(pipe):
    assert pipe.run("x = 1", id="same").status == "ok"
    with pytest.raises(Refused) as refused:
        pipe.start("x = 2", id="same")
    assert refused.value.code == "duplicate"
    assert pipe.run("x").result == "1"


def test_queue_is_bounded(pipe):
    first = pipe.start("import time\ntime.sleep(60)")
    for _ in range(64):
        pipe.start("1")
    with pytest.raises(Refused) as refused:
        pipe.start("2")
    assert refused.value.code == "busy"
    pipe.ask("interrupt")
    assert pipe.finished(first).status == "interrupted"
    works(pipe)


def test_queued_cells_are_cancelled_by_a_stop(house):
    session = house.session()
    keeper = house.keeper(session)
    running = keeper.start("import time\nprint('on')\ntime.sleep(60)")
    queued = keeper.start("1")
    keeper.wait_text("on\n", running)
    keeper.send("stop")
    while keeper.line() is not None:
        pass
    ends = {event["cell"]: event["status"] for event in keeper.events
            if event["type"] == "finished"}
    keeper.close()
    assert ends == {running: "died", queued: "cancelled"} and keeper.events[-1]["type"] == "stopped"


# ----------------------------------------------------------------- the cell and its descriptors

def test_cell_closes_stdout(pipe):
    cell = pipe.run("import os\nprint('before', flush=True)\nos.close(1)\nos.close(2)")
    assert cell.status == "ok" and cell.out == "before\n"
    assert pipe.run("print('after')").out == "after\n"
    assert pipe.run("import os\nos.system('echo child')").out == "child\n"


def test_cell_replaces_stdout(pipe):
    """A stand-in is the program's wish and stays; the real one is not lost."""
    cell = pipe.run("import sys, io\nsys.stdout = io.StringIO()\nprint('hidden')\n5")
    assert cell.status == "ok" and cell.out == "" and cell.result == "5"
    cell = pipe.run("text = sys.stdout.getvalue()\nsys.stdout = sys.__stdout__\nprint(repr(text))")
    assert cell.out == "'hidden\\n'\n", cell
    works(pipe)


def test_cell_closes_the_stdout_object(pipe):
    pipe.run("import sys\nsys.stdout.close()")
    assert pipe.run("print('after')").out == "after\n"


def test_cell_redirects_descriptors(pipe, folder):
    code = "import os\nfd = os.open('file', os.O_WRONLY | os.O_CREAT)\nos.dup2(fd, 1)\n" \
           "print('into the file', flush=True)"
    assert pipe.run(code).out == ""
    assert (folder / "file").read_text() == "into the file\n"
    assert pipe.run("print('after')").out == "after\n"
    assert pipe.run("os.dup2(2, 1)\nprint('x', flush=True)").status == "ok"
    assert pipe.run("print('again')").out == "again\n"


def test_cell_forks_and_returns(pipe):
    """The copy that falls out of the cell ends; nobody hears it, and it runs no other cell."""
    cell = pipe.run("import os\npid = os.fork()\nprint('parent' if pid else 'child', flush=True)\n"
                    "pid > 0")
    assert cell.status == "ok" and cell.result == "True"
    assert sorted(cell.out.split()) in (["parent"], ["child", "parent"])
    assert pipe.run("os.waitpid(pid, 0)[1]").result == "0"
    works(pipe)
    assert len([e for e in pipe.events if e["type"] == "finished"]) == 3


def test_fork_in_a_thread(pipe):
    cell = pipe.run("import os, threading\ndef f():\n    if os.fork() == 0:\n"
                    "        raise ValueError\nt = threading.Thread(target=f)\nt.start()\nt.join()")
    assert cell.status == "ok"
    works(pipe)


def test_threads_print_for_their_cell(pipe):
    code = "import threading\ngo = threading.Event()\n" \
           "def late():\n    go.wait()\n    print('late')\n    done.set()\n" \
           "done = threading.Event()\nthreading.Thread(target=late).start()"
    first = pipe.run(code, id="first")
    assert first.status == "ok" and first.out == ""
    pipe.run("go.set()\ndone.wait()\nprint('second')", id="second")
    pipe.wait_text("late\n", cell="first")
    assert "late" not in pipe.text_of("second")


def test_cell_prints_a_gigabyte(house):
    """Its head is kept, the rest counted; the keeper does not grow, and the session lives."""
    session = house.session()
    with house.keeper(session, since=None) as keeper:
        cell = keeper.ask("run", id="big", code="import sys\nblock = 'x' * 1048575 + '\\n'\n"
                          "for i in range(1024):\n    n = sys.stdout.write(block)\n1 / 0")["cell"]
        while keeper.ask("status")["state"] != "idle":
            pass
        grown = fumehood_kit.memory_peak(keeper.pid)
        keeper.ask("events")
        keeper.event("finished", cell=cell)
        kept = sum(len(e["text"]) for e in keeper.events if e["type"] == "stream")
        dropped = sum(e["bytes_dropped"] for e in keeper.events if e["type"] == "truncated")
        assert 60 * MIB <= kept <= 65 * MIB and kept + dropped == 1024 * MIB
        assert keeper.events[-1]["status"] == "error"
        assert [e["ename"] for e in keeper.events if e["type"] == "error"] == ["ZeroDivisionError"]
        assert grown < 400 * MIB, "the keeper had %d bytes" % grown
    journal = (session / "journal.ndjson").stat().st_size
    assert journal < 100 * MIB


def test_background_child_holds_the_pipe(pipe):
    """The cell ends when it ends; the child prints on, and ends with the session."""
    cell = pipe.run("import subprocess\n"
                    "p = subprocess.Popen('read x; echo late; sleep 1000', shell=True,\n"
                    "                     stdin=subprocess.PIPE)\nprint('now')", id="first")
    assert cell.status == "ok" and cell.out == "now\n"
    pipe.run("n = p.stdin.write(b'x\\n')\np.stdin.flush()", id="second")
    pipe.wait_text("late\n")
    works(pipe)


def test_background_child_floods(pipe):
    """It costs its own limit, not the session."""
    pipe.run("import subprocess\np = subprocess.Popen(['yes'])")
    for _ in range(3):
        works(pipe)
    pipe.run("p.kill()\np.wait()")


# --------------------------------------------------------------------------- the control socket

HEADER = "import os, struct, array, socket\n" \
         "def send(kind, cell, body=b'', flags=0, reserved=0):\n" \
         "    return os.write(3, struct.pack('=BBHI', ord(kind), flags, reserved, cell) + body)\n" \
         "def pass_fds(fds):\n" \
         "    rights = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds)\n" \
         "    with socket.socket(fileno=os.dup(3)) as s:\n" \
         "        s.sendmsg([struct.pack('=BBHI', ord('d'), 1, 0, 2)], [rights])\n"
GARBAGE = {
    "text": "os.write(3, b'garbage')",
    "short": "for n in range(1, 9): os.write(3, b'x' * n)",
    "every type": "for kind in range(256): send(chr(kind), 2, b'{}')",
    "no cell": "for kind in 'durcxItD': send(kind, 0, b'{}')",
    "far cell": "for kind in 'durcxItD': send(kind, 0xffffffff, b'{}')",
    "no JSON": "for kind in 'durxD':\n    for body in (b'{', b'[]'): send(kind, 2, body)",
    "deep": "send('d', 2, b'{\"a\":' * 9000 + b'1' + b'}' * 9000)",
    "bad UTF-8": "for kind in 'durx': send(kind, 2, b'{\"data\":{\"text/plain\":\"\\xff\"}}')\n"
                 "send('t', 2, b'\\xff\\xfe')",
    "ill-typed": "for body in (b'{\"data\":3}', b'{\"data\":{\"text/plain\":3}}',\n"
                 "             b'{\"data\":null}', b'{\"metadata\":[]}', b'{\"display_id\":{}}',\n"
                 "             b'{\"ename\":1,\"traceback\":3}'):\n"
                 "    for kind in 'durx': send(kind, 2, body)",
    "no memfd": "for kind in 'durxtID': send(kind, 2, b'{}', flags=1)",
    "flags": "for flags in range(256): send('d', 2, b'{}', flags)",
    "hello again": "send('H', 0, b'{\"protocol\":1}')\nsend('H', 2, b'{\"protocol\":99}')",
    "descriptors": "pass_fds([os.open('/dev/null', 0)] * 20)",
    "open memfd": "fd = os.memfd_create('x')\nos.truncate(fd, 1 << 27)\npass_fds([fd])",
    "flood": "for i in range(20000): send('w', 2)\nfor i in range(2000): os.write(3, b'')",
    "blob": "send('d', 2, b'{\"data\":{\"text/plain\":{\"$blob\":\"' + b'0' * 64 + b'\"}}}')",
}


@pytest.mark.parametrize("code", GARBAGE.values(), ids=GARBAGE)
def test_garbage_on_the_control_socket(pipe, code):
    """Ignored, whatever it is; the cell ends as cells do, or as died, and the session goes on."""
    pipe.run(HEADER)
    cell = pipe.run(code + "\nprint('end')")
    assert cell.status in ("ok", "error") and "end\n" in cell.out or cell.status == "died", cell
    assert all(isinstance(event.get("text", ""), str) for event in cell.events)
    works(pipe)
    ends = [event["cell"] for event in pipe.events if event["type"] == "finished"]
    assert len(ends) == len(set(ends)) == 3
    nbformat.validate(nbformat.from_dict(pipe.ask("notebook")["notebook"]))


def test_guest_that_says_it_is_done(pipe):
    """It ends its own cell early and nothing else: the next one runs when it can."""
    pipe.run(HEADER)
    cell = pipe.run("send('D', 2, b'{\"status\":\"ok\",\"execution_count\":2}')\nx = 7\n"
                    "print('after')")
    assert cell.status == "ok"
    cell = pipe.run("x")
    assert cell.status in ("ok", "error", "died")
    works(pipe)


def test_prompt_that_is_forged(pipe):
    """Nobody can be asked for a cell that has no one to answer; a late prompt is nothing."""
    pipe.run(HEADER)
    pipe.run("send('I', 1, b'Your password? ', flags=8)\nsend('I', 2, b'Your password? ', flags=8)")
    assert pipe.events[-1]["type"] == "finished"
    works(pipe)


def test_cell_closes_the_control_socket(pipe):
    """An interpreter that cannot be spoken to is replaced, and that is said."""
    cell = pipe.run("import os\nos.close(3)\nprint('x')")
    assert cell.status == "died" and cell.finished["state"] == "reset", cell
    assert cell.finished["reason"]
    works(pipe)


# ------------------------------------------------------------------ a client that stops reading

def test_client_that_stops_reading(house):
    """It costs no one anything, and loses nothing when it reads on."""
    session = house.session()
    with house.keeper(session) as worker:
        idle = house.connect(session)
        cell = worker.run("for i in range(20000): print('x' * 1000)")
        assert cell.status == "ok" and len(cell.out) == 20000 * 1001
        assert fumehood_kit.memory_peak(worker.pid) < 200 * MIB
        late = idle.finished(cell.id)
        assert late.out == cell.out
        assert [e["seq"] for e in idle.events] == list(range(1, len(idle.events) + 1))
        idle.close()
        works(worker)


def test_lossy_client_gets_a_gap(house):
    session = house.session()
    with house.keeper(session) as worker:
        idle = house.connect(session, since=None)
        idle.ask("events", since=0, follow=True, lossy=True)
        cell = worker.run("for i in range(20000): print('x' * 1000)")
        gaps, seen = [], 0
        while True:
            message = idle.line()
            if message["type"] == "gap":
                gaps.append((message["from"], message["to"]))
                assert message["from"] == seen + 1
                seen = message["to"]
            elif "seq" in message:
                assert message["seq"] == seen + 1
                seen = message["seq"]
                if message["type"] == "finished" or seen >= cell.finished["seq"]:
                    break
            if seen >= cell.finished["seq"]:
                break
        assert gaps
        idle.close()


def test_client_that_vanishes_in_a_request(house):
    session = house.session()
    with house.keeper(session) as worker:
        for part in (b"", b"{", b'{"op":"run","code":"', b'{"op":"status"}\n' * 1000):
            other = house.connect(session, since=None)
            other.write(part)
            other.close()
        works(worker)
