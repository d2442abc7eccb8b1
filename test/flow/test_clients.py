"""Clients of one keeper that are slow, rude, many or gone, and every request asked wrongly.

Nobody slows anybody down, nothing is lost, and the keeper's memory does not grow with what it is
sent.
"""

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import time

import pytest

from fumehood_kit import WAIT_S, Refused, is_alive, kill, memory_peak, wait_gone

LINES = "for i in range(%d): print(i, 'x' * 990)"


@pytest.fixture
def keeper(house):
    with house.keeper(house.session()) as keeper:
        yield keeper


@pytest.fixture
def session(keeper, house):
    """The directory of the session that `keeper` is of."""
    return house.sessions / keeper.hello["session"]


def read_all(client, wait_s=WAIT_S):
    """All lines to the end of the connection."""
    lines = []
    until = time.monotonic() + wait_s
    while (line := client.line(until - time.monotonic())) is not None:
        lines.append(line)
    return lines


def answers(client, count):
    """The next answers, in order."""
    found = []
    while len(found) < count:
        message = client.line()
        assert message is not None, "the stream ended after %r" % found
        if message["type"] in ("reply", "refused"):
            found.append(message)
    return found


# ------------------------------------------------------------------------------------ slow readers


def test_client_that_never_reads(house):
    """100 MB are printed: the others see them at once, and the keeper keeps none of it for the one
    who sleeps."""
    session = house.session(limits={"output_bytes": 200 << 20})
    with house.keeper(session) as keeper:
        asleep = house.connect(session, since=None)
        asleep.send("events", since=0, follow=True)
        # Cleared now and then: else the notebook holds what is printed.
        cell = keeper.start(
            "from IPython.display import clear_output\n"
            "for i in range(100_000):\n"
            "    print(i, 'x' * 994)\n"
            "    if i % 500 == 499: clear_output()"
        )
        done = keeper.finished(cell)
        assert len(done.out) == sum(len("%d \n" % i) + 994 for i in range(100_000))
        assert memory_peak(keeper.pid) < 60 << 20
        keeper.stop()  # waits for no reader
        asleep.close()
    with house.keeper(session) as again:  # the file has it all
        end = again.event("restarted")
        assert [event["seq"] for event in again.events] == list(range(1, end["seq"] + 1))


def test_slow_reader_reads_on_from_the_file(keeper, house, session):
    """It wakes up while the session lives: every event, in order, once; others were not kept
    waiting."""
    asleep = house.connect(session, since=None)
    asleep.send("events", since=0, follow=True)
    cell = keeper.start(LINES % 40_000)
    done = keeper.finished(cell)
    assert done.status == "ok"
    asleep.event("finished", cell=cell)
    assert asleep.events == keeper.events[: len(asleep.events)]
    assert [event["seq"] for event in asleep.events] == list(range(1, len(asleep.events) + 1))
    asleep.close()


def test_lossy_reader(keeper, house, session):
    """It skips what it missed, and is told what that was; what it gets is true."""
    lossy = house.connect(session, since=None)
    lossy.send("events", since=0, follow=True, lossy=True)
    keeper.finished(keeper.start(LINES % 40_000))
    end = keeper.run("'last'").finished["seq"]
    covered = []
    while not covered or covered[-1] < end:
        message = lossy.line()
        if message["type"] == "gap":
            assert message["from"] <= message["to"]
            covered += range(message["from"], message["to"] + 1)
        elif "seq" in message:
            covered.append(message["seq"])
            assert message == keeper.events[message["seq"] - 1]
    assert covered == list(range(1, len(covered) + 1))
    assert len(lossy.events) < end
    lossy.close()


def test_many_clients(keeper, house, session):
    """256 at once see the same; one more is told so."""
    others = [house.connect(session) for _ in range(255)]
    with pytest.raises(Refused) as refused:
        house.connect(session)
    assert refused.value.code == "busy"
    done = keeper.run("print('to all')\n6 * 7")
    for other in others:
        other.event("finished", cell=done.id)
        assert [e for e in other.events if e.get("cell") == done.id] == done.events
    assert keeper.ask("status")["clients"] == 256
    for other in others:
        other.close()
    # They are gone when the keeper has seen it; a place is free then.
    while keeper.ask("status")["clients"] > 1:
        pass
    house.connect(session).close()


