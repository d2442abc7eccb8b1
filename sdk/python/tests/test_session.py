"""Session: starting, running, asking, the record, names, and what is refused."""
import os
import pathlib
import queue
import threading
import time

import pytest

import fumehood
from fumehood import install, start, store


# ------------------------------------------------------------------------------------- running


def test_state_stays_from_cell_to_cell(session):
    assert session.run("x = 6").ok
    result = session.run("print('out')\nimport sys; print('err', file=sys.stderr)\nx * 7")
    assert (result.stdout, result.stderr, result.result) == ("out\n", "err\n", "42")
    assert [output.kind for output in result.outputs] == ["stdout", "stderr", "result"]
    assert result.cell == "c2" and result.execution_count == 2 and result.state == "kept"
    assert result.duration > 0 and result.memory_peak > 1 << 20
    assert result.text == "out\n[stderr] err\n42"
    assert str(result) == result.text and result.error is None and result.raise_for_error()


def test_an_exception_is_a_result(session):
    result = session.run("print('before')\nx = 1\nx / 0")
    assert not result.ok and result.status == "error" and result.stdout == "before\n"
    assert (result.error.name, result.error.value) == ("ZeroDivisionError", "division by zero")
    assert "x / 0" in str(result.error)
    with pytest.raises(fumehood.CellError, match="ZeroDivisionError") as caught:
        result.raise_for_error()
    assert caught.value.result is result


def test_a_death_is_a_result_that_says_so(session):
    session.run("y = 1")
    result = session.run("import os; os.kill(os.getpid(), 9)")
    assert result.status == "died" and "signal 9" in result.reason
    assert result.error.name == "Died" and "signal 9" in result.error.value
    assert session.run("2").ok


def test_a_cell_has_its_time(session):
    result = session.run("print('kept', flush=True)\nwhile True: pass", timeout=0.3)
    assert result.status == "timeout" and result.stdout == "kept\n" and result.limit["name"]
    assert result.duration > 0.2


def test_the_text_has_the_length_that_was_asked_for(session):
    assert len(session.run("print('x' * 9000)", max_chars=500).text) <= 500
    assert session.run("1", max_chars=0).text == ""
    assert session.run("1", marks=True).text == "[execute_result_text]\n1"


def test_images_files_and_displays(session, tmp_path):
    result = session.run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\n"
        "plt.plot([1]); plt.savefig('a.png')\nopen('b.txt', 'w').write('hey')")
    (image, *_rest) = result.images
    assert image.mime == "image/png" and image.data.startswith(b"\x89PNG")
    assert image.save(tmp_path / "saved").endswith("saved.png")
    assert (tmp_path / "saved.png").read_bytes() == image.data
    changes = {change.path: change for change in result.files}
    assert changes["b.txt"].change == "created" and changes["b.txt"].bytes == 3
    assert changes["a.png"].mime == "image/png"
    found, last = session.images()
    assert {item["place"] for item in found} == {"session", "workspace"} and last > 0
    assert session.changes(last)[0] == []


def test_updates_and_clears_are_what_is_left(session):
    result = session.run(
        "from IPython.display import display, clear_output\n"
        "print('gone'); clear_output()\nhandle = display('one', display_id='d')\n"
        "handle.update('two')\nprint('end')")
    assert [output.text.strip("'\n") for output in result.outputs] == ["two", "end"]
    assert result.stdout == "gone\nend\n"


def test_large_values_come_whole(session):
    result = session.run("print('y' * 3_000_000)\n'x' * 30_000_000")
    assert result.result == repr("x" * 30_000_000) and result.stdout == "y" * 3_000_000 + "\n"


@pytest.mark.parametrize("text", ["\ud800", "\0", "\u2028\x1b[1m", "𝒳" * 1000, "\r\n\r"])
def test_any_text_travels(session, text):
    result = session.run("s = %s\nprint(s, end='')\nlen(s)" % ascii(text))
    assert result.result == str(len(text))
    assert result.stdout == text.replace("\ud800", "\ufffd")
    assert session.run("'%s'" % "é\ud800").ok  # in the code it is repaired


