"""Asks in the record: op `record`, its limits and refusals, and what journal, notebook, log and
text show of them. The client here does what `fumehood ask` does, one record at a time.
"""
import json
import signal

import nbformat
import pytest

from fumehood_kit import FAULT, Refused, kill, wait_gone

NOT_FINISHED = "no answer: this ask has not finished"


def record(session, of_type, /, **members):
    return session.ask("record", type=of_type, **members)


def begin(session, instruction="which month?", **members):
    return record(session, "ask", instruction=instruction, model="q05", backend="script",
                  effort="low", **members)["ask"]


def attempt(session, ask, number, code, **finished):
    """One attempt from its beginning to its end."""
    record(session, "attempt", ask=ask, attempt=number, state="started", kind="sample",
           temperature=0.2, seed=number)
    record(session, "token", ask=ask, attempt=number, text="```python\n" + code)
    record(session, "code", ask=ask, attempt=number, code=code, fence="python")
    record(session, "attempt", ask=ask, attempt=number, state="finished", tokens=57,
           run_seconds=0.81, **finished)


def answer(session, ask, number, cell, **members):
    return record(session, "verdict", ask=ask, success=True, confidence="agreed",
                  agreement={"k": 3, "n": 5}, attempt=number, cell=cell, **members)


def refused(session, code, /, *words, **request):
    with pytest.raises(Refused) as caught:
        session.ask("record", **request)
    assert caught.value.code == code
    for word in words:
        assert word in caught.value.message
    return caught.value


def journal(house, session):
    path = house.sessions / session / "journal.ndjson"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def notebook(session, **options):
    """As nbformat has it, valid."""
    text = json.dumps(session.ask("notebook", **options)["notebook"])
    book = nbformat.reads(text, as_version=4)
    nbformat.validate(book)
    return book


def by_tag(book, tag):
    return [cell for cell in book.cells if tag in cell.metadata.get("tags", ())]


# ----------------------------------------------------------------------------------------- the op
def test_records_become_events(house):
    with house.keeper(house.session()) as session:
        ask = begin(session, limits={"programs": 3}, checks=[{"kind": "expect", "text": "7"}])
        assert ask == "a1"
        attempt(session, ask, 1, "print(x)", status="error", stdout="",
                error={"ename": "NameError", "evalue": "x", "line": 1, "source": "print(x)"})
        cell = session.run("print(7)", metadata={"fumehood": {"ask": ask}})
        told = answer(session, ask, 2, cell.id, tomorrow=[1, {"a": None}])
        verdict = session.event("verdict")
        assert told["last_seq"] == verdict["seq"]
        assert begin(session) == "a2"
    events = [event for event in session.events
              if event["type"] in ("ask", "attempt", "token", "code", "verdict")]
    assert [event["type"] for event in events] == [
        "ask", "attempt", "token", "code", "attempt", "verdict", "ask"]
    assert [event["ask"] for event in events] == ["a1"] * 6 + ["a2"]
    assert events[0]["limits"] == {"programs": 3}
    assert "op" not in events[0] and "id" not in events[0]
    assert events[4]["error"]["ename"] == "NameError"
    assert (verdict["cell"], verdict["tomorrow"]) == (cell.id, [1, {"a": None}])
    stored = journal(house, session.hello["session"])
    assert [event for event in stored if event["seq"] == verdict["seq"]] == [verdict]


