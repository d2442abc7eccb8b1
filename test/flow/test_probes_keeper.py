"""Probes against what stands outside of the box: the keeper, the programs of the user, and what a
session leaves for them to find. Numbers as in test_probes.py; each with its control, by the same
user without Fumehood between.

What is asked of the daemon in these classes (52 headers, 53 a browser, 55, 58, 59 HTTP) comes with
it. Here 59 is about the keeper's socket.
"""
import io
import json
import os
import pathlib
import socket
import stat
import subprocess
import zipfile

import pytest

from fumehood_kit import FAULT, LONG, WAIT_S, Refused, Script, list_proc, memory_peak
from probe_kit import INTERPRETER, WORLDS
from probe_session import (  # noqa: F401 (world is a fixture)
    begin, make_folder, outside, works, world,
)
from proxy_attacks import HOSTS
from site_kit import Server, make_site

MIB = 1 << 20
SOME = WORLDS if LONG else ("root", "user")
worlds = pytest.mark.parametrize("world", SOME, indirect=True)


def cli(world, *words, status=0, **more):
    done = world.cli(*words, **more)
    assert done.status == status, done
    return done


def files(world, pipe, verb, *words, **more):
    return cli(world, "files", pipe.hello["session"], verb, *words, **more)


def give(world, *paths):
    for path in paths if world.uid is not None else ():
        os.chown(path, world.uid, world.uid, follow_symlinks=False)


# ---------------------------------------------------------------------------------- 45: terminals

# Clipboard, link, title, clear, the one-byte CSI, a name that is read from right to left.
NASTY = "\x1b]52;c;c2VjcmV0\x07\x1b]8;;file:///etc/passwd\x07\x1b[2J\x9b2J\x1b[6n\u202egpj"
OBEYED = ("\x1b]", "\x1b[2J", "\x1b[6n", "\x9b", "\u202e", "\x07")
SHOWS = """
nasty = %r
print("begin", nasty, "end")
open("file" + nasty.replace("/", "."), "w").close()
class Shown:
    def __repr__(self):
        return "repr" + nasty
display(Shown())
raise type("Error" + nasty, (Exception,), {})("value" + nasty)
""" % NASTY


def on_terminal(world, *words):
    with Script(world, *words) as script:
        script.end()
        return script.seen


@worlds
def test_45_terminals(world):
    """What a terminal would obey is shown to people, and kept as it is for programs."""
    control = outside(world, "print(%r)" % NASTY)
    assert all(mark in control.stdout for mark in OBEYED), control
    with begin(world) as pipe:
        cell = pipe.run(SHOWS)
        assert cell.out == "begin %s end\n" % NASTY and cell.of("error")[0]["evalue"] == \
            "value" + NASTY, cell
        ident = pipe.hello["session"]
        shown = {words[0]: on_terminal(world, *words) for words in (
            ("log", ident), ("text", ident), ("files", ident, "ls"),
            ("run", *world.options, "-w", str(make_folder(world)), "-c", SHOWS))}
        assert "gpj" in files(world, pipe, "ls").out and "\x1b" not in \
            files(world, pipe, "ls").out
    for what, text in shown.items():
        assert "gpj" in text, what
        assert not [mark for mark in OBEYED if mark in text], (what, text)


# ------------------------------------------------------------------------------------ 46: forging

@worlds
def test_46_forging_is_possible_at_all(world):
    """The control of the forged messages of test_probes_session.py: one that is well-formed is
    taken for what the cell says, and for no more."""
    with begin(world) as pipe:
        cell = pipe.run("import os, struct\nos.write(3, struct.pack('=BBHI', ord('d'), 0, 0, 1) + "
                        "b'{\"data\":{\"text/plain\":\"forged\"},\"metadata\":{}}')")
        display, = cell.of("display")
        assert display["data"] == {"text/plain": "forged"}
        works(pipe)


# --------------------------------------------------------------- 47: something else for the socket

