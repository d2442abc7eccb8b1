"""Kills at random moments: what was committed is never lost, and what is told is true.

Each round runs a cell that adds one to a list and kills a process at a random moment: the guest
while the cell runs, just after its end was told, while the copy is made, while one wakes; copies
that sleep; PID 1 of the box; the process that builds boxes; the keeper itself. Then the list is
read, and must be what the events have said. A death of the guest never takes a cell of which
`committed` was told; that of PID 1 and of the keeper takes all, and it is told as `reset`.

100 rounds in ./check, 10,000 with --long. FUMEHOOD_SEED=N begins with another seed.
"""
import collections
import os
import random
import time

from fumehood_kit import LONG, WAIT_S, init_of, kill, pids, read_proc, spawner_of

ROUNDS = 10_000 if LONG else 100
SEED = int(os.environ.get("FUMEHOOD_SEED") or 7)
COPY = b"fumehood-copy"


def members(init):
    """(the guest's pids, the copies' pids) of the box with this PID 1; inside or outside of it."""
    place = os.readlink("/proc/%d/ns/pid" % init)
    guests, copies = [], []
    for pid in pids():
        try:
            if pid == init or os.readlink("/proc/%d/ns/pid" % pid) != place:
                continue
        except OSError:
            continue
        name = read_proc(pid, "comm").strip()
        (copies if name == COPY else guests).append(pid)
    return guests, copies


def wait_us(rng, most):
    """A moment: without a sleep, since it is shorter than one."""
    until = time.perf_counter() + rng.random() * most / 1e6
    while time.perf_counter() < until:
        pass


class Victim:
    """A session whose cells make a list, and what must be in it."""

    def __init__(self, house):
        self.house = house
        self.session = house.session()
        self.keeper = house.keeper(self.session)
        self.order = []      # the timeline: ids of the cells that are in the state
        self.growing = set()  # those of them that have put their name into the list
        self.committed = {}  # id -> the checkpoint after it
        self.number = self.seen = 0
        self.told = collections.Counter()

    def undo(self, event):
        state, ids = event["state"], event.get("rolled_back", [])
        assert state in ("recovered", "reset"), event
        if state == "recovered":
            assert not [i for i in ids if i in self.committed], (event, self.committed)
        else:
            assert ids == self.order, (event, self.order)
        assert ids == self.order[len(self.order) - len(ids):], (event, self.order)
        del self.order[len(self.order) - len(ids):]
        self.committed = {i: n for i, n in self.committed.items() if i in self.order}
        self.told[state] += 1
        self.told["undone"] += len(ids)

    def catch_up(self):
        while self.seen < len(self.keeper.events):
            event = self.keeper.events[self.seen]
            self.seen += 1
            if event["type"] == "finished":
                if event["state"] == "kept":
                    self.order.append(event["cell"])
                else:
                    self.undo(event)
            elif event["type"] == "died":
                self.undo(event)
            elif event["type"] == "committed":
                assert event["cell"] in self.order, (event, self.order)
                self.committed[event["cell"]] = event["checkpoint"]
                self.told["committed"] += 1
            elif event["type"] == "restarted" and event["reason"] != "restart":
                self.order, self.committed = [], {}
            elif event["type"] == "checkpoint" and event["action"] == "dropped":
                self.committed = {i: n for i, n in self.committed.items() if n != event["number"]}

    def send(self, code):
        self.number += 1
        return self.keeper.start(code, id="k%d" % self.number)

    def grow(self):
        """The cell appends its own name, so that the list says which cells are in it."""
        cell = self.send("names = globals().get('names', [])\nnames.append('k%d')"
                         % (self.number + 1))
        self.growing.add(cell)
        return cell

    def reopen(self):
        """The next keeper of the session says that nothing is left."""
        self.keeper.close()
        self.keeper = self.house.keeper(self.session)
        self.told["reopened"] += 1
        for _ in range(self.told["reopened"]):
            self.keeper.event("restarted", reason="reopened", state="reset")
        self.keeper.ask("status")
        self.seen, self.order, self.committed = len(self.keeper.events), [], {}

    def end(self):
        self.keeper.__exit__(None, None, None)


