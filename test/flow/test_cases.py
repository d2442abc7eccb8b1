"""The interpreter cases of ../shared/cases, each a test, by the runner that comes with them.

run_cases.py is used as it is: its session, its checks. Only the environment is the house's. A case
that needs something the environment lacks fails: the environment of the tests has it all. With
FUMEHOOD_MATRIX=VERSION it is that of another CPython (tools/pythons.sh), for which not all packages
are there: then such a case is skipped.
"""
import argparse
import importlib.util
import os
import sys

import pytest

import fumehood_kit

CASES = fumehood_kit.SHARED / "cases"
MATRIX = os.environ.get("FUMEHOOD_MATRIX")


def load_runner():
    if not (CASES / "run_cases.py").is_file():
        return None
    spec = importlib.util.spec_from_file_location("run_cases", CASES / "run_cases.py")
    module = importlib.util.module_from_spec(spec)
    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = write
    return module


runner = load_runner()


def cases():
    """Those for this engine."""
    return [case for case in runner.load_cases([str(CASES)])
            if case.get("engine", "any") in ("any", "python")] if runner else []


if not runner:
    def test_cases():
        pytest.skip(fumehood_kit.NO_SHARED % "the interpreter cases")


@pytest.fixture(scope="module")
def make(run_house):
    """What the runner calls for a new session."""
    class Session(runner.CmdSession):
        def environ(self):
            return {**super().environ(), **run_house.env, **self.launch.get("env", {})}
    return Session


@pytest.fixture(scope="module")
def options(run_house):
    return argparse.Namespace(command=[fumehood_kit.FUMEHOOD, "pipe"],
                              scratch=str(run_house.folder()), keep=False)


@pytest.fixture(scope="module")
def have(make, options):
    """The needs that the environment has."""
    return runner.probe(make, options, {need for case in cases() for need in case.get("needs", [])})


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases()])
def test_case(case, make, options, have, house):
    lack = set(case.get("needs", [])) - have
    if lack and MATRIX:
        pytest.skip("CPython %s lacks %s" % (MATRIX, ", ".join(sorted(lack))))
    assert not lack, "the environment of the tests lacks %s" % ", ".join(sorted(lack))
    complaints, blind, _ = runner.run_case(case, make, options)
    assert not complaints, "\n".join([case["title"], *complaints])
    assert not blind, "%d checks had no text or notebook to look at" % blind