@worlds
def test_47_sockets_are_out_of_reach(world):
    code = ("import os, socket\nplace = %r\nwords = []\n"
            "for what in (lambda: os.listdir(place), lambda: os.mkfifo(place + '/planted'),\n"
            "             lambda: os.symlink('x', place + '/link'),\n"
            "             lambda: socket.socket(socket.AF_UNIX).bind(place + '/bound')):\n"
            "    try:\n        what()\n        words.append('open')\n"
            "    except OSError as error:\n        words.append('refused')\n"
            "print(*words)" % str(world.runtime))
    with begin(world) as pipe:
        assert pipe.run(code).out.split() == ["refused"] * 4
    world.runtime.mkdir(exist_ok=True)
    give(world, world.runtime)
    control = outside(world, code)
    assert control.stdout.split() == ["open"] * 4, control
    for name in ("planted", "link", "bound"):
        (world.runtime / name).unlink()


LISTENS = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
os.setresuid(54321, 54321, 54321)
s.listen()
print("listens", flush=True)
s.settimeout(60)
connection = s.accept()[0]
connection.settimeout(60)
print(connection.recv(100))
"""


@worlds
@pytest.mark.parametrize("what", ["symlink", "fifo", "file", "other"])
def test_47_planted(world, what):
    """A client speaks to no one but the user's own keeper, and does not wait for what never
    answers."""
    with begin(world) as pipe:
        ident = pipe.hello["session"]
        place = world.runtime / (ident + ".sock")
        aside = place.with_suffix(".aside")
        cli(world, "interrupt", ident)  # the control: the socket itself
        place.rename(aside)
        listener = None
        if what == "symlink":
            place.symlink_to(aside)
            with socket.socket(socket.AF_UNIX) as control:  # which others would follow
                control.connect(str(place))
        elif what == "fifo":
            os.mkfifo(place)
        elif what == "file":
            place.touch()
        else:
            listener = subprocess.Popen([INTERPRETER, "-I", "-S", "-c", LISTENS, place],
                                        stdout=subprocess.PIPE, text=True)
            assert listener.stdout.readline() == "listens\n"
        try:
            done = cli(world, "interrupt", ident, status=FAULT, wait_s=30)
            assert ("another user's" if listener else "is no socket") in done.err, done
        finally:
            place.unlink()
            aside.rename(place)
            if listener:
                assert listener.communicate(timeout=WAIT_S)[0] == "b''\n"  # it was told nothing
        works(pipe)


# ----------------------------------------------------------------------------- 49, 50: workspaces

@worlds
def test_49_links(world):
    """The keeper, who may read it, does not follow a link out of the workspace."""
    target = "/etc/shadow" if world.uid is None else "/etc/passwd"
    with begin(world) as pipe:
        pipe.run("import os\nos.symlink(%r, 'l')\nos.symlink('/', 'd')\n"
                 "os.symlink('/proc/self/environ', 'x')\nopen('own', 'w').write('mine')" % target)
        control = outside(world, "print(len(open(%r).read()) > 10)" % str(pipe.folder / "l"))
        assert control.stdout == "True\n", control
        for path in ("l", "x", "d/etc/passwd", "d" + target, "own/../l"):
            done = world.cli("files", pipe.hello["session"], "get", path, "-")
            assert done.status == FAULT and "root:" not in done.out, done
        data = files(world, pipe, "zip").raw_out
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.namelist() == ["own"]
        (world.dir / "up").write_text("up")
        give(world, world.dir / "up")
        for path in ("l", "d/tmp/planted-49"):
            done = world.cli("files", pipe.hello["session"], "put", str(world.dir / "up"), "--to",
                             path, "--force")
            assert done.status in (2, FAULT), done
        assert not os.path.exists("/tmp/planted-49")
        assert "mine" in files(world, pipe, "get", "own", "-").out


SWAPS = """
import os
open('f', 'w').write('mine'); os.symlink('/etc/passwd', 'g')
os.mkdir('d'); open('d/passwd', 'w').write('mine'); os.symlink('/etc', 'e')
print('ready', flush=True)
while not os.path.exists('stop'):
    for a, b in (('f', 'g'), ('d', 'e')):
        os.rename(a, 't'); os.rename(b, a); os.rename('t', b)
