"""The program as people use it: `fumehood run` and the commands round it."""
import json
import os
import signal
import subprocess
import time

import nbformat
import pytest

import fumehood_kit
from fumehood_kit import CELL_FAILED, FAULT, USAGE

COMMANDS = ("run", "pipe", "ls", "log", "text", "export", "interrupt", "restart", "stop", "gc",
            "pool", "doctor", "version", "help")
PNG = b"\x89PNG\r\n\x1a\n"
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"


def json_lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def one_cell(source, **metadata):
    cell = nbformat.v4.new_code_cell(source)
    cell.metadata.update(metadata)
    return cell


def write_notebook(path, *cells, **metadata):
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells), metadata=metadata), path)


# ---------------------------------------------------------------------------------- what is run

def test_code(house):
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7"
    result = house.cli("run", "-c", code)
    assert (result.status, result.out, result.err) == (0, "out\n42\n", "err\n")
    assert not house.new_sessions(), "a one-shot run leaves nothing"


def test_file_runs_in_its_own_folder(house, folder):
    (folder / "a.py").write_text("import os\nopen('made.txt', 'w').write('here')\nprint(__name__)\n"
                                 "print(os.path.exists('a.py'))\n")
    result = house.cli("run", str(folder / "a.py"), cwd="/")
    assert (result.status, result.out) == (0, "__main__\nTrue\n"), result
    assert (folder / "made.txt").read_text() == "here"


def test_stdin(house):
    result = house.cli("run", "-", stdin="x = 20\nprint(x + 1)\n")
    assert (result.status, result.out, result.err) == (0, "21\n", "")


def test_workspace(house, folder):
    (folder / "table.csv").write_text("1,2\n")
    look = "print(open('table.csv').read())\nopen('new', 'w').write('x')"
    result = house.cli("run", "-w", "%s:ro" % folder, "-c", look)
    assert result.status == CELL_FAILED and result.out == "1,2\n\n", result
    assert "Read-only file system" in result.err and not (folder / "new").exists()
    result = house.cli("run", "-w", str(folder), "-c", look)
    assert result.status == 0 and (folder / "new").exists(), result


@pytest.mark.parametrize("place", ["/", "/usr", "/etc"])
def test_system_folders_are_no_workspace_by_accident(house, place):
    """pipe works in the current directory: not in these, unless they are named."""
    result = house.cli("pipe", cwd=place)
    assert result.status == FAULT and "--workspace" in result.err, result
    assert json.loads(result.out)["type"] == "refused"


def test_python_is_chosen(house):
    result = house.cli("run", "--python", "/usr/bin/python3", "-c", "import sys\nsys.prefix")
    assert (result.status, result.out) == (0, "'/usr'\n"), result


def test_notebook(house, folder):
    write_notebook(folder / "n.ipynb", nbformat.v4.new_markdown_cell("# Title"),
                   one_cell("x = 1", name="first"), one_cell("x + 1"),
                   nbformat.v4.new_raw_cell("raw"), authors=[{"name": "Me"}])
    before = (folder / "n.ipynb").read_bytes()
    result = house.cli("run", "n.ipynb", "-o", "done.ipynb", cwd=folder)
    assert result.status == 0, result
    made = nbformat.read(folder / "done.ipynb", as_version=4)
    given = nbformat.reads(before, as_version=4)
    nbformat.validate(made)
    assert [(c.cell_type, c.source, c.id) for c in made.cells] == [
        (c.cell_type, c.source, c.id) for c in given.cells]
    assert made.cells[2].outputs[0].data == {"text/plain": "2"}
    assert made.cells[1].metadata.name == "first" and made.metadata.authors == [{"name": "Me"}]
    assert (folder / "n.ipynb").read_bytes() == before, "the notebook that is run stays as it is"