def test_since_in_the_middle_and_follow(keeper, house, session):
    """A client that comes while a cell runs gets the rest, without hole or repetition."""
    cell = keeper.start("import time\nfor i in range(300): print(i, flush=True); time.sleep(0.001)")
    middle = keeper.event("stream", cell=cell)["seq"]
    late = house.connect(session, since=middle)
    for client in (keeper, late):
        client.event("committed", cell=cell)  # nothing comes behind it
    assert late.events == [event for event in keeper.events if event["seq"] > middle]
    # Without `follow`: up to now and no further. With `cell`: only its events.
    to = late.ask("events", since=2, cell=cell)["to"]
    assert to == keeper.events[-1]["seq"]
    late.events.clear()
    late.ask("status")
    assert [e["seq"] for e in late.events] == [
        e["seq"] for e in keeper.events if e["seq"] > 2 and e.get("cell") == cell
    ]
    late.close()


# ------------------------------------------------------------------------------------ rude clients


def test_client_killed_in_the_middle_of_a_line(keeper, house, session):
    """Half a request is no request."""
    rude = house.connect(session, since=None)
    rude.write(b'{"op":"run","code":"half = 1')
    rude.close()
    assert keeper.run("'half' in globals()").result == "False"


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"\xff\xfe\x00\x01",
        b"{",
        b"[1,2",
        b"[]",
        b"1",
        b"null",
        b'"run"',
        b'{"op":1}',
        b'{"op":"fly"}',
        b'{"op":"run","op":"stop"}',
        b'{"op":"status","x":NaN}',
        b'{"op":"run","code":"\xff"}',
        b'{"op":"run","code":"a\tb"}',
        b'{"op":"status"} trailing',
        b"{\"op\":\"status\",\"x\":" + b"[" * 80 + b"]" * 80 + b"}",
        b'{"op":"status","id":[1]}',
        b'{"op":"status","id":1.5}',
        b'{"op":"status","id":true}',
        b"{}",
    ],
)
def test_garbage(keeper, line):
    """One refusal a line, and the connection goes on."""
    keeper.write(line + b"\n")
    (answer,) = answers(keeper, 1)
    assert answer["type"] == "refused" and answer["code"] in ("invalid", "limit"), answer
    assert answer["message"]
    assert keeper.ask("status")["state"] == "idle"


def test_random_bytes(keeper):
    """A megabyte of noise, then a request that is answered."""
    noise = os.urandom(1 << 20).replace(b"\n", b"\r")
    keeper.write(noise + b"\n")
    assert answers(keeper, 1)[0]["code"] == "invalid"
    assert keeper.run("6 * 7").result == "42"


def test_100_megabytes_without_a_newline(keeper):
    """Skipped up to its end and refused; the memory it cost is bounded by the longest line."""
    for _ in range(100):
        keeper.write(b"x" * (1 << 20))
    keeper.write(b"\n")
    assert answers(keeper, 1)[0]["code"] == "limit"
    assert keeper.run("6 * 7").result == "42"
    assert memory_peak(keeper.pid) < 200 << 20


def test_pipelined_in_one_write(keeper):
    """run, run, text, stop at once: answered in order, done in order."""
    requests = [
        {"op": "run", "id": "a", "code": "print('first')"},
        {"op": "run", "id": "b", "code": "print('second')"},
        {"op": "text", "id": "t", "cell": "a"},
        {"op": "stop", "id": "s", "mode": "drain"},
    ]
    keeper.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
    lines = read_all(keeper)
    keeper.close()
    replies = [line for line in lines if line["type"] in ("reply", "refused")]
    assert [(line["type"], line["id"]) for line in replies] == [("reply", name) for name in "abts"]
    assert [line["queued"] for line in replies[:2]] == [0, 1]
    assert [line["cell"] for line in lines if line["type"] == "finished"] == ["a", "b"]
    assert [line["text"] for line in lines if line["type"] == "stream"] == ["first\n", "second\n"]
    assert lines[-2]["type"] == "stopped" or lines[-1]["type"] == "stopped"