"""


@worlds
def test_49_swapped_while_it_is_read(world):
    with begin(world) as pipe:
        cell = pipe.start(SWAPS)
        pipe.wait_text("ready", cell)
        control = outside(world, "import os\nos.chdir(%r)\nseen = set()\n"
                          "for _ in range(20000):\n    try: seen.add(open('f').read()[:4])\n"
                          "    except OSError: pass\nprint(sorted(seen))" % str(pipe.folder))
        assert "root" in control.stdout and "mine" in control.stdout, control
        seen = set()
        for _ in range(50_000 if LONG else 1000):
            for path in ("f", "d/passwd"):
                try:
                    seen.add(pipe.ask("read_file", path=path)["data"])
                except Refused as why:
                    seen.add(why.code)
        pipe.ask("write_file", path="stop", upload="u", data="", done=True)
        assert pipe.finished(cell).status == "ok"
        assert "bWluZQ==" in seen and seen <= {"bWluZQ==", "denied", "not_found"}, seen


@worlds
def test_50_files_that_are_none(world):
    """A FIFO, a socket, a file of a tebibyte, a deep tree, very many files: an answer at once, or
    a bounded one, and the session is served meanwhile."""
    with begin(world) as pipe:
        assert pipe.run("import os, socket\nos.mkfifo('fifo')\n"
                        "socket.socket(socket.AF_UNIX).bind('sock')\nos.mkdir('many')\n"
                        "for i in range(%d): open('many/%%d' %% i, 'w').close()\n"
                        "here = os.open('.', 0)\nfor i in range(16):\n"
                        "    os.mkdir('x' * 250, dir_fd=here)\n"
                        "    here = os.open('x' * 250, 0, dir_fd=here)\n"
                        % (150_000 if LONG else 20_000), wait_s=10 * WAIT_S).status == "ok"
        assert outside(world, "import os\nopen(%r, 'w').truncate(1 << 40)"
                       % str(pipe.folder / "sparse")).returncode == 0
        with pytest.raises(subprocess.TimeoutExpired):  # the control: who opens it waits
            subprocess.run(["cat", pipe.folder / "fifo"], timeout=1, **world.identity())
        for name in ("fifo", "sock"):
            files(world, pipe, "get", name, "-", status=FAULT, wait_s=20)
        with pytest.raises(Refused) as refused:
            pipe.ask("read_file", path="sparse", length=1 << 40)
        assert refused.value.code in ("limit", "invalid")
        last = pipe.ask("read_file", path="sparse", offset=(1 << 40) - 4, length=4)
        assert last["data"] == "AAAAAA=="
        listed = pipe.ask("list_files", path="many")
        assert len(listed["entries"]) < 20_000 and listed["more"]
        before = memory_peak(pipe.hello["pid"])
        zipping = world.popen("files", pipe.hello["session"], "zip", "-o",
                              str(world.dir / "all.zip"), stderr=subprocess.PIPE)
        works(pipe)
        err = zipping.communicate(timeout=4 * WAIT_S)[1].decode()
        assert zipping.returncode == FAULT and "limit" in err or "more" in err, err
        assert not (world.dir / "all.zip").exists()
        works(pipe)
        assert memory_peak(pipe.hello["pid"]) - before < 200 * MIB
        files(world, pipe, "rm", "-r", "many")


# ------------------------------------------------------------------------- 51, 52: names, archives

def special(name, mode):
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def archive(*members):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in members:
            made.writestr(name, text)
    return data.getvalue()


TRAPS = {
    "up": archive(("fine", "x"), ("../x", "x")),
    "absolute": archive(("fine", "x"), ("/tmp/planted-51", "x")),
    "link": archive(("fine", "x"), (special("l", stat.S_IFLNK | 0o777), "/tmp"),
                    ("l/planted-51", "x")),
    "bomb": archive(("fine", "x"), ("bomb", bytes(300 * MIB))),
}
# What a program does that believes an archive: the control.
BELIEVES = """
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    for item in archive.infolist():
        if item.external_attr >> 28 == 0o12:
            os.symlink(archive.read(item), item.filename)
        else:
            open(item.filename, 'wb').write(archive.read(item))
