"""Random sequences of cells, deaths, rollbacks, resets, restarts and branches, beside a model.

The model replays the cells that are left, in order, in a fresh process of a plain Python; what it
prints must be what the session has printed, and some cells print every variable (by its pickle).
Which cells are left is known by the words of the events alone: so these are tested as well, and so
are the notebook and the text for a model, which are folds of them.

A failure names its seed: FUMEHOOD_SEED=N plays that one alone. Found with it, and kept: SEEDS.
"""
import os

import pytest

from fumehood_kit import LONG
from timeline_kit import Replayer, player

COUNT = 500 if LONG else 36
LENGTH = 24
TIERS = "full", "full", "none"
SEEDS = 10, 12, 17, 40  # sequences that found something
CHOSEN = os.environ.get("FUMEHOOD_SEED")
PARTS = 6  # a part is a test: what fails is found sooner


@pytest.fixture(scope="module")
def replayer(run_house):
    replayer = Replayer(run_house)
    yield replayer
    replayer.close()


def play(house, replayer, seed):
    played = player(house, seed, tier=TIERS[seed % len(TIERS)])
    with played.keeper:
        played.play(LENGTH)
        played.compare_folds()
    played.compare(replayer, None if LONG or CHOSEN else 3)


@pytest.mark.parametrize("part", range(PARTS))
def test_timelines_agree_with_a_replay(house, replayer, part):
    if CHOSEN:
        seeds = [int(CHOSEN)] if part == 0 else []
    else:
        seeds = range(part * COUNT // PARTS, (part + 1) * COUNT // PARTS)
    for seed in seeds:
        play(house, replayer, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_once_wrong(house, replayer, seed):
    play(house, replayer, seed)
