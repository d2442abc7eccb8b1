"""The benchmark of `fumehood ask`: every task's answer is proven by a program, and its tools count
right.

The solutions run as any user's program does, in sessions with the task's files as workspace.
"""
import concurrent.futures
import http.server
import importlib.util
import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from fumehood_kit import BUILD, NO_SHARED, PYTHON, ROOT, SHARED, WAIT_S

ASK = ROOT / "bench" / "ask"
TASKS = ROOT / "bench" / "tasks" / "tasks.jsonl"


def load(name):
    """A module of the benchmark, which is no package."""
    sys.path.insert(0, str(ASK))
    try:
        spec = importlib.util.spec_from_file_location("bench_ask_" + name, ASK / (name + ".py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(ASK))


tasks, judge, relay = load("tasks"), load("judge"), load("relay")


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def outcome(house, task, code):
    """What a program prints, and the files it leaves, in a folder with the task's files."""
    folder = house.folder()
    tasks.lay_out(task, folder)
    done = house.cli("run", "-w", str(folder), "-c", code)
    assert done.status == 0, (task["id"], done)
    return done.out, tasks.written(task, folder)


def test_every_solution_is_right(house):
    ours = read(TASKS)
    assert len(ours) >= 60 and len({task["id"] for task in ours}) == len(ours)

    def wrong(task):
        out, files = outcome(house, task, task["solution"])
        return None if tasks.is_right(task, out, files) else (task["id"], out, files)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert [bad for bad in pool.map(wrong, ours) if bad] == []


def test_no_task_says_its_answer_or_is_one_of_the_shared_ones():
    for task in read(TASKS):
        expected = re.escape(task["expect_stdout"].strip())
        assert len(expected) < 4 or not re.search(r"\b%s\b" % expected, task["instruction"])
        assert set(task) <= {"id", "level", "instruction", "files", "needs", "expect_stdout",
                             "expect_files", "check", "solution"}
    if not (SHARED / "tasks" / "tasks.jsonl").exists():
        pytest.skip(NO_SHARED % SHARED)
    shared = read(SHARED / "tasks" / "tasks.jsonl")
    for key in ("id", "instruction"):
        assert not {task[key] for task in shared} & {task[key] for task in read(TASKS)}


def test_what_is_right():
    task = {"expect_stdout": "a \nb\n", "expect_files": {"x": "1\n2\n"}}
    assert tasks.is_right(task, "a\nb  \n\n", {"x": "1\r\n2"})
    assert not tasks.is_right(task, "a\nb", {})
    assert not tasks.is_right(task, "a\nb", {"x": "1\n3\n"})
    assert not tasks.is_right(task, " a\nb", {"x": "1\n2\n"})
    assert not tasks.is_right(task, "Result: a\nb", {"x": "1\n2\n"})
    checked = {"expect_stdout": "1.50\n", "expect_files": {}, "check": "float(out) == 1.5"}
    assert tasks.is_right(checked, "1.5\n", {})
    assert not tasks.is_right(checked, "one\n", {})


def row(side, right, **more):
    program = {"status": "ok", "right": right, "tokens": 10, "first_token_seconds": 0.5}
    return {"task": "t", "side": side, "right": right, "success": True, "confidence": "ran",
            "agreement": None, "tokens": 10, "prompt_tokens": 5, "cached_tokens": 2, "seconds": 2.0,
            "model_seconds": 1.0, "programs": [program], **more}


def test_the_tables(capsys):
    agreed = {"confidence": "agreed", "agreement": {"k": 4, "n": 5}}
    rows = [row("original", True), row("original", False), row("high", True, **agreed),
            row("high", True, **agreed), row("high", False, success=False)]
    judge.show(rows, details=True)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "original 1/2 1 2 1.0 10 ×1.00 5 2 2.0 2.0 50 % 0.50" in lines
    assert "high agreed 4 of 5 2 2 100 %" in lines
    assert "high no answer 1 0 0 %" in lines


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers each request with how many came before it, as a stream; the third is cut."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.count += 1
        body = b'data: {"n": %d}\n\n' % self.server.count
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(body if self.server.count == 3 else body + b"data: [DONE]\n\n")


@pytest.fixture
def upstream():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.count = 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(url, **request):
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], **request}).encode()
    with urllib.request.urlopen(url + "/chat/completions", body) as answer:
        return answer.headers["Content-Type"], answer.read()


def test_answers_are_kept_and_come_again(upstream, tmp_path):
    url = "http://127.0.0.1:%d/v1" % upstream.server_address[1]
    with relay.Relay(url, tmp_path) as first:
        one = ask(first.url, seed=1)
        assert one[0] == "text/event-stream" and b'"n": 1' in one[1]
        assert ask(first.url, seed=1) == one
        assert b'"n": 2' in ask(first.url, seed=2)[1]
        assert b"[DONE]" not in ask(first.url, seed=3)[1]
        assert (first.asked, first.kept) == (4, 1)
    with relay.Relay(None, tmp_path, replay=True) as again:
        assert ask(again.url, seed=1) == one
        for seed in (3, 4):  # one was cut, so it is not kept; one was never asked
            with pytest.raises(urllib.error.HTTPError) as error:
                ask(again.url, seed=seed)
            assert error.value.code == 404 and b"has been kept" in error.value.read()
    assert upstream.count == 3


class Model(http.server.BaseHTTPRequestHandler):
    """A server whose model always knows one task's program, and one more that is wrong."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply("application/json", b'{"object":"list","data":[{"id":"one"}]}')

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        code = "import math\nprint(math.gcd(84, 126, 210), math.lcm(84, 126, 210))"
        if request.get("temperature"):
            code = "print(42)"
        text = "```python\n%s\n```" % code
        piece = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 20,
                                          "total_tokens": 70}}
        lines = ["data: " + json.dumps(line) for line in (piece, last, usage)] + ["data: [DONE]"]
        self.reply("text/event-stream", ("\n\n".join(lines) + "\n\n").encode())

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def bench(tmp_path, *options):
    done = subprocess.run([PYTHON, str(ASK / "main.py"), "--build", str(BUILD), *options],
                          cwd=tmp_path, capture_output=True, text=True, timeout=5 * WAIT_S)
    assert done.returncode == 0, done
    return done


def test_a_run_its_replay_and_its_tables(tmp_path):
    """Low is right by its one program; high is outvoted by two that agree and are wrong."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    common = ["--sides", "low,high", "--only", "num-gcd-lcm", "--out", "rows.jsonl"]
    try:
        bench(tmp_path, "--url", "http://127.0.0.1:%d/v1" % server.server_address[1],
              "--record", "kept", *common)
    finally:
        server.shutdown()
        server.server_close()
    rows = {row["side"]: row for row in read(tmp_path / "rows.jsonl")}
    assert rows["low"]["right"] and rows["low"]["confidence"] == "ran"
    assert not rows["high"]["right"] and rows["high"]["agreement"]["k"] >= 2
    assert [one["right"] for one in rows["high"]["programs"]][:2] == [True, False]
    assert rows["low"]["tokens"] == 20 and rows["low"]["programs"][0]["prompt_tokens"] == 50
    again = bench(tmp_path, "--replay", "kept", *common)
    assert "answers were kept ones" in again.stdout
    told = bench(tmp_path, "--judge", "rows.jsonl", "--details").stdout
    assert "high     x rw" in " ".join(told.split()) or "x rw" in told
