"""What is written for Node, in its own folder: the packages its lock file names, and its tests by
Node's own runner, against real daemons in a house of their own.

Package       a folder with a package.json
run_tests()   one file of tests; afterwards nothing may be left of it
"""
import os
import re
import shutil
import signal
import subprocess

import pytest

import fumehood_kit

STEP_S_MAX = 300
INSTALL_S_MAX = 1200


class Ended:
    """A program that has ended; one that takes too long is killed with all that it has started."""

    def __init__(self, words, cwd, env=None, seconds=STEP_S_MAX):
        process = subprocess.Popen(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   errors="replace", start_new_session=True)
        try:
            self.stdout = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.stdout = process.communicate()[0] + "\n%s took more than %d s" % (words, seconds)
        self.returncode = process.returncode


class Package:
    def __init__(self, folder):
        self.folder = folder

    def call(self, *words, env=None, seconds=STEP_S_MAX):
        return Ended(words, self.folder, env, seconds)

    def node_version(self):
        return tuple(map(int, re.findall(r"\d+", self.call("node", "--version").stdout)[:2]))

    def install(self, tool, node=(0, 0)):
        """The packages of package-lock.json, `tool` among them. Skips where there is no Node of
        that version, or no index of packages."""
        for name in ("node", "npm"):
            if not shutil.which(name):
                pytest.skip("missing optional component %s" % name)
        if self.node_version() < node:
            pytest.skip("missing optional component Node %d" % node[0])
        if (self.folder / "node_modules" / ".bin" / tool).exists():
            return
        if self.call("npm", "ping").returncode != 0:
            pytest.skip("the package index cannot be reached")
        ended = self.call("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund",
                          seconds=INSTALL_S_MAX)
        assert ended.returncode == 0, ended.stdout

    def run_tests(self, house, name, **environment):
        """test/NAME, by Node's runner. TAP; a Node that has no choice of reporters (before 18.15)
        writes that anyway."""
        reporter = ["--test-reporter=tap"] if self.node_version() >= (18, 15) else []
        ended = self.call("node", "--test", *reporter, "test/" + name, env={
            **house.env, "FUMEHOOD": fumehood_kit.FUMEHOOD, **environment})
        if house.sockets():
            house.stop_sessions()
        assert ended.returncode == 0, ended.stdout
        assert int(re.search(r"^# pass (\d+)$", ended.stdout, re.M)[1]) > 0, ended.stdout
        assert re.search(r"^# skipped 0$", ended.stdout, re.M), ended.stdout
        bad = house.leftovers()
        assert not bad, "\n".join(bad)


def with_pool():
    """For a fixture: a house whose pool runs, and that must be empty at its end."""
    house = fumehood_kit.House()
    assert house.cli("run", "-c", "1").status == 0
    yield house
    bad = house.close()
    assert not bad, "\n".join(bad)
