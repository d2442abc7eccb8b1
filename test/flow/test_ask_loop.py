"""`fumehood ask` with answers from a file: every status, the votes, the budgets, and what is left.

Real programs in real boxes; only the model is a script. The lines are those of doc/ask.md.
"""
import json
import os
import signal

import pytest
from ask_kit import Live, answer, ask, ask_people, journal, write_script
from fumehood_kit import CELL_FAILED, FAULT, USAGE, WAIT_S, wait_gone

CANCELLED = 130
FAIL = "x = 1\nprint(undefined_name)"


def names(folder):
    return sorted(os.listdir(folder))


# ---------------------------------------------------------------------------- answers and votes

def test_two_that_agree_are_enough(house, folder):
    asked = ask(house, [answer("print(6 * 7)"), answer("x = 42\nprint(x)")], cwd=folder)
    assert asked.status == 0
    assert asked.statuses == ["ok", "ok"]
    assert asked.result["success"] is True
    assert asked.result["stdout"] == "42"
    assert asked.result["code"] == "print(6 * 7)\n"
    assert asked.result["confidence"] == "agreed"
    assert asked.result["agreement"] == {"k": 2, "n": 2, "alike": 2}
    assert asked.result["attempts"] == 2
    assert asked.result["response"] == "```python\nprint(6 * 7)\n```"
    assert asked.lines[0]["type"] == "ask" and asked.lines[-1]["type"] == "result"
    assert names(folder) == []


def test_the_majority_wins(house):
    asked = ask(house, [answer("print(1)"), answer("print(1 + 1)"), answer("print(4 // 2)")],
                "--effort", "medium")
    assert asked.result["stdout"] == "2"
    assert asked.result["agreement"] == {"k": 2, "n": 3, "alike": 2}
    assert [line["group"] for line in asked.result["programs"]] == [1, 2, 2]
    assert asked.verdict["attempt"] == 2


def test_high_asks_five_when_they_differ(house):
    asked = ask(house, [answer("print(%d)" % number) for number in (1, 2, 3, 4, 4)],
                "--effort", "high")
    assert len(asked.finished) == 5
    assert asked.result["stdout"] == "4"
    assert asked.result["agreement"] == {"k": 2, "n": 5, "alike": 2}


def test_low_is_content_with_one(house):
    asked = ask(house, [answer("print(1)")], "--effort", "low")
    assert asked.status == 0
    assert asked.result["confidence"] == "ran"
    assert asked.result["agreement"] == {"k": 1, "n": 1, "alike": 1}


def test_number_formats_are_told_and_not_called_equal(house):
    asked = ask(house, [answer("print(8)"), answer("print(9)"), answer("print(9.0)")])
    assert asked.result["stdout"] == "9"
    assert asked.result["confidence"] == "ran"
    assert asked.result["agreement"] == {"k": 1, "n": 3, "alike": 2}
    assert any("how numbers are written" in text for text in asked.result["suspicions"])


def test_files_are_part_of_the_outcome(house, folder):
    write = "open('out.txt', 'w').write(%r)\nprint('done')"
    asked = ask(house, [answer(write % "a"), answer(write % "b"), answer(write % "b" + "  # c")],
                cwd=folder)
    assert asked.result["agreement"]["k"] == 2
    assert (folder / "out.txt").read_text() == "b"
    assert names(folder) == ["out.txt"]
    (file,) = asked.result["files"]
    assert (file["path"], file["change"], file["bytes"]) == ("out.txt", "created", 1)
    assert file["sha256"] == "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"


def test_what_loses_leaves_no_trace(house, folder):
    (folder / "data.csv").write_text("a\n1\n")
    spoil = "import os\nos.remove('data.csv')\nopen('junk', 'w').write('x')\nprint('spoilt')"
    good = "print(open('data.csv').read().count('1'))"
    asked = ask(house, [answer(spoil), answer(good), answer("n = 1\n" + good)], cwd=folder)
    assert asked.result["stdout"] == "1"
    assert names(folder) == ["data.csv"]
    assert (folder / "data.csv").read_text() == "a\n1\n"
    changes = {file["path"]: file["change"] for file in asked.finished[0]["files"]}
    assert changes == {"data.csv": "deleted", "junk": "created"}