# ---------------------------------------------------------------------------- while a cell runs


def test_stream_gives_events_as_they_come(session):
    """The cell waits for an answer that is given when its print has come."""
    answers, seen = queue.Queue(), []
    with session.stream("for i in range(3): print(i); input()", input=answers) as run:
        for event in run:
            seen.append(event.text if event.type == "stream" else event.type)
            if event.type == "stream" and event.text.strip().isdigit():
                answers.put("go on")
    assert [text for text in seen if text.strip().isdigit()] == ["0\n", "1\n", "2\n"]
    assert seen.count("input_request") == 3 and run.done and run.result().ok


def test_leaving_a_stream_interrupts_the_cell(session):
    for event in session.stream("print('on')\nwhile True: pass"):
        if event.type == "stream":
            break
    del event
    assert session.run("'next'").result == "'next'"  # would wait for ever
    cells = [event for event in session.events() if event.type == "finished"]
    assert [event["status"] for event in cells] == ["interrupted", "ok"]


def test_callbacks_hear_of_everything(session):
    heard = []
    result = session.run(
        "import sys\nprint('a'); print('b', file=sys.stderr); 3",
        on_stdout=lambda text: heard.append(("out", text)),
        on_stderr=lambda text: heard.append(("err", text)),
        on_output=lambda output: heard.append((output.kind, output.text)),
        on_event=lambda event: heard.append(event.type))
    assert ("out", "a\n") in heard and ("err", "b\n") in heard and ("result", "3") in heard
    assert heard[-1] == "finished" and result.ok


def test_an_exception_of_a_callback_interrupts_the_cell(session):
    def fail(_text):
        raise RuntimeError("of the callback")
    with pytest.raises(RuntimeError, match="of the callback"):
        session.run("print('x', flush=True)\nwhile True: pass", on_stdout=fail)
    assert session.run("1").ok


def test_interrupt_from_another_thread(session):
    run = session.start_run("print('on', flush=True)\nwhile True: pass")
    threading.Thread(target=lambda: (run.cell, session.interrupt())).start()
    assert run.result().status == "interrupted"
    assert run.interrupt() is False and session.interrupt() is False
    assert session.run("'unharmed'").ok


def test_waiting_has_an_end_and_can_go_on(session):
    run = session.start_run("import time; time.sleep(0.5); 'end'")
    with pytest.raises(fumehood.TimedOutError):
        run.result(timeout=0.05)
    assert run.result().result == "'end'"


def test_input_by_function_lines_and_queue(session):
    asked = []

    def answer(prompt, password):
        asked.append((prompt, password))
        return "Ada"
    code = "import getpass\n[input('name? '), getpass.getpass('word? ')]"
    assert session.run(code, input=answer).result == "['Ada', 'Ada']"
    assert asked == [("name? ", False), ("word? ", True)]
    assert session.run("input() + input()", input=["a", "b"]).result == "'ab'"
    assert session.run("input() + input()", input="c\nd").result == "'cd'"
    waiting = queue.Queue()
    waiting.put("e")
    assert session.run("input()", input=waiting).result == "'e'"
    assert session.run("input()", input=[]).error.name == "EOFError"
    assert session.run("input()").error.name == "EOFError"


def test_input_answered_by_hand(session):
    run = session.start_run("input('? ')", input=queue.Queue())
    thread = threading.Thread(target=run._session.input, args=("x",))
    for event in iter(lambda: run._next(), None):
        if event.type == "input_request":
            thread.start()
    thread.join()
    assert run.result().result == "'x'"


def test_many_threads_share_a_session(session):
    found, failed = {}, []

    def work(number):
        try:
            for turn in range(10):
                text = "%d.%d" % (number, turn)
                found[text] = session.run("print(%r)" % text).stdout
        except Exception as error:
            failed.append(error)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(found) == 80
    assert all(out == text + "\n" for text, out in found.items())


# -------------------------------------------------------------------------------------- asking