"""


@worlds
@pytest.mark.parametrize("trap", TRAPS)
def test_51_archives(world, trap):
    folder = make_folder(world)
    inner = folder / "in"
    inner.mkdir()
    (folder / "trap.zip").write_bytes(TRAPS[trap])
    give(world, inner, folder / "trap.zip")
    planted = [folder / "x", pathlib.Path("/tmp/planted-51")]
    subprocess.run([INTERPRETER, "-I", "-c", BELIEVES, folder / "trap.zip"], cwd=inner,
                   check=True, **world.identity())
    left = [path for path in planted if path.exists()]
    assert left or trap == "bomb" and (inner / "bomb").stat().st_size == 300 * MIB
    for path in left:
        path.unlink()
    with begin(world) as pipe:
        files(world, pipe, "unzip", str(folder / "trap.zip"), status=FAULT)
        assert pipe.ask("list_files")["entries"] == []  # nothing of it, not even what is fine
        assert not [path for path in planted if path.exists()]
        assert not (pipe.folder.parent / "x").exists()
        works(pipe)


@worlds
def test_51_paths(world):
    with begin(world) as pipe:
        (world.dir / "up").write_text("up")
        give(world, world.dir / "up")
        for path in ("../planted-51", "/tmp/planted-51", "a/../../planted-51"):
            done = world.cli("files", pipe.hello["session"], "put", str(world.dir / "up"), "--to",
                             path)
            assert done.status in (2, FAULT), done
        # These are names like any other.
        for path in ("..\\x", "%2e%2e%2fx"):
            files(world, pipe, "put", str(world.dir / "up"), "--to", path)
        # The control: a program that only puts the two together.
        outside(world, "import os\nopen(os.path.join(%r, '../planted-51'), 'w').close()"
                % str(pipe.folder))
        assert (pipe.folder.parent / "planted-51").exists()
        (pipe.folder.parent / "planted-51").unlink()
        assert not os.path.exists("/tmp/planted-51")
        names = {entry["name"] for entry in pipe.ask("list_files")["entries"]}
        assert names == {"..\\x", "%2e%2e%2fx"}
        mode = pipe.run("import os; oct(os.stat('..\\\\x').st_mode)").result
        assert mode in ("'0o100644'", "'0o100600'")


NAMES = [b"new\nline", b"quote\"'`$(touch planted)", "rtl\u202egpj.exe".encode(), b"bad\xff\xfe",
         b"n" * 255, b"CON", b"-rf", b" ", b"a\r\nContent-Type: text/html\r\n\r\n<script>"
         .replace(b"/", b"-"), b"\x1b[2J", b"$(touch planted)"]


@worlds
def test_52_names(world):
    """Any name goes to and fro, as bytes, and does nothing on its way."""
    control = outside(world, "import os\nos.chdir(%r)\nopen(%r, 'w').close()\n"
                      "os.system('for f in *; do eval \"echo x$f\"; done')\n"
                      "print(os.path.exists('planted'))" % (str(make_folder(world)), NAMES[-1]))
    assert control.stdout.endswith("True\n"), control  # in a shell's words it would do something
    with begin(world) as pipe:
        pipe.run("for name in %r: open(name, 'wb').write(name)" % NAMES)
        listed = [json.loads(line) for line in files(world, pipe, "ls", "--json").out.splitlines()]
        assert len(listed) == len(NAMES)
        for name in NAMES:
            got = files(world, pipe, "get", "--", os.fsdecode(name), "-").raw_out
            assert got == name
        data = files(world, pipe, "zip").raw_out
        with zipfile.ZipFile(io.BytesIO(data)) as made:
            assert sorted(made.read(item) for item in made.infolist()) == sorted(NAMES)
        assert "planted" not in os.listdir(pipe.folder)
        events = pipe.run("import os\nfor name in %r: os.utime(name)" % NAMES).finished["files"]
        assert len(events) <= len(NAMES)


# ---------------------------------------------------------------------- 53, 54: notebooks, clocks

@worlds
def test_53_very_many_outputs(world):
    """Outputs by the ten thousand, and a huge one: bounded in the keeper, whole in the journal."""
    count = 100_000 if LONG else 10_000
    with begin(world) as pipe:
        before = memory_peak(pipe.hello["pid"])
        cell = pipe.run("for i in range(%d):\n    display({'text/html': '<script>%%d</script>' %% "
                        "i}, raw=True)" % count,
                        wait_s=10 * WAIT_S)
        assert cell.status == "ok" and len(cell.of("display")) == count
        assert cell.of("display")[-1]["data"]["text/html"] == "<script>%d</script>" % (count - 1)
        done = pipe.run("display({'text/html': 'x' * (70 << 20)}, raw=True)")
        assert done.of("truncated") or done.status != "ok", done.finished
        works(pipe)
        assert memory_peak(pipe.hello["pid"]) - before < (2000 if LONG else 400) * MIB


@worlds
def test_53_notebooks_that_are_too_much(world):
    """One that another program reads, or gives up on, is refused in words."""
    folder = make_folder(world)
    deep = "[" * 100_000 + "]" * 100_000
    (folder / "deep.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "metadata": {"x": %s},'
                                       ' "cells": []}' % deep)
    (folder / "large.ipynb").touch()
    os.truncate(folder / "large.ipynb", 600 * MIB)
    give(world, *folder.iterdir())
    control = outside(world, "import json; json.load(open(%r))" % str(folder / "deep.ipynb"))
    assert "RecursionError" in control.stderr, control
    for name, word in (("deep", "deep"), ("large", "larger")):
        done = cli(world, "run", *world.options, str(folder / (name + ".ipynb")), status=FAULT)
        assert word in done.err and len(done.err) < 500, done


@worlds
def test_54_times(world):
    """Files of other centuries, and a guest that lies about its clock: the keeper has its own."""
    with begin(world) as pipe:
        pipe.run("import os\nfor year, when in (('past', -62135596800), ('far', 32503680000)):\n"
                 "    open(year, 'w').close()\n"
                 "    try: os.utime(year, (when, when))\n    except OSError: pass\n")
        control = outside(world, "import os; print(os.stat(%r).st_mtime > 4e9)"
                          % str(pipe.folder / "far"))
        assert control.stdout == "True\n", control
        assert {entry["name"] for entry in pipe.ask("list_files")["entries"]} == {"past", "far"}
        with zipfile.ZipFile(io.BytesIO(files(world, pipe, "zip").raw_out)) as made:
            assert {item.date_time[0] for item in made.infolist()} == {1980}
        cell = pipe.run("import time\ntime.time = time.monotonic = lambda: 32503680000.0\n"
                        "open('new', 'w').close()")
        assert cell.finished["duration_us"] < 60_000_000
        assert [file["path"] for file in cell.finished["files"]] == ["new"]
        assert pipe.run("while True: pass", timeout=0.5).status == "timeout"
        times = [event["t"] for event in pipe.events]
        assert times == sorted(times) and not [t for t in times if t > "2900"]


# ------------------------------------------------------------------- 56: what others run later

PLANTS = ("sitecustomize.py", "usercustomize.py", "conftest.py", "fumehood_guest.py", "json.py",
          "encodings.py", "random.py", "IPython/__init__.py", "numpy/__init__.py",
          "profile_default/startup/00-planted.py", ".ipython/profile_default/startup/00.py",
          "matplotlibrc", ".envrc", ".bashrc", "pyvenv.cfg", ".venv/pyvenv.cfg")


@worlds
def test_56_planted_for_the_programs_of_the_user(world):
    """A workspace full of what Python, git and editors run by themselves: nothing of it runs
    outside of a box, whichever of Fumehood's programs is started there."""
    folder, mark = make_folder(world), world.dir / "mark-56"
    code = "try:\n    open(%r, 'a').write('ran ' + __name__)\nexcept OSError: pass\n" % str(mark)
    for name in PLANTS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("touch %s\n" % mark if name in (".envrc", ".bashrc") else
                        "home = %s\n" % folder if name.endswith(".cfg") else code)
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\necho ran >>%s\n" % mark)
    hook.chmod(0o755)
    for name in ("python", "python3", "git", "sh"):  # and of the name of what is looked for
        (folder / name).write_text("#!/bin/sh\necho ran $0 >>%s\nexit 1\n" % mark)
        (folder / name).chmod(0o755)
    (folder / "script.py").write_text("import json, random; print(6 * 7)")
    for top, folders, names in os.walk(folder):
        give(world, *(os.path.join(top, name) for name in (".", *folders, *names)))
    control = subprocess.run([INTERPRETER, "script.py"], cwd=folder, timeout=WAIT_S,
                             env=world.env, capture_output=True, **world.identity())
    assert mark.exists(), control
    mark.unlink()
    for words in (("run", *world.options, "-w", ".", "-c", "import random; print(6 * 7)"),
                  ("run", *world.options, "script.py"), ("doctor",), ("ls",), ("config",),
                  ("pool", "list"), ("gc", "--dry-run"), ("complete", "--", "run", ""),
                  ("sandbox", "explain")):
        world.cli(*words, cwd=folder)
        assert not mark.exists(), (words, mark.read_text())
    with world.pipe(*world.options, cwd=folder) as pipe:
        pipe.run("import random")
        pipe.ask("restart")
        works(pipe)
        cli(world, "files", pipe.hello["session"], "ls", cwd=folder)
    assert not mark.exists(), mark.read_text()


