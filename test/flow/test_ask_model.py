"""`fumehood ask` with a real model: three tasks with exact answers, the smallest coder there is.

The model is right as often as it is: a wrong answer is no failure here. A lie would be: success
without an outcome, a check that is said to hold and does not, tokens that nobody wrote.
"""
import json
import socket
import subprocess

import llama_kit
import pytest
from ask_kit import Asked
from fumehood_kit import NO_SHARED, SHARED, WAIT_S

TASKS = ("num-factorials", "num-primes-below", "csv-revenue")
SERVER = """
import sys, xllamacpp
model, port = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = model, ["127.0.0.1"], int(port)
params.n_ctx, params.n_parallel = 6144, 3
params.api_keys = ["a-key-for-tests"]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
server = xllamacpp.Server(params)
print("ready", flush=True)
sys.stdin.read()
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def url():
    port = free_port()
    process = subprocess.Popen([llama_kit.engine(), "-c", SERVER, llama_kit.weights(), str(port)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield "http://127.0.0.1:%d/v1" % port
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def tasks():
    path = SHARED / "tasks" / "tasks.jsonl"
    if not path.exists():
        return {}
    return {task["id"]: task for task in map(json.loads, path.read_text().splitlines())}


def plain(text):
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("name", TASKS)
def test_task(house, folder, url, name):
    task = tasks().get(name)
    if not task:
        pytest.skip(NO_SHARED % (SHARED / "tasks"))
    for path, content in task["files"].items():
        (folder / path).write_text(content)
    expected = plain(task["expect_stdout"])
    asked = Asked(house.cli("ask", "--json", "--url", url, "--effort", "medium",
                            "--expect", expected, task["instruction"], cwd=folder,
                            env={"OPENAI_API_KEY": llama_kit.KEY}, wait_s=15 * WAIT_S))
    result = asked.result
    assert asked.status == (0 if result["success"] else 1)
    right = plain(result["stdout"]) == expected
    assert result["success"] == (result["confidence"] == "checked")
    assert right or not result["success"], result
    assert 1 <= len(asked.finished) <= 3
    assert result["model"] and result["tokens"] > 0 and result["prompt_tokens"] > 0
    text = "".join(line["text"] for line in asked.of("token", attempt=1))
    assert text and asked.finished[0]["tokens"] > 0
    if not result["success"]:
        assert result["message"]