def during(victim, rng):
    cell = victim.grow()
    wait_us(rng, 3000)
    guests, _ = members(init_of(victim.keeper.pid))
    for pid in guests:
        kill(pid)
    victim.keeper.finished(cell)


def after_finished(victim, rng):
    """Just after its end was told: most often the copy is being made."""
    guests, _ = members(init_of(victim.keeper.pid))
    cell = victim.grow()
    victim.keeper.finished(cell)
    wait_us(rng, 6000)
    for pid in guests:
        kill(pid)


def in_the_wake(victim, rng):
    """Twice: the second kill meets the guest that wakes, or the one that has."""
    guests, _ = members(init_of(victim.keeper.pid))
    for pid in guests:
        kill(pid)
    wait_us(rng, 12000)
    guests, _ = members(init_of(victim.keeper.pid))
    for pid in guests:
        kill(pid)


def sleepers(victim, rng):
    _, copies = members(init_of(victim.keeper.pid))
    for pid in rng.sample(copies, min(len(copies), rng.randint(1, 3))):
        kill(pid)
    if rng.random() < 0.5:
        guests, _ = members(init_of(victim.keeper.pid))
        for pid in guests:
            kill(pid)


def first_process(victim, rng):
    cell = victim.grow() if rng.random() < 0.5 else None
    wait_us(rng, 3000)
    kill(init_of(victim.keeper.pid))
    if cell:
        victim.keeper.finished(cell)


def keeper_itself(victim, rng):
    """Everything is lost with it."""
    victim.grow()
    wait_us(rng, 5000)
    kill(victim.keeper.pid)
    victim.reopen()


def spawner(victim, rng):
    """Without it there is no box: the session ends, and says so."""
    victim.grow()
    wait_us(rng, 5000)
    kill(spawner_of(victim.keeper.pid))
    while victim.keeper.line() is not None:
        pass
    assert victim.keeper.events[-1]["type"] == "stopped", victim.keeper.events[-1]
    assert victim.keeper.events[-1]["reason"] == "spawner", victim.keeper.events[-1]
    victim.reopen()


KILLS = ((during, 28), (after_finished, 32), (in_the_wake, 16), (sleepers, 12),
         (first_process, 5), (keeper_itself, 4), (spawner, 3))


def quiet(victim):
    """No kill is still on its way: a look is answered, and nothing has died since."""
    until = time.monotonic() + WAIT_S
    while True:
        assert time.monotonic() < until
        deaths = victim.told["recovered"] + victim.told["reset"]
        cell = victim.send("print(*globals().get('names', []))")
        played = victim.keeper.finished(cell)
        victim.catch_up()
        if victim.told["recovered"] + victim.told["reset"] == deaths:
            assert played.out.split() == [i for i in victim.order if i in victim.growing], (
                played.out.split(), victim.order)
            return


def test_random_kills(house):
    rng = random.Random(SEED)
    victim = Victim(house)
    # Each kind as often as its weight says, also in the short run; in random order.
    kinds = [kind for kind, weight in KILLS for _ in range(weight * ROUNDS // 100)]
    rng.shuffle(kinds)
    for number, kind in enumerate(kinds):
        try:
            victim.keeper.finished(victim.grow())
            if rng.random() < 0.5:
                victim.keeper.ask("checkpoints")  # a moment for the copy
            victim.catch_up()
            kind(victim, rng)
            quiet(victim)
        except BaseException:
            print("seed %d, round %d: %s, %s" % (SEED, number, kind.__name__, victim.told))
            raise
    print(dict(victim.told))
    assert victim.told["recovered"] > ROUNDS / 2 and victim.told["committed"] > ROUNDS / 2
    victim.end()
