"""The program: options, a model's server, both sides task by task in turn, the tables."""

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version

import judge
import relay as relaying
import sides
import tasks

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
import machine  # noqa: E402 (beside the folder, not in it)

SIDES = ("original", "low", "medium", "high")
READY_SECONDS = 300
CONTEXT = 4096  # of a slot: the original's history grows
SLOTS = 5       # as many programs as `high` asks for at once


def parse():
    parser = argparse.ArgumentParser(
        prog="bench/ask/run", description="`fumehood ask` beside slm-code-interpreter, one server."
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--model", help="a GGUF file; a server is started for it")
    where.add_argument("--url", help="an OpenAI-compatible endpoint, such as http://…:8080/v1")
    where.add_argument("--judge", metavar="FILE", help="the tables of what --out has written")
    where.add_argument("--replay", metavar="DIR", help="answers that --record has kept, no model")
    parser.add_argument("--record", metavar="DIR", help="keep the model's answers, and use them")
    parser.add_argument("--tasks", default=os.path.join(HERE, "..", "tasks", "tasks.jsonl"))
    parser.add_argument("--only", default="", help="ids of tasks, with commas")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--programs", type=int, default=3, help="of the original (default 3)")
    parser.add_argument("--jobs", type=int, default=1, help="asks at once: then seconds say little")
    parser.add_argument("--out", metavar="FILE", help="a JSON line for each ask")
    parser.add_argument("--details", action="store_true", help="a line for each task")
    parser.add_argument("--build", default="build", help="folder with the built programs")
    parser.add_argument("--extra", default="", help="more options for `fumehood ask`")
    options = parser.parse_args()
    options.sides = options.sides.split(",")
    for name in options.sides:
        if name not in SIDES:
            parser.error(f"no such side: {name}; there are {', '.join(SIDES)}")
    return options


@contextlib.contextmanager
def engine(model, slots):
    """A server for the model; gives its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "engine.py"), model, str(port), str(slots)]
            + [str(CONTEXT)],
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            if server.stdout.readline().strip() != b"ready":
                log.seek(0)
                sys.exit("the model's server did not start:\n" + log.read().decode()[-2000:])
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()
            server.wait()


def wait_ready(url):
    """A server may listen while it loads its model: then it says 503."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            urllib.request.urlopen(url + "/models", timeout=READY_SECONDS).close()
            return
        except OSError as error:
            if getattr(error, "code", 503) != 503 or time.monotonic() > deadline:
                sys.exit(f"{url}/models: {error}")
        time.sleep(0.2)


def private_environment(folder, runtime):
    """Nothing of the user's is read or written; sessions use this Python."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FUMEHOOD_", "XDG_", "SLM_", "http_proxy", "HTTP_PROXY"))
    }
    for name in ("STATE_HOME", "DATA_HOME", "CACHE_HOME", "CONFIG_HOME"):
        environment["XDG_" + name] = os.path.join(folder, name.lower())
    environment["XDG_RUNTIME_DIR"] = runtime
    environment["FUMEHOOD_PYTHON"] = sys.executable
    return environment


def ask_one(side, task, disk):
    folder = tempfile.mkdtemp(prefix="task-", dir=disk)
    try:
        tasks.lay_out(task, folder)
        row = side.ask(task, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"task": task["id"], "side": side.name, **row}


def in_turn(all_sides, all_tasks):
    """Each task is given to all sides before the next; another side begins each time."""
    for number, task in enumerate(all_tasks):
        start = number % len(all_sides)
        for side in all_sides[start:] + all_sides[:start]:
            yield side, task


def run(options, url, disk, runtime):
    environment = private_environment(disk, runtime)
    program = os.path.join(os.path.realpath(options.build), "fumehood")
    all_sides = []
    for name in options.sides:
        if name == "original":
            all_sides.append(sides.Original(url, environment, options.programs))
        else:
            extra = options.extra.split()
            all_sides.append(sides.Fumehood(url, environment, program, name, extra))
    chosen = set(filter(None, options.only.split(",")))
    all_tasks, missing = tasks.read(options.tasks.split(","), chosen)
    for package, count in missing.items():
        print(f"{package} is not installed: {count} tasks are left out", file=sys.stderr)
    if not all_tasks:
        sys.exit("no task is left")
    rows, failures = [], 0
    out = open(options.out, "w", encoding="utf-8") if options.out else None
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    asked = list(in_turn(all_sides, all_tasks))
    jobs = [pool.submit(ask_one, side, task, disk) for side, task in asked]
    try:
        for (side, task), job in zip(asked, jobs):
            try:
                row = job.result()
            except (sides.Failed, OSError, subprocess.SubprocessError) as error:
                failures += 1
                print(f"{task['id']}, {side.name}: {error}", file=sys.stderr)
                continue
            rows.append(row)
            if out:
                print(json.dumps(row), file=out, flush=True)
            mark = "right" if row["right"] else "wrong" if row["success"] else "no answer"
            print(f"{len(rows):4} {task['id']:<22} {side.name:<9} {mark}", file=sys.stderr)
    finally:
        # Stopped early: what still runs is ended with all that the benchmark has started.
        pool.shutdown(wait=False, cancel_futures=True)
        if out:
            out.close()
    return rows, failures


def show_head(options):
    words = [f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"]
    words.append(f"python {platform.python_version()}")
    for name in ("numpy", "pandas", "xllamacpp", "slm-code-interpreter"):
        with contextlib.suppress(ImportError):
            words.append(f"{name} {version(name)}")
    words.append(os.path.basename(options.model or options.url or options.replay))
    print(", ".join(words) + "\n")


def order(rows):
    """By the order of SIDES, so that the tables are the same in each run."""
    return sorted(rows, key=lambda row: SIDES.index(row["side"]))


def measure(options):
    disk = tempfile.mkdtemp(prefix="bench-ask-", dir=os.path.realpath(options.build))
    runtime = tempfile.mkdtemp(prefix="fumehood-bench-")  # short: a socket's path has 108 bytes
    machine.become_subreaper()
    try:
        with contextlib.ExitStack() as stack:
            upstream = options.url
            if options.model:
                upstream = stack.enter_context(engine(options.model, max(SLOTS, options.jobs)))
            if upstream:
                wait_ready(upstream)
            relay = stack.enter_context(
                relaying.Relay(
                    upstream, options.record or options.replay, replay=bool(options.replay)
                )
            )
            noise = stack.enter_context(machine.Noise())
            rows, failures = run(options, relay.url, disk, runtime)
        show_head(options)
        judge.show(order(rows), options.details)
        if relay.kept:
            print(f"\n{relay.kept} of {relay.asked} answers were kept ones: no seconds of a model")
        if noise.cores > machine.NOISE_CORES and options.url is None:
            print(f"\nDISTURBED: other processes used {noise.cores:.1f} cores meanwhile")
    finally:
        machine.end_all()
        shutil.rmtree(disk, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)
    return 1 if failures else 0


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.judge:
        with open(options.judge, encoding="utf-8") as file:
            judge.show(order([json.loads(line) for line in file]), options.details)
        return 0
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
