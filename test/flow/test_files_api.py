"""The files of a workspace, reached from outside: the ops, `fumehood files`, archives, and what is
protected from being written for others to run.
"""
import base64
import io
import json
import os
import pathlib
import stat
import zipfile

import pytest

from fumehood_kit import FAULT, USAGE, Refused

HELD = ".held-by-fumehood"
NAMES = [b"-rf", b"new\nline", b"quote\"'`$(x)", "rtl\u202egpj.exe".encode(), b"bad\xff\xfe",
         b"n" * 255, b" blank ", "\u00fcml".encode()]


@pytest.fixture
def keeper(house):
    with house.keeper(house.session()) as keeper:
        yield keeper


@pytest.fixture
def project(house, folder):
    """A keeper in a person's own folder."""
    with house.keeper(house.session(workspace=folder)) as keeper:
        yield keeper


def coded(data):
    return base64.b64encode(data).decode()


def put(keeper, path, data, **more):
    return keeper.ask("write_file", path=path, upload="up", data=coded(data), done=True, **more)


def read(keeper, path):
    return base64.b64decode(keeper.ask("read_file", path=path)["data"])


def bytes_of(entry):
    return (base64.b64decode(entry["name_base64"]) if "name_base64" in entry
            else entry["name"].encode())


def refused(code, keeper, op, **fields):
    with pytest.raises(Refused) as caught:
        keeper.ask(op, **fields)
    assert caught.value.code == code, caught.value
    return caught.value.message


# --------------------------------------------------------------------------------------- the ops

def test_to_and_fro(keeper):
    assert put(keeper, "in/deep/a.bin", b"\0\1\2", mode=0o6755)["bytes"] == 3
    assert keeper.run("open('in/deep/a.bin', 'rb').read()").result == r"b'\x00\x01\x02'"
    keeper.run("open('out.txt', 'w').write('hello')")
    answer = keeper.ask("read_file", path="out.txt", offset=1, length=3)
    assert base64.b64decode(answer["data"]) == b"ell"
    assert (answer["offset"], answer["total"]) == (1, 5)
    # The session owns what was put there, and it is neither setuid nor setgid.
    cell = keeper.run("import os; s = os.stat('in/deep/a.bin'); s.st_mode, s.st_uid == os.getuid()")
    assert cell.result == "(%d, True)" % 0o100755
    cell = keeper.run("open('in/deep/a.bin', 'ab').write(b'x'); os.remove('in/deep/a.bin')")
    assert cell.error is None
    keeper.ask("make_folder", path="x/y")
    keeper.ask("remove_file", path="out.txt")
    assert "whole" in refused("denied", keeper, "remove_file", path="x")
    keeper.ask("remove_file", path="x", whole=True)
    assert [entry["name"] for entry in keeper.ask("list_files")["entries"]] == ["in"]


def test_parts(keeper):
    part = os.urandom(1 << 20)
    keeper.ask("write_file", path="big", upload="u1", data=coded(part))
    # Nobody sees it before it is whole.
    assert keeper.run("import os; os.path.exists('big')").result == "False"
    assert keeper.ask("list_files")["entries"] == []
    refused("invalid", keeper, "write_file", path="big", upload="u1", data=coded(b"x"), offset=5)
    keeper.ask("write_file", path="big", upload="u1", data=coded(b"end"), offset=1 << 20, done=True)
    assert keeper.run("os.path.getsize('big')").result == str((1 << 20) + 3)
    assert base64.b64decode(keeper.ask("read_file", path="big", offset=1 << 20)["data"]) == b"end"
    refused("limit", keeper, "read_file", path="big", length=(1 << 20) + 1)
    refused("limit", keeper, "write_file", path="b", upload="u2", data=coded(bytes((1 << 20) + 1)))
    refused("not_found", keeper, "write_file", path="none", upload="u3", data="", offset=7)