def test_answers_that_nobody_reads(keeper, house, session):
    """Thousands of requests in one go for a big answer each: made only as fast as they are taken.
    Thousands of requests in one go for a big answer each: made only as fast as they are taken."""
    keeper.run("print('y' * 2_000_000)", id="big")
    rude = house.connect(session, since=None)
    before = memory_peak(keeper.pid)
    count = 500
    rude.write(b'{"op":"text","cell":"big","max_chars":2000000}\n' * count)
    assert keeper.run("6 * 7").result == "42"
    assert memory_peak(keeper.pid) - before < 100 << 20
    assert all(answer["type"] == "reply" for answer in answers(rude, 20))
    rude.close()


def test_half_closed(keeper, house, session):
    """A client that shuts down its writing half still gets its answers, its events, and then the
    end."""
    half = house.connect(session, since=None)
    half.write(
        b'{"op":"run","id":"h","code":"print(1)"}\n{"op":"text","id":"t","cell":"h"}\n'
        b'{"op":"notebook","id":"n"}'
    )  # the last line has no end
    half.sock.shutdown(socket.SHUT_WR)
    lines = read_all(half)
    assert [(line["type"], line["id"]) for line in lines] == [
        ("reply", "h"),
        ("reply", "t"),
        ("reply", "n"),
    ]
    half.close()
    # One that follows is served for as long as it listens.
    half = house.connect(session, since=None)
    half.send("events", since=0, follow=True)
    half.sock.shutdown(socket.SHUT_WR)
    done = keeper.run("6 * 7")
    half.event("finished", cell=done.id)
    assert keeper.ask("status")["clients"] == 2
    half.close()
    while keeper.ask("status")["clients"] > 1:
        pass


# ------------------------------------------------------------ ends_with_client


def test_ends_with_its_last_client(house):
    session = house.session(ends_with_client=True)
    first = house.keeper(session)
    second = house.connect(session)
    first.start("import time; time.sleep(100)")
    first.sock.close()
    second.event("started")
    assert second.ask("status")["state"] == "running"
    second.sock.shutdown(socket.SHUT_WR)  # it still listens: the session goes on
    assert is_alive(first.pid)
    second.close()
    first.process.wait(WAIT_S)
    events = [json.loads(line) for line in (session / "journal.ndjson").read_bytes().splitlines()]
    assert events[-1]["type"] == "stopped" and events[-1]["reason"] == "client"
    assert events[-2]["type"] == "finished" and events[-2]["reason"] == "client"


def test_first_client_gone_before_the_hello(house):
    """Whoever started it has died: it ends by itself."""
    session = house.session(ends_with_client=True)
    first = house.keeper(session, since=None)
    pid, process = first.pid, first.process
    kill(pid, signal.SIGSTOP)
    first.sock.close()
    kill(pid, signal.SIGCONT)
    assert wait_gone(pid) and process.wait(WAIT_S) == 0


# ------------------------------------------------------------ requests asked wrongly

WRONG = [
    ("run", {}, "invalid"),
    ("run", {"code": 1}, "invalid"),
    ("run", {"code": None}, "invalid"),
    ("run", {"code": "1", "id": ""}, "invalid"),
    ("run", {"code": "1", "id": "a b"}, "invalid"),
    ("run", {"code": "1", "id": "x" * 65}, "invalid"),
    ("run", {"code": "1", "timeout": 0}, "invalid"),
    ("run", {"code": "1", "timeout": -1}, "invalid"),
    ("run", {"code": "1", "timeout": "5"}, "invalid"),
    ("run", {"code": "1", "allow_stdin": 1}, "invalid"),
    ("run", {"code": "1", "max_chars": -1}, "invalid"),
    ("run", {"code": "1", "max_chars": 1.5}, "invalid"),
    ("run", {"code": "1", "metadata": []}, "invalid"),
    ("run", {"code": "x" * ((16 << 20) + 1)}, "limit"),
    ("interrupt", {"cell": "none"}, "not_found"),
    ("interrupt", {"cell": 7}, "invalid"),
    ("input", {}, "invalid"),
    ("input", {"text": "x"}, "not_found"),
    ("input", {"eof": True}, "not_found"),
    ("input", {"text": 1}, "invalid"),
    ("input", {"eof": False}, "invalid"),
    ("text", {}, "invalid"),
    ("text", {"cell": "none"}, "not_found"),
    ("text", {"cell": "../x"}, "invalid"),
    ("events", {"since": -1}, "invalid"),
    ("events", {"since": 10**9}, "invalid"),
    ("events", {"since": 1 << 70}, "invalid"),
    ("events", {"follow": "yes"}, "invalid"),
    ("events", {"lossy": 1}, "invalid"),
    ("events", {"cell": ""}, "invalid"),
    ("section", {}, "invalid"),
    ("section", {"title": 1}, "invalid"),
    ("section", {"title": "x", "level": 0}, "invalid"),
    ("section", {"title": "x", "level": 7}, "invalid"),
    ("note", {}, "invalid"),
    ("note", {"text": "x", "cell_type": "heading"}, "invalid"),
    ("note", {"text": "x", "metadata": 1}, "invalid"),
    ("blob", {}, "invalid"),
    ("blob", {"sha256": "../../etc/passwd"}, "invalid"),
    ("blob", {"sha256": "A" * 64}, "invalid"),
    ("blob", {"sha256": "0" * 64}, "not_found"),
    ("blob", {"sha256": "0" * 64, "length": (1 << 20) + 1}, "limit"),
    ("blob", {"sha256": "0" * 64, "offset": -1}, "invalid"),
    ("stop", {"mode": "gently"}, "invalid"),
    ("stop", {"mode": 1}, "invalid"),
]