# ------------------------------------------------------------------------------------- 57: proxies

ASKS = """
import os, socket
port = int(os.environ["http_proxy"].rpartition(":")[2])
def ask(host):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(60)
        connection.sendall(b"CONNECT " + host + b" HTTP/1.1\\r\\n\\r\\n")
        return connection.recv(12)
print([ask(host) for host in HOSTS])
"""


@pytest.mark.parametrize("world", ["root", "user"], indirect=True)
def test_57_hosts(world, tmp_path):
    """What looks like an allowed host to somebody; the control is one that is allowed."""
    server = Server(make_site(tmp_path))
    try:
        allowed = b"localhost:%d" % server.port
        rules = "allowed.com,.allowed.org," + allowed.decode()
        with begin(world, "--allow-net", rules) as pipe:
            cell = pipe.run("HOSTS = %r" % [allowed] + ASKS)
            assert cell.out == "[b'HTTP/1.1 200']\n", cell
            cell = pipe.run("HOSTS = %r" % list(HOSTS) + ASKS)
            answers = eval(cell.out)
            assert len(answers) == len(HOSTS)
            assert not [answer for answer in answers if answer.startswith(b"HTTP/1.1 2")], cell.out
            told = [event for event in cell.of("network") if event.get("allowed") is False]
            assert sum(event.get("count", 1) for event in told) == len(HOSTS)
    finally:
        server.close()