def test_lists_in_parts(keeper):
    keeper.run("for i in range(25): open('f%02d' % i, 'w').close()")
    names, after = [], None
    while True:
        answer = keeper.ask("list_files", max=10, **({"after": after} if after else {}))
        names += [entry["name"] for entry in answer["entries"]]
        after = names[-1]
        if "more" not in answer:
            break
    assert names == ["f%02d" % i for i in range(25)]
    refused("limit", keeper, "list_files", max=100000)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a//b", "./a", "a/",
                                  "x" * 300])
def test_paths(keeper, path):
    for op, more in [("read_file", {}), ("remove_file", {}), ("make_folder", {}),
                     ("list_files", {}), ("write_file", {"upload": "u", "data": "", "done": True})]:
        refused("invalid", keeper, op, path=path, **more)
    refused("invalid", keeper, "read_file", path="a\0b")
    refused("invalid", keeper, "read_file", path_base64="?")
    refused("invalid", keeper, "read_file")


def test_names(keeper):
    for name in NAMES:
        field = {"path_base64": coded(name)}
        keeper.ask("write_file", upload="u", data=coded(name), done=True, **field)
        assert base64.b64decode(keeper.ask("read_file", **field)["data"]) == name
    entries = keeper.ask("list_files")["entries"]
    assert sorted(map(bytes_of, entries)) == sorted(NAMES)
    assert keeper.run("import os; sorted(os.listdir(b'.')) == %r" % sorted(NAMES)).result == "True"


def test_traps(keeper):
    """Whatever a session leaves in its workspace, we neither follow it nor wait for it."""
    keeper.run("""
import os, socket
os.symlink('/etc/passwd', 'l')
os.symlink('/', 'd')
os.symlink('/proc/self/environ', 'x')
os.mkdir('real'); os.symlink('real', 'inner')
os.mkfifo('fifo')
s = socket.socket(socket.AF_UNIX); s.bind('sock')
with open('sparse', 'wb') as f: f.truncate(200 << 20)
""")
    for path in ("l", "d/etc/passwd", "x", "inner/f"):
        refused("denied", keeper, "read_file", path=path)
    for path in ("fifo", "sock", "real"):
        refused("invalid", keeper, "read_file", path=path)
    refused("denied", keeper, "list_files", path="d")
    for path in ("l", "fifo", "real"):
        with pytest.raises(Refused):
            put(keeper, path, b"x")
    with pytest.raises(Refused):
        put(keeper, "d/tmp/planted", b"x")
    assert not os.path.exists("/tmp/planted")
    assert len(base64.b64decode(keeper.ask("read_file", path="sparse")["data"])) == 1 << 20
    kinds = {entry["name"]: entry["type"] for entry in keeper.ask("list_files")["entries"]}
    assert kinds == {"l": "link", "d": "link", "x": "link", "inner": "link", "real": "folder",
                     "fifo": "other", "sock": "other", "sparse": "file"}


def test_swapped_all_the_while(keeper):
    """A session that exchanges a file for a symlink to the host's as fast as it can."""
    cell = keeper.start("""
import os
open('f', 'w').write('mine'); os.symlink('/etc/passwd', 'g')
os.mkdir('d'); open('d/passwd', 'w').write('mine'); os.symlink('/etc', 'e')
print('ready', flush=True)
while not os.path.exists('stop'):
    for a, b in (('f', 'g'), ('d', 'e')):
        os.rename(a, 't'); os.rename(b, a); os.rename('t', b)
""")
    keeper.wait_text("ready", cell)
    seen = set()
    for _ in range(2000):
        for path in ("f", "d/passwd"):
            try:
                seen.add(read(keeper, path))
            except Refused as why:
                seen.add(why.code)
    put(keeper, "stop", b"")
    assert keeper.finished(cell).finished["status"] == "ok"
    assert b"mine" in seen and seen <= {b"mine", "denied", "not_found"}, seen