def test_wrong_requests(keeper):
    """Each is refused with its code and a sentence, and nothing has changed."""
    before = keeper.ask("status")
    for number, (op, fields, code) in enumerate(WRONG):
        fields = dict(fields)
        keeper.send(op, **{"id": "w%d" % number, **fields})
        (answer,) = answers(keeper, 1)
        label = op, str(fields)[:100], answer
        assert answer["type"] == "refused" and answer["code"] == code, label
        assert (
            answer["id"] == fields.get("id", "w%d" % number) and len(answer["message"]) > 10
        ), label
    after = keeper.ask("status")
    del before["id"], after["id"]
    assert before == after


def test_duplicate_ids(keeper):
    assert keeper.run("1", id="one").status == "ok"
    for op, fields in (("run", {"code": "2"}), ("note", {"text": "x"})):
        with pytest.raises(Refused) as refused:
            keeper.ask(op, id="one", **fields)
        assert refused.value.code == "duplicate"
    # Made by the keeper when absent: free also beside those that look like its own.
    keeper.run("1", id="c3")
    keeper.send("run", code="1")
    made = answers(keeper, 1)[0]["cell"]
    assert made != "c3" and keeper.finished(made).status == "ok"


def test_queue_limit(house):
    with house.keeper(house.session(limits={"queue": 3})) as keeper:
        keeper.start("import time; time.sleep(100)", id="long")
        for number in range(3):
            reply = keeper.ask("run", id="q%d" % number, code="ran = %d" % number)
            assert reply["queued"] == number + 1
        with pytest.raises(Refused) as refused:
            keeper.start("1")
        assert refused.value.code == "busy"
        assert keeper.ask("status")["queue"] == ["q0", "q1", "q2"]
        assert keeper.ask("interrupt", cell="q1")["interrupted"] is True
        assert keeper.finished("q1").status == "cancelled"
        assert keeper.ask("interrupt", cell="long")["interrupted"] is True
        assert keeper.finished("long").status == "interrupted"
        assert keeper.finished("q2").status == "ok"
        assert keeper.run("ran").result == "2"


# ------------------------------------------------------------------------------------ blobs


def test_blob(keeper, house, session):
    """A long value is a link for who wants links, inline for who does not, and can be fetched in
    pieces."""
    value = "".join(chr(97 + i % 26) for i in range(3_000_000))
    done = keeper.run(
        "display({'text/plain': %r[:26] * 115385 + 'abcdefgh'[:0]}, raw=True)" % value
    )
    (shown,) = done.of("display")
    text = shown["data"]["text/plain"]
    linked = house.connect(session, since=None)
    linked.ask("events", since=0, inline=False)
    link = linked.event("display")["data"]["text/plain"]
    name = hashlib.sha256(text.encode()).hexdigest()
    assert link["$blob"] == name and link["bytes"] == len(text)
    pieces, offset = [], 0
    while offset < len(text):
        piece = linked.ask("blob", sha256=name, offset=offset)
        assert (piece["offset"], piece["total"]) == (offset, len(text))
        pieces.append(base64.b64decode(piece["data"]))
        offset += len(pieces[-1])
    assert b"".join(pieces).decode() == text
    assert (
        base64.b64decode(linked.ask("blob", sha256=name, offset=5, length=3)["data"])
        == text[5:8].encode()
    )
    assert linked.ask("blob", sha256=name, offset=1 << 40)["data"] == ""
    linked.close()