def test_notebook_stops_at_an_error(house, folder):
    write_notebook(folder / "n.ipynb", one_cell("print('a')"), one_cell("1/0"),
                   one_cell("print('c')"))
    result = house.cli("run", "n.ipynb", cwd=folder)
    assert (result.status, result.out) == (CELL_FAILED, "a\n") and "ZeroDivisionError" in result.err
    result = house.cli("run", "--allow-errors", "n.ipynb", cwd=folder)
    assert (result.status, result.out) == (0, "a\nc\n") and "ZeroDivisionError" in result.err


def test_notebook_to_stdout(house):
    result = house.cli("run", "-c", "print('x')\n1", "-o", "-")
    assert result.status == 0, result
    made = nbformat.reads(result.out, as_version=4)
    assert [output.output_type for output in made.cells[0].outputs] == ["stream", "execute_result"]


# ------------------------------------------------------------------------------- what comes out

def test_json(house):
    result = house.cli("run", "--json", "-c", "print('x')")
    events = json_lines(result)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    types = [event["type"] for event in events]
    assert types == ["session", "cell", "started", "stream", "finished"]
    assert events[0]["tier"] == "full"
    holding = {layer["layer"] for layer in events[0]["layers"] if layer["holds"]}
    assert {"user namespace", "network namespace"} <= holding, events[0]["layers"]


def test_text(house):
    result = house.cli("run", "--text", "-c", "print('x' * 50000)\n1/0", "--max-chars", "1000")
    assert result.status == CELL_FAILED and len(result.out) <= 1001, result
    assert result.out.startswith("xxx")
    assert result.out.endswith("ZeroDivisionError: division by zero\n")


def test_figure_is_kept(house):
    result = house.cli("run", "--session", "figures", "-c", FIGURE)
    assert result.status == 0 and "image/png" in result.out, result
    path = house.find("figures") / "images" / "c1-1.png"
    assert str(path) in result.out and path.read_bytes().startswith(PNG)
    assert house.cli("stop", "figures").status == 0
    assert house.cli("gc", "figures").status == 0


def test_keep(house):
    result = house.cli("run", "--keep", "-c", "print(1)")
    name = result.err.split("fumehood log ")[1].split()[0]
    assert result.status == 0 and "print(1)" in house.cli("log", name).out
    assert house.cli("gc", name).status == 0 and house.cli("log", name).status == FAULT