# -------------------------------------------------------------------------------- 59: exhaustion

@worlds
def test_59_the_socket_of_a_keeper(world):
    """Connections that say nothing, a byte at a time, a line without end, one that never reads:
    whoever was there first is served as before."""
    with begin(world) as pipe:
        place = str(world.runtime / (pipe.hello["session"] + ".sock"))
        keeper = pipe.hello["pid"]
        before = len(list_proc(keeper, "fd"))
        others, refused = [], 0
        for _ in range(400):
            sock = socket.socket(socket.AF_UNIX)
            others.append(sock)
            connect_as(world, sock, place)
            sock.settimeout(WAIT_S)
        try:
            works(pipe)
            for sock in others:
                refused += b'"busy"' in sock.recv(4096)
            assert refused >= 400 - 256 and len(list_proc(keeper, "fd")) <= before + 272
            served = [sock for sock in others if not is_closed(sock)]
            for sock in served[:4]:
                sock.sendall(b'{"op":"sta')  # and never the rest
            for sock in served[4:8]:
                sock.setblocking(False)
                try:
                    while True:
                        sock.send(b"x" * 65536)
                except BlockingIOError:
                    pass
            for sock in served[8:12]:
                sock.sendall(b'{"op":"events","since":0,"follow":true}\n')
            cell = pipe.run("print('y' * 5_000_000)", wait_s=2 * WAIT_S)
            assert len(cell.out) == 5_000_001
            works(pipe)
            assert memory_peak(keeper) < 300 * MIB
        finally:
            for sock in others:
                sock.close()
        works(pipe)


def connect_as(world, sock, place):
    """Connects with the user's rights, which are those that count at that moment."""
    if world.uid is None:
        sock.connect(place)
        return
    os.seteuid(world.uid)
    try:
        sock.connect(place)
    finally:
        os.seteuid(0)


def is_closed(sock):
    sock.setblocking(False)
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        sock.settimeout(WAIT_S)
