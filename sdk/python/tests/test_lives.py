"""What can happen to a session from outside: Ctrl-C, fork, a killed keeper, a forgotten object; and
the connection itself, byte by byte."""
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import fumehood_kit
import pytest

import fumehood
from fumehood import start, store
from fumehood.channel import Channel
from fumehood.wire import Answer, Feed, LineCodec, Link


def wait_until(true, what, wait_s=fumehood_kit.WAIT_S):
    until = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < until, "waited in vain for " + what
        threading.Event().wait(0.005)


def python(code, **environment):
    """Another process that uses the SDK."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(fumehood.__file__)),
             **environment})


# ----------------------------------------------------------------------------------- Ctrl-C, fork


def test_ctrl_c_interrupts_the_cell_and_leaves_the_session_usable(session):
    pid = os.getpid()
    with pytest.raises(KeyboardInterrupt):
        session.run("print('on', flush=True)\nwhile True: pass",
                    on_stdout=lambda _text: os.kill(pid, signal.SIGINT))
    assert session.run("'next'").result == "'next'"
    finished = [event for event in session.events() if event.type == "finished"]
    assert [event["status"] for event in finished] == ["interrupted", "ok"]


def test_ctrl_c_at_any_moment_loses_nothing(session):
    """A timer raises at random places of the SDK. Afterwards every answer still belongs to its
    request, and the record has the cells that were started, in order."""
    class Ring(BaseException):
        pass

    def ring(_signal, _frame):
        raise Ring()
    before = signal.signal(signal.SIGALRM, ring)
    raised = 0
    try:
        for number in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00003 + number % 40 * 0.00002)
                try:
                    session.run("x = %d" % number, max_chars=0)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Ring:
                raised += 1
            except fumehood.Error as error:  # raised from inside of another failure
                pytest.fail("%r" % error)
            if number % 20 == 0:
                assert session.run("print(%d)" % number).stdout == "%d\n" % number
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised > 50
    assert session.run("'end'").result == "'end'"
    assert session.complete("le").matches


def test_a_forked_child_says_so_and_harms_nobody(session):
    session.run("x = 1")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            try:
                session.run("x = 2")
            except fumehood.GoneError as error:
                os.write(write, str(error).encode())
            session.close()
            with fumehood.Session.open(session.id) as own:
                os.write(write, own.run("x").result.encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as told:
        text = told.read()
    assert "forked" in text and "Session.open" in text and text.endswith("1")
    assert session.run("x").result == "1"


def test_a_fork_while_another_thread_reads(session):
    run = session.start_run("import time; time.sleep(0.5); 'end'")
    thread = threading.Thread(target=run.result)
    thread.start()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            session.run("1")
        except fumehood.GoneError:
            os._exit(7)
        os._exit(1)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7
    thread.join()
    assert run.result().result == "'end'"


# ------------------------------------------------------------------------------------------ ends


def test_a_killed_keeper_is_gone_and_can_be_reopened(house):
    with fumehood.Session(keep=True) as session:
        session.run("print('kept')")
        pid = session._hello["pid"]
        run = session.start_run("while True: pass")
        wait_until(lambda: session.status().state == "running", "the cell")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(fumehood.GoneError, match=session.id):
            run.result()
        with pytest.raises(fumehood.GoneError):
            session.run("1")
    with fumehood.Session.open(session.id) as again:
        assert again.text("c1") == "kept" and again.run("1").ok
        again.remove()


def test_closing_wakes_who_waits(house):
    session = fumehood.Session()
    failed = []

    def wait():
        try:
            session.run("while True: pass")
        except fumehood.Error as error:
            failed.append(error)
    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: session.status().state == "running", "the cell")
    session.close()
    for thread in threads:
        thread.join()
    # One that was told of the end of its cell before has a result.
    assert all(isinstance(error, fumehood.GoneError) for error in failed)


def test_a_forgotten_session_ends_and_is_swept(house):
    session = fumehood.Session()
    directory = session.directory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del session
        gc.collect()
    assert [ident for ident, _ in start.abandoned] == [directory.name]
    fumehood.Session().close()
    wait_until(lambda: (start.sweep(), not directory.exists())[1], "the sweep")
    assert start.abandoned == []


def test_a_process_that_dies_leaves_no_keeper(house):
    process = python("""
        import fumehood, os, sys
        session = fumehood.Session()
        print(session.id, flush=True)
        sys.stdin = None
        os.kill(os.getpid(), 9)""")
    ident = process.communicate()[0].strip()
    assert store.ID.match(ident)
    wait_until(lambda: not store.is_running(ident), "the keeper's end")
    store.remove(ident, 10)


def test_a_process_that_exits_without_closing_says_nothing(house):
    process = python("import fumehood\nsession = fumehood.Session()\nprint(session.run('6 * 7'))")
    out, err = process.communicate()
    assert (out, err, process.returncode) == ("42\n", "", 0)
    for place in store.everyone():
        store.remove(place.id, 10)


def test_works_as_an_ordinary_user(house, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    import pwd
    import shutil
    import tempfile

    nobody = pwd.getpwnam("nobody")
    home = tempfile.mkdtemp(prefix="fumehood-sdk-")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    try:
        done = subprocess.run(
            ["setpriv", "--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid),
             "--clear-groups", "/usr/bin/python3", "-c",
             "import fumehood\nwith fumehood.Session(spare=False) as s: print(s.run('6 * 7'))"],
            capture_output=True, text=True, cwd="/",
            env={"HOME": home, "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home, "PATH": "/usr/bin",
                 "FUMEHOOD": os.environ["FUMEHOOD"], "FUMEHOOD_PYTHON": "/usr/bin/python3",
                 "FUMEHOOD_POOL_IDLE_S": "1", "PYTHONDONTWRITEBYTECODE": "1",
                 "PYTHONPATH": os.path.dirname(os.path.dirname(fumehood.__file__))})
        assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
        pools = [pid for pid in fumehood_kit.pids()
                 if "fumehood-pool" in fumehood_kit.command_of(pid)
                 and os.stat("/proc/%d" % pid).st_uid == nobody.pw_uid]
        for pid in pools:
            fumehood_kit.wait_gone(pid)
    finally:
        shutil.rmtree(home)


def test_a_sweep_of_sessions_leaves_nothing(house):
    for spare in (True, False) * 10:
        with fumehood.Session(spare=spare) as session:
            assert session.run("1").ok
    assert store.everyone() == []


# ------------------------------------------------------------------------------- the connection


def hello(**members):
    return {"type": "hello", "protocol": 1, "session": "a" * 26, "last_seq": 0, **members}


@pytest.fixture
def pair():
    """A Channel, and the other end of its socket: what a keeper could send."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def say(sock, *messages):
    sock.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def test_messages_in_any_pieces(pair):
    channel, keeper = pair
    answer = channel.post({"op": "status"})
    ident = json.loads(keeper.recv(1000))["id"]
    data = b"".join(json.dumps(one).encode() + b"\n" for one in (
        hello(), {"type": "reply", "id": ident, "text": "é\n" * 1000}))
    for at in range(0, len(data), 7):
        keeper.sendall(data[at:at + 7])
        channel.wait(answer.done, 0.0005)
    assert answer.take()["text"] == "é\n" * 1000 and channel.link.hello is not None


