"""What code in a session could try against the machine: each probe in each tier, with its control.

The probes are in test/data/probes. The same code runs in a session and, as the same user, outside
of any: what fails in both places proves nothing, and counts only with the reason that the table
names. A class of which nothing can be proved on a machine is skipped by that reason.

    root      tier full, started by root: the session has a uid of its own
    user      tier full, started by an ordinary user
    degraded  asked for, by an ordinary user
    counter   an ordinary user who may make no user namespace: degraded by itself
"""
import pytest

from probe_kit import PROBES, READ_ONLY, WORLDS, World, digest, why_not

CLASSES = sorted({probe.number for probe in PROBES})


class Results:
    """What a world gave."""

    def __init__(self, name):
        uid, self.tier, options, wrap = WORLDS[name]
        before = digest(READ_ONLY)
        world = World(uid or None, options, wrap)
        try:
            self.tried = world.run()
            self.got_tier = world.tier
        finally:
            self.left = world.close()
        self.changed = digest(READ_ONLY) != before

    def of(self, number):
        return [item for item in self.tried if item.probe.number == number]


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    if why := why_not(WORLDS[request.param][1]):
        pytest.skip(why)
    return Results(request.param)


def complaint(tried, tier):
    """What is wrong about a probe; None: nothing."""
    probe = tried.probe
    allowed = probe.full if tier == "full" else probe.degraded
    if tried.inside not in allowed:
        return "%s: %s inside, allowed is %s (outside: %s)" % (
            probe.name, tried.inside, " or ".join(allowed), tried.outside)
    if tried.outside != "open" and tried.outside not in probe.blind:
        return "%s: outside it gave %s, for which the table has no reason" % (
            probe.name, tried.outside)
    return None


def test_tier(world):
    assert world.got_tier == world.tier
    assert not world.left, "\n".join(world.left)


def test_files_of_the_machine_are_unchanged(world):
    assert not world.changed


@pytest.mark.parametrize("number", CLASSES)
def test_probe(world, number):
    tried = world.of(number)
    bad = [text for text in (complaint(item, world.tier) for item in tried) if text]
    assert not bad, "\n".join(bad)
    if all(item.outside != "open" for item in tried):
        pytest.skip("no positive control: " + tried[0].probe.blind[tried[0].outside])