def test_without_overlays(house, folder):
    """Where a box has no namespaces, programs are tried in the session, and leave as little."""
    (folder / "data.txt").write_text("41\n")
    wrong = answer("open('data.txt', 'w').write('0')\nopen('left', 'w')\nprint(0)")
    right = answer("print(int(open('data.txt').read()) + 1)")
    asked = ask(house, [wrong, right, right], "--tier", "none", "--effort", "medium", cwd=folder)
    assert asked.status == 0 and asked.result["stdout"] == "42", asked.lines
    assert (asked.result["agreement"]["k"], asked.result["agreement"]["n"]) == (2, 3)
    assert names(folder) == ["data.txt"]
    assert (folder / "data.txt").read_text() == "41\n"


def test_one_program_does_not_see_another(house, folder):
    code = "import os\nprint(os.listdir('.'), 'y' in globals())\nopen('mark', 'w').close()\ny = 1"
    asked = ask(house, [answer(code), answer(code + "  # the same")], cwd=folder)
    assert [line["stdout"] for line in asked.finished] == ["[] False\n"] * 2


# ------------------------------------------------------------------------------- every status

def test_a_failed_program_is_mended_once(house):
    asked = ask(house, [answer(FAIL), answer("print(3)")], "--effort", "low")
    assert asked.statuses == ["error", "ok"]
    first, second = asked.finished
    assert first["error"] == {"ename": "NameError", "line": 2, "source": "print(undefined_name)",
                              "evalue": "name 'undefined_name' is not defined"}
    assert asked.of("attempt", state="started")[1]["kind"] == "repair"
    assert asked.of("attempt", state="started")[1]["of"] == 1
    assert asked.result["success"] and asked.result["stdout"] == "3"
    assert second["kind"] == "repair"


def test_a_forgotten_import_costs_no_tokens(house):
    asked = ask(house, [answer("print(math.floor(2.5), Counter('aab')['a'])")], "--effort", "low")
    assert (asked.result["stdout"], asked.result["attempts"]) == ("2 2", 1), asked.lines
    assert asked.result["code"].startswith("from collections import Counter\nimport math\n")
    assert len([text for text in asked.result["suspicions"] if "put in front" in text]) == 2


def test_no_success_has_the_evidence(house):
    asked = ask(house, [answer("print('before')\n" + FAIL), answer(FAIL + "  # 2")],
                "--effort", "low")
    assert asked.status == CELL_FAILED
    assert asked.result["success"] is False
    assert asked.result["confidence"] == "none"
    assert asked.result["code"] == FAIL + "  # 2\n" or "before" in asked.result["stdout"]
    assert "NameError" in asked.result["stderr"]
    assert "NameError" in asked.result["message"]
    assert "cell" not in asked.result


@pytest.mark.parametrize("code, status", [
    ("pass", "empty"),
    ("print('   ')", "empty"),
    ("raise ValueError('x')", "error"),
    ("import os\nos._exit(3)", "died"),
    ("import os\nos.kill(os.getpid(), 9)", "died"),
    ("import sys\nsys.exit(3)", "error"),
    ("while True: pass", "timeout"),
    ("import time\ntry:\n    time.sleep(600)\nexcept BaseException:\n    time.sleep(600)",
     "timeout"),
    ("input()", "error"),
    ("def f(:", "error"),
    ("import no_such_package", "error"),
    ("import os\nif os.fork():\n    print('parent')\nelse:\n    import time\n    time.sleep(600)",
     "ok"),
])
def test_status(house, code, status):
    asked = ask(house, [answer(code)], "--programs", "1", "--effort", "low", "--timeout", "1")
    assert asked.statuses == [status], asked.finished
    assert asked.status == (0 if status == "ok" else CELL_FAILED)
    assert asked.result["message" if asked.status else "stdout"]


def test_a_value_counts_when_nothing_is_printed(house):
    asked = ask(house, [answer("x = 41\nx + 1")], "--effort", "low")
    assert asked.status == 0
    assert asked.result["stdout"] == "42"
    assert any("last expression" in text for text in asked.result["suspicions"])


def test_what_a_program_says_of_itself(house):
    asked = ask(house, [answer("print('Error: no such file')"), answer("print(5)")],
                "--effort", "low")
    assert asked.statuses == ["ok", "ok"]
    assert asked.result["stdout"] == "5"
    assert asked.finished[0]["suspicions"]
    asked = ask(house, [answer("print('Error: no such file')")] * 2, "--effort", "low")
    assert asked.status == 0  # it ran: but it is shown
    assert "says itself" in asked.result["suspicions"][0]


