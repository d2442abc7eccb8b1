"""A day in miniature, and cells without a pause: what checkpoints cost a session that lives long.

The first runs cells with deaths at random and counts what must be flat: processes in the box,
descriptors of the keeper and of PID 1, memory of the keeper. 500 cells in ./check, 20,000 with
--long. The second looks at the words about protection while cells come back to back, and prints how
much copies have delayed them; it asserts no time.
"""
import random
import re
import time

import timeline_cells
from fumehood_kit import LONG, WAIT_S, init_of, list_proc, read_proc
from test_committed import members

CELLS = 20_000 if LONG else 500
DEATHS = 0.05
# Before this the interpreter, the keeper's tables and the allocator are still growing.
WARM = CELLS // 4
GROWTH = 8 << 20  # bytes: the index of cells and what malloc keeps, of 20,000 cells


def rss(pid):
    found = re.search(rb"RssAnon:\s+(\d+) kB", read_proc(pid, "status"))
    return int(found.group(1)) << 10


class Census:
    def __init__(self, keeper):
        init, until = init_of(keeper.pid), time.monotonic() + WAIT_S
        guests, copies = members(init)
        while len(copies) > 3 and time.monotonic() < until:  # one that was dropped ends soon
            keeper.ask("checkpoints")
            guests, copies = members(init)
        self.guests, self.copies = len(guests), len(copies)
        self.keeper_fds = len(list_proc(keeper.pid, "fd"))
        self.init_fds = len(list_proc(init, "fd"))
        self.memory = rss(keeper.pid)

    def __repr__(self):
        return repr(vars(self))


def run(keeper, number, code, **fields):
    return keeper.finished(keeper.start(code, id="c%d" % number, **fields)).finished


def settled(keeper, number):
    """A census when the last copy sleeps."""
    finished = run(keeper, number, "1")
    if finished["protected"] != "yes":
        keeper.event("committed", cell=finished["cell"])
    return Census(keeper)


def test_a_day_in_miniature(house):
    rng = random.Random(11)
    kinds = sorted(set(timeline_cells.DEATHS) - {"ignore", "close"})  # which take their time limit
    with house.keeper(house.session()) as keeper:
        before, recovered = None, 0
        for number in range(1, CELLS):
            if rng.random() < DEATHS:
                code = timeline_cells.DEATHS[rng.choice(kinds)]
                code = code % ((0, 0) if code.count("%d") == 2 else 0)
                finished = run(keeper, number, code)
                assert finished["status"] == "died", finished
                recovered += finished["state"] == "recovered"
            else:
                run(keeper, number, "n = %d\nprint(n)" % number)
            if number == WARM:
                before = settled(keeper, CELLS)
            keeper.events = keeper.events[-4:]
        after = settled(keeper, CELLS + 1)
        print(before, after, recovered)
        assert recovered > CELLS * DEATHS / 2
        assert after.guests == before.guests == 1, (before, after)
        assert after.copies <= 3 and before.copies <= 3, (before, after)
        assert after.keeper_fds <= before.keeper_fds, (before, after)
        assert after.init_fds <= before.init_fds, (before, after)
        assert after.memory - before.memory < GROWTH, (before, after)


def test_words_of_a_burst(house):
    """Each `pending` is kept, and after the last cell a copy is made in any case."""
    count = 400
    with house.keeper(house.session()) as keeper:
        began = time.monotonic()
        for number in range(1, count + 1):
            keeper.finished(keeper.start("n = %d" % number, id="c%d" % number))
        wall = time.monotonic() - began
        last = keeper.finished("c%d" % count).finished
        if not any(event["type"] == "committed" and event["cell"] == last["cell"]
                   for event in keeper.events):
            keeper.event("committed", cell=last["cell"])
        finished = [event for event in keeper.events if event["type"] == "finished"]
        committed = [event for event in keeper.events if event["type"] == "committed"]
        held = max(int(event["cell"][1:]) for event in committed)
        assert held == count
        reasons = {}
        for event in finished:
            word = event.get("protected_reason", event["protected"])
            reasons[word] = reasons.get(word, 0) + 1
            assert word in ("pending", "yes", "busy"), event
        own = {event["cell"] for event in committed}
        promised = {event["cell"] for event in finished if event["protected"] == "pending"}
        for cell in promised - own:  # late, so that as many as are held were newer
            newer = [other for other in own if int(other[1:]) > int(cell[1:])]
            assert len(newer) >= 3, (cell, newer)
        keeper.ask("limits", set={"checkpoints": 0})
        began = time.monotonic()
        for number in range(count):
            keeper.finished(keeper.start("n = %d" % number, id="d%d" % number))
        bare = time.monotonic() - began
        print("%d cells in %.0f ms (without copies %.0f): %r; %d copies of %.1f ms" % (
            count, wall * 1e3, bare * 1e3, reasons, len(committed),
            sum(event["copy_us"] for event in committed) / 1e3 / len(committed)))