@pytest.mark.parametrize("code, words, request_", [
    ("invalid", ["verdict"], {"type": "output", "text": "x"}),
    ("invalid", ["verdict"], {"type": "stopped", "reason": "x"}),
    ("invalid", ["verdict"], {"type": "finished", "status": "ok"}),
    ("invalid", ["type"], {}),
    ("invalid", ["instruction"], {"type": "ask"}),
    ("invalid", ["given here"], {"type": "ask", "instruction": "x", "ask": "a9"}),
    ("invalid", ["seq"], {"type": "ask", "instruction": "x", "seq": 1}),
    ("invalid", ['"t"'], {"type": "ask", "instruction": "x", "t": "now"}),
    ("invalid", ["cell"], {"type": "ask", "instruction": "x", "cell": "c1"}),
    ("invalid", ["string"], {"type": "ask", "instruction": "x", "notebook_attempts": True}),
    ("invalid", ["show"], {"type": "ask", "instruction": "x", "notebook_attempts": "yes"}),
    ("invalid", ["state"], {"type": "attempt", "ask": "a1", "attempt": 1}),
    ("invalid", ["from 1"], {"type": "token", "ask": "a1", "attempt": 0, "text": ""}),
    ("not_found", ["a7"], {"type": "token", "ask": "a7", "attempt": 1, "text": ""}),
    ("not_found", ["x1"], {"type": "token", "ask": "x1", "attempt": 1, "text": ""}),
    ("not_found", ["c9"], {"type": "verdict", "ask": "a1", "success": True, "cell": "c9"}),
    ("limit", ["1048576"], {"type": "code", "ask": "a1", "attempt": 1, "code": "x" * (1 << 20)}),
])
def test_refusals_change_nothing(house, code, words, request_):
    with house.keeper(house.session()) as session:
        ask = begin(session)
        last = session.ask("status")["last_seq"]
        refused(session, code, *words, **request_)
        assert session.ask("status")["last_seq"] == last
        record(session, "token", ask=ask, attempt=1, text="goes on")


def test_nothing_after_the_verdict(house):
    with house.keeper(house.session()) as session:
        ask = begin(session)
        record(session, "verdict", ask=ask, success=False, message="the model has gone")
        refused(session, "duplicate", ask, type="verdict", ask=ask, success=True)
        refused(session, "duplicate", ask, type="token", ask=ask, attempt=1, text="late")
        assert begin(session) == "a2"


def test_while_a_cell_runs(house):
    with house.keeper(house.session()) as session:
        cell = session.start("input()", allow_stdin=True)
        session.event("input_request")
        ask = begin(session)
        record(session, "token", ask=ask, attempt=1, text="x")
        assert session.ask("status")["state"] == "running"
        session.ask("input", text="")
        assert session.finished(cell).status == "ok"


def test_long_texts_are_blobs(house):
    code = "x = '" + "\u00e4" * 50000 + "'"
    with house.keeper(house.session()) as session:
        ask = begin(session, notebook_attempts="show")
        attempt(session, ask, 1, code, status="error", stdout="y" * 300000,
                result={"data": {"$blob": "0" * 64}})
        record(session, "verdict", ask=ask, success=False, message="no")
        session.event("verdict")
        said, = [event for event in session.events if event["type"] == "code"]
        assert said["code"] == code
        ended = [event for event in session.events if event["type"] == "attempt"][-1]
        assert ended["result"] == {"data": {"$blob": "0" * 64}}
        book = notebook(session)
    stored = {event["type"]: event for event in journal(house, session.hello["session"])}
    assert set(stored["code"]["code"]) == {"$blob", "bytes", "mime"}
    shown, = by_tag(book, "attempt")
    assert code in shown.source and "left out" in shown.source


def test_many_open_asks(house):
    with house.keeper(house.session()) as session:
        asks = [begin(session) for _ in range(65)]
        assert asks == ["a%d" % (n + 1) for n in range(65)]
        refused(session, "duplicate", "a1", type="token", ask="a1", attempt=1, text="")
        record(session, "token", ask="a2", attempt=1, text="")
        notebook(session)


def test_refused_at_the_limit_of_the_record(house):
    with house.keeper(house.session(limits={"record_bytes": 300000})) as session:
        ask = begin(session)
        with pytest.raises(Refused) as caught:
            while True:
                record(session, "token", ask=ask, attempt=1, text="x" * 50000)
        assert caught.value.code == "limit"
        assert session.ask("status")["state"] == "idle"


def test_garbage_costs_nothing(house):
    with house.keeper(house.session()) as session:
        for line in (b'{"op":"record"', b'{"op":"record","type":"ask","instruction":"\xff"}',
                     b'{"op":"record","type":"ask","instruction":' + b"[" * 100 + b"]" * 100 + b"}",
                     b'{"op":"record","type":"ask","instruction":"a","a\\u0000b":1}',
                     b'{"op":"record","type":"ask","instruction":"' + b"x" * (65 << 20) + b'"}'):
            session.write(line + b"\n")
            session.next(lambda message: message["type"] == "refused", "the refusal")
        assert begin(session) == "a1"