def test_complete_inspect_variables(session):
    session.run("import os\nnumber = 41\nb1 = b2 = [0] * 5")
    completion = session.complete("number.bit_l")
    assert completion.matches == ["bit_length"] and (completion.start, completion.end) == (7, 12)
    assert "bit_length" in session.complete("number.bit + 1", cursor=10).matches
    assert session.inspect("os.path.join").found and "posix" in session.inspect(
        "os.path.join", source=True).text
    assert not session.inspect("nothing_of_this_name").found
    variables = session.variables()
    assert [variable.name for variable in variables] == ["b1", "b2", "number", "os"]
    assert variables[2].type == "int" and variables[2].repr == "41" and variables[0].length == 5
    some = session.variables("b*", limit=1)
    assert len(some) == 1 and some.total == 2
    run = session.start_run("import time; time.sleep(0.3)")
    with pytest.raises(fumehood.BusyError):
        session.variables()
    run.result()


def test_the_record(session, tmp_path):
    session.section("First")
    session.note("A *note*.")
    session.run("print('one')")
    session.section("Second", level=3)
    session.run("2")
    assert session.outputs("First") == {"c1": "one"} and len(session.outputs()) == 2
    assert session.text("c2") == "2" and session.text("c1", marks=True) == "[stdout]\none\n"
    sources = [cell["source"] for cell in session.notebook()["cells"]]
    assert sources == ["## First", "A *note*.", "print('one')", "### Second", "2"]
    saved = session.save(tmp_path)
    assert saved == str(tmp_path / "notebook.ipynb")
    assert "A *note*." in pathlib.Path(saved).read_text()
    with pytest.raises(fumehood.NotFoundError):
        session.text("c9")


def test_events_from_any_point_and_followed(session):
    session.run("print(1)")
    events = list(session.events())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[0].type == "session" and events[-1].type == "finished"
    assert [event.seq for event in session.events(3)] == list(range(4, len(events) + 1))
    assert all(event.cell == "c1" for event in session.events(cell="c1"))
    follower = session.events(events[-1].seq, follow=True)
    session.run("print(2)")
    assert next(follower).type == "cell"
    follower.close()


def test_following_ends_with_the_session(house):
    with fumehood.Session() as session:
        seen = []
        thread = threading.Thread(target=lambda: seen.extend(session.events(follow=True)))
        thread.start()
        session.run("1")
    thread.join()
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].type == "stopped"


def test_files(session, tmp_path):
    files = session.files
    assert files.list() == []
    assert files.put("a.txt", "text é") == 7 and files.put("e", b"") == 0
    files.make_folder("deep/er")
    large = os.urandom(3 << 20)
    (tmp_path / "large.bin").write_bytes(large)
    files.upload(tmp_path / "large.bin", "deep/large.bin")
    assert files.get("deep/large.bin") == large
    assert files.get("/workspace/a.txt") == b"text \xc3\xa9"
    assert files.download("deep/large.bin", tmp_path / "copy") == len(large)
    assert (tmp_path / "copy").read_bytes() == large
    assert session.run("open('a.txt').read()").result == "'text é'"
    assert [(entry.name, entry.type) for entry in files.list()] == [
        ("a.txt", "file"), ("deep", "folder"), ("e", "file")]
    assert [entry.name for entry in files.list("deep")] == ["er", "large.bin"]
    files.remove("deep", whole=True)
    files.remove("a.txt")
    assert [entry.name for entry in files.list()] == ["e"]
    for wrong in ("a.txt", "../x", "/etc/passwd"):
        with pytest.raises(fumehood.Error):
            files.get(wrong)
    session.run("import os; os.symlink('/etc/passwd', 'link')")
    with pytest.raises(fumehood.DeniedError):
        files.get("link")


def test_limits_and_policy(session):
    assert session.limits()["wall_s"]["value"] == 300
    assert session.limits(wall_s=20, memory_bytes=1 << 30)["wall_s"]["value"] == 20
    assert session.policy()["net"] in (None, [])
    assert session.policy(net=["example.org"])["net"] == ["example.org"]
    with pytest.raises(fumehood.InvalidError, match="wall_s"):
        session.limits(no_such_limit=1)