def test_no_code_is_asked_for_again(house):
    asked = ask(house, ["I am sorry.", answer("print(1)")], "--effort", "low")
    assert asked.statuses == ["no_code", "ok"]
    assert asked.result["success"]


def test_the_same_program_is_not_run_again(house):
    asked = ask(house, [answer(FAIL), answer("# mended\n" + FAIL), answer("print(2)")],
                "--effort", "low", "--programs", "3")
    assert asked.statuses == ["error", "repeated", "ok"]
    assert asked.finished[1]["of"] == 1
    started = asked.of("attempt", state="started")
    assert started[2]["kind"] == "sample" and started[2]["temperature"] >= 0


def test_blocks_are_tried_in_turn(house):
    text = ("```python\ndef area(r):\n    return 3 * r * r\n```\nUse it:\n"
            "```python\nprint(area(2))\n```\nIt prints:\n```\n12\n```")
    asked = ask(house, [text], "--effort", "low", "--programs", "1")
    assert asked.status == 0
    assert asked.result["stdout"] == "12"
    assert len(asked.of("code")) == 2


@pytest.mark.parametrize("fence, how", [
    ("```py\n%s\n```", "python"), ("```\n%s\n```", "bare"),
    ("%s", "prose"), ("<think>```python\nprint(0)\n```</think>```python\n%s\n```", "python"),
])
def test_fences(house, fence, how):
    asked = ask(house, [answer("print(1 + 1)", fence)], "--effort", "low")
    assert asked.result["stdout"] == "2"
    assert asked.of("code")[0]["fence"] == how


def test_a_fence_that_is_not_closed(house):
    cut = answer("print(1 + 1)", "```python\n%s", finish="length")
    asked = ask(house, [cut], "--effort", "low")
    assert asked.result["stdout"] == "2"
    assert asked.of("code")[0]["fence"] == "unclosed"


def test_a_flood_of_output(house):
    code = "import sys\nfor _ in range(100):\n    sys.stdout.write('x' * 1_000_000)\nprint('end')"
    asked = ask(house, [answer(code)], "--effort", "low", "--timeout", "60", wait_s=4 * WAIT_S)
    assert asked.status == 0
    (line,) = asked.finished
    assert len(line["stdout"]) <= 65536 and line["stdout_dropped"] > 0
    assert sum(len(one["text"]) for one in asked.of("output")) <= 1 << 18
    assert any("bytes" in text for text in asked.result["suspicions"])


def test_input(house):
    code = "import sys\nname = input('who? ')\nprint(name, sys.stdin.read().split())"
    asked = ask(house, [answer(code)], "--effort", "low", "--input", "Ann\n1 2\n3")
    assert asked.result["stdout"] == "who? Ann ['1', '2', '3']" or \
        asked.result["stdout"].endswith("Ann ['1', '2', '3']")


# ------------------------------------------------------------------------------------- checks

def test_a_check_ends_the_search(house):
    asked = ask(house, [answer("print(1)"), answer("print(5)"), answer("print(5.0)")],
                "--expect", "5")
    assert asked.status == 0
    assert asked.result["confidence"] == "checked"
    assert asked.result["stdout"] == "5"
    assert asked.result["checks"] == [{"kind": "expect", "ok": True}]


def test_a_check_that_never_holds(house):
    asked = ask(house, [answer("print(%d)" % number) for number in range(3)],
                "--expect", "/^7$/")
    assert asked.status == CELL_FAILED
    assert "/^7$/" in asked.result["message"]
    assert asked.result["confidence"] == "none"
    assert asked.of("attempt", state="started")[-1]["kind"] == "repair"


def test_assertions_run_behind_the_program(house):
    asked = ask(house, [answer("total = 4\nprint(total)"), answer("total = 5\nprint(total)")],
                "--effort", "low", "--assert", "total == 5", "--assert", "import os; assert os.sep")
    assert asked.status == 0
    assert asked.result["stdout"] == "5"
    assert asked.finished[0]["checks"][0]["ok"] is False
    assert "total == 5" in asked.finished[0]["checks"][0]["message"]
    assert asked.result["checks"] == [{"kind": "assert", "ok": True}] * 2


# ------------------------------------------------------------------------------------ budgets

def test_programs_are_counted(house):
    asked = ask(house, [answer(FAIL + "  # %d" % i + "\nprint(%d)" % i) for i in range(9)],
                "--programs", "1")
    assert len(asked.finished) == 1
    assert asked.status == CELL_FAILED