def test_read_only(house, folder):
    (folder / "f").write_text("x")
    session = house.session(workspace=folder)
    config = json.loads((session / "session.json").read_text())
    config["workspace"]["mode"] = "ro"
    (session / "session.json").write_text(json.dumps(config))
    with house.keeper(session) as keeper:
        assert read(keeper, "f") == b"x"
        assert "read-only" in refused("denied", keeper, "write_file", path="g", upload="u", data="",
                                      done=True)


# ------------------------------------------------------------------------------- the command line

@pytest.fixture(params=["running", "stopped"])
def work(request, house):
    """A session called `work` with two files, as it is named to `fumehood files`."""
    name = "files-" + request.param
    ran = house.cli("run", "-s", name, "-c",
                    "import os; open('a.txt', 'w').write('A'); os.mkdir('d'); "
                    "open('d/b.txt', 'w').write('B')")
    assert ran.status == 0, ran
    if request.param == "stopped":
        house.cli("stop", name)
    yield name
    house.cli("stop", name)
    house.cli("gc", name)


def cli(house, *args, status=0, **more):
    ran = house.cli("files", *args, **more)
    assert ran.status == status, ran
    return ran


def text_of(data):
    return data if isinstance(data, str) else data.decode()


def test_cli(house, work, folder):
    assert [line.split()[-1] for line in text_of(cli(house, work, "ls").out).splitlines()] == [
        "a.txt", "d/"]
    (folder / "up.sh").write_text("#!/bin/sh\n")
    (folder / "up.sh").chmod(0o4755)
    cli(house, work, "put", str(folder / "up.sh"))
    cli(house, work, "put", str(folder / "up.sh"), "--to", "new/")
    cli(house, work, "put", "-", "--to", "in.txt", stdin="from stdin")
    assert text_of(cli(house, work, "get", "in.txt", "-").out) == "from stdin"
    cli(house, work, "get", "d/b.txt", str(folder))
    assert (folder / "b.txt").read_text() == "B"
    assert "--force" in text_of(cli(house, work, "get", "d/b.txt", str(folder), status=FAULT).err)
    cli(house, work, "get", "--force", "a.txt", str(folder / "b.txt"))
    assert (folder / "b.txt").read_text() == "A"
    listed = [json.loads(line) for line in
              text_of(cli(house, work, "ls", "new", "--json").out).splitlines()]
    assert [(entry["name"], entry["mode"]) for entry in listed] == [("up.sh", 0o755)]
    assert "rm -r" in text_of(cli(house, work, "rm", "new", status=FAULT).err)
    cli(house, work, "rm", "-r", "new")
    cli(house, work, "rm", "in.txt", "up.sh")
    cli(house, work, "rm", "../x", status=FAULT)
    cli(house, work, "get", status=USAGE)
    assert sorted(os.listdir(folder)) == ["b.txt", "up.sh"]


def test_terminal_is_not_harmed(house, work):
    cli(house, work, "put", "-", "--to", "\x1b[31mred\u202e", stdin="x")
    out = text_of(cli(house, work, "ls").out)
    assert "\x1b" not in out and "\u202e" not in out and "red" in out


# -------------------------------------------------------------------------------------- archives

