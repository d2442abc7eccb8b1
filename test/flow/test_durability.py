"""Durability `power`: nothing leaves before the disk has it, seen from the system calls.

strace is attached to the keeper. What it prints is the order in which the keeper's threads asked
the kernel, which no clock and no scheduler can change; and it can make the disk fail.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from fumehood_kit import FAULT, WAIT_S, Refused, wait_readable

CALLS = "trace=write,writev,sendto,sendmsg,pwrite64,fdatasync,fsync"


@contextlib.contextmanager
def strace(pid, out, *options):
    """strace on all threads of a process, from when this has been entered."""
    program = shutil.which("strace")
    assert program, "strace is missing: ./check installs it"
    tracer = subprocess.Popen(
        [program, "-f", "-p", str(pid), "-o", str(out), "-s", "1000000", *options],
        stderr=subprocess.PIPE)
    said = b""
    until = time.monotonic() + WAIT_S
    try:
        while b"attached" not in said:
            wait_readable(tracer.stderr, until, "strace to attach")
            more = os.read(tracer.stderr.fileno(), 4096)
            if not more and b"ermitted" in said:
                pytest.skip("missing optional component ptrace: " + said.decode())
            assert more, said
            said += more
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()


class Trace:
    """Reads what strace has written: what was on the disk when each line left."""

    def __init__(self, text, synced=0):
        self.written = self.synced = synced
        self.pending, self.cells = {}, {}
        self.syncs, self.told, self.answers = 0, 0, 0
        self.early = []
        for line in text.splitlines():
            self.take(*line.split(None, 1))

    def take(self, thread, call):
        seqs = [int(seq) for seq in re.findall(r'\{\\"seq\\":(\d+)', call)]
        if call.startswith("pwrite64(") and seqs:
            self.written = max(self.written, *seqs)
            for cell in re.findall(r'\\"type\\":\\"cell\\",\\"cell\\":\\"(\w+)\\"', call):
                self.cells[cell] = self.written
        elif call.startswith("fdatasync("):
            self.pending[thread] = self.written
            self.end_sync(thread, call)
        elif "fdatasync resumed" in call:
            self.end_sync(thread, call)
        elif call.startswith(("write(", "writev(", "sendto(", "sendmsg(")):
            self.leave(call, seqs)

    def end_sync(self, thread, call):
        if re.search(r"= 0$", call):
            self.syncs += 1
            self.synced = max(self.synced, self.pending.pop(thread))

    def leave(self, call, seqs):
        answered = re.findall(r'\\"type\\":\\"reply\\",[^{}]*\\"cell\\":\\"(\w+)\\"', call)
        needs = seqs + [self.cells[cell] for cell in answered]
        self.told += len(seqs)
        self.answers += len(answered)
        if needs and max(needs) > self.synced:
            self.early.append((max(needs), self.synced, call[:200]))


def fsynced(text):
    """The paths of which an fsync has returned 0 in this trace (of strace -y)."""
    paths, begun = set(), {}
    for line in text.splitlines():
        thread, call = line.split(None, 1)
        start = re.match(r"fsync\(\d+<([^>]*)>", call)
        if start:
            begun[thread] = start.group(1)
        if (start or "fsync resumed" in call) and re.search(r"= 0$", call):
            paths.add(begun[thread])
    return paths


def test_the_trace_tells_early_words():
    """The reader of traces is worth something: it sees a line that leaves too early."""
    write = 'write(9, "{\\"seq\\":%d,\\"t\\":\\"\\"}\\n", 9) = 9'
    lines = ['1 pwrite64(8, "{\\"seq\\":1,\\"t\\":\\"\\"}\\n", 9, 0) = 9',
             "2 fdatasync(8 <unfinished ...>",
             '1 pwrite64(8, "{\\"seq\\":2,\\"t\\":\\"\\"}\\n", 9, 0) = 9',
             "2 <... fdatasync resumed>) = 0"]
    assert not Trace("\n".join(lines + ["1 " + write % 1])).early
    assert Trace("\n".join(lines + ["1 " + write % 2])).early
    assert Trace("\n".join(lines[:3] + ["1 " + write % 1])).early


def run_burst(keeper, count):
    """Cells that print, all asked for at once; returns when the last has finished."""
    request = b"".join(
        b'{"op":"run","id":"b%d","code":"print(%d, flush=True)\\n%d"}\n' % (n, n, n)
        for n in range(count))
    keeper.write(request)
    for number in range(count):
        done = keeper.finished("b%d" % number)
        assert (done.status, done.out, done.result) == ("ok", "%d\n" % number, str(number))


@pytest.mark.parametrize("durability", ["power", "process"])
def test_nothing_leaves_before_the_sync(house, folder, durability):
    """Not an event and not an answer; and what comes together shares a sync."""
    session = house.session(durability=durability)
    out = folder / "trace"
    with house.keeper(session) as keeper:
        assert keeper.run("1").status == "ok"
        last = keeper.event("committed")["seq"]  # the copy is told of after the cell's end
        synced = last if durability == "power" else 0
        with strace(keeper.pid, out, "-e", CALLS):
            run_burst(keeper, 20)
    trace = Trace(out.read_text(), synced)
    assert trace.told >= 100 and trace.answers >= 1
    if durability == "process":  # the same test fails where nothing is promised
        assert trace.early
        return
    assert not trace.early, trace.early[0]
    assert trace.synced >= keeper.finished("b19").finished["seq"]
    # Twenty cells of five events each are accepted in one go.
    assert 2 <= trace.syncs < trace.told / 2, (trace.syncs, trace.told)


def test_blobs_and_names_are_on_the_disk_first(house, folder):
    """A value in a file of its own: the file and its folder are synced before the line that names
    it."""
    session = house.session(durability="power")
    out = folder / "trace"
    with house.keeper(session) as keeper:
        synced = keeper.event("session")["seq"]
        with strace(keeper.pid, out, "-y", "-e", CALLS):
            done = keeper.run("display({'text/plain': 'x' * 100_000}, raw=True)")
    text = out.read_text()
    assert done.of("display")
    named = text.index('\\"$blob\\"')
    paths = fsynced(text[:named])
    assert str(session / "blobs") in paths
    assert [path for path in paths if path.startswith(str(session / "blobs") + "/")]
    assert not Trace(text, synced).early


def test_the_session_itself_is_on_the_disk_before_hello(house, folder):
    """session.json, the names in its folder, and its own name in the folder above."""
    session, out = house.session(durability="power"), folder / "trace"
    program = shutil.which("strace")
    assert program, "strace is missing: ./check installs it"
    # The leak check of a sanitized keeper does not work under ptrace.
    under = ["env", "ASAN_OPTIONS=detect_leaks=0", program, "-f", "-y", "-o", str(out),
             "-s", "1000000", "-e", CALLS]
    with house.keeper(session, under=under) as keeper:
        assert keeper.hello["last_seq"] == 1
    text = out.read_text()
    paths = fsynced(text[:text.index('"{\\"type\\":\\"hello\\"')])
    assert {str(session / "session.json"), str(session), str(session.parent)} <= paths
    assert not Trace(text).early


def failing(pid, folder):
    return strace(pid, folder / "trace", "-e", "trace=fdatasync", "-e",
                  "inject=fdatasync:error=EIO")


def test_a_sync_that_fails(house, folder):
    """Told before anything that is not on the disk, written down, believed for good; the session
    can be opened again."""
    session = house.session(durability="power")
    with house.keeper(session) as keeper:
        assert keeper.run("x = 5").status == "ok"
        with failing(keeper.pid, folder):
            keeper.send("run", id="lost", code="print('still told')\n_ = input()", allow_stdin=True)
            keeper.send("run", id="queued", code="1")
            notice = keeper.next(lambda line: line["type"] != "committed", "the warning")
            assert (notice["type"], notice["code"]) == ("warning", "sync") and "seq" not in notice
            assert "the disk" in notice["message"]
            assert keeper.event("warning", code="sync")["message"] == notice["message"]
            if "input_request" not in [event["type"] for event in keeper.events]:
                keeper.event("input_request", cell="lost")
            keeper.ask("input", text="")
            assert keeper.finished("lost").out == "still told\n"
            queued = keeper.finished("queued")
            assert (queued.status, queued.finished["reason"]) == ("cancelled", "sync")
        # The disk is well again: what it has lost meanwhile is lost all the same.
        for op, fields in (("run", {"code": "1"}), ("note", {"text": "x"}),
                           ("section", {"title": "x"})):
            with pytest.raises(Refused) as refused:
                keeper.ask(op, **fields)
            assert refused.value.code == "io" and "the disk" in refused.value.message
        assert keeper.ask("status")["durability"] == "power"
        assert keeper.ask("text", cell="lost")["text"] == "still told"
    warnings = [json.loads(line) for line in (session / "journal.ndjson").open()
                if '"type":"warning"' in line]
    assert [warning["code"] for warning in warnings] == ["sync"]
    with house.keeper(session) as keeper:
        assert keeper.run("6 * 7", id="again").result == "42"


def test_a_sync_that_fails_without_the_promise(house, folder):
    """Said once; the session goes on, since a killed process still loses nothing."""
    session = house.session()
    with house.keeper(session) as keeper:
        with failing(keeper.pid, folder):
            keeper.start("print('x')", id="first")
            keeper.event("warning", code="sync")
            assert keeper.finished("first").status == "ok"
        assert keeper.run("6 * 7").result == "42"
    text = (session / "journal.ndjson").read_text()
    assert text.count('"code":"sync"') == 1


def test_the_client_of_a_sync_that_fails(house, folder):
    """The command ends as one that Fumehood has failed, and says why."""
    assert house.cli("run", "-s", "frail", "--durability", "power", "-c", "1").out == "1\n"
    session = house.find("frail")
    assert json.loads((session / "session.json").read_text())["durability"] == "power"
    with house.connect(session) as keeper:
        assert keeper.event("session")["durability"] == "power"
        with failing(keeper.pid, folder):
            ran = house.cli("run", "-s", "frail", "-c", "2")
        assert ran.status == FAULT and "the disk" in ran.err, ran
        ran = house.cli("run", "-s", "frail", "-c", "3")
        assert ran.status == FAULT and "power cut" in ran.err, ran


def test_the_option(house):
    """run, ls, and an existing session that promises something else."""
    ran = house.cli("run", "--durability", "power", "--json", "-c", "1")
    assert ran.status == 0 and json.loads(ran.out.splitlines()[0])["durability"] == "power"
    assert house.cli("run", "-s", "plain", "-c", "1").status == 0
    (row,) = [json.loads(line) for line in house.cli("ls", "--json").out.splitlines()
              if json.loads(line)["name"] == "plain"]
    assert row["durability"] == "process"
    ran = house.cli("run", "-s", "plain", "--durability", "power", "-c", "1")
    assert ran.status == FAULT and "--durability" in ran.err
    ran = house.cli("run", "--durability", "forever", "-c", "1")
    assert ran.status == 2 and "process or power" in ran.err
    assert house.cli("run", "--durability", "process", "-c", "1").status == 0


def test_who_has_stopped_leaves_the_journal_alone(house):
    """With the answer to `stop` the session is another keeper's: its file must not be cut then."""
    session = house.session()
    journal = session / "journal.ndjson"
    for number in range(10):
        keeper = house.keeper(session)
        keeper.run("print(%d)" % number, id="a%d" % number)
        ahead = journal.stat()
        keeper.ask("stop")
        sealed = journal.stat()
        assert sealed.st_blocks * 512 < sealed.st_size + (64 << 10)
        if number == 0:  # the control: there was space ahead, where the file system has it
            had = ahead.st_blocks * 512 > ahead.st_size + (512 << 10)
        with house.keeper(session) as again:  # at once
            again.run("print('again')", id="b%d" % number)
        keeper.close()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["text"] for line in lines if line["type"] == "stream"] == [
        text for number in range(10) for text in ("%d\n" % number, "again\n")]
    if not had:
        pytest.skip("no fallocate on the file system")