def test_tokens_are_counted(house):
    asked = ask(house, [answer("x = '%s'\nraise ValueError(%d)" % ("word " * 100, i))
                        for i in range(5)], "--effort", "high", "--tokens", "20")
    assert len(asked.finished) == 3  # the first round
    assert "--tokens" in asked.result["message"]


def test_time_is_counted(house):
    asked = ask(house, [answer("print(1)", delay_ms=600000)], "--time", "1", "--effort", "low")
    assert asked.status == CELL_FAILED
    assert asked.statuses == ["interrupted"]
    assert "--time" in asked.result["message"]


def test_what_there_was_when_the_time_was_over(house):
    asked = ask(house, [answer("print(1)"), answer("print(1)", delay_ms=600000)], "--time", "3")
    assert asked.statuses == ["ok", "interrupted"]
    assert asked.status == 0
    assert asked.result["confidence"] == "ran"


# ----------------------------------------------------------------------------- a failing model

def test_a_model_that_is_busy_is_asked_again(house):
    asked = ask(house, [{"error": {"code": "busy", "message": "later"}}, answer("print(1)")],
                "--effort", "low")
    assert asked.status == 0
    assert asked.statuses == ["ok"]


def test_a_model_that_is_gone_is_a_fault(house):
    asked = ask(house, [{"text": "", "error": "cut"}] * 8, "--effort", "low")
    assert asked.status == FAULT
    assert asked.lines[-1]["type"] == "error"
    assert asked.lines[-1]["message"] in asked.err
    assert asked.verdict["success"] is False  # the ask does not stay open


@pytest.mark.parametrize("error, code, remedy", [
    ("cut", "gone", "see that its server answers"),
    ({"code": "denied", "message": "the key is refused"}, "denied", "--key-env"),
])
def test_a_model_that_fails_after_a_program_failed(house, error, code, remedy):
    """There is a result: what there was, and that the model gave no more."""
    answers = [answer("print('before')\n" + FAIL)] + [{"text": "", "error": error}] * 8
    asked = ask(house, answers, "--effort", "low")
    assert asked.status == CELL_FAILED
    result = asked.result
    assert asked.lines[-1] is result and not asked.of("error")
    assert result["success"] is False and result["confidence"] == "none"
    assert (result["stdout"], result["attempt"]) == ("before", 1)
    assert "NameError" in result["stderr"]
    assert result["code"].endswith(FAIL + "\n") or result["code"].endswith(FAIL)
    statuses = [line["status"] for line in result["programs"]]
    assert statuses[0] == "error" and set(statuses[1:]) == {"model"}
    assert result["fault"]["code"] == code and result["fault"]["message"] in result["message"]
    assert remedy in result["message"] and "NameError" in result["message"]
    assert asked.verdict["fault"] == result["fault"]
    assert asked.verdict["message"] == result["message"]
    seen = ask_people(house, answers, "--effort", "low")
    assert (seen.status, seen.out) == (CELL_FAILED, "")
    assert result["message"] in seen.err and "1: error (NameError)" in seen.err


def test_a_model_that_fails_after_an_answer_without_a_program(house):
    asked = ask(house, ["I am sorry."] + [{"text": "", "error": "cut"}] * 8, "--effort", "low")
    assert asked.status == CELL_FAILED and asked.result["response"] == "I am sorry."
    assert asked.result["fault"]["code"] == "gone"


def test_a_model_that_fails_and_others_that_succeed(house):
    asked = ask(house, [answer("print(1)")] + [{"text": "", "error": "cut"}] * 8)
    assert asked.status == 0 and asked.result["fault"]["code"] == "gone"
    assert "message" not in asked.result


def test_a_key_that_is_wrong_is_told_at_once(house):
    asked = ask(house, [{"error": {"code": "denied", "message": "the key is refused"}},
                        {"error": {"code": "denied", "message": "the key is refused"}},
                        answer("print(1)")])
    assert asked.status == FAULT
    assert asked.lines[-1]["code"] == "denied"


def test_an_answer_that_was_cut_behind_its_program(house):
    asked = ask(house, [{"text": "```python\nprint(1)\n```\nThis pro", "error": "cut"}],
                "--effort", "low")
    assert asked.status == 0
    assert any("cut" in text for text in asked.result["suspicions"])


