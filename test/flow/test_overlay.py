"""Workspaces with `:overlay`: the directory as the session leaves it, and what is applied of it."""
import json
import os

import pytest

from fumehood_kit import FAULT


@pytest.fixture
def folder(folder):
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "gone.txt").write_text("x")
    (folder / "d").mkdir()
    (folder / "d/inner").write_text("1")
    (folder / "d/other").write_text("2")
    return folder


@pytest.fixture
def name(house):
    yield "aside"
    house.cli("stop", "aside")
    house.cli("gc", "aside")


WORK = """
import os, shutil
open('a.txt', 'a').write('three\\n')
os.remove('gone.txt')
open('new.txt', 'w').write('n')
shutil.rmtree('d'); os.mkdir('d'); open('d/fresh', 'w').write('f')
os.chmod('new.txt', 0o755)
"""


def run(house, name, folder, code, **more):
    ran = house.cli("run", "-s", name, "-w", "%s:overlay" % folder, "-c", code, **more)
    assert ran.status == 0, ran
    return ran


def files(house, name, *args, status=0):
    ran = house.cli("files", name, *args)
    assert ran.status == status, ran
    return ran


def text_of(data):
    return data if isinstance(data, str) else data.decode()


def changes(house, name, *args):
    return {item["path"]: item["change"] for item in map(
        json.loads, text_of(files(house, name, "diff", "--json", *args).out).splitlines())}


def tree(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink()}


def test_nothing_reaches_the_directory(house, name, folder):
    before = tree(folder)
    ran = run(house, name, folder, WORK + "print(sorted(os.listdir('/workspace')) == "
              "sorted(os.listdir('/mnt/data')), sorted(os.listdir('/')))")
    assert text_of(ran.out).startswith("True") and "layers" not in text_of(ran.out)
    assert tree(folder) == before
    expected = {"a.txt": "changed", "gone.txt": "removed", "new.txt": "added", "d/fresh": "added",
                "d/inner": "removed", "d/other": "removed"}
    assert changes(house, name) == expected
    assert changes(house, name, "d") == {path: how for path, how in expected.items()
                                         if path.startswith("d/")}
    # And when it has stopped.
    house.cli("stop", name)
    assert changes(house, name) == expected


def test_patch(house, name, folder):
    run(house, name, folder, WORK)
    patch = text_of(files(house, name, "diff", "--patch", "a.txt", "gone.txt").out)
    assert patch == ("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n one\n two\n+three\n"
                     "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
                     "\\ No newline at end of file\n")


def test_apply(house, name, folder):
    run(house, name, folder, WORK)
    files(house, name, "apply", "a.txt")
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n" and (folder / "gone.txt").exists()
    ran = files(house, name, "apply", "nothing", status=FAULT)
    assert "has not been changed" in text_of(ran.err)
    files(house, name, "apply")
    assert tree(folder) == {"a.txt": "one\ntwo\nthree\n", "new.txt": "n", "d/fresh": "f"}
    assert (folder / "new.txt").stat().st_mode & 0o7777 == 0o755
    assert (folder / "new.txt").stat().st_uid == folder.stat().st_uid
    assert changes(house, name) == {}
    # The session goes on, and sees what it saw.
    run(house, name, folder, "assert open('a.txt').read().endswith('three\\n'); "
        "open('a.txt', 'a').write('four\\n')")
    assert changes(house, name) == {"a.txt": "changed"}
    files(house, name, "apply")
    assert (folder / "a.txt").read_text().endswith("four\n")


def test_reopened(house, name, folder):
    run(house, name, folder, WORK)
    house.cli("stop", name)
    ran = run(house, name, folder,
              "import os; print(os.path.exists('new.txt'), os.path.exists('gone.txt'))")
    assert text_of(ran.out) == "True False\n"


