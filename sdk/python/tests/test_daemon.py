"""Sessions of a daemon: the same object, over a Unix socket and over TCP with a token; and the
WebSocket, byte by byte."""
import asyncio
import os
import signal
import socket
import struct
import threading

import pytest
from serve_kit import Daemon

import fumehood
from fumehood import daemon as daemons
from fumehood import websocket
from fumehood.channel import Channel


@pytest.fixture
def daemon(house):
    with Daemon(house) as daemon:
        yield daemon


@pytest.fixture(params=["unix", "tcp"])
def where(request, daemon):
    """The parameters with which a Session goes to the daemon."""
    if request.param == "unix":
        return {"daemon": daemon.socket}
    return {"daemon": daemon.url, "token": daemon.token}


def test_everything_is_the_same(where, tmp_path):
    with fumehood.Session(**where, timeout=9, memory=512 << 20,
                          notebook_metadata={"mine": 1}) as session:
        result = session.run("x = 6\nprint('out')\nx * 7")
        assert (result.stdout, result.result, session.tier) == ("out\n", "42", "full")
        assert session.run("input('? ')", input=["a"]).result == "'a'"
        assert [event.type for event in session.stream("print(1)")][-1] == "finished"
        assert session.complete("x.bit_l").matches == ["bit_length"] and session.variables()
        large = os.urandom(3 << 20)
        assert session.files.put("large", large) and session.files.get("large") == large
        session.section("S")
        assert session.note("n") and session.notebook()["metadata"]["mine"] == 1
        limits = session.limits()
        assert limits["wall_s"]["value"] == 9 and limits["memory_bytes"]["value"] == 512 << 20
        events = list(session.events())
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        run = session.start_run("while True: pass")
        assert run.cell and session.interrupt() and run.result().status == "interrupted"
        assert session.run("'x' * 30_000_000", max_chars=0).result == repr("x" * 30_000_000)
        with pytest.raises(fumehood.NotFoundError):
            session.text("c99")
        assert [place.id for place in fumehood.sessions(**where)] == [session.id]
    assert fumehood.sessions(**where) == []


def test_asyncio_over_the_daemon(where):
    async def main():
        async with fumehood.AsyncSession(**where) as session:
            results = await asyncio.gather(*(session.run("%d * 2" % n) for n in range(10)))
            assert [one.result for one in results] == [str(2 * n) for n in range(10)]
            assert [event.seq async for event in session.events()][:2] == [1, 2]
        await asyncio.get_running_loop().shutdown_default_executor()
    asyncio.run(main())


def test_a_named_session_of_a_daemon(where):
    with fumehood.Session("of-daemon", **where) as session:
        session.run("x = 1")
    with fumehood.Session("of-daemon", **where) as session:
        assert session.run("x").result == "1" and not session.created
    with fumehood.Session("of-daemon") as here:  # on this machine it is one of all
        assert here.run("x").result == "1"
    opened = fumehood.Session.open("of-daemon", **where)
    opened.remove()
    with pytest.raises(fumehood.NotFoundError):
        fumehood.Session.open("of-daemon", **where)


def test_many_threads_over_one_channel(where):
    with fumehood.Session(**where) as session:
        found = {}

        def work(number):
            for turn in range(5):
                text = "%d.%d" % (number, turn)
                found[text] = session.run("print(%r)" % text).stdout
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 30 and all(out == text + "\n" for text, out in found.items())


def test_a_daemon_that_is_killed_and_comes_back(house):
    """A cell goes on, and nothing of it is missed; a quiet session is there at the next call."""
    first = Daemon(house, tcp=False)
    session = fumehood.Session(daemon=first.socket)
    session.run("kept = 1")
    run = session.start_run(
        "import time\nfor i in range(60): print(i, flush=True); time.sleep(0.05)")
    events = iter(run)
    seen = [next(events) for _ in range(5)]
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    with Daemon(house, tcp=False):
        seen += list(events)
        result = run.result()
        assert result.ok and result.stdout == "".join("%d\n" % i for i in range(60))
        numbers = [event.seq for event in seen]
        assert numbers == sorted(set(numbers))
        assert session.run("kept").result == "1"
    with Daemon(house, tcp=False):
        assert session.run("kept + 1").result == "2"  # nothing was under way
        session.close()
    first.kill()


def test_asyncio_and_a_daemon_that_comes_back(house, monkeypatch):
    """The same in an event loop; and when no daemon comes back, the next request tries again."""
    async def kill(daemon):
        os.kill(daemon.process.pid, signal.SIGKILL)
        await asyncio.to_thread(daemon.process.wait)

    async def follow(session, seen):
        async for event in session.events(follow=True):
            seen.append(event)
            if event.type == "finished" and event.get("execution_count") == 3:
                return

    async def main(first):
        session = await fumehood.AsyncSession(daemon=first.socket).start()
        await session.run("kept = 1")
        followed = []
        follower = asyncio.ensure_future(follow(session, followed))
        run = session.start_run(
            "import time\nfor i in range(60): print(i, flush=True); time.sleep(0.05)")
        seen = []
        async for event in run:
            seen.append(event)
            if len(seen) == 5:
                await kill(first)
                second = await asyncio.to_thread(Daemon(house, tcp=False).__enter__)
        result = await run.result()
        assert result.ok and result.stdout == "".join("%d\n" % i for i in range(60))
        numbers = [event.seq for event in seen]
        assert numbers == sorted(set(numbers))
        await kill(second)  # nothing is under way
        third = await asyncio.to_thread(Daemon(house, tcp=False).__enter__)
        assert (await session.run("kept")).result == "1"
        await asyncio.wait_for(follower, 60)
        numbers = [event.seq for event in followed]
        assert numbers == list(range(1, numbers[-1] + 1))
        await kill(third)
        monkeypatch.setattr(daemons, "RENEW_S", 1)
        with pytest.raises(fumehood.Error, match="daemon"):
            await session.run("kept")
        with await asyncio.to_thread(Daemon(house, tcp=False).__enter__):
            assert (await session.run("kept + 1")).result == "2"
            await session.close()
        return first, second, third

    for daemon in asyncio.run(main(Daemon(house, tcp=False))):
        daemon.kill()