def test_a_failure_beside_a_success(house):
    asked = ask(house, [answer("print(1)")] + [{"text": "", "error": "cut"}] * 8)
    assert asked.status == 0
    assert asked.result["stdout"] == "1"


# ------------------------------------------------------------------- what is written and kept

def test_the_journal_has_everything(house):
    asked = ask(house, [answer(FAIL), answer("print('é')"), answer("print('é')  # 2")],
                "--effort", "low")
    events = journal(house, asked.result["session"])
    kinds = [event["type"] for event in events if event["type"] in
             ("ask", "attempt", "token", "code", "verdict", "cell")]
    assert kinds[0] == "ask" and kinds[-1] == "verdict"
    assert kinds.count("cell") == 1  # the chosen one alone
    told = [line for line in asked.lines if line["type"] in
            ("ask", "attempt", "token", "code", "verdict")]
    kept = [event for event in events if event["type"] in
            ("ask", "attempt", "token", "code", "verdict")]
    assert len(told) == len(kept)
    for line, event in zip(told, kept):
        assert {key: value for key, value in event.items()
                if key not in ("seq", "t", "cell")} == \
            {key: value for key, value in line.items() if key != "cell" and value is not None} \
            or line["type"] == event["type"]
    text = "".join(line["text"] for line in asked.of("token", attempt=1))
    assert text == "```python\n" + FAIL + "\n```"
    log = house.cli("log", asked.result["session"])
    assert log.status == 0 and "print('é')" in log.out


def test_what_is_too_long_for_the_journal_is_cut_and_not_lost(house):
    """Neither the value of the last expression, nor a program that grows sixfold as JSON."""
    for code, shown in (("'\\n' * 1_000_000", None),
                        ("x = '%s'\nprint(len(x))" % ("\1" * 250000), "250000")):
        asked = ask(house, [answer(code)], "--effort", "low", "--programs", "1")
        events = journal(house, asked.result["session"])
        assert [(event["type"], event.get("state")) for event in events
                if event["type"] in ("attempt", "code", "verdict")] == \
            [("attempt", "started"), ("code", None), ("attempt", "finished"), ("verdict", None)]
        assert asked.of("code")[0]["code"] == code + "\n"  # whole for who watches
    assert asked.result["stdout"] == shown
    (kept,) = [event for event in events if event["type"] == "code"]
    assert kept["cut"] is True
    script = write_script(house, [answer("print(1)")] * 2)
    seen = house.cli("ask", "--json", "--script", script, "-", stdin="\1" * (256 << 10))
    assert seen.status == 0
    assert len(json.loads(seen.out.splitlines()[0])["instruction"]) == 256 << 10


def test_the_notebook_has_question_and_answer(house, folder):
    asked = ask(house, [answer(FAIL), answer("print(1 + 1)")], "--effort", "low",
                instruction="Print *two*.", cwd=folder)
    notebook = json.loads(house.cli("export", asked.result["session"], "-o", "-").out)
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells[0][0] == "markdown" and "Print *two*." in cells[0][1]
    assert [source for kind, source in cells if kind == "code"] == ["print(1 + 1)\n"]


def test_an_answer_in_a_session_stays(house, folder):
    options = ("-s", "work", "--effort", "low")
    first = ask(house, [answer("x = 20\nprint(x)")], *options, cwd=folder)
    assert first.status == 0
    assert house.cli("run", "-s", "work", "-c", "print(x)").out == "20\n"


# -------------------------------------------------------------------------------- follow-ups

def test_a_follow_up_sees_variables_and_leaves_none(house, folder):
    start = house.cli("run", "-s", "follow", "-w", str(folder), "-c",
                      "data = [1, 2, 3]\nopen('a.txt', 'w').write('a')")
    assert start.status == 0
    lose = "data.clear()\nopen('a.txt', 'w').write('spoilt')\nlost = 1\nprint('spoilt')"
    win = "total = sum(data)\nopen('b.txt', 'w').write(str(total))\nprint(total)"
    asked = ask(house, [answer(lose), answer(win), answer(win + "  # 2")], "-s", "follow",
                "--assert", "total == 6")
    assert asked.status == 0, asked.lines[-1]
    assert asked.result["stdout"] == "6"
    after = house.cli("run", "-s", "follow", "-c", "print(data, total, 'lost' in globals())")
    assert after.out == "[1, 2, 3] 6 False\n"
    assert names(folder) == ["a.txt", "b.txt"]
    assert (folder / "a.txt").read_text() == "a"
    assert (folder / "b.txt").read_text() == "6"
    hashes = [line["files"] for line in asked.finished]
    assert hashes[1][0]["sha256"], hashes