# ------------------------------------------------------------ time, input, restart, stop


def test_time_limit_ladder(keeper):
    """SIGINT ends what can be interrupted and keeps the variables; what cannot is killed, by name.
    SIGINT ends what can be interrupted and keeps the variables; what cannot is killed, by name."""
    done = keeper.run("kept = 1\nimport time\nwhile True: time.sleep(0.01)", timeout=0.3)
    assert (done.status, done.finished["reason"], done.finished["state"]) == (
        "timeout",
        "wall_s",
        "kept",
    )
    assert keeper.run("kept").result == "1"
    stubborn = (
        "import time\n"
        "while True:\n"
        "    try:\n"
        "        while True: time.sleep(0.01)\n"
        "    except BaseException: print('no')"
    )
    done = keeper.run(stubborn, timeout=0.3)
    assert (done.status, done.finished["reason"], done.finished["state"]) == (
        "timeout",
        "wall_s",
        "recovered",
    )
    assert done.out == "no\nno\n"  # it was asked twice
    assert keeper.run("kept").result == "1"


def test_states(keeper):
    assert keeper.ask("status")["state"] == "idle" and keeper.ask("status")["cell"] is None
    keeper.start("import time; time.sleep(100)", id="long")
    status = keeper.ask("status")
    assert (status["state"], status["cell"]) == ("running", "long")
    assert keeper.ask("interrupt")["interrupted"] is True
    assert keeper.finished("long").status == "interrupted"
    assert keeper.ask("interrupt")["interrupted"] is False
    assert keeper.ask("interrupt", cell="long")["interrupted"] is False


def test_input_by_two_clients(keeper, house, session):
    """Whoever is first answers; the other is told that nothing waits. A password is never stored.
    Whoever is first answers; the other is told that nothing waits. A password is never stored."""
    other = house.connect(session)
    cell = keeper.start(
        "import getpass\nname = input('Name? ')\nword = getpass.getpass('Word? ')\nname + word",
        allow_stdin=True,
    )
    request = keeper.event("input_request", cell=cell)
    assert (request["prompt"], request["password"]) == ("Name? ", False)
    other.event("input_request", cell=cell)
    other.ask("input", text="Ada")
    keeper.event("input_request", cell=cell, prompt="Word? ")
    keeper.ask("input", text="x")
    with pytest.raises(Refused) as refused:
        other.ask("input", text="y")
    assert refused.value.code == "not_found"
    done = keeper.finished(cell)
    assert (done.status, done.result) == ("ok", "'Adax'")
    other.close()


def test_password_is_not_stored(keeper, session):
    cell = keeper.start("import getpass\nlen(getpass.getpass('Word? '))", allow_stdin=True)
    assert keeper.event("input_request", cell=cell)["password"] is True
    keeper.ask("input", text="s3cr3t-w0rd")
    done = keeper.finished(cell)
    assert done.result == "11"
    assert "text" not in done.of("input")[0]
    assert b"s3cr3t" not in (session / "journal.ndjson").read_bytes()


def test_restart_while_running_and_queued(keeper, house, session):
    other = house.connect(session)
    keeper.run("kept = 1")
    keeper.start("import time; time.sleep(100)", id="long")
    keeper.start("1", id="queued")
    keeper.send("restart", id="r1")
    other.send("restart", id="r2")
    keeper.answer("r1")
    other.answer("r2")
    ends = {e["cell"]: e for e in keeper.events if e["type"] == "finished"}
    assert (ends["long"]["status"], ends["long"]["reason"]) == ("died", "restart")
    assert (ends["queued"]["status"], ends["queued"]["reason"]) == ("cancelled", "restart")
    done = keeper.run("'kept' in globals()")
    assert done.result == "False" and done.finished["execution_count"] == 1
    other.close()