def test_order_of_both_streams(house):
    code = "import sys\nfor i in range(200):\n    print(i, file=(sys.stdout, sys.stderr)[i % 2])"
    process = house.popen("run", "-c", code, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.communicate()[0].split() == [b"%d" % i for i in range(200)]


def test_reader_that_goes_away(house):
    """As `| head -1`: the run ends like any program whose pipe is closed, and nothing is left."""
    process = house.popen("run", "-c", "while True: print('x' * 1000)", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"x" * 1000 + b"\n"
    process.stdout.close()
    assert process.wait(fumehood_kit.WAIT_S) == -signal.SIGPIPE
    process.stderr.close()
    assert not house.new_sessions()


# -------------------------------------------------------------------------------- exit statuses

@pytest.mark.parametrize("code, error", [
    ("print('before')\n1/0", "ZeroDivisionError"),
    ("print('before')\nraise SystemExit(3)", "SystemExit: 3"),
    ("print('before')\nx = (", "SyntaxError"),
    ("print('before')\nimport os\nos._exit(3)", "exit status 3"),
    ("print('before')\nimport os\nos.kill(os.getpid(), 11)", "signal 11"),
], ids=["error", "SystemExit", "syntax", "exit", "signal"])
def test_failed_cell(house, code, error):
    result = house.cli("run", "-c", code)
    assert result.status == CELL_FAILED and error in result.err, result
    assert result.out == ("" if error == "SyntaxError" else "before\n")


def test_timeout(house):
    result = house.cli("run", "--timeout", "0.5", "-c", "print('head')\nwhile True: pass")
    assert (result.status, result.out) == (CELL_FAILED, "head\n"), result
    assert "--timeout" in result.err


@pytest.mark.parametrize("words", [
    ["run"], ["run", "-c", "1", "a.py"], ["run", "a.py", "b.py"], ["run", "-c"],
    ["run", "--nosuch"],
    ["run", "--timeout", "soon", "-c", "1"], ["run", "--timeout", "0", "-c", "1"],
    ["run", "--json", "--text", "-c", "1"], ["run", "-c", "1", "--tier", "best"],
    ["run", "-c", "1", "-c", "2"], ["nosuch"], ["log"], ["log", "a", "b"], ["stop"],
    ["stop", "--all", "a"], ["gc", "--older", "x"], ["pool", "nosuch"], ["pipe", "x"],
    ["text", "--max-chars", "0", "s"], ["export"], ["interrupt"], ["restart"],
], ids=" ".join)
def test_wrong_usage(house, words):
    """Says what is wrong and shows how it goes."""
    result = house.cli(*words)
    assert result.status == USAGE and "fumehood" in result.err and result.out == "", result


@pytest.mark.parametrize("words", [
    ["run", "nosuch.py"], ["run", "nosuch.ipynb"], ["run", "-w", "nosuch", "-c", "1"],
    ["run", "--python", "/nosuch", "-c", "1"], ["run", "-c", "1", "-o", "nosuch/x.ipynb"],
    ["run", "-w", ".:overlay", "--tier", "none", "-c", "1"], ["log", "nosuch"], ["text", "nosuch"],
    ["export", "nosuch"],
    ["interrupt", "nosuch"], ["restart", "nosuch"], ["stop", "nosuch"], ["gc", "nosuch"],
], ids=" ".join)
def test_fault(house, words):
    """Fumehood's own failure: one line that names the thing."""
    result = house.cli(*words)
    assert result.status == FAULT and result.out == "" and len(result.err.splitlines()) == 1, result
    assert any(word in result.err for word in ("nosuch", "overlay")), result


# ------------------------------------------------------------------------------------ sessions

@pytest.fixture
def work(house):
    """A session called work, with x = 5."""
    result = house.cli("run", "--session", "work", "-c", "x = 5\nprint('made')")
    assert result.status == 0, result
    yield "work"
    house.cli("stop", "work")
    assert house.cli("gc", "work").status == 0


def listed(house, name):
    return [entry for entry in json_lines(house.cli("ls", "--json")) if entry["name"] == name]


def test_session_lives_on(house, work):
    assert house.cli("run", "--session", work, "-c", "x").out == "5\n"
    assert [entry["running"] for entry in listed(house, work)] == [True]
    lines = house.cli("ls").out.splitlines()
    assert lines[0].split()[:3] == ["ID", "NAME", "STATE"]
    assert lines[1].split()[1:3] == ["work", "running"]


def test_session_is_found_by_its_id(house, work):
    ident = listed(house, work)[0]["id"]
    for name in (ident, ident[:8]):
        assert house.cli("run", "--session", name, "-c", "x").out == "5\n"


def test_session_keeps_its_options(house, folder, work):
    """An option that contradicts what the session was made with is refused, not passed over."""
    result = house.cli("run", "--session", work, "-w", str(folder), "-c", "x")
    assert result.status == FAULT and "--workspace" in result.err, result


def test_runs_at_once_take_turns(house, work):
    code = "import time\nfor i in range(50):\n    print(%d)\n    time.sleep(0.001)"
    processes = [house.popen("run", "-s", work, "-c", code % i, stdout=subprocess.PIPE)
                 for i in range(4)]
    for i, process in enumerate(processes):
        assert process.communicate()[0] == b"%d\n" % i * 50
    events = json_lines(house.cli("log", work, "--json"))
    turns = [event["cell"] for event in events if event["type"] in ("started", "finished")]
    assert all(a == b for a, b in zip(turns[::2], turns[1::2])), turns


def test_log(house, work):
    house.cli("run", "-s", work, "-c", "1/0")
    lines = house.cli("log", work).out.splitlines()
    assert lines[0].split()[2] == "session" and "made" in house.cli("log", work).out
    events = json_lines(house.cli("log", work, "--json"))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    later = json_lines(house.cli("log", work, "--json", "--since", "4"))
    assert later[:len(events) - 4] == events[4:]  # `committed` may have come meanwhile
    second = json_lines(house.cli("log", work, "--json", "--cell", "c2"))
    assert second and {event["cell"] for event in second} == {"c2"}


def test_log_follow(house, work):
    """Goes on while the session does, and ends with it."""
    follower = house.popen("log", work, "--follow", "--json", stdout=subprocess.PIPE)
    house.cli("run", "-s", work, "-c", "print('while you watch')")
    seen = b""
    while b"while you watch" not in seen:
        seen += follower.stdout.readline()
    house.cli("stop", work)
    seen += follower.communicate(timeout=fumehood_kit.WAIT_S)[0]
    assert follower.returncode == 0 and json.loads(seen.splitlines()[-1])["type"] == "stopped"


def test_text_command(house, work):
    house.cli("run", "-s", work, "-c", "print('second')")
    assert house.cli("text", work).out == "second\n"
    assert house.cli("text", work, "c1").out == "made\n"
    assert house.cli("text", work, "c99").status == FAULT


def test_export(house, folder, work):
    house.cli("run", "-s", work, "-c", "x + 1")
    assert house.cli("export", work, "-o", "work.ipynb", cwd=folder).status == 0
    whole = nbformat.read(folder / "work.ipynb", as_version=4)
    nbformat.validate(whole)
    assert [cell.source for cell in whole.cells] == ["x = 5\nprint('made')", "x + 1"]
    assert (folder / "work.ipynb").read_bytes() == house.cli("export", work).raw_out
    part = nbformat.reads(house.cli("export", work, "--until", "4").out, as_version=4)
    assert [cell.outputs[0].text for cell in part.cells] == ["made\n"]


def test_interrupt_command(house, work):
    process = house.popen("run", "-s", work, "-c", "print('on')\nwhile True: pass",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    assert house.cli("interrupt", work, "--cell", "c1").err.strip().endswith("nothing was running")
    assert house.cli("interrupt", work).status == 0
    out, err = process.communicate(timeout=fumehood_kit.WAIT_S)
    assert process.returncode == CELL_FAILED and b"KeyboardInterrupt" in err
    assert house.cli("run", "-s", work, "-c", "x").out == "5\n"


def test_restart_command(house, work):
    assert house.cli("restart", work).status == 0
    result = house.cli("run", "-s", work, "-c", "x")
    assert result.status == CELL_FAILED and "NameError" in result.err


def test_stop_and_reopen(house, work):
    """A stopped session goes on with its numbers; the interpreter is new."""
    before = json_lines(house.cli("log", work, "--json"))
    assert house.cli("stop", work).status == 0
    assert house.cli("stop", work).status == FAULT, "it is not running any more"
    assert [entry["running"] for entry in listed(house, work)] == [False]
    result = house.cli("run", "-s", work, "-c", "'x' in globals()")
    assert (result.status, result.out) == (0, "False\n"), result
    events = json_lines(house.cli("log", work, "--json"))
    assert events[:len(before)] == before
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    new = [event for event in events[len(before):] if event["type"] != "committed"]
    assert ["stopped", "restarted"] == [event["type"] for event in new[:2]]
    assert new[1]["state"] == "reset" and new[1]["reason"] == "reopened"
    finished = new[-1]
    assert finished["cell"] == "c2" and finished["execution_count"] == 1


def test_stop_kills_and_drain_waits(house, work):
    process = house.popen("run", "-s", work, "-c", "print('on')\nwhile True: pass",
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == b"on\n"
    assert house.cli("stop", work).status == 0
    process.communicate(timeout=fumehood_kit.WAIT_S)
    assert process.returncode != 0
    code = "print('on')\nimport time\ntime.sleep(0.5)\nprint('off')"
    process = house.popen("run", "-s", work, "-c", code, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    assert house.cli("stop", "--drain", work).status == 0
    assert process.communicate(timeout=fumehood_kit.WAIT_S)[0] == b"off\n"


def test_gc(house, work):
    result = house.cli("gc", work)
    assert result.status == FAULT and "running" in result.err, result
    assert house.cli("stop", work).status == 0
    assert "would remove work" in house.cli("gc", "--older", "0.001", "--dry-run").err
    assert listed(house, work)
    assert house.cli("gc", "--older", "1h").status == 0 and listed(house, work)
    assert house.cli("gc", "--older", "0.001").status == 0 and not listed(house, work)
    assert house.cli("run", "--session", work, "-c", "1").status == 0, "the name is free again"


def test_killed_one_shot_is_collected(house):
    """What a killed keeper leaves of a one-shot run, gc takes away."""
    pipe = house.pipe()
    fumehood_kit.kill(pipe.hello["pid"])
    assert pipe.end() == FAULT and b"keeper" in pipe.process.stderr.read()
    pipe.abandon()
    for name in house.new_sessions():
        assert house.cli("gc", name).status == 0
    assert not house.new_sessions()


# -------------------------------------------------------------------------------- on a terminal

def test_ctrl_c_interrupts_the_cell(house):
    with house.script("run", "-c", "print('on')\nwhile True: pass") as script:
        script.expect("on\n")
        script.type("\x03")
        script.expect("KeyboardInterrupt")
        assert script.end() == CELL_FAILED


def test_ctrl_c_can_be_caught(house):
    code = "import time\nprint('on')\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n" \
           "    print('caught')"
    with house.script("run", "-c", code) as script:
        script.expect("on\n")
        script.type("\x03")
        script.expect("caught\n")
        assert script.end() == 0


STUBBORN = "while True:\n    try:\n        print('on')\n        while True: pass\n" \
           "    except KeyboardInterrupt: pass"


def test_ctrl_c_twice_ends_it(house):
    with house.script("run", "-c", STUBBORN) as script:
        script.expect("on\n")
        script.type("\x03")
        script.expect("on\n")
        script.type("\x03")
        assert script.end() in (CELL_FAILED, -signal.SIGINT)
    assert not house.new_sessions()


def test_ctrl_c_twice_kills_the_cell(house, work):
    assert house.cli("run", "-s", work, "-c", "kept = 1").status == 0
    with house.script("run", "-s", work, "-c", STUBBORN) as script:
        script.expect("on\n")
        script.type("\x03")
        script.expect("on\n")
        script.type("\x03")
        assert script.end() == CELL_FAILED
    assert house.cli("run", "-s", work, "-c", "kept + 1").out == "2\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_with_nothing_left(house, number):
    process = house.popen("run", "-c", "print('on')\nwhile True: pass", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    process.send_signal(number)
    process.communicate(timeout=fumehood_kit.WAIT_S)
    assert process.returncode == -number and not house.new_sessions()


def test_input(house):
    with house.script("run", "-c", "name = input('Name? ')\nprint('Hello', name)") as script:
        script.expect(r"Name\? ")
        script.type("Ford\n")
        script.expect("Hello Ford\n")
        assert script.end() == 0


def test_end_of_input(house):
    with house.script("run", "-c", "input('Name? ')") as script:
        script.expect(r"Name\? ")
        script.type("\x04")
        script.expect("EOFError")
        assert script.end() == CELL_FAILED


def test_password_is_not_shown_nor_kept(house):
    code = "import getpass\nword = getpass.getpass('Word? ')\nprint(len(word))"
    with house.script("run", "--session", "secret", "-c", code) as script:
        script.expect(r"Word\? ")
        until = time.monotonic() + fumehood_kit.WAIT_S
        while script.echoes():
            assert time.monotonic() < until, "the terminal still echoes"
        script.type("zaphod77\n")
        script.expect("8\n")
        assert script.end() == 0 and script.echoes() and "zaphod77" not in script.seen
    directory = house.find("secret")
    assert b"zaphod77" not in (directory / "journal.ndjson").read_bytes()
    house.cli("stop", "secret")
    assert b"zaphod77" not in (directory / "notebook.ipynb").read_bytes()
    assert house.cli("gc", "secret").status == 0


def test_input_from_a_pipe(house, folder):
    (folder / "ask.py").write_text("print(input() + input())")
    result = house.cli("run", str(folder / "ask.py"), stdin="a\nb\n")
    assert (result.status, result.out) == (0, "ab\n"), result
    result = house.cli("run", str(folder / "ask.py"), stdin="a\n")
    assert result.status == CELL_FAILED and "EOFError" in result.err


def test_nobody_answers_for_code_from_stdin(house):
    result = house.cli("run", "-", stdin="input('? ')")
    assert result.status == CELL_FAILED and "EOFError" in result.err


EVIL = ("print('\\x1b]0;title\\x07', '\\x1b[2J', '\\x1b[31mred\\x1b[0m', '\\x9b5n', '\\x1b[6n')\n"
        "raise ValueError('\\x1b[3J')")


def test_guest_bytes_are_escaped_on_a_terminal(house):
    """Colours pass; what would clear, title or answer does not."""
    with house.script("run", "-c", EVIL) as script:
        assert script.end() == CELL_FAILED
        seen = script.seen
    assert "\x1b[31mred\x1b[0m" in seen and "ValueError" in seen
    for bad in ("\x1b]", "\x1b[2J", "\x1b[3J", "\x1b[6n", "\x07", "\x9b"):
        assert bad not in seen


def test_guest_bytes_are_left_alone_in_a_pipe(house):
    assert house.cli("run", "-c", EVIL).out.startswith("\x1b]0;title\x07 \x1b[2J \x1b[31mred")


# ------------------------------------------------------------------------------------ the rest

def test_sessions_survive_the_end_of_the_pool(house, work):
    before = house.pools()
    assert before and "stopped" in house.cli("pool", "stop").err
    assert all(fumehood_kit.wait_gone(pid) for pid in before)
    assert house.cli("run", "-s", work, "-c", "x").out == "5\n"
    assert house.cli("restart", work).status == 0, "a new pool is started for the new interpreter"
    pools = json_lines(house.cli("pool", "list", "--json"))
    assert {pool["pid"] for pool in pools} == house.pools() and len(pools) == 1


def test_pool_keeps_no_descriptors(house):
    """A hundred sessions leave the pool and its zygote as they were."""
    house.cli("run", "-c", "1")
    house.until_spare("ready")
    watched = house.pools() | house.zygotes()
    assert len(watched) >= 2

    def descriptors():
        return {pid: len(os.listdir("/proc/%d/fd" % pid)) for pid in watched}
    before = descriptors()
    for _ in range(100 if fumehood_kit.LONG else 15):
        assert house.cli("run", "-c", "1").status == 0
    house.until_spare("ready")
    until = time.monotonic() + fumehood_kit.WAIT_S
    while any(count > before[pid] for pid, count in descriptors().items()):
        assert time.monotonic() < until, "%s became %s" % (before, descriptors())


def test_version(house):
    result = house.cli("version")
    assert result.status == 0 and result.out.startswith("fumehood 0.")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_example(house, command):
    result = house.cli("help", command)
    assert result.status == 0, result
    assert "  fumehood %s" % command in result.out or "| fumehood " + command in result.out
    assert result.out == house.cli(command, "--help").out
    assert all(len(line) <= 100 for line in result.out.splitlines())


def test_help_names_every_command(house):
    result = house.cli("help")
    assert result.status == 0 and result.out == house.cli("--help").out
    assert all("\n  %s " % command in result.out for command in COMMANDS)


def test_without_a_sandbox_only_by_name(house):
    result = house.cli("run", "--tier", "none", "--json", "-c", "import os\nprint(os.getpid())")
    events = json_lines(result)
    assert result.status == 0 and events[0]["tier"] == "none"