def test_wrong_addresses_and_tokens(daemon, monkeypatch):
    for address in ("ftp://x", "http://", "http://a:b@c", "http://host/path", "relative"):
        with pytest.raises(fumehood.UsageError):
            fumehood.Session(daemon=address)
    with pytest.raises(fumehood.UsageError, match="daemon"):
        fumehood.Session(token="t")
    with pytest.raises(fumehood.NotFoundError, match="fumehood serve"):
        fumehood.Session(daemon="/no/such/api.sock")
    with pytest.raises(fumehood.NotFoundError, match="fumehood serve"):
        fumehood.Session(daemon="http://127.0.0.1:1")
    with pytest.raises(fumehood.DeniedError, match="token"):
        fumehood.Session(daemon=daemon.url, token="wrong")
    with fumehood.Session(daemon=daemon.url) as session:  # our own daemon's token is found
        assert session.run("1").ok
    with pytest.raises(fumehood.DeniedError, match="Unix socket"):
        fumehood.Session(daemon=daemon.url, workspace="/tmp")
    with pytest.raises(fumehood.InvalidError):
        fumehood.Session(daemon=daemon.socket, limits={"queue": -1})


def test_a_workspace_over_the_unix_socket(daemon, folder):
    with fumehood.Session(daemon=daemon.socket, workspace=folder, tier="none",
                          env={"A": "1"}) as session:
        session.run("import os; open('here', 'w').write(os.environ['A'])").raise_for_error()
        assert (folder / "here").read_text() == "1" and session.tier == "none"


def test_what_answers_is_no_daemon(house, tmp_path):
    """Whatever it sends, there is a sentence."""
    answers = [
        b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 201 Made\r\n\r\n[]",
        b"HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnone"]
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        for answer in answers:
            def serve(answer=answer):
                for _ in range(2):
                    peer, _address = server.accept()
                    with peer:
                        peer.recv(65536)
                        peer.sendall(answer)
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            for ask in (lambda: fumehood.sessions(path), lambda: daemons.Daemon(path).channel("x")):
                with pytest.raises(fumehood.Error) as caught:
                    ask()
                assert caught.value.message, answer
            thread.join()


# ------------------------------------------------------------------------------- the WebSocket


def server_frame(opcode, payload, last=True, masked=False, reserved=0):
    head = bytes([(0x80 if last else 0) | reserved << 4 | opcode])
    size = len(payload)
    if size < 126:
        head += bytes([size | (0x80 if masked else 0)])
    elif size < 1 << 16:
        head += struct.pack("!BH", 126, size)
    else:
        head += struct.pack("!BQ", 127, size)
    return head + payload


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 100_000])
def test_frames_of_any_length(size):
    payload = os.urandom(size)
    sent = websocket.frame(1, payload)
    assert sent[0] == 0x81 and sent[1] & 0x80
    begin = {126: 4, 127: 10}.get(sent[1] & 0x7f, 2)
    key = sent[begin:begin + 4]
    assert bytes(byte ^ key[at % 4] for at, byte in enumerate(sent[begin + 4:])) == payload
    codec = websocket.WebSocketCodec()
    whole = server_frame(1, payload)
    for cut in (0, 1, 2, 3, len(whole) // 2, len(whole) - 1):
        assert cut >= len(whole) or codec.find(whole[:cut], 0) is None
    found = codec.find(b"before" + whole + b"behind", 6)
    assert found.payload == payload and found.end == 6 + len(whole)


def test_fragments_pings_and_a_close():
    codec = websocket.WebSocketCodec()
    data = (server_frame(1, b"one ", last=False) + server_frame(9, b"ping")
            + server_frame(0, b"message"))
    assert codec.find(data, 0).payload == b"one message"
    found = codec.find(server_frame(9, b"hi"), 0)
    assert found.payload is None and found.reply[0] == 0x8a
    assert codec.find(server_frame(10, b""), 0).reply == b""
    with pytest.raises(fumehood.GoneError, match="1008: why"):
        codec.find(server_frame(8, b"\x03\xf0why"), 0)


@pytest.mark.parametrize("data", [
    server_frame(1, b"x", masked=True), server_frame(1, b"x", reserved=4), server_frame(3, b""),
    server_frame(11, b"")])
def test_frames_that_are_forbidden(data):
    with pytest.raises(fumehood.CorruptError):
        websocket.WebSocketCodec().find(data, 0)


def test_a_frame_has_a_limit():
    with pytest.raises(fumehood.LimitError):
        websocket.WebSocketCodec().find(b"\x81\x7f" + struct.pack("!Q", 1 << 40), 0)


def test_a_channel_answers_pings_in_any_pieces():
    ours, theirs = socket.socketpair()
    with theirs:
        channel = Channel(ours, websocket.WebSocketCodec(), server_frame(9, b"first")[:4])
        data = (server_frame(9, b"first")[4:] + server_frame(
            1, b'{"type":"hello","protocol":1,"session":"s","last_seq":0}'))
        for at in range(0, len(data), 3):
            theirs.sendall(data[at:at + 3])
            channel.wait(lambda: channel.link.hello is not None, 0.0005)
        assert channel.take_hello(5)["protocol"] == 1
        assert theirs.recv(100)[0] == 0x8a
        channel.close()