def test_restart_and_stop(session):
    session.run("x = 1")
    session.restart()
    assert session.run("x").error.name == "NameError" and session.run("x = 2").cell == "c3"
    session.stop()
    with pytest.raises(fumehood.GoneError):
        session.run("1")


def test_checkpoints_and_rollbacks(session):
    session.run("x = 1")
    made = session.checkpoint("one")
    assert (made.name, made.cell) == ("one", "c1")
    session.run("x = 2")
    session.run("y = 3")
    held = session.checkpoints()
    assert "one" in [checkpoint.name for checkpoint in held]
    assert held.recovers_to in ("c2", "c3")  # the copy after the last cell may be on its way
    done = session.rollback("one")
    assert done.cell == "c1" and done.rolled_back == ["c2", "c3"]
    assert session.run("x").result == "1" and session.run("y").error.name == "NameError"
    with pytest.raises(fumehood.DuplicateError):
        session.checkpoint("one")
    session.drop_checkpoint("one")
    with pytest.raises(fumehood.NotFoundError):
        session.rollback("one")
    assert session.reset().rolled_back and session.run("x").error.name == "NameError"


def test_a_death_costs_its_cell_and_an_atomic_cell_is_undone(session):
    session.run("x = 1")
    wait = time.monotonic() + 30
    while session.checkpoints().recovers_to != "c1":
        assert time.monotonic() < wait
    died = session.run("x = 2\nimport os; os._exit(1)")
    assert died.state == "recovered" and "before this cell" in died.explain()
    assert session.run("x").result == "1"
    assert session.run("x = 5\n1 / 0", atomic=True).state == "rolled_back"
    assert session.run("x = 6; x", try_only=True).result == "6"
    assert session.run("x").result == "1"


def test_a_fork_goes_on_by_itself(session):
    session.run("x = 1")
    with session.fork() as branch:
        assert branch.id != session.id
        branch.run("x = 2")
        assert session.run("x").result == "1" and branch.run("x").result == "2"
        branch.files.put("of-the-branch", "1")
    assert session.run("x").result == "1"
    with pytest.raises(fumehood.NotFoundError):
        fumehood.Session.open(branch.id)


# ------------------------------------------------------------------------------ what it is made of


def test_options_reach_the_session(house, folder):
    os.environ["OF_THIS_PROCESS"] = "taken"
    with fumehood.Session(workspace=folder, timeout=7, memory=512 << 20, tier_floor="degraded",
                          env={"A": "1", "OF_THIS_PROCESS": None}, read=["/etc/hostname"],
                          limits={"files": 300}, policy={"env": {"B": "2"}},
                          notebook_metadata={"mine": 1}, durability="power") as session:
        limits = session.limits()
        assert (limits["wall_s"]["value"], limits["memory_bytes"]["value"],
                limits["files"]["value"]) == (7, 512 << 20, 300)
        assert session.run(
            "import os; [os.environ.get(n) for n in ('A', 'B', 'OF_THIS_PROCESS', 'HOME')][:3]"
        ).result == "['1', '2', 'taken']"
        session.run("open('here', 'w').close()")
        assert (folder / "here").exists() and session.workspace == folder
        assert session.notebook()["metadata"]["mine"] == 1
        assert session.status().raw["durability"] == "power"
    with fumehood.Session(workspace=folder, workspace_mode="ro") as session:
        assert session.run("open('x', 'w')").error.name in ("OSError", "PermissionError")
    with fumehood.Session(tier="none") as session:
        assert session.tier == "none"


@pytest.mark.parametrize("options, words", [
    ({"tier": "half"}, "tier"), ({"timeout": 0}, "timeout"), ({"durability": "x"}, "durability"),
    ({"workspace_mode": "ro"}, "workspace"), ({"allow_net": "example.org"}, "list"),
    ({"workspace": "/no/such/folder"}, "/no/such"), ({"name": "a/b"}, "'/'"),
    ({"limits": {"wrong": 1}}, "wrong"), ({"policy": {"wrong": 1}}, "wrong"),
    ({"python": "no-such-python"}, "no-such-python"), ({"python": ""}, "python"),
    ({"notebook_metadata": {"a": object()}}, "JSON"), ({"limits": {"wall_s": -1}}, "wall_s"),
    ({"limits": {"memory_bytes": "much"}}, "memory_bytes"), ({"name": "x" * 200}, "128")])