def archive(*entries):
    """A ZIP file of (name or ZipInfo, bytes)."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries:
            made.writestr(name, content)
    return data.getvalue()


def special(name, mode):
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def test_there_and_back(house, work, folder):
    for name in NAMES:
        with open(os.path.join(os.fsencode(folder), b"f"), "wb") as file:
            file.write(name)
        cli(house, work, "put", str(folder / "f"), "--to", os.fsdecode(b"names/" + name))
    cli(house, work, "zip", "-o", str(folder / "all.zip"))
    with zipfile.ZipFile(folder / "all.zip") as made:
        assert made.testzip() is None
        assert made.read("d/b.txt") == b"B"
        assert len(made.namelist()) == 4 + len(NAMES)
    again = house.cli("run", "-s", "files-again", "-c", "1")
    assert again.status == 0, again
    cli(house, "files-again", "unzip", str(folder / "all.zip"), "back")
    entries = [json.loads(line) for line in
               text_of(cli(house, "files-again", "ls", "back/names", "--json").out).splitlines()]
    assert sorted(map(bytes_of, entries)) == sorted(NAMES)
    for name in NAMES:
        cli(house, "files-again", "get", os.fsdecode(b"back/names/" + name), str(folder / "got"),
            "--force")
        assert (folder / "got").read_bytes() == name
    # A part of it, by stdout and stdin.
    part = house.popen("files", work, "zip", "d", stdout=-1)
    data = part.communicate()[0]
    assert part.returncode == 0
    assert zipfile.ZipFile(io.BytesIO(data)).namelist() == ["b.txt"]
    cli(house, "files-again", "put", "--unzip", "-", "--to", "part", stdin=data)
    assert text_of(cli(house, "files-again", "get", "part/b.txt", "-").out) == "B"
    house.cli("stop", "files-again")


BAD = {
    "up": archive(("fine", "x"), ("../x", "x")),
    "absolute": archive(("fine", "x"), ("/abs", "x")),
    "middle": archive(("fine", "x"), ("a/../../x", "x")),
    "backslash": archive(("fine", "x"), ("..\\x", "x")),
    "symlink": archive(("fine", "x"), (special("l", stat.S_IFLNK | 0o777), "/etc"), ("l/x", "x")),
    "device": archive(("fine", "x"), (special("dev", stat.S_IFCHR | 0o666), "")),
    "both": archive(("fine", "x"), ("a", "x"), ("a/b", "x")),
    "bomb": archive(("fine", "x"), ("bomb", bytes(200 << 20))),
    "truncated": archive(("fine", "x" * 1000))[:-30],
    "nothing": b"PK\3\4 no archive",
    "empty": b"",
}


def damaged():
    """A byte of the packed data is another one."""
    data = bytearray(archive(("fine", "x"), ("hurt", os.urandom(5000))))
    data[1500] ^= 1
    return bytes(data)


def twice():
    data = archive(("same", "1"), ("samf", "2"))
    return data.replace(b"samf", b"same")


@pytest.mark.parametrize("kind", sorted(BAD) + ["damaged", "twice", "encrypted"])
def test_bad_archives(house, folder, kind):
    """Refused, and before anything is written."""
    if kind == "damaged":
        data = damaged()
    elif kind == "twice":
        data = twice()
    elif kind == "encrypted":
        data = bytearray(archive(("x", "x")))
        data[6] |= 1
        data[data.index(b"PK\1\2") + 8] |= 1
    else:
        data = BAD[kind]
    (folder / "bad.zip").write_bytes(bytes(data))
    before = sorted(os.listdir(folder.parent))
    assert house.cli("run", "-s", "files-bad", "-c", "1").status == 0
    ran = cli(house, "files-bad", "unzip", str(folder / "bad.zip"), status=FAULT)
    assert "archive" in text_of(ran.err), ran
    assert text_of(cli(house, "files-bad", "ls").out) == ""
    assert sorted(os.listdir(folder.parent)) == before
    house.cli("stop", "files-bad")
    house.cli("gc", "files-bad")


def test_archive_into_a_project(house, folder):
    """What others run does not come in by an archive either."""
    assert house.cli("run", "-s", "files-project", "-w", str(folder), "-c", "1").status == 0
    data = archive(("fine", "x"), ("sub/.git/hooks/pre-commit", "x"))
    ran = cli(house, "files-project", "unzip", "-", stdin=data, status=FAULT)
    assert ".git/hooks" in text_of(ran.err)
    assert os.listdir(folder) == []
    house.cli("stop", "files-project")


# ------------------------------------------------------------------------- what others run later

PLACES = [".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".envrc", ".bashrc",
          "pyvenv.cfg", "sitecustomize.py", "usercustomize.py", "sub/.git/hooks/pre-commit",
          "sub/deep/.mcp.json", "lib/site-packages/x.pth", ".idea/workspace.xml"]

TRY = """
import os
def attempt(path):
    try:
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        with open(path, 'w') as file:
            file.write('planted')
        return 'written'
    except OSError as why:
        return why.strerror