# -------------------------------------------------------------------------------- the ids go on
def test_ids_after_reopening(house):
    path = house.session()
    first = house.keeper(path)
    ask = begin(first)
    first.stop()
    with house.keeper(path) as session:
        refused(session, "duplicate", ask, type="token", ask=ask, attempt=1, text="late")
        assert begin(session) == "a2"


def test_ids_of_branches(house):
    with house.keeper(house.session()) as parent:
        parent.run("x = 1")
        ask = begin(parent)
        told = parent.ask("fork")
        branch = house.connect(told["session"])
        origin = branch.events[0] if branch.events else branch.event("session")
        assert origin["parent"]["asks"] == 1
        refused(branch, "duplicate", ask, type="token", ask=ask, attempt=1, text="the parent's")
        assert begin(branch) == "a2" and begin(branch) == "a3"
        assert begin(parent) == "a2"  # numbers behind the fork are each session's own
        book = notebook(branch)
        branch.stop()
    assert [cell.metadata.fumehood.ask.id for cell in by_tag(book, "ask")] == ["a2", "a3"]
    with house.keeper(house.sessions / told["session"]) as again:
        assert begin(again) == "a4"


def test_a_killed_keeper(house):
    """In the middle of an ask: the question stays, and nothing is made up."""
    path = house.session()
    session = house.keeper(path)
    ask = begin(session, "what is lost?", notebook_attempts="show")
    record(session, "attempt", ask=ask, attempt=1, state="started", kind="sample")
    record(session, "code", ask=ask, attempt=1, code="while True: pass")
    session.start("while True: pass")
    session.event("started")
    kill(session.pid, signal.SIGKILL)
    wait_gone(session.pid)
    session.close()
    with house.keeper(path) as again:
        assert not [event for event in again.events if event["type"] == "verdict"]
        book = notebook(again)
        question, = by_tag(book, "ask")
        assert question.source.startswith("what is lost?\n") and NOT_FINISHED in question.source
        assert not by_tag(book, "attempt")
        assert begin(again) == "a2"
        record(again, "verdict", ask="a2", success=False, message="no")
        assert len(by_tag(notebook(again), "ask")) == 2
    assert house.cli("text", path.name, ask).out.strip() == (
        "[asked (a1): what is lost?; %s]" % NOT_FINISHED)


# ----------------------------------------------------------------------------- what people see
@pytest.fixture
def asked(house):
    """A stopped session: a failed attempt, an answer, an ask without one."""
    path = house.session()
    with house.keeper(path) as session:
        ask = begin(session, "which month\nhad the *most*?", notebook_attempts="show")
        attempt(session, ask, 1, "print(x)", status="error", stdout="a\x1b[31mb\n",
                error={"ename": "NameError", "evalue": "name 'x' is not defined", "line": 1,
                       "source": "print(x)"})
        attempt(session, ask, 2, "print('May')", status="ok", stdout="May\n")
        cell = session.run("print('May')", id="c1", metadata={"fumehood": {"ask": ask}})
        answer(session, ask, 2, cell.id, tokens=410, seconds=12.3)
        other = begin(session, "and then?")
        record(session, "verdict", ask=other, success=False, message="every program failed")
        session.live = notebook(session)
        session.ask("save")
    return path, session


def test_the_notebook(house, asked):
    path, session = asked
    book = nbformat.read(path / "notebook.ipynb", as_version=4)
    nbformat.validate(book)
    assert book == session.live
    question, code, attempts, second = book.cells
    assert question.cell_type == "markdown" and question.metadata.tags == ["ask"]
    assert question.source.startswith("which month\nhad the *most*?\n\n")
    assert "agreed 3 of 5" in question.source
    told = question.metadata.fumehood.ask
    assert (told.id, told.success, told.confidence, told.cell) == ("a1", True, "agreed", code.id)
    assert told.agreement == {"k": 3, "n": 5}
    assert (code.cell_type, code.source) == ("code", "print('May')")
    assert code.metadata.fumehood.ask == "a1"
    assert attempts.cell_type == "markdown" and attempts.metadata.tags == ["attempt"]
    assert attempts.source.count("<details>") == 1  # the other one is the cell above
    assert "attempt 1: error (NameError), 0.8 s, 57 tokens" in attempts.source
    assert "\x1b" not in attempts.source
    assert second.source == "and then?\n\n*\\[fumehood: no answer: every program failed\\]*"
    # What export makes of the journal is the same.
    exported = house.cli("export", path.name, "-o", "-")
    assert exported.status == 0, exported
    assert nbformat.reads(exported.out, as_version=4) == book