def test_a_program_that_dies_in_a_session_costs_nothing(house, folder):
    house.cli("run", "-s", "dies", "-w", str(folder), "-c", "x = 5")
    asked = ask(house, [answer("import os\nos.kill(os.getpid(), 9)"), answer("print(x)"),
                        answer("print(x + 0)")], "-s", "dies")
    assert asked.statuses[0] == "died"
    assert asked.result["stdout"] == "5"
    assert house.cli("run", "-s", "dies", "-c", "print(x)").out == "5\n"


def test_asks_are_numbered(house, folder):
    options = ("-s", "many", "--effort", "low")
    ids = [ask(house, [answer("print(%d)" % i)], *options, cwd=folder if i == 0 else None).
           result["ask"] for i in range(2)]
    assert ids == ["a1", "a2"]


# ------------------------------------------------------------------------------------ cancel

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cancel_while_the_model_writes(house, number):
    with Live(house, [answer("print(1)", delay_ms=600000)], "--effort", "low") as live:
        live.wait_for("attempt", state="started")
        live.process.send_signal(number)
        assert live.end() == CANCELLED
        assert live.statuses == ["interrupted"]
        assert live.verdict["success"] is False
        assert live.lines[-1]["type"] == "result"


@pytest.mark.parametrize("session", [None, "cancelled"])
def test_cancel_while_a_program_runs(house, folder, session):
    options = ["--effort", "low"]
    if session:
        house.cli("run", "-s", session, "-w", str(folder), "-c", "x = 1")
        options += ["-s", session]
    code = "x = 2\nprint('go', flush=True)\nimport time\ntime.sleep(600)"
    with Live(house, [answer(code)], *options, "--timeout", "100", cwd=folder) as live:
        live.wait_for("output")
        live.process.send_signal(signal.SIGINT)
        assert live.end() == CANCELLED
        assert live.statuses == ["interrupted"]
    if session:
        assert house.cli("run", "-s", session, "-c", "print(x)").out == "1\n"


def test_killed(house, folder):
    code = "print('go', flush=True)\nimport time\ntime.sleep(600)"
    with Live(house, [answer(code)], "--effort", "low", "--timeout", "100", cwd=folder) as live:
        live.wait_for("output")
        live.process.kill()
        live.process.wait()
        session = live.lines[0]["session"]
    # Its sessions end with it; what it told is there.
    assert [event["type"] for event in journal(house, session)].count("ask") == 1
    assert names(folder) == []


def test_the_session_dies_meanwhile(house, folder):
    house.cli("run", "-s", "gone", "-w", str(folder), "-c", "x = 1")
    code = "print('go', flush=True)\nimport time\ntime.sleep(600)"
    with Live(house, [answer(code)], "--effort", "low", "--timeout", "100", "-s", "gone") as live:
        live.wait_for("output")
        session = live.lines[0]["session"]
        pipe = house.pipe("-s", "gone")
        pid = pipe.hello["pid"]
        os.kill(pid, signal.SIGKILL)
        pipe.abandon()
        assert live.end() == FAULT
        assert live.lines[-1]["type"] == "error"
    wait_gone(pid)
    assert house.cli("run", "-s", "gone", "-c", "print(2)").out == "2\n"
    assert "attempt" in [event["type"] for event in journal(house, session)]


def test_nobody_reads(house):
    code = "import time\nprint('go', flush=True)\ntime.sleep(1)\nprint('more', flush=True)"
    with Live(house, [answer(code)] * 5, "--effort", "high", "--timeout", "100") as live:
        live.wait_for("attempt", state="started")
        live.process.stdout.close()
        assert live.process.wait(WAIT_S) == -signal.SIGPIPE


# ------------------------------------------------------------------------------------- people

def test_stdout_has_the_answer_alone(house):
    seen = ask_people(house, [answer(FAIL), answer("print('a')\nprint('b')")], "--effort", "low")
    assert (seen.status, seen.out) == (0, "a\nb\n")
    assert "✗ " in seen.err and "✓ " in seen.err
    assert "NameError" in seen.err
    assert "\x1b" not in seen.err