def test_changed_meanwhile(house, name, folder):
    run(house, name, folder, WORK)
    (folder / "a.txt").write_text("theirs\n")
    ran = files(house, name, "apply", status=FAULT)
    assert "a.txt has been changed in the directory meanwhile" in text_of(ran.err)
    assert (folder / "gone.txt").exists(), "nothing at all is applied"
    files(house, name, "apply", "new.txt")
    assert (folder / "new.txt").exists()
    files(house, name, "apply", "--force")
    assert (folder / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_removed_meanwhile(house, name, folder):
    """What the session has changed and somebody else has removed is added again."""
    run(house, name, folder, "open('a.txt', 'a').write('more')")
    (folder / "a.txt").unlink()
    assert changes(house, name) == {"a.txt": "added"}


def test_a_folder_changed_meanwhile(house, name, folder):
    """It was removed with all that was in it: what somebody has added there since is not lost."""
    run(house, name, folder, "import shutil; shutil.rmtree('d')")
    (folder / "d/theirs").write_text("t")
    files(house, name, "apply", status=FAULT)
    assert (folder / "d/theirs").exists() and (folder / "d/inner").exists()


def test_discard(house, name, folder):
    run(house, name, folder, WORK)
    assert "stop" in text_of(files(house, name, "discard", status=FAULT).err)
    house.cli("stop", name)
    files(house, name, "discard")
    assert changes(house, name) == {}
    ran = run(house, name, folder, "print(open('gone.txt').read())")
    assert text_of(ran.out) == "x\n"


def test_games(house, name, folder):
    """Symlinks, devices and places that others run, in the layer that a session writes."""
    run(house, name, folder, """
import os
os.symlink('/etc/passwd', 'absolute')
os.symlink('../../..', 'up')
os.symlink('a.txt', 'fine')
os.mkfifo('fifo')
os.makedirs('.git/hooks'); open('.git/hooks/post-commit', 'w').write('x')
""")
    ran = files(house, name, "apply")
    for path in ("absolute", "up", "fifo", ".git/hooks/post-commit"):
        assert path in text_of(ran.err)
        assert not os.path.lexists(folder / path)
    assert os.readlink(folder / "fine") == "a.txt"
    files(house, name, "apply", ".git/hooks/post-commit")
    assert (folder / ".git/hooks/post-commit").read_text() == "x"


def test_through_the_mount(house, name, folder, tmp_path):
    """Files are put and got as the session sees them."""
    run(house, name, folder, WORK)
    files(house, name, "put", str(folder / "gone.txt"), "--to", "put/it")
    assert text_of(files(house, name, "get", "put/it", "-").out) == "x"
    assert text_of(files(house, name, "get", "a.txt", "-").out) == "one\ntwo\nthree\n"
    files(house, name, "get", "gone.txt", "-", status=FAULT)
    files(house, name, "rm", "new.txt")
    assert not (folder / "put").exists()
    ran = run(house, name, folder, "import os\nprint(open('put/it').read(), "
              "os.path.exists('new.txt'), os.stat('put/it').st_uid == os.getuid())")
    assert text_of(ran.out) == "x False True\n"


def test_a_cells_files(house, folder):
    session = house.session(workspace=folder)
    config = json.loads((session / "session.json").read_text())
    config["workspace"]["mode"] = "overlay"
    (session / "session.json").write_text(json.dumps(config))
    with house.keeper(session) as keeper:
        cell = keeper.run("open('a.txt', 'a').write('x'); open('b', 'w').close()")
        assert {item["path"]: item["change"] for item in cell.finished["files"]} == {
            "a.txt": "changed", "b": "created"}
        keeper.ask("restart")
        cell = keeper.run("import os; os.remove('b')")
        assert {item["path"]: item["change"] for item in cell.finished["files"]} == {"b": "deleted"}


def test_refusals(house, name, folder):
    ran = house.cli("run", "-w", "%s:overlay" % folder, "--tier", "none", "-c", "1")
    assert ran.status == FAULT and "tier full" in text_of(ran.err), ran
    assert house.cli("run", "-s", name, "-c", "1").status == 0
    assert "overlay" in text_of(files(house, name, "diff", status=FAULT).err)