def test_attempts_are_hidden_by_default(house):
    with house.keeper(house.session()) as session:
        ask = begin(session)
        attempt(session, ask, 1, "1 / 0", status="error")
        cell = session.run("print(7)")
        answer(session, ask, 2, cell.id)
        book = notebook(session)
    assert [cell.cell_type for cell in book.cells] == ["markdown", "code"]


def test_what_is_rolled_back(house):
    with house.keeper(house.session()) as session:
        session.run("x = 1")
        ask = begin(session, notebook_attempts="show")
        attempt(session, ask, 1, "x = 3", status="error")
        tried = session.run("x = 2", **{"try": True})  # a program on trial, in the session
        assert tried.status == "ok"
        cell = session.run("x = 2")
        answer(session, ask, 2, cell.id)
        assert len(by_tag(notebook(session), "ask")) == 1
        session.ask("rollback", to=cell.id)
        assert [cell.source for cell in notebook(session).cells] == ["x = 1"]
        kept = notebook(session, rolled_back="keep")
        question, = by_tag(kept, "ask")
        assert "rolled-back" in question.metadata.tags
        undone = [cell.source for cell in by_tag(kept, "rolled-back") if cell.cell_type == "code"]
        assert undone == ["x = 2", "x = 2"]


def test_the_log(house, asked):
    path, session = asked
    log = house.cli("log", path.name)
    assert log.status == 0, log
    lines = log.out.splitlines()

    def one(text):
        found = [line for line in lines if text in line]
        assert len(found) == 1, (text, log.out)
        return found[0]
    assert one(" a1 ask which month").endswith(" a1 ask which month")
    assert one(" a1 attempt 1: error").endswith(
        " a1 attempt 1: error (NameError), 0.8 s, 57 tokens")
    assert one(" a1 attempt 2: ok").endswith(" a1 attempt 2: ok, 0.8 s, 57 tokens")
    assert one(" a1 code 2: ").endswith(" a1 code 2: print('May')")
    assert one(" verdict: agreed").endswith(
        " a1 c1 verdict: agreed 3 of 5, attempt 2, 410 tokens, 12.3 s")
    assert one(" a2 verdict").endswith(" a2 verdict: no answer: every program failed")
    assert not [line for line in lines if "token" in line.split(" ")]
    assert " a1 token 1: ```python" in house.cli("log", path.name, "--tokens").out
    whole = [json.loads(line) for line in house.cli("log", path.name, "--json").out.splitlines()]
    assert whole == journal(house, path.name)
    assert [event for event in whole if event["type"] == "token"]


def test_the_text(house, asked):
    path, session = asked
    line = "[asked (a1): which month had the *most*?; agreed 3 of 5]"
    assert house.cli("text", path.name, "c1").out == line + "\nMay\n"
    assert house.cli("text", path.name, "a1").out == line + "\nMay\n"
    assert house.cli("text", path.name).out == (
        "[asked (a2): and then?; no answer: every program failed]\n")
    assert house.cli("text", path.name, "c1", "--marks").out == "[stdout]\nMay\n\n"
    assert len(house.cli("text", path.name, "c1", "--max-chars", "61").out) <= 62
    missing = house.cli("text", path.name, "a9")
    assert missing.status == FAULT and "no cell a9" in missing.err


def test_the_file_survives_damage(house, asked):
    """A line in the middle that is no event costs what it said."""
    path, session = asked
    file = path / "journal.ndjson"
    lines = file.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"type":"ask"' in line)
    lines[at] = b"#" * (len(lines[at]) - 1) + b"\n"
    file.write_bytes(b"".join(lines))
    exported = house.cli("export", path.name, "-o", "-")
    book = nbformat.reads(exported.out, as_version=4)
    nbformat.validate(book)
    assert [cell.metadata.fumehood.ask.id for cell in by_tag(book, "ask")] == ["a2"]
    with house.keeper(path) as again:
        assert begin(again) == "a3"
