"""The full disk and the limits: what does not fit waits or is named, and nothing told is lost."""

import ctypes
import errno
import json
import os
import subprocess
import sys

import nbformat
import pytest

import fumehood_kit
from fumehood_kit import House, Refused, memory_peak

DISK_BYTES = 24 << 20
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def on_a_disk_of_its_own(test):
    """Who may not mount runs the test in a user namespace, where it may."""
    if os.geteuid() == 0:
        return test

    def in_a_user_namespace():
        run = subprocess.run(
            [
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "%s::%s" % (__file__, test.__name__),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if run.stdout.startswith("unshare: "):
            pytest.skip("user namespaces are missing: " + run.stdout.strip())
        assert run.returncode == 0, run.stdout

    in_a_user_namespace.__name__ = test.__name__
    return in_a_user_namespace


@pytest.fixture
def disk():
    """A house whose sessions live on a small disk, which can be filled and freed.

    It is mounted in a mount namespace that only this test and its children are in.
    """
    with open("/proc/self/ns/mnt") as outside:
        folder = os.getcwd()
        try:
            check(libc.unshare(CLONE_NEWNS))
        except PermissionError:
            pytest.skip("mount namespaces are missing: root without CAP_SYS_ADMIN")
        check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
        house = House()
        place = house.dir / "state"
        check(
            libc.mount(b"none", os.fsencode(place), b"tmpfs", 0, b"size=%d,mode=755" % DISK_BYTES)
        )
        house.filler = place / "filler"
        yield house
        if house.filler.exists():
            house.filler.unlink()
        if house.sockets():
            house.stop_sessions()
        bad = house.leftovers() + house.stop_pools()
        check(libc.umount2(os.fsencode(place), 0))
        bad += house.close()
        check(libc.setns(outside.fileno(), CLONE_NEWNS))
        os.chdir(folder)
    assert not bad, "\n".join(bad)


def fill(house, leave=0):
    """Fills the disk but for `leave` bytes."""
    block = b"\1" * (64 << 10)
    with open(house.filler, "ab", buffering=0) as file:
        try:
            while file.write(block):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC
        file.truncate(max(0, file.tell() - leave))


def free(house):
    house.filler.unlink()


def journal(session):
    """All events of the file, checked."""
    events = [json.loads(line) for line in (session / "journal.ndjson").read_bytes().splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    return events


def text_of(events, cell, name="stdout"):
    return "".join(
        event["text"]
        for event in events
        if event["type"] == "stream" and event["cell"] == cell and event["name"] == name
    )


def warnings(events):
    return [event["code"] for event in events if event["type"] == "warning"]


NUMBERS = "for i in range(%d): print(i, 'x' * 80)"


def numbers(count):
    return "".join("%d %s\n" % (i, "x" * 80) for i in range(count))


@on_a_disk_of_its_own
def test_flood_onto_a_full_disk(disk):
    """The cell waits in its pipe; when there is space again everything is there, once and in
    order."""
    session = disk.session()
    with disk.keeper(session) as keeper:
        fill(disk, leave=2 << 20)
        cell = keeper.start(NUMBERS % 100_000, id="flood")
        warning = keeper.event("warning", code="no_space")
        assert "free some space" in warning["message"]
        keeper.event("state", state="full")
        assert keeper.ask("status")["state"] == "full"
        for op, fields in (
            ("run", {"code": "1"}),
            ("note", {"text": "x"}),
            ("section", {"title": "x"}),
        ):
            with pytest.raises(Refused) as refused:
                keeper.ask(op, **fields)
            assert refused.value.code == "no_space"
        # What can be read, can be read.
        assert keeper.ask("text", cell=cell)["text"].startswith("0 xxx")
        assert keeper.ask("notebook")["notebook"]["nbformat"] == 4
        free(disk)
        keeper.event("state", state="running")
        assert keeper.finished(cell).status == "ok"
        assert keeper.run("6 * 7").result == "42"
        assert keeper.ask("status")["state"] == "idle"
    events = journal(session)
    assert text_of(events, cell) == numbers(100_000)
    nbformat.validate(json.loads((session / "notebook.ipynb").read_bytes()))


@on_a_disk_of_its_own
def test_full_and_freed_again_and_again(disk):
    """Small gaps: full many times within one cell."""
    session = disk.session()
    with disk.keeper(session) as keeper:
        cell = keeper.start(NUMBERS % 40_000, id="flood")
        times = 0
        fill(disk)
        while True:
            event = keeper.next(lambda m: m["type"] in ("warning", "finished"), "more")
            if event["type"] == "finished":
                break
            times += 1
            free(disk)
            if times < 3:
                keeper.event("state", state="running")
                fill(disk, leave=times << 18)
        assert times >= 1
    assert text_of(journal(session), cell) == numbers(40_000)


@on_a_disk_of_its_own
def test_displays_onto_a_full_disk(disk):
    """Values that need a blob, errors, both streams: in the order of the cell when space comes
    back."""
    session = disk.session()
    with disk.keeper(session) as keeper:
        fill(disk, leave=3 << 20)
        cell = keeper.start(
            "for i in range(40):\n"
            "    display({'text/plain': '%02d' % i * 75_000}, raw=True)\n"
            "raise ValueError('the end')"
        )
        keeper.event("warning", code="no_space")
        free(disk)
        done = keeper.finished(cell)
        assert (done.status, done.error) == ("error", "ValueError")
        shown = [event["data"]["text/plain"][:2] for event in done.of("display")]
        assert shown == ["%02d" % i for i in range(40)]


@on_a_disk_of_its_own
def test_guest_dies_on_a_full_disk(disk):
    """What it had said is not lost with it, be it in the pipes or on the socket."""
    session = disk.session()
    with disk.keeper(session) as keeper:
        fill(disk, leave=2 << 20)
        keeper.start(
            "import os, time\n"
            "os.set_blocking(1, False)\n"
            "last = time.monotonic()\n"
            "while time.monotonic() < last + 0.3:\n"
            "    try: os.write(1, b'z' * 65536); last = time.monotonic()\n"
            "    except BlockingIOError: pass\n"
            "display('shown before the end')\n"
            "os.write(2, b'last words')\n"
            "os._exit(7)",
            id="dies",
        )
        keeper.event("state", state="full")
        guest = fumehood_kit.children(fumehood_kit.init_of(keeper.pid))[0]
        assert fumehood_kit.wait_gone(guest)
        free(disk)
        done = keeper.finished("dies")
        assert (done.status, done.finished["reason"]) == ("died", "exit status 7")
        assert done.err == "last words" and set(done.out) == {"z"}
        (shown,) = done.of("display")
        assert shown["data"]["text/plain"] == "'shown before the end'"
        assert keeper.run("6 * 7").result == "42"


@on_a_disk_of_its_own
def test_stopped_while_full(disk):
    """`stop` does not wait for space: the last words fit, what does not is counted, and the
    journal is whole."""
    session = disk.session()
    with disk.keeper(session) as keeper:
        keeper.ask("save")  # the notebook that is there when the disk fills up stays whole
        fill(disk, leave=2 << 20)
        cell = keeper.start(NUMBERS % 200_000, id="flood")
        keeper.start("print('never')", id="never")
        keeper.event("state", state="full")
        keeper.stop()
    free(disk)
    events = journal(session)
    ends = {event["cell"]: event for event in events if event["type"] == "finished"}
    assert (ends[cell]["status"], ends[cell]["reason"], ends[cell]["state"]) == (
        "died",
        "stop",
        "gone",
    )
    assert ends["never"]["status"] == "cancelled"
    assert events[-1]["type"] == "stopped" and events[-1]["reason"] == "stop", events[-6:]
    kept, dropped = text_of(events, cell), [e for e in events if e["type"] == "truncated"]
    assert numbers(200_000).startswith(kept)
    assert [e["limit"] for e in dropped] == ["no_space"] and dropped[0]["bytes_dropped"] > 0
    nbformat.validate(json.loads((session / "notebook.ipynb").read_bytes()))
    with disk.keeper(session) as keeper:  # and it can be opened again
        assert keeper.run("6 * 7").result == "42"


@on_a_disk_of_its_own
def test_reopened_while_full(disk):
    """Killed on a full disk, reopened on a full disk: readable, and it goes on when there is
    space."""
    session = disk.session()
    keeper = disk.keeper(session)
    fill(disk, leave=2 << 20)
    keeper.start(NUMBERS % 100_000, id="flood")
    keeper.event("state", state="full")
    told = keeper.events[-1]["seq"]
    fumehood_kit.kill(keeper.pid)
    keeper.close()
    fill(disk)
    with disk.keeper(session) as keeper:
        end = keeper.event("finished", cell="flood")
        assert (end["status"], end["reason"]) == ("died", "keeper") and end["seq"] > told
        keeper.send("run", id="again", code=NUMBERS % 100_000)
        # Full at once, or once what the dead keeper had allocated is used up.
        assert keeper.next(lambda m: m.get("code") == "no_space", "no_space")
        free(disk)
        keeper.next(lambda m: m["type"] == "state" and m["state"] != "full", "space")
        assert keeper.run("6 * 7").result == "42"
    journal(session)


@on_a_disk_of_its_own
def test_no_session_begins_on_a_full_disk(disk):
    """Refused with the reason; nothing half made stays behind that could not be used later."""
    session = disk.session()
    fill(disk)
    with pytest.raises(Refused) as refused:
        disk.keeper(session)
    assert refused.value.code == "no_space"
    free(disk)
    with disk.keeper(session) as keeper:
        assert keeper.run("6 * 7").result == "42"


# ------------------------------------------------------------ limits by name


def test_limit_of_the_record(house):
    """record_bytes: told once, output dropped and counted, new and queued cells refused, the
    session ends well."""
    session = house.session(limits={"record_bytes": 2 << 20})
    with house.keeper(session) as keeper:
        keeper.send("run", id="flood", code=NUMBERS % 100_000)
        keeper.send("run", id="queued", code="print('never')")
        done = keeper.finished("flood")
        assert done.status == "ok"
        assert numbers(100_000).startswith(done.out)
        (truncated,) = done.of("truncated")
        assert truncated["limit"] == "record_bytes"
        assert truncated["bytes_dropped"] == len(numbers(100_000)) - len(done.out)
        queued = keeper.finished("queued")
        assert (queued.status, queued.finished["reason"]) == ("cancelled", "record_bytes")
        assert not queued.of("started")
        with pytest.raises(Refused) as refused:
            keeper.start("1")
        assert refused.value.code == "limit" and "record_bytes" in str(refused.value)
        assert warnings(keeper.events).count("record_bytes") == 1
    events = journal(session)
    assert (session / "journal.ndjson").stat().st_size <= 2 << 20
    assert events[-1]["type"] == "stopped"
    nbformat.validate(json.loads((session / "notebook.ipynb").read_bytes()))


def test_cell_that_does_not_fit_into_the_record(house):
    """Its code could not be on disk before it runs: so it is refused and does not run."""
    session = house.session(limits={"record_bytes": 400_000})
    with house.keeper(session) as keeper:
        with pytest.raises(Refused) as refused:
            keeper.start("ran = True\n" + "# " + "x" * 600_000, id="long")
        assert refused.value.code == "limit"
    assert not [event for event in journal(session) if event.get("cell") == "long"]


def test_metadata_of_megabytes(house):
    """It does not fit into a line of the journal, and so it becomes a blob."""
    session = house.session()
    with house.keeper(session) as keeper:
        metadata = {"k%d" % i: "v" * 60_000 for i in range(100)}
        assert keeper.run("1", id="fits", metadata=metadata).of("cell")[0]["metadata"] == metadata
        assert keeper.run("6 * 7").result == "42"
    assert all(len(line) < 1 << 20 for line in (session / "journal.ndjson").open("rb"))


def test_limit_of_a_cell(house):
    """output_bytes: warned when met, counted at the end; what was before it is whole."""
    session = house.session(limits={"output_bytes": 1_000_000})
    with house.keeper(session) as keeper:
        done = keeper.run(
            "import sys\n"
            "sys.stdout.write('ä' * 600_000)\n"
            "sys.stderr.write('e' * 5000)\n"
            "display('dropped too')\n"
            "41 + 1"
        )
        assert done.status == "ok"
        assert done.out == "ä" * 500_000 and done.err == ""
        sums = {event["name"]: event for event in done.of("truncated")}
        assert {event["limit"] for event in sums.values()} == {"output_bytes"}
        assert sums["stdout"]["bytes_dropped"] > 200_000 and sums["stderr"]["bytes_dropped"] == 5000
        assert warnings(done.events) == ["output_bytes"]
        assert keeper.run("6 * 7").result == "42"  # the limit is of a cell, not of the session


def test_a_gigabyte(house):
    """Printed in a second or two; the keeper does not grow with it."""
    session = house.session()
    with house.keeper(session, since=None) as keeper:
        cell = keeper.ask("run", code="for i in range(1000): print('x' * 999_999)")["cell"]
        keeper.ask("events", since=0, follow=True, cell=cell)
        end = keeper.event("finished", cell=cell)
        assert end["status"] == "ok"
        (truncated,) = [e for e in keeper.events if e["type"] == "truncated"]
        assert truncated["bytes_dropped"] == 1_000_000_000 - (64 << 20)
        keeper.ask("save")
        # The notebook holds the 64 MB of the limit, prints them, and hands a copy to the saver.
        assert memory_peak(keeper.pid) < 256 << 20


def test_limit_after_the_end(house):
    """background_bytes: a thread that prints on for ever is dropped after a while, by name."""
    session = house.session(limits={"background_bytes": 100_000})
    with house.keeper(session) as keeper:
        cell = keeper.start(
            "import threading\n"
            "def late():\n"
            "    while True: print('late' * 100)\n"
            "threading.Thread(target=late, daemon=True).start()"
        )
        assert keeper.finished(cell).status == "ok"
        keeper.event("warning", code="background_bytes", cell=cell)
        assert keeper.run("6 * 7").result == "42"
        keeper.ask("restart")
        (truncated,) = [e for e in keeper.events if e["type"] == "truncated"]
        assert truncated["limit"] == "background_bytes" and truncated["cell"] == cell
    late = sum(
        len(e["text"])
        for e in journal(session)
        if e["type"] == "stream" and e.get("origin") == "background"
    )
    assert 90_000 < late <= 100_000