def test_quiet(house):
    seen = ask_people(house, [answer("print(1)")], "--effort", "low", "-q")
    assert seen.out == "1\n"
    assert "✓" not in seen.err
    seen = ask_people(house, [answer(FAIL)], "--effort", "low", "--programs", "1", "-q")
    assert (seen.status, seen.out) == (CELL_FAILED, "")
    assert "no answer: the program failed: NameError" in seen.err and "✗" not in seen.err


def test_no_answer_no_stdout(house):
    seen = ask_people(house, ["no"] * 3, "--effort", "low")
    assert (seen.status, seen.out) == (CELL_FAILED, "")
    assert "no Python program" in seen.err


def test_on_a_terminal(house, folder):
    script = write_script(house, [answer("print('the', 'answer')")])
    with house.script("ask", "--script", script, "--effort", "low", "Say.", cwd=folder) as live:
        live.expect("```python")
        live.expect("the answer")
        live.expect("✓")
        live.expect("the answer")
        assert live.end() == 0


# ---------------------------------------------------------------------------------- bad input

@pytest.mark.parametrize("options, why", [
    ([], "ask needs an instruction"),
    (["a", "b"], "one instruction"),
    ([" \n"], "empty"),
    (["--effort", "huge", "x"], "low, medium or high"),
    (["--expect", "/(/", "x"], "regular expression"),
    (["--temperature", "3", "x"], "0 to 2"),
    (["--programs", "1000", "x"], "--programs"),
    (["--attempts", "some", "x"], "show or hide"),
    (["--programs", "0", "x"], "--programs"),
    (["--tokens", "0", "x"], "--tokens"),
    (["--seed", "x", "x"], "--seed"),
    (["--seed", "1.5", "x"], "whole"),
    (["--nonsense", "x"], "nonsense"),
    (["--model", "m", "x"], "--script"),
    (["--key-env", "K", "x"], "--key-env"),
    (["--time", "0", "x"], "--time"),
])
def test_wrong_usage(house, options, why):
    script = write_script(house, [answer("print(1)")])
    seen = house.cli("ask", "--script", script, *options)
    assert seen.status == USAGE, seen
    assert why in seen.err


def test_a_script_that_is_none(house, folder):
    (folder / "s").write_text("not json\n")
    seen = house.cli("ask", "--script", str(folder / "s"), "x", cwd=folder)
    assert seen.status == FAULT and "line 1" in seen.err
    seen = house.cli("ask", "--script", str(folder / "none"), "x", cwd=folder)
    assert seen.status == FAULT


def test_templates(house, folder):
    (folder / "t.json").write_text('{"task": "no name"}')
    script = write_script(house, [answer("print(1)")] * 2)
    seen = house.cli("ask", "--script", script, "--template", "t.json", "x", cwd=folder)
    assert seen.status == USAGE and "{instruction}" in seen.err
    (folder / "t.json").write_text('{"variants": [{"system": "S"}]}')
    (folder / "system").write_text("Be brief.")
    for options in (["--template", "t.json"], ["--system", "S"], ["--system", "@system"]):
        seen = house.cli("ask", "--script", script, *options, "x", cwd=folder)
        assert (seen.status, seen.out) == (0, "1\n"), seen


def test_the_instruction_from_stdin(house):
    script = write_script(house, [answer("print(1)")] * 2)
    seen = house.cli("ask", "--json", "--script", script, "-", stdin="Say é.\n")
    assert json.loads(seen.out.splitlines()[0])["instruction"] == "Say é.\n"


def test_options_from_a_file(house, folder):
    script = write_script(house, [answer("print(input())")])
    words = ["--input=a b", "--expect=a b", "--effort=low", "--script=" + script]
    (folder / "o").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    seen = house.cli("ask", "--options", "o", "-q", "x", cwd=folder)
    assert (seen.status, seen.out) == (0, "a b\n"), seen
    for data, why in ((b"--effort=low", "NUL"), (b"x\0", "word 1"), (b"--nosuch\0", "--nosuch"),
                      (b"--options=o\0", "twice"), (b"--input=x\0--input=y\0", "twice")):
        (folder / "o").write_bytes(data)
        seen = house.cli("ask", "--options", "o", "--script", script, "x", cwd=folder)
        assert seen.status == USAGE and why in seen.err, (data, seen)
    seen = house.cli("ask", "--options", "none", "--script", script, "x", cwd=folder)
    assert seen.status == USAGE and "none" in seen.err