def test_stop_now(house):
    session = house.session()
    keeper = house.keeper(session)
    keeper.start("import time; time.sleep(100)", id="long")
    keeper.start("1", id="queued")
    keeper.stop()
    events = [json.loads(line) for line in (session / "journal.ndjson").read_bytes().splitlines()]
    ends = {e["cell"]: (e["status"], e["reason"]) for e in events if e["type"] == "finished"}
    assert ends == {"long": ("died", "stop"), "queued": ("cancelled", "stop")}
    assert events[-1]["type"] == "stopped"


def test_stop_drain(house):
    """The queue is finished first; prompts get the end of file; nothing new is taken."""
    session = house.session()
    keeper = house.keeper(session)
    keeper.start("input('now? ')", id="asks", allow_stdin=True)
    keeper.event("input_request")
    keeper.start("input('later? ')", id="asks-later", allow_stdin=True)
    keeper.start("print('drained')", id="last")
    keeper.send("stop", id="stop", mode="drain")
    keeper.send("run", id="late", code="1")
    lines = read_all(keeper)
    keeper.close()
    assert [
        line["code"] for line in lines if line["type"] == "refused" and line["id"] == "late"
    ] == ["gone"]
    errors = {line["cell"]: line["ename"] for line in lines if line["type"] == "error"}
    assert errors == {"asks": "EOFError", "asks-later": "EOFError"}
    assert [
        line["text"] for line in lines if line.get("cell") == "last" and line["type"] == "stream"
    ] == ["drained\n"]
    assert [line["id"] for line in lines if line["type"] == "reply"] == ["stop"]


def test_sigterm(house):
    """Ends in order: the notebook is saved, the journal closed."""
    session = house.session()
    keeper = house.keeper(session)
    keeper.start("print('here', flush=True)\nimport time; time.sleep(100)", id="long")
    keeper.event("stream")
    kill(keeper.pid, signal.SIGTERM)
    lines = read_all(keeper)
    keeper.close()
    assert keeper.process.returncode == 0
    assert lines[-1]["type"] == "stopped" and lines[-1]["reason"] == "signal"
    assert "here" in (session / "notebook.ipynb").read_text()


# ------------------------------------------------------------------------------------ the directory


def test_second_keeper_is_refused(keeper, house, session):
    """The lock says who owns a session; the second leaves everything as it is, the socket too."""
    with pytest.raises(Refused) as refused:
        house.keeper(session)
    assert refused.value.code == "busy"
    assert keeper.run("6 * 7").result == "42"
    house.connect(session).close()


def test_deleted_under_a_live_keeper(house):
    """rm -r of a running session: the keeper goes on with what it has open, and ends when it is
    told to."""
    session = house.session()
    keeper = house.keeper(session)
    keeper.run("print('before')")
    shutil.rmtree(session)
    assert keeper.run("6 * 7").result == "42"
    # What needs a file of its own cannot be stored: said, and not taken for a full disk.
    keeper.send("run", id="big", code="display({'text/plain': 'b' * 300_000}, raw=True)")
    warning = keeper.event("warning")
    assert warning["code"] != "no_space"
    keeper.send("stop", id="stop")
    read_all(keeper)
    keeper.close()
    assert keeper.process.returncode == 0
    assert not session.exists()


def test_lock_is_not_inherited(keeper):
    """No process of the box holds the keeper's descriptors: the lock, the journal, the clients."""
    done = keeper.run(
        "import os\n[os.readlink('/proc/self/fd/%s' % n) for n in os.listdir('/proc/self/fd')"
        " if os.path.lexists('/proc/self/fd/%s' % n)]"
    )
    assert "journal" not in done.result and "lock" not in done.result


def test_interrupt_of_a_cell_that_waits(keeper):
    """It is cancelled; what runs, and what waits beside it, goes on."""
    first = keeper.start("print('on')\nimport time\nwhile True: time.sleep(0.01)")
    second, third = keeper.start("print(2)"), keeper.start("print(3)")
    keeper.wait_text("on")
    assert keeper.ask("interrupt", cell=second)["interrupted"] is True
    done = keeper.finished(second)
    assert (done.status, done.finished["reason"]) == ("cancelled", "interrupt")
    assert keeper.ask("interrupt", cell=first)["interrupted"] is True
    assert keeper.finished(first).status == "interrupted"
    assert keeper.finished(third).out == "3\n"
    assert keeper.ask("interrupt", cell=second)["interrupted"] is False