@pytest.mark.parametrize("line", [
    b"no json\n", b"[1]\n", b"{}\n", b"\xff\xfe\n", b'{"type":1}\n', b"[" * 100_000 + b"\n", b"\n"])
def test_what_is_no_message_ends_the_connection(pair, line):
    channel, keeper = pair
    keeper.sendall(line)
    with pytest.raises(fumehood.CorruptError):
        channel.take_hello(5)
    with pytest.raises(fumehood.CorruptError):
        channel.call({"op": "status"})


def test_an_unknown_message_is_passed_over(pair):
    channel, keeper = pair
    say(keeper, {"type": "later", "x": 1}, {"type": "reply", "id": 99}, {"type": "reply", "id":
    None},
        hello())
    assert channel.take_hello(5)["protocol"] == 1


def test_both_can_send_much_at_once(pair):
    """Nobody waits for the other to read first."""
    channel, keeper = pair
    event = json.dumps({"seq": 1, "type": "stream", "cell": "c1", "text": "x" * 60_000}).encode()
    got = bytearray()

    def flood():
        for number in range(200):
            keeper.sendall(event.replace(b'"seq": 1', b'"seq": %d' % (number + 1)) + b"\n")
        while b"\n" not in got:
            got.extend(keeper.recv(1 << 20))
        say(keeper, {"type": "reply", "id": json.loads(bytes(got))["id"]})
    thread = threading.Thread(target=flood)
    thread.start()
    assert channel.call({"op": "write_file", "data": "y" * (8 << 20)}, 30)["type"] == "reply"
    thread.join()


def test_a_warning_without_a_number_is_a_failure_of_the_disk(pair):
    channel, keeper = pair
    say(keeper, hello(), {"type": "warning", "code": "sync", "message": "the disk is bad"})
    answer = channel.post({"op": "save"})
    with pytest.raises(fumehood.DiskError, match="the disk is bad"):
        channel.wait(answer.done, 5)


def test_a_message_that_is_fed_twice_is_taken_once():
    """As after an exception between taking a message and noting that (Ctrl-C)."""
    link = Link()
    first, second = Answer(Feed()), Answer(Feed())
    for answer in (first, second):
        link.request({"op": "run", "code": "1"}, answer)
    line = b'{"type":"reply","id":null,"cell":"c1"}'
    link.feed(line, 10)
    link.feed(line, 10)
    assert first.done() and not second.done()
    event = b'{"seq":1,"type":"started","cell":"c1"}'
    link.feed(event, 60)
    link.feed(event, 60)
    assert len(first.follow.events) == 1
    link.feed(b'{"type":"reply","id":null,"cell":"c2"}', 100)
    assert second.follow.cell == "c2"


def test_events_that_come_before_the_answer_are_kept():
    link = Link()
    feed = Feed()
    link.request({"op": "run", "code": "1"}, Answer(feed))
    link.feed(b'{"seq":1,"type":"cell","cell":"c7"}', 0)
    link.feed(b'{"seq":2,"type":"cell","cell":"other"}', 1)
    link.feed(b'{"type":"reply","id":null,"cell":"c7"}', 2)
    link.feed(b'{"seq":3,"type":"finished","cell":"c7","status":"ok"}', 3)
    assert [event["seq"] for event in feed.events] == [1, 3] and feed.ended


def test_a_line_has_a_limit():
    codec = LineCodec()
    with pytest.raises(fumehood.LimitError):
        codec.worthwhile([b"x"], (1 << 30) + 1)


def test_every_code_has_its_exception():
    text = (fumehood_kit.ROOT / "doc" / "protocol.md").read_text()
    part = text.partition("## Codes of `refused`")[2].partition("##")[0].partition(".")[0]
    codes = [word.strip(" `\n") for word in part.split(",")]
    assert len(codes) > 10
    for code in codes:
        error = fumehood.errors.from_refusal({"code": code, "message": "words"})
        assert type(error) is not fumehood.Error and error.code == code and str(error) == "words"
    later = fumehood.errors.from_refusal({"code": "later", "message": "words"})
    assert type(later) is fumehood.Error and later.code == "later"