def test_wrong_options_are_refused_and_nothing_is_left(house, options, words):
    before = len(store.everyone())
    with pytest.raises(fumehood.Error) as caught:
        fumehood.Session(**options)
    assert words in caught.value.message
    assert len(store.everyone()) == before


@pytest.mark.parametrize("call", [
    lambda s: s.run(1), lambda s: s.run("1", timeout=-1), lambda s: s.run("1", cell="no good id"),
    lambda s: s.run("1", metadata={"a": float("nan")}), lambda s: s.section("x", level=9),
    lambda s: s.note("x", cell_type="wrong"), lambda s: s.complete("x", cursor=-1),
    lambda s: s.input("nobody asks"), lambda s: s.files.put("", b"x"),
    lambda s: s.files.get("missing"), lambda s: s.run("x" * (17 << 20))])
def test_wrong_requests_are_refused_and_the_session_goes_on(session, call):
    with pytest.raises(fumehood.Error) as caught:
        call(session)
    assert caught.value.message
    assert session.run("1").ok


def test_a_cell_id_is_taken_once(session):
    assert session.run("1", cell="mine").cell == "mine"
    with pytest.raises(fumehood.DuplicateError):
        session.run("1", cell="mine")


# ------------------------------------------------------------------------------ names and lives


def test_a_named_session_lives_on(house, folder):
    with fumehood.Session("work", workspace=folder) as session:
        session.run("x = 1")
        assert session.created and session.name == "work"
    with fumehood.Session("work", workspace=folder) as again:
        assert not again.created and again.run("x").result == "1" and again.id == session.id
    with pytest.raises(fumehood.DuplicateError, match="workspace"):
        fumehood.Session("work", workspace=house.folder())
    with pytest.raises(fumehood.DuplicateError, match="tier"):
        fumehood.Session("work", tier="none")
    with fumehood.Session.open(session.id[:8]) as opened:
        assert opened.run("x + 1").result == "2"
        other = [place for place in fumehood.sessions() if place.id == session.id]
        assert other[0].name == "work"
        with pytest.raises(fumehood.BusyError):
            fumehood.remove("work")
        opened.stop()
    with pytest.raises(fumehood.NotFoundError, match="not running"):
        fumehood.Session.open("work", running_only=True)
    with fumehood.Session.open("work") as reopened:  # the record goes on, the interpreter is new
        result = reopened.run("x")
        assert result.error.name == "NameError" and result.cell == "c4"
        reopened.remove()
    with pytest.raises(fumehood.NotFoundError, match="fumehood ls"):
        fumehood.Session.open("work")


def test_a_workspace_whose_name_is_no_text(house, folder):
    odd = os.path.join(os.fsencode(str(folder)), b"no \xff text")
    os.mkdir(odd)
    with fumehood.Session("odd", workspace=odd) as session:
        assert session.run("open(b'file \\xfe', 'w').write('1')").ok
        assert os.fsencode(session.workspace) == odd
        name = os.fsdecode(b"file \xfe")
        assert [entry.name for entry in session.files.list()] == [name]
        assert session.files.get(name) == b"1"
        assert session.changes()[0][0].path == name
    with fumehood.Session("odd", workspace=odd) as session:
        session.remove()


