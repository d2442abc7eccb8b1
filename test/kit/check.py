#!/usr/bin/env python3
"""Runs every step of ./check: one line a step, a section for what failed, and one closing line.

Usage: check.py [--long] [--list] [STEP...], started by ./check, which has built ./build and the
environment.

A skip needs a reason that SKIPS names, else it is a failure: what silently does not run proves
nothing. What the sanitizers report anywhere, also in a keeper in the background, is a failure.
"""
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOGS = ROOT / "build" / "check"
STEP_S_MAX = 20 * 60
LONG_S_MAX = 6 * 3600
FUZZ_S, FUZZ_LONG_S = 30, 600  # for all fuzzers together; for each of them with --long
TAIL_LINES = 60

# Reasons for which a test may be skipped: something of the machine that is optional, or a long
# form.
SKIPS = re.compile("|".join((
    r"^shared is absent",               # the tests that need ../shared
    r"^tier \w+",                       # what this machine's sandbox cannot do
    r"^missing optional component",
    r"FH_TEST_HUGE is not set",         # --long sets it
    r"^cannot simulate \w",
    r"^no fallocate on the file system",
    r"^mounting a .+ is not permitted",
    r"(only|needs) root",
    r"^one processor",
    r"^no positive control: \w",       # a probe that fails outside of the sandbox too, and why
    r"^pyenv (is not here|has no shims)",
    r"^no /usr/bin/unshare",
    r"^Landlock ABI \d is needed",       # tier degraded, on kernels before 6.12
    r"^no Python outside /usr",
    r"^the package index cannot be reached",
    r"^no site-packages of its own",
    r"^/usr/\S+ lacks [\w ]+$",         # Debian's own Python, beside the environment of the tests
    r"^CPython 3\.\d+t? lacks [\w.>=, ]+$",  # another Python than that of the tests
)))
# Flow tests that are run again with the sanitizers: what drives the programs, not Python or the
# notebook.
ASAN_FILES = ("test_bad_input.py", "test_run.py", "test_pool.py", "test_cases.py")
FLOWS_AT_ONCE = 3  # on two processors: most of what they do is to wait
# They begin first, the longest of them before the others.
LONG_FILES = ("test_deaths.py", "test_timeline_property.py", "test_cases.py", "test_guest_asks.py",
              "test_ask_model.py", "test_nbclient_options.py", "test_bad_input.py", "test_fork.py",
              "test_limits_box.py", "test_pool.py", "test_run.py", "test_network.py",
              "test_guest.py", "test_public_notebooks.py", "test_magics.py",
              "test_restored_state.py", "test_leaks.py", "test_serve_attacks.py",
              "test_papermill.py", "test_torture.py", "test_repl.py")
NO_TESTS = 5  # pytest's status when it has found none
# The cases that are run with each other CPython: what depends on its version. --long runs all.
MATRIX_VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t")
MATRIX_CASES = ("async-002 or async-005 or crash-001 or errors-001 or errors-005 or files-001 or "
                "interrupt-001 or magics-001 or notebook-001 or output-001 or output-010 or "
                "rich-001 or state-001 or stdin-001 or unicode-001")
# Tests that failed and are tried once more, alone: up to so many in a step, else none.
AGAIN_MAX = 5
AGAIN_LINES_MAX = 4  # of what a flaky test said
AGAIN = "passed only when it was run again, alone; before: "
ASAN_CASES = "not test_case or crash or errors or interrupt or output or stdin or unicode"


class Outcome(collections.namedtuple("Outcome", "name state detail", defaults=("",))):
    """One test: state is passed, failed or skipped; detail is shown for what failed."""


def skipped(name, reason):
    if SKIPS.search(reason):
        return Outcome(name, "skipped", reason)
    return Outcome(name, "failed", "skipped without a known reason: " + (reason or "none given"))


def tail(text):
    return "\n".join(text.rstrip("\n").split("\n")[-TAIL_LINES:])


class Ended(collections.namedtuple("Ended", "status text")):
    """A program that has ended: its exit status (None: it had to be killed) and what it printed."""


