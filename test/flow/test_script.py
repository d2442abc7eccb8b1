"""fumehood run FILE.py: the script knows where it lies, what it was given, and who is beside it."""
import json

import pytest

from fumehood_kit import CELL_FAILED, USAGE, Refused

TELL = "import json, os, sys\nprint(json.dumps([__file__, __name__, sys.argv, sys.path[0]]))\n"


def tell(result):
    assert result.status == 0, result
    return json.loads(result.out.splitlines()[-1])


@pytest.fixture
def script(folder):
    """A script in a folder of the workspace, with a neighbour that it imports."""
    (folder / "lib").mkdir()
    (folder / "lib" / "near.py").write_text("def fail():\n    raise KeyError('near')\n")
    path = folder / "lib" / "tell.py"
    path.write_text(TELL + "import near\nassert os.path.samefile(near.__file__, "
                           "os.path.join(os.path.dirname(__file__), 'near.py'))\n")
    return path


def test_where_it_lies(house, script, folder):
    plain = ["/workspace/tell.py", "__main__", ["/workspace/tell.py"], "/workspace"]
    assert tell(house.cli("run", str(script))) == plain
    assert tell(house.cli("run", "tell.py", cwd=script.parent)) == plain
    below = "/workspace/lib/tell.py"
    assert tell(house.cli("run", "-w", ".", "lib/tell.py", cwd=folder)) == \
        [below, "__main__", [below], "/workspace/lib"]
    # Without a sandbox the workspace is the folder itself.
    real = str(script)
    assert tell(house.cli("run", "--tier", "none", real)) == \
        [real, "__main__", [real], str(script.parent)]


def test_a_link_has_its_own_place(house, script, folder):
    (folder / "link.py").symlink_to(script)
    (folder / "near.py").write_text("")
    assert tell(house.cli("run", str(folder / "link.py")))[0] == "/workspace/link.py"


def test_outside_of_the_workspace(house, script):
    """The session cannot see it, and is told its true path."""
    other = house.folder()
    script.write_text(TELL)
    real = str(script)
    assert tell(house.cli("run", "-w", str(other), real)) == \
        [real, "__main__", [real], str(script.parent)]


def test_arguments(house, script):
    path = "/workspace/tell.py"
    assert tell(house.cli("run", str(script), "--", "--fast", "a b", "--", "é", ""))[2] == \
        [path, "--fast", "a b", "--", "é", ""]
    # A file behind the only `--` is the file; what is behind it is the script's.
    assert tell(house.cli("run", "--", str(script), "x"))[2] == [path, "x"]
    code = "import sys; print(sys.argv)"
    assert house.cli("run", "-c", code, "--", "x").out == "['', 'x']\n"
    assert house.cli("run", "-", "--", "x", stdin=code).out == "['', 'x']\n"
    assert house.cli("run", "-c", code).out == "['']\n"
    for wrong in (("a.py", "b.py"), ("-c", "1", "a.py"), ("a.ipynb", "--", "x"), ("--",)):
        result = house.cli("run", *wrong)
        assert result.status == USAGE, (wrong, result)
    assert "--" in house.cli("run", "a.py", "b.py").err


def test_tracebacks_name_the_file(house, script):
    script.write_text("import near\n\ndef f():\n    near.fail()\n\nf()\n")
    result = house.cli("run", str(script))
    assert result.status == CELL_FAILED
    assert result.err == (
        'Traceback (most recent call last):\n  File "/workspace/tell.py", line 6, in <module>\n'
        '    f()\n  File "/workspace/tell.py", line 4, in f\n    near.fail()\n'
        '  File "/workspace/near.py", line 2, in fail\n    raise KeyError(\'near\')\n'
        "KeyError: 'near'\n")
    text = house.cli("run", "--text", str(script)).out
    assert '  File "/workspace/tell.py", line 4, in f\n      2 |\n      3 | def f():\n' \
        "    > 4 |     near.fail()\n" in text
    script.write_text("x = 1\ny = (\n")
    text = house.cli("run", "--text", str(script)).out
    assert 'File "/workspace/tell.py", line 2' in text and "SyntaxError" in text


def test_the_session_has_its_own_back(house, script, folder):
    """What a script was told is its own; names that it has made stay."""
    script.write_text(TELL + "import sys, near\nsys.path.append('/added')\ndef where():\n"
                             "    return 1 / 0\n")
    house.cli("run", "-s", "lab", "-w", str(folder), "-c",
              "import sys; before = sys.argv, sys.path[:]")
    result = house.cli("run", "-s", "lab", str(script), "--", "x")
    assert tell(result)[0] == "/workspace/lib/tell.py"
    again = "assert (sys.argv, sys.path) == (before[0], before[1] + ['/added']), sys.path\n" \
        "assert '__file__' not in globals()\nwhere()"
    result = house.cli("run", "-s", "lab", "-c", again)
    assert 'File "<cell 3>", line 3' in result.err, result
    assert 'File "/workspace/lib/tell.py", line 6, in where\n    return 1 / 0' in result.err


def test_what_a_script_sets_itself_stays(house, script, folder):
    script.write_text("import sys\nsys.argv = ['own']\nsys.path[:] = ['/own'] + sys.path\n"
                      "__file__ = 'own'\nimport near\nraise SystemExit(3)\n")
    assert house.cli("run", "-s", "own", "-w", str(folder), str(script)).status == CELL_FAILED
    look = "import sys; print(sys.argv, sys.path[:2], __file__)"
    assert house.cli("run", "-s", "own", "-c", look).out == "['own'] ['/own', ''] own\n"


def test_over_the_protocol(house, script, folder):
    with house.pipe("-w", str(folder)) as pipe:
        cell = pipe.run(script.read_text(), file="lib/tell.py", argv=["-x", "é"])
        assert json.loads(cell.out)[2] == ["/workspace/lib/tell.py", "-x", "é"]
        event, = [e for e in pipe.events if e["type"] == "cell"]
        assert (event["file"], event["argv"]) == ("/workspace/lib/tell.py", ["-x", "é"])
        assert event["code"] == script.read_text()
        for wrong in ({"file": ""}, {"file": 7}, {"file": "a\0b"}, {"argv": "x"}, {"argv": [1]}):
            with pytest.raises(Refused, match="invalid"):
                pipe.ask("run", code="1", **wrong)


def test_processes_of_a_script(house, script):
    """No guard round the main program is needed: it does not run again in the children."""
    script.write_text(
        "import concurrent.futures as cf, multiprocessing as mp\nprint('once')\n"
        "table = list(range(200_000))\ndef f(x):\n    return table[x] + 1\n"
        "for how in 'spawn', 'forkserver', 'fork':\n    context = mp.get_context(how)\n"
        "    with context.Pool(2) as pool:\n        print(how, pool.map(f, range(3), 1))\n"
        "    with cf.ProcessPoolExecutor(1, mp_context=context) as pool:\n"
        "        print(how, list(pool.map(f, range(3))))\n")
    result = house.cli("run", str(script))
    assert result.status == 0, result
    assert result.out == "once\n" + "".join(
        "%s [1, 2, 3]\n" % how * 2 for how in ("spawn", "forkserver", "fork"))