"""


def test_present_places_are_read_only(house, folder):
    for path in PLACES:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("mine")
    (folder / "src").mkdir()
    with house.keeper(house.session(workspace=folder)) as keeper:
        keeper.run(TRY)
        for path in PLACES:
            for top in ("/workspace", "/mnt/data"):
                assert keeper.run("attempt(%r)" % ("%s/%s" % (top, path))).result == \
                    "'Read-only file system'", path
        cell = keeper.run("""
for old in ('.git', 'sub', 'sub/.git', 'sub/.git/hooks', '.envrc', '.vscode', 'lib'):
    try:
        os.rename(old, 'moved'); print('moved', old)
    except OSError:
        pass
for path in ('.envrc', '.git/config'):
    try:
        os.remove(path); print('removed', path)
    except OSError:
        pass
""")
        assert cell.out == ""
        # The rest is work as ever.
        cell = keeper.run("[attempt(path) for path in ('.git/HEAD', 'src/a.py', 'conftest.py')]")
        assert cell.result == "['written', 'written', 'written']"
    for path in PLACES:
        assert (folder / path).read_text() == "mine"


def test_absent_places_are_put_aside(house, folder):
    with house.keeper(house.session(workspace=folder)) as keeper:
        keeper.run(TRY)
        cell = keeper.run("[attempt(path) for path in %r]" % PLACES)
        flagged = {item["path"] for item in cell.finished["files"] if item.get("executes_later")}
        assert {".envrc", ".vscode/tasks.json", "pyvenv.cfg"} <= flagged
        held, seen = set(), set()
        while len(seen) < 9:
            event = keeper.event("warning", code="executes_later")
            seen |= {item["path"] for item in event["files"]}
            held |= {item["held_as"] for item in event["files"]}
        assert all(name.endswith(HELD) for name in held)
        keeper.stop()
    left = {str(pathlib.Path(top, name).relative_to(folder))
            for top, _, names in os.walk(folder) for name in names}
    assert not left & set(PLACES), left
    assert (folder / (".envrc" + HELD)).read_text() == "planted"


def test_planted_at_the_last_moment(house, folder):
    """By a process of the cell that lives on, until the session's end."""
    with house.keeper(house.session(workspace=folder)) as keeper:
        keeper.run("""
import subprocess
plant = 'while :; do echo x > .envrc; mkdir -p .git/hooks; done 2>/dev/null'
p = subprocess.Popen(['sh', '-c', plant])
""")
        keeper.event("warning", code="executes_later")
        keeper.stop()
    assert not (folder / ".envrc").exists() and not (folder / ".git/hooks").exists()


def test_a_private_workspace_is_free(keeper):
    keeper.run(TRY)
    assert keeper.run("[attempt(path) for path in %r] == ['written'] * %d" % (PLACES, len(PLACES))
                      ).result == "True"
    assert put(keeper, ".git/hooks/x", b"x")["bytes"] == 1


def test_clients_write_them_no_more(project):
    for path in (".git/hooks/x", ".envrc", "sub/.vscode/tasks.json"):
        assert "sandbox" in refused("denied", project, "write_file", path=path, upload="u", data="",
                                    done=True)
    refused("denied", project, "make_folder", path=".vscode")
    put(project, "fine.py", b"x")


def test_the_list_is_the_policys(house, folder):
    session = house.session(workspace=folder, policy={"protect": ["bin/*", ".envrc"]})
    with house.keeper(session) as keeper:
        keeper.run(TRY)
        keeper.run("attempt('.vscode/tasks.json'), attempt('bin/tool')")
        event = keeper.event("warning", code="executes_later")
        assert [item["path"] for item in event["files"]] == ["bin/tool"]
    assert (folder / ".vscode/tasks.json").exists()