def run(command, log, environment=None, seconds=STEP_S_MAX):
    """Runs a program with its output in LOGS/log; kills its group when it takes too long."""
    path = LOGS / log
    with open(path, "wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **(environment or {})},
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
    return Ended(status, path.read_text(errors="replace"))


def program(name, command, log, environment=None):
    """A step that is one program: it passes when it exits with 0."""
    ended = run(command, log, environment)
    if ended.status == 0:
        return [Outcome(name, "passed")]
    return [Outcome(name, "failed", tail(ended.text))]


# ----------------------------------------------------------------------------------- sanitizers

class Sanitizers:
    """Where the sanitizers of every process of a step write to."""

    def __init__(self, name):
        self.folder = LOGS / ("sanitizers-" + name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o777)

    def environment(self):
        where = "log_path=%s/report" % self.folder
        return {"ASAN_OPTIONS": where + ":detect_leaks=1:detect_stack_use_after_return=1",
                "UBSAN_OPTIONS": where + ":print_stacktrace=1:halt_on_error=1",
                "LSAN_OPTIONS": where}

    def outcomes(self):
        found = sorted(self.folder.iterdir())
        if not found:
            return [Outcome("no sanitizer reports", "passed")]
        return [Outcome(path.name, "failed", path.read_text(errors="replace")[:8000])
                for path in found]


# ----------------------------------------------------------------------------------- unit tests

CMOCKA = re.compile(r"^\[\s*(OK|FAILED|SKIPPED)\s*\] (\S+)$", re.M)


def unit_outcomes(entry):
    """The tests of one program, by what cmocka prints."""
    text = entry.get("stdout", "") + entry.get("stderr", "")
    states = {}
    for state, name in CMOCKA.findall(text):
        states[name] = state if states.get(name) != "FAILED" else "FAILED"
    reasons = re.findall(r"^skipped: (.*)$", text, re.M)
    found = []
    for name, state in states.items():
        full = entry["name"] + " " + name
        if state == "SKIPPED":
            found.append(skipped(full, reasons.pop(0) if reasons else ""))
        else:
            found.append(Outcome(full, "passed" if state == "OK" else "failed", tail(text)))
    if entry["result"] == "OK" and not found:
        found.append(Outcome(entry["name"], "passed"))
    if entry["result"] != "OK" and not any(item.state == "failed" for item in found):
        found.append(Outcome(entry["name"], "failed", "%s\n%s" % (entry["result"], tail(text))))
    return found


def unit(build, environment=None, slower=1):
    """meson test, read from its log."""
    log = ROOT / build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    ended = run(["meson", "test", "-C", build, "--no-rebuild", "-t", str(slower)],
                "unit-%s.log" % build, environment)
    if not log.exists():
        return [Outcome("meson test", "failed", tail(ended.text))]
    found = []
    for line in log.read_text().splitlines():
        found += unit_outcomes(json.loads(line))
    return found or [Outcome("meson test", "failed", "there are none:\n" + tail(ended.text))]


# ----------------------------------------------------------------------------------- flow tests

def case_outcome(case):
    """One <testcase> of pytest's report."""
    name = "%s::%s" % (case.get("classname", "").rpartition(".")[2], case.get("name"))
    for kind in ("failure", "error"):
        item = case.find(kind)
        if item is not None:
            return Outcome(name, "failed", tail(item.text or item.get("message", "")))
    item = case.find("skipped")
    if item is not None:
        return skipped(name, item.get("message", ""))
    return Outcome(name, "passed")


def report_outcomes(report):
    """What pytest reports: a test and its teardown can be two of the same name."""
    by_name = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        item = case_outcome(case)
        before = by_name.get(item.name)
        if before and before.state == item.state == "failed":
            item = item._replace(detail="%s\n\n---- and at its end:\n%s"
                                 % (before.detail, item.detail))
        if not before or item.state == "failed":
            by_name[item.name] = item
    return list(by_name.values())


class Job(collections.namedtuple("Job", "path build name arguments environment seconds python",
                                 defaults=((), {}, STEP_S_MAX, sys.executable))):
    """A file of tests for pytest. `name`: of its log and report. `python`: whose pytest."""


def flow_file(job):
    """pytest on one file, read from its report."""
    report = LOGS / (job.name + ".xml")
    report.unlink(missing_ok=True)
    guest = ROOT / job.build / "python" / "fumehood_guest"
    ended = run([job.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf",
                 "-o", "faulthandler_timeout=300", "-o", "junit_family=xunit2",
                 "--junitxml=%s" % report, *job.arguments, str(job.path)],
                job.name + ".log",
                {"FUMEHOOD_BUILD": str(ROOT / job.build), "FUMEHOOD_PYTHON": sys.executable,
                 "FUMEHOOD_TEST_GUEST": str(guest),
                 "FUMEHOOD_TEST_PYTHONS": "/usr/bin/python3:" + sys.executable,
                 "PYTHONDONTWRITEBYTECODE": "1", **job.environment}, job.seconds)
    if ended.status == NO_TESTS and "-k" in job.arguments:
        return []
    if not report.exists():
        return [Outcome(job.path.name, "failed", tail(ended.text))]
    found = report_outcomes(report)
    if ended.status not in (0, 1) or not found:
        found.append(Outcome(job.path.name, "failed", tail(ended.text)))
    return found


def once_more(job, item):
    """A test that has failed, alone. One that passes now is told as such: it, or what it tests,
    depends on how busy the machine is."""
    test = item.name.partition("::")[2]
    if not test:
        return item
    alone = job._replace(path=pathlib.Path("%s::%s" % (job.path, test)), name=job.name + "-again",
                         arguments=())
    found = [other for other in flow_file(alone) if other.name == item.name]
    if [other.state for other in found] != ["passed"]:
        return item
    said = [line for line in item.detail.splitlines() if line.startswith("E ")]
    return Outcome(item.name, "passed", AGAIN + " / ".join(
        line[1:].strip() for line in said[:AGAIN_LINES_MAX]))


def flow_files(jobs):
    """A few files at a time. A few tests that failed get another try."""
    with concurrent.futures.ThreadPoolExecutor(FLOWS_AT_ONCE) as workers:
        found = [(job, item) for job, items in zip(jobs, workers.map(flow_file, jobs))
                 for item in items]
    if sum(item.state == "failed" for _, item in found) > AGAIN_MAX:
        return [item for _, item in found]
    return [once_more(job, item) if item.state == "failed" else item for job, item in found]


def flow(build, names=None, arguments=(), environment=None, seconds=STEP_S_MAX):
    """The files of test/flow."""
    paths = [path for path in sorted((ROOT / "test" / "flow").glob("test_*.py"))
             if not names or path.name in names]
    paths.sort(key=lambda path: LONG_FILES.index(path.name) if path.name in LONG_FILES
               else len(LONG_FILES))
    return flow_files([Job(path, build, "%s-%s" % (build, path.stem), arguments,
                           environment or {}, seconds) for path in paths])


# ------------------------------------------------------------------------------------ the steps

def build(folder, options, compiler):
    shell = '. tools/setup.sh; build "$@"'
    return program("build " + folder, ["sh", "-c", shell, "sh", folder, *options],
                   "build-%s.log" % folder, {"CC": compiler})


def fuzzing_is_here():
    """Whether clang has its fuzzing runtime."""
    if not shutil.which("clang"):
        return False
    found = subprocess.run(["clang", "-print-runtime-dir"], capture_output=True, text=True)
    folders = [pathlib.Path(found.stdout.strip())]
    found = subprocess.run(["clang", "-print-resource-dir"], capture_output=True, text=True)
    folders.append(pathlib.Path(found.stdout.strip()) / "lib" / "linux")
    return any(path.is_dir() and list(path.glob("libclang_rt.fuzzer*")) for path in folders)


def step_form(_long):
    return (program("layers", [sys.executable, "test/layers.py"], "layers.log")
            + program("style", [sys.executable, "test/kit/style.py"], "style.log"))


def step_man(_long):
    found = []
    for page in sorted((ROOT / "man").glob("*.[1-9].scd")):  # the others are parts of pages
        with open(page, "rb") as source:
            made = subprocess.run(["scdoc"], stdin=source, capture_output=True)
        good = made.returncode == 0 and not made.stderr and made.stdout
        found.append(Outcome(page.name, "passed" if good else "failed", made.stderr.decode()))
    return found or [Outcome("man", "failed", "there is no man/*.scd")]


def step_asan_build(_long):
    """Every warning of gcc is an error here."""
    return build("build-asan", ["-Dwerror=true", "-Db_sanitize=address,undefined",
                                "-Db_lundef=false"], "gcc")


def step_clang_build(_long):
    """Every warning of clang is an error here; the fuzzers come out of the same build."""
    if not shutil.which("clang"):
        return [skipped("build-clang", "missing optional component clang")]
    options = ["-Dwerror=true", "-Db_lundef=false"]
    if fuzzing_is_here():
        options += ["-Dfuzz=true", "-Db_sanitize=address,undefined",
                    "-Dc_args=-fsanitize=fuzzer-no-link"]
    return build("build-clang", options, "clang")


def step_unit(long):
    return unit("build", {"FH_TEST_HUGE": "1"} if long else None)


def step_unit_asan(_long):
    sanitizers = Sanitizers("unit")
    return unit("build-asan", sanitizers.environment(), 4) + sanitizers.outcomes()


def step_flow(long):
    if long:
        return flow("build", environment={"FUMEHOOD_LONG": "1"}, seconds=LONG_S_MAX)
    return flow("build")


def step_flow_asan(_long):
    sanitizers = Sanitizers("flow")
    return flow("build-asan", ASAN_FILES, ["-k", ASAN_CASES], sanitizers.environment()) \
        + sanitizers.outcomes()


def pythons(long):
    """{version: path} of the CPythons that are here, each with the packages of the tests."""
    ended = run(["tools/pythons.sh", *(["--get"] if long else [])], "pythons.log",
                seconds=LONG_S_MAX if long else STEP_S_MAX)
    lines = [line.split(" ", 1) for line in ended.text.splitlines()]
    return {words[0]: words[1] for words in lines
            if len(words) == 2 and words[0] in MATRIX_VERSIONS}


def step_pythons(long):
    """The cases with each CPython, two at a time."""
    here = pythons(long)
    arguments = [] if long else ["-k", MATRIX_CASES]

    found, jobs = [], []
    for version in MATRIX_VERSIONS:
        if version in here:
            jobs.append(Job(ROOT / "test" / "flow" / "test_cases.py", "build", "python-" + version,
                            arguments, {"FUMEHOOD_PYTHON": here[version],
                                        "FUMEHOOD_MATRIX": version}))
        else:
            found.append(skipped("CPython " + version,
                                 "missing optional component CPython " + version))
    with concurrent.futures.ThreadPoolExecutor(FLOWS_AT_ONCE) as workers:
        for job, items in zip(jobs, workers.map(flow_file, jobs)):
            items = items or [Outcome("cases", "failed", "none was run")]
            found += [item._replace(name="CPython %s %s" % (job.environment["FUMEHOOD_MATRIX"],
                                                         item.name)) for item in items]
    return found


def step_sdk(long):
    """The Python SDK, in an environment that has the packages it is tested against."""
    here = pythons(long)
    python = str(ROOT / "build" / "sdk-venv" / "bin" / "python")
    environment = {"FUMEHOOD_TEST_VERSIONS": "\n".join("%s %s" % item for item in here.items())}
    paths = sorted((ROOT / "sdk" / "python" / "tests").glob("test_*.py"))
    return flow_files([Job(path, "build", "sdk-" + path.stem, (), environment, STEP_S_MAX, python)
                       for path in paths])


def step_sdk_js(_long):
    """The SDK for JavaScript, by Node's own test runner and in Chromium."""
    return flow_files([Job(ROOT / "sdk" / "js" / "test" / "test_sdk_js.py", "build", "sdk-js")])


def step_vscode(long):
    """The extension for VS Code, and with --long in the editor itself."""
    path = ROOT / "editor" / "vscode" / "test" / "test_vscode.py"
    return flow_files([Job(path, "build", "vscode", (), {"FUMEHOOD_LONG": "1"} if long else {})])


def fuzz(path, seconds):
    """One fuzzer, on the inputs that are kept (test/data/fuzz) and those of earlier runs."""
    name = path.name
    corpus = ROOT / "build-clang" / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    kept = ROOT / "test" / "data" / "fuzz" / name
    folders = [str(corpus)] + ([str(kept)] if kept.is_dir() else [])
    return program(name, [str(path), "-max_total_time=%d" % seconds, "-timeout=25",
                          "-rss_limit_mb=2048", "-print_final_stats=1",
                          "-artifact_prefix=%s/crash-" % LOGS, *folders], name + ".log")


def step_fuzz(long):
    if not fuzzing_is_here():
        return [skipped("fuzz", "missing optional component libclang-rt")]
    fuzzers = sorted((ROOT / "build-clang" / "test" / "fuzz").glob("*_fuzz"))
    seconds = FUZZ_LONG_S if long else max(2, FUZZ_S // max(1, len(fuzzers)))
    found = []
    for path in fuzzers:
        found += fuzz(path, seconds)
    return found or [Outcome("fuzz", "failed", "build-clang has no fuzzers")]


# ------------------------------------------------------------------------------ virtual machines

def vm_step(folder, step):
    """One program that has run in a machine (test/vm/inside.py)."""
    name, text = step["name"], (folder / (step["name"] + ".log")).read_text(errors="replace")
    report = folder / (name + ".xml")
    if report.exists() and report.stat().st_size:
        found = report_outcomes(report)
    elif step["status"] == 77:
        return [skipped(name, text.strip().rpartition("skipped: ")[2])]
    else:
        return unit_outcomes({"name": name, "stdout": text,
                              "result": "OK" if step["status"] == 0 else "FAIL"})
    if step["status"] not in (0, 1) or not found:
        found.append(Outcome(name, "failed", tail(text)))
    return found


def step_vm(_long):
    """The sandbox on Debian's own kernels."""
    if os.geteuid() != 0:
        return [skipped("vm", "needs root")]
    place = ROOT / "build" / "vm"
    for old in place.glob("results-*"):
        shutil.rmtree(old)
    ended = run(["test/vm/run"], "vm.log", {"FUMEHOOD_PYTHON": sys.executable}, LONG_S_MAX)
    if not shutil.which("qemu-system-x86_64"):
        return [skipped("vm", "missing optional component qemu-system-x86")]
    found = []
    for folder in sorted(place.glob("results-*")):
        for step in json.loads((folder / "steps.json").read_text()):
            found += [item._replace(name="Linux %s: %s" % (folder.name[8:], item.name))
                      for item in vm_step(folder, step)]
    if ended.status not in (0, 1) or not found:
        found.append(Outcome("vm", "failed", tail(ended.text)))
    return found


STEPS = {
    "form": (step_form, "layers and form of the sources"),
    "man": (step_man, "man pages"),
    "unit": (step_unit, "unit tests"),
    "flow": (step_flow, "flow tests"),
    "pythons": (step_pythons, "cases with every CPython"),
    "sdk": (step_sdk, "the Python SDK"),
    "sdk-js": (step_sdk_js, "the SDK for JavaScript"),
    "vscode": (step_vscode, "the extension for VS Code"),
    "clang": (step_clang_build, "clang, warnings are errors"),
    "fuzz": (step_fuzz, "fuzzers"),
    "asan": (step_asan_build, "build with ASan and UBSan"),
    "unit-asan": (step_unit_asan, "unit tests, sanitized"),
    "flow-asan": (step_flow_asan, "flow tests, sanitized"),
    "vm": (step_vm, "sandbox on other kernels"),
}
ONLY_LONG = ("vm",)  # or when they are named


def main(argv):
    long = "--long" in argv
    names = [word for word in argv[1:] if word not in ("--long", "--list")]
    if "--list" in argv or not set(names) <= set(STEPS):
        for name, (_, title) in STEPS.items():
            print("%-10s %s%s" % (name, title, ", with --long" * (name in ONLY_LONG)))
        return 0 if "--list" in argv else 2
    LOGS.mkdir(parents=True, exist_ok=True)
    tally, failures = collections.Counter(), []
    for name, (step, title) in STEPS.items():
        if names and name not in names or not names and name in ONLY_LONG and not long:
            continue
        start = time.monotonic()
        found = step(long)
        count = collections.Counter(item.state for item in found)
        print("%-28s %4d passed %3d failed %3d skipped %7.1f s" % (
            title, count["passed"], count["failed"], count["skipped"], time.monotonic() - start),
            flush=True)
        for item in found:
            if item.state == "skipped":
                print("    skipped %s: %s" % (item.name, item.detail))
            elif item.detail.startswith(AGAIN):
                print("    flaky %s: %s" % (item.name, item.detail))
        failures += [(title, item) for item in found if item.state == "failed"]
        tally += count
    for title, item in failures:
        print("\n---- %s: %s\n%s" % (title, item.name, item.detail))
    print("%slogs are in build/check" % ("\n" if failures else ""))
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
