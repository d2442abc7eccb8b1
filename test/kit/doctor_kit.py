"""`fumehood doctor` and what it has said, for its tests.

What the machine lacks is taken from it for one process: in a mount namespace of its own a file
system is small, read-only or hidden; in a user namespace the kernel's counters are low; a limit is
set before the program is executed. Nothing of it is left when that process has ended.
"""
import json
import os
import shutil
import subprocess

import pytest

import fumehood_kit
from fumehood_kit import FAULT, FUMEHOOD

KEYS = {"group", "check", "status", "ok", "detail", "effect", "cure"}
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Report:
    """What one doctor has said."""

    def __init__(self, result):
        self.status = result.returncode
        assert self.status in (0, FAULT), result
        self.all = json.loads(result.stdout)
        self.checks = {}
        for check in self.all["checks"]:
            assert set(check) == KEYS, check
            assert check["status"] in ("ok", "warning", "failed")
            assert check["ok"] == (check["status"] != "failed")
            well = check["status"] == "ok"
            assert (check["effect"] is None) == well and (check["cure"] is None) == well, check
            self.checks.setdefault(check["check"], []).append(check)
        count = [check["status"] for check in self.all["checks"]].count
        assert (self.all["failed"], self.all["warnings"]) == (count("failed"), count("warning"))
        assert self.all["ok"] == (count("failed") == 0) == (self.status == 0)

    def __getitem__(self, name):
        check, = self.checks[name]
        return check

    def __contains__(self, name):
        return name in self.checks

    def expect(self, name, status, *words, part="detail"):
        check = self[name]
        assert check["status"] == status, check
        for word in words:
            assert word in check[part], check


def doctor(house, *groups, before=None, user=False, env=None, cwd=None, **rest):
    """Runs it; `before` are shell lines in a mount namespace (and a user namespace) of its own."""
    command = [FUMEHOOD, "doctor", "--json", *groups]
    if before:
        kind = ["--user", "--map-root-user"] if user else []
        command = ["unshare", *kind, "--mount", "--propagation", "private", "sh", "-ec",
                   before + '\nexec "$0" "$@"', *command]
    result = subprocess.run(command, env={**house.env, **(env or {})},
                            cwd=cwd or house.dir / "work", stdin=subprocess.DEVNULL,
                            capture_output=True, timeout=180, **rest)
    return Report(result)


@pytest.fixture
def own():
    """A house of the test's own, with its pools in the namespaces that it makes."""
    houses = []

    def build(**environment):
        houses.append(fumehood_kit.House(**environment))
        return houses[-1]
    yield build
    for house in houses:
        bad = house.close()
        assert not bad, "\n".join(bad)


def bare_venv(path):
    """An environment with no packages."""
    subprocess.run([fumehood_kit.PYTHON, "-m", "venv", "--without-pip", path], check=True)
    packages, = path.glob("lib/python3*/site-packages")
    return packages


def libexec(folder):
    """A folder of programs that can be changed."""
    for name in ("fumehood-keeper", "fumehood-pool"):
        shutil.copy(fumehood_kit.BUILD / name, folder)
    (folder / "python").symlink_to(fumehood_kit.BUILD / "python")
    return {"FUMEHOOD_LIBEXEC": str(folder)}