def test_ten_threads_make_one_named_session(house):
    found, threads = [], []
    for _ in range(10):
        threads.append(threading.Thread(target=lambda: found.append(fumehood.Session("race"))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert len({session.id for session in found}) == 1
    assert sum(session.created for session in found) == 1
    for session in found[1:]:
        session.close()
    found[0].remove()


def test_keep_leaves_the_record(house):
    with fumehood.Session(keep=True) as session:
        session.run("print('kept')")
    assert (session.directory / "notebook.ipynb").exists()
    assert not store.is_running(session.id)
    with fumehood.Session.open(session.id) as again:
        assert again.text("c1") == "kept"
        again.remove()
    with fumehood.Session() as session:
        pass
    assert not session.directory.exists()
    session.close()


def test_the_command_line_sees_the_same_sessions(house):
    with fumehood.Session("shared") as session:
        assert house.cli("run", "-s", "shared", "-c", "y = 5").status == 0
        assert session.run("y").result == "5"
        assert house.cli("run", "-s", "shared", "-c", "print(y + 1)").out == "6\n"
        session.remove()


def test_the_spare_and_the_ordinary_way_give_the_same(house):
    made = []
    for spare in (True, False):
        with fumehood.Session(spare=spare, limits={"memory_bytes": 1 << 30},
                              allow_net=["example.org"], durability="power",
                              notebook_metadata={"a": 1}) as session:
            event = next(session.events())
            made.append({key: event[key] for key in ("tier", "durability", "limits", "layers")})
            assert session.policy()["net"] == ["example.org"]
            assert (session.directory / "session.json").exists()
            assert session.run("1").result == "1"
    assert made[0] == made[1]


def test_settings_of_the_user_hold(house, monkeypatch, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"timeout": 11, "limits": {"output_bytes": 1000000}, "spare": false}')
    monkeypatch.setenv("FUMEHOOD_CONFIG", str(config))
    with fumehood.Session() as session:
        limits = session.limits()
        assert (limits["wall_s"]["value"], limits["output_bytes"]["value"]) == (11, 1000000)
    config.write_text('{"timeout": "long"}')
    with pytest.raises(fumehood.InvalidError, match="timeout"):
        fumehood.Session()


def test_without_the_program_it_says_what_to_do(house, monkeypatch, tmp_path):
    monkeypatch.setenv("FUMEHOOD", str(tmp_path / "nothing"))
    with pytest.raises(fumehood.NotInstalledError, match="set it to the path"):
        fumehood.Session()
    monkeypatch.delenv("FUMEHOOD")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(install, "__file__", str(tmp_path / "a" / "b" / "c" / "install.py"))
    with pytest.raises(fumehood.NotInstalledError, match="not on PATH"):
        fumehood.Session()
    (tmp_path / "fumehood").symlink_to(os.path.realpath(install_path()))
    with fumehood.Session() as session:
        assert session.run("1").ok


def install_path():
    import fumehood_kit

    return fumehood_kit.FUMEHOOD


def test_a_python_by_its_names(house, monkeypatch, folder):
    """All names of an environment are one path, that of the command line; a script in the workspace
    is never run."""
    python = os.environ["FUMEHOOD_PYTHON"]
    home = os.path.dirname(os.path.dirname(python))
    for name in (python, home, os.path.join(home, "bin", "python3"),
                 os.path.relpath(home) + "/bin/python"):
        assert install.settings(name).python == install.settings().python, name
    house.cli("run", "-s", "of-the-cli", "--python", home, "-c", "1")
    assert store.find("of-the-cli").config["python"] == install.settings(home).python
    with fumehood.Session("of-the-cli", python=home) as session:
        session.remove()
    script = folder / "python3"
    script.write_text("#!/bin/sh\ntouch %s/was-run\n" % folder)
    script.chmod(0o755)
    for options in ({"python": str(script)}, {}):
        monkeypatch.setenv("PATH", "%s:%s" % (folder, os.environ["PATH"]))
        monkeypatch.delenv("FUMEHOOD_PYTHON", raising=False)
        with pytest.raises(fumehood.DeniedError, match="not run"):
            fumehood.Session(workspace=folder, **options)
    assert not (folder / "was-run").exists()


def test_a_runtime_directory_of_others_is_refused(house, monkeypatch, tmp_path):
    (tmp_path / "fumehood").mkdir(mode=0o755)
    (tmp_path / "fumehood").chmod(0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(fumehood.DeniedError, match="remove it"):
        fumehood.Session()
    assert start.abandoned == []
