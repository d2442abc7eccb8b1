"""The share of the processors that copies of all sessions have together: what a session does, and
says, while others have spent it (src/keeper/share.h).

A test plays the others: the file `copies` says up to when the share is spent, and it writes that.
"""
import struct
import time

import pytest

FAR_S = 50


@pytest.fixture
def keeper(house):
    with house.keeper(house.session()) as keeper:
        yield keeper


def now_us():
    return time.monotonic_ns() // 1000


def spend(house, seconds):
    """-> up to when it is spent (us); copies are made again half a second earlier"""
    until = now_us() + int(seconds * 1e6)
    (house.runtime / "copies").write_bytes(struct.pack("=q", until))
    return until


def go(keeper, code, **fields):
    return keeper.finished(keeper.start(code, **fields))


def protection(cell):
    return cell.finished["protected"], cell.finished.get("protected_reason")


def test_a_state_is_copied_when_there_is_room_again(house, keeper):
    until = spend(house, 1.5)
    cell = go(keeper, "x = 1")
    assert protection(cell) == ("no", "busy")
    keeper.event("committed", cell=cell.id)  # no other cell comes meanwhile
    assert now_us() > until - 600000
    assert go(keeper, "import os; os._exit(1)").finished["state"] == "recovered"
    assert go(keeper, "x").result == "1"


def test_the_newest_state_has_the_place_that_was_booked(house, keeper):
    spend(house, 2.5)
    cells = [go(keeper, "x = %d" % number) for number in range(3)]
    assert {protection(cell) for cell in cells} == {("no", "busy")}
    keeper.event("committed", cell=cells[-1].id)
    assert go(keeper, "import os; os._exit(1)").finished["state"] == "recovered"
    assert go(keeper, "x").result == "2"


def test_what_is_asked_for_does_not_wait(house, keeper):
    until = spend(house, FAR_S)
    assert protection(go(keeper, "x = 1")) == ("no", "busy")
    cell = go(keeper, "x = 2; 1/0", atomic=True)
    assert cell.finished["state"] == "rolled_back"
    assert keeper.ask("checkpoint", name="A")["checkpoint"]["cell"]
    assert go(keeper, "x = 3").finished["protected"] == "no"
    keeper.ask("rollback", to="A")
    assert go(keeper, "x").result == "1"
    assert go(keeper, "x = 4", **{"try": True}).finished["state"] == "rolled_back"
    assert now_us() < until


def test_each_session_spends_of_the_same(house, keeper):
    (house.runtime / "copies").write_bytes(b"")  # nothing is spent
    with house.keeper(house.session()) as other:
        for session in (keeper, other):
            before = now_us()
            cell = go(session, "x = 1")
            assert protection(cell) == ("pending", None)
            session.event("committed", cell=cell.id)
            spent, = struct.unpack("=q", (house.runtime / "copies").read_bytes())
            assert spent > before


@pytest.mark.parametrize("bytes_", [
    b"", b"?", b"\xff" * 8, b"\x7f" * 8, b"\x00" * 100,
    struct.pack("=q", 1 << 62), struct.pack("=q", -1)])
def test_whatever_is_in_the_file(house, keeper, bytes_):
    (house.runtime / "copies").write_bytes(bytes_)
    cell = go(keeper, "x = 1")
    assert protection(cell) == ("pending", None)
    keeper.event("committed", cell=cell.id)


def test_without_the_file(house):
    """No session depends on it: in its place is a folder."""
    path = house.runtime / "copies"
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    try:
        with house.keeper(house.session()) as keeper:
            cell = go(keeper, "x = 1")
            assert protection(cell) == ("pending", None)
            keeper.event("committed", cell=cell.id)
    finally:
        path.rmdir()
