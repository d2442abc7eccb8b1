"""Random sequences of cells, deaths and ways back, and what must hold after each step.

Player      plays one sequence on a keeper. It keeps the timeline by nothing but the words of the
            events and replies, and complains where these disagree with each other.
Replayer    the model (timeline_replay.py): runs a timeline's cells in a fresh process.

Whatever a cell on the timeline has printed, the model must print: some cells print all variables.
"""
import json
import pathlib
import random
import subprocess

import timeline_cells
from fumehood_kit import PYTHON, Keeper, Refused

CLEAN = ("ok", "error")


class Replayer:
    def __init__(self, house):
        script = pathlib.Path(__file__).with_name("timeline_replay.py")
        self.house = house
        self.process = subprocess.Popen([PYTHON, script], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, cells):
        place = self.house.folder() / "workspace"
        make_workspace(place)
        self.process.stdin.write(json.dumps({"dir": str(place), "cells": cells}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def make_workspace(place):
    place.mkdir(exist_ok=True)
    for name in timeline_cells.FOLDERS:
        (place / name).mkdir()
        (place / name / "here").write_text(name)
    for path in [place, *place.iterdir()]:
        path.chmod(0o777)


class Played:
    """A cell that has been sent."""

    def __init__(self, ident, code):
        self.id, self.code = ident, code
        self.out = self.error = self.fate = self.state = None

    def __repr__(self):
        return self.id


class Player:
    def __init__(self, keeper, seed, house=None):
        self.keeper, self.seed, self.house = keeper, seed, house
        self.rng = random.Random(seed)
        self.number = 0
        self.cells = {}      # all of them, by id
        self.timeline = []   # of Played
        self.inherited = 0   # how many of these, from the first, a branch has of its parent
        self.named = {}      # name -> the timeline when it was made
        self.paths = []      # timelines as they were before something was undone
        self.committed = set()  # ids of cells after which a state was said to sleep
        self.seen = 0        # how many of keeper.events have been looked at
        self.log = []        # what was done, for people

    # ---- what has been said

    def check(self, condition, what, *details):
        assert condition, "seed %r: %s %r\n%s" % (self.seed, what, details, "\n".join(self.log))

    def ids(self):
        return [cell.id for cell in self.timeline]

    def undo(self, ids, fate):
        """The last cells of the timeline are not in it any more: exactly these."""
        if ids:
            self.paths.append(list(self.timeline))
        self.check(self.ids()[len(self.timeline) - len(ids):] == ids,
                   "undone are not the last cells", ids, self.ids())
        for cell in self.timeline[len(self.timeline) - len(ids):]:
            cell.fate = fate
        del self.timeline[len(self.timeline) - len(ids):]

    def lost_by_death(self, event):
        state, ids = event["state"], event.get("rolled_back", [])
        self.check(state in ("recovered", "reset"), "state after a death", event)
        self.check(state == "recovered" or ids == self.ids(), "a reset loses everything", event)
        if state == "recovered":
            self.check(not self.committed & set(ids), "a committed cell is lost", event,
                       self.committed)
        self.undo(ids, "lost" if state == "recovered" else "gone")
        if state == "recovered":
            own = self.ids()[self.inherited:]  # of none of its own a branch says nothing
            last = event.get("recovers_to", own[-1] if own else None)
            self.check([last] == (own[-1:] or [None]), "recovers_to", event, self.ids())
        else:
            self.committed.clear()

    def take(self, event):
        kind = event["type"]
        if kind == "finished":
            self.finished(event)
        elif kind == "committed":
            self.committed.add(event["cell"])
            self.check(event["cell"] in event["held"], "it is held", event)
            # Others can have ended since the copy was made.
            self.check(event["cell"] in self.ids(), "committed, but not there", event, self.ids())
        elif kind == "died":
            self.log.append("died: %s" % {name: event[name] for name in event if name not in
                                          ("seq", "t", "type")})
            self.lost_by_death(event)
        elif kind == "checkpoint" and event["action"] == "dropped" and event["name"] is None:
            self.committed.discard(event["cell"])

    def finished(self, event):
        cell, state, status = self.cells[event["cell"]], event["state"], event["status"]
        events = [item for item in self.keeper.events if item.get("cell") == cell.id]
        cell.out = "".join(item["text"] for item in events
                           if item["type"] == "stream" and item["name"] == "stdout")
        errors = [item["ename"] for item in events if item["type"] == "error"]
        cell.error, cell.state = errors[-1] if errors else None, state
        self.log[-1] += "\n  %s %s %s %s" % (
            cell.id, status, state, event.get("rolled_back", ""))
        if state == "kept":
            self.check(status in CLEAN or status == "timeout", "kept", event)
            self.timeline.append(cell)
            cell.fate = "held"
            self.check(event["execution_count"] == len(self.timeline), "execution_count", event,
                       self.ids())
            self.check(event["protected"] in ("pending", "yes", "no"), "protected", event)
            self.check((event["protected"] == "no") == ("protected_reason" in event),
                       "protected_reason", event)
        elif state == "rolled_back":
            self.paths.append([*self.timeline, cell])
            cell.fate = "rolled_back"
        else:
            cell.fate = "none"
            self.lost_by_death(event)

    def catch_up(self):
        while self.seen < len(self.keeper.events):
            self.seen += 1
            self.take(self.keeper.events[self.seen - 1])

    # ---- steps

    def send(self, code, **fields):
        self.number += 1
        cell = Played("c%d" % self.number, code)
        self.cells[cell.id] = cell
        self.log.append("%s %r %r" % (cell.id, code[:100], fields or ""))
        self.keeper.start(code, id=cell.id, **fields)
        return cell

    def wait(self, cell):
        self.keeper.finished(cell.id)
        self.catch_up()

    def step_cell(self):
        self.wait(self.send(timeline_cells.cell(self.rng, self.number)))

    def step_probe(self):
        self.wait(self.send(timeline_cells.probe()))

    def step_burst(self):
        """Cells that wait in the queue; one of them may kill the interpreter."""
        sent = []
        for _ in range(self.rng.randint(2, 6)):
            if self.rng.random() < 0.15:
                code, limit = timeline_cells.death(self.rng, self.number)
                sent.append(self.send(code, **({"timeout": limit} if limit else {})))
            else:
                sent.append(self.send(timeline_cells.cell(self.rng, self.number)))
        for cell in sent:
            self.keeper.finished(cell.id)
        self.catch_up()

    def step_death(self):
        code, limit = timeline_cells.death(self.rng, self.number)
        fields = {"timeout": limit} if limit else {}
        if self.rng.random() < 0.2:
            fields["atomic"] = True
        self.wait(self.send(code, **fields))
        self.step_probe()

    def step_later_death(self):
        """Between two cells, by a thread."""
        cell = self.send("import threading, os\n"
                         "threading.Timer(%.3f, os._exit, [9]).start()"
                         % self.rng.choice((0.01, 0.03, 0.06)))
        died = self.keeper.finished(cell.id).status == "died"  # it was slower than the timer
        if not died and not any(event["type"] == "died" and event["seq"] > 0 for event in
                   self.keeper.events[self.seen:]):
            self.keeper.event("died")
        self.catch_up()
        # Threads are gone with a return: the model must not start any either.
        cell.code = "import threading, os"
        self.step_probe()

    def step_undone(self):
        how = self.rng.choice(("atomic", "try"))
        cell = self.send(timeline_cells.cell(self.rng, self.number), **{how: True})
        self.wait(cell)
        wanted = how == "try" or cell.error is not None
        self.check((cell.fate == "rolled_back") == wanted, how, cell, cell.error)
        if self.rng.random() < 0.3:
            self.step_probe()

    def step_pause(self):
        """Until what was promised has come."""
        last = [event for event in self.keeper.events if event["type"] == "finished"][-1:]
        if last and last[0].get("protected") == "pending" and last[0]["state"] == "kept" \
                and last[0]["cell"] in self.ids()[-1:] and last[0]["cell"] not in self.committed:
            self.keeper.event("committed", cell=last[0]["cell"])
            self.catch_up()

    def step_checkpoint(self):
        name = "n%d" % self.rng.randint(1, 3)
        if name in self.named:
            self.keeper.ask("checkpoints", drop=name)
            del self.named[name]
        made = self.keeper.ask("checkpoint", name=name)["checkpoint"]
        self.catch_up()
        self.log.append("checkpoint %s after %s" % (name, self.ids()[-1:]))
        self.check([made["cell"]] == (self.ids()[-1:] or [None]), "made", made, self.ids())
        self.check(made["execution_count"] == len(self.timeline), "made", made, self.ids())
        self.named[name] = list(self.timeline)

    def held_after(self):
        """Ids of cells after which a state of this timeline is held; None: before the first."""
        answer = self.keeper.ask("checkpoints")
        self.catch_up()
        found = set()
        for item in answer["checkpoints"]:
            if item["name"] is None:
                self.check(item["cell"] in [None, *self.ids()], "an automatic one of another past",
                           item, self.ids())
                found.add(item["cell"])
            elif [cell.id for cell in self.named[item["name"]]] == \
                    self.ids()[:len(self.named[item["name"]])]:
                found.add(item["cell"])
        self.check(answer["recovers_to"] in [None, *self.ids()], "recovers_to", answer)
        return found

    def arrive(self, answer, to):
        """A rollback has been answered: the timeline is `to` now."""
        shared = 0
        while shared < min(len(to), len(self.timeline)) and to[shared] is self.timeline[shared]:
            shared += 1
        self.catch_up()
        self.check(answer["rolled_back"] == self.ids()[shared:], "rolled_back", answer, self.ids())
        self.undo(answer["rolled_back"], "rolled_back")
        self.timeline = list(to)
        for cell in to:
            cell.fate = "held"
        self.check([answer["cell"]] == (self.ids()[-1:] or [None]), "cell", answer, self.ids())
        self.committed &= set(self.ids())

    def step_rollback(self):
        kind = self.rng.choice(("name", "cell", "last"))
        held = self.held_after()
        if kind == "name" and self.named:
            to = self.rng.choice(sorted(self.named))
            goal = self.named[to]
        elif kind == "cell" and self.timeline:
            depth = max(0, len(self.timeline) - self.rng.randint(1, 4))
            to, goal = self.timeline[depth].id, self.timeline[:depth]
        else:
            to, goal = None, self.timeline[:-1]
        if not self.timeline and to is None:
            return
        fields = {} if to is None else {"to": to}
        self.log.append("rollback %r" % fields)
        try:
            answer = self.keeper.ask("rollback", **fields)
        except Refused as refused:
            self.check(refused.code == "not_found", "refused", refused)
            # A copy that was on its way can have come since, or have made the oldest one go.
            held &= self.held_after()
            self.check(goal and goal[-1].id not in held, "refused, but held", refused, held)
            self.log[-1] += " refused"
            return
        self.arrive(answer, goal)
        self.step_probe()

    def step_reset(self):
        self.log.append("reset")
        answer = self.keeper.ask("reset")
        self.arrive(answer, [])
        self.step_probe()

    def step_restart(self):
        self.log.append("restart")
        self.keeper.ask("restart")
        self.catch_up()
        if self.timeline:
            self.paths.append(list(self.timeline))
        for cell in self.timeline:
            cell.fate = "gone"
        self.timeline, self.named = [], {}
        self.committed.clear()

    def step_fork(self):
        """A branch begins with the same variables, and neither touches the other."""
        answer = self.keeper.ask("fork")
        self.catch_up()
        self.log.append("fork %s" % answer["session"])
        with self.house.connect(answer["session"]) as keeper:
            branch = Player(keeper, "%s of %s" % (answer["session"], self.seed), self.house)
            branch.rng = self.rng
            branch.log = self.log
            branch.timeline = list(self.timeline)
            branch.inherited = len(self.timeline)
            branch.number = 1000 * (1 + len(self.paths))
            branch.step_probe()
            for _ in range(self.rng.randint(1, 4)):
                self.rng.choice((branch.step_cell, branch.step_death))()
            self.step_cell()
            branch.step_probe()
            self.paths += [*branch.paths, list(branch.timeline)]
        self.step_probe()

    STEPS = ((step_cell, 50), (step_probe, 5), (step_burst, 10), (step_death, 12),
             (step_later_death, 3), (step_undone, 8), (step_pause, 10), (step_checkpoint, 6),
             (step_rollback, 9), (step_reset, 1.5), (step_restart, 0.7), (step_fork, 2))

    def play(self, length, without=()):
        steps = [step for step in self.STEPS if step[0].__name__ not in without]
        for _ in range(length):
            step, = self.rng.choices([step[0] for step in steps], [step[1] for step in steps])
            step(self)
        self.step_probe()
        self.paths.append(list(self.timeline))

    # ---- what must agree

    def compare(self, replayer, most=None):
        """Every timeline that there was with the model's, or the last one and some of the others:
        `most` in all."""
        paths = [path for path in self.paths[:-1]
                 if not any(other[:len(path)] == path for other in self.paths if other is not path)]
        if most and len(paths) >= most:
            paths = self.rng.sample(paths, most - 1)
        for path in [self.paths[-1], *paths]:
            found = replayer.run([cell.code for cell in path])
            for cell, (out, error) in zip(path, found):
                self.check((cell.out, cell.error) == (out, error), "the model disagrees", cell.id,
                           cell.code[:200], (cell.out, cell.error), (out, error), path)

    def compare_folds(self):
        """The notebook has what was not rolled back, or all with marks; the texts say it too."""
        fates = {cell.id: cell.fate for cell in self.cells.values()}
        codes = {ident for ident, fate in fates.items() if fate != "rolled_back"}

        def cells(**fields):
            document = self.keeper.ask("notebook", **fields)["notebook"]
            return {cell["id"]: "rolled-back" in cell["metadata"].get("tags", ())
                    for cell in document["cells"] if cell["cell_type"] == "code"}
        omitted, kept = cells(), cells(rolled_back="keep")
        self.check(set(omitted) == codes, "notebook", sorted(set(omitted) ^ codes), fates)
        wrong = [(ident, fates[ident], mark) for ident, mark in kept.items()
                 if mark != (fates[ident] in ("rolled_back", "lost"))]
        self.check(not wrong, "marks of the notebook", wrong)
        for ident, fate in fates.items():
            text = self.keeper.ask("text", cell=ident)["text"]
            undone = self.cells[ident].state == "rolled_back"
            self.check(("[rolled back: " in text or "; rolled back: " in text) == undone, "text",
                       ident, fate, text)


def player(house, seed, **session):
    path = house.session(**session)
    make_workspace(path / "workspace")
    keeper = house.keeper(path)
    assert isinstance(keeper, Keeper)
    return Player(keeper, seed, house)
