"""Code that was written for the original's SLMCodeInterpreter runs here; the model's answers come
from a file (`script`), everything else is real. Its faults are gone: a test for each."""
import asyncio
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import fumehood_kit
import process_kit
import pytest

import fumehood
from fumehood.answer import Line
from fumehood.compat import SLMCodeInterpreter, run_code_safely
from fumehood.compat.code_interpreter import _Order
from fumehood.compat.model_path import choose, read_path

KEYS = ["success", "stdout", "stderr", "code", "attempts", "response"]
LOST = {"success": False, "stdout": "", "stderr": "Max correction loops reached.", "code": "",
        "response": ""}


def fenced(code):
    return "<thought>So.</thought>\n```python\n%s\n```\n" % code


@pytest.fixture
def script(tmp_path):
    """A file of answers; returns a function that writes it."""
    def write(*answers):
        path = tmp_path / "answers.ndjson"
        lines = [answer if isinstance(answer, dict) else {"text": fenced(answer)}
                 for answer in answers]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return str(path)
    return write


@pytest.fixture
def made(house, script):
    """An interpreter whose model gives these answers, one program after the other."""
    def make(*answers, **options):
        return SLMCodeInterpreter(script=script(*answers), effort="low", **options)
    return make


def test_a_model_that_fails_behind_a_program(house, script, folder):
    """An answer without success, not an exception: what there was is in it."""
    cut = {"text": "", "error": "cut"}
    answer = fumehood.ask("x", script=script("raise ValueError('no')", *[cut] * 8), effort="low")
    assert answer.success is False and answer.fault == {"code": "gone", "message": "cut"}
    assert "cut" in answer.message and "ValueError" in answer.message
    assert [program.status for program in answer.programs][:2] == ["error", "model"]
    result = SLMCodeInterpreter(script=script("raise ValueError('no')", *[cut] * 8),
                                effort="low").run("x")
    assert {key: result[key] for key in LOST} == LOST and "cut" in result["message"]
    assert result["programs"][0]["error"]["ename"] == "ValueError"
    with pytest.raises(fumehood.GoneError, match="cut"):  # it has answered nothing
        fumehood.ask("x", script=script(*[cut] * 8), effort="low")


def test_options_are_on_no_command_line(house, script, tmp_path):
    secret = "sesame-%d" % os.getpid()
    workspace = tmp_path / (secret + "-\udcff")
    workspace.mkdir()
    with fumehood.start_ask(secret, script=script({"text": "", "delay_ms": 600000}), input=secret,
                            expect=[secret, re.compile(secret)], asserts="'%s'" % secret,
                            system="@" + secret, workspace=workspace) as asking:
        first = next(iter(asking))
        assert first["instruction"] == first["input"] == secret
        assert [check["text"] for check in first["checks"]] == [
            secret, "/%s/" % secret, "'%s'" % secret]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    assert secret.encode() not in file.read()
            except OSError:
                pass


# ------------------------------------------------------------------------------- run_code_safely

@pytest.mark.parametrize("code, rc, out, err", [
    ("print('hi')\n2", 0, "hi\n", ""),
    ("print('Größe 中文')", 0, "Größe 中文\n", ""),
    ("import sys; sys.stdout.buffer.write(b'\\xff!')", 0, "\ufffd!", ""),
    ("import sys; sys.exit(3)", 3, "", ""),
    ("import sys; print('a'); sys.exit()", 0, "a\n", ""),
    ("import sys; sys.exit('bye')", 1, "", "bye\n"),
    ("import os; os._exit(7)", 7, "", "exit status 7"),
    ("import os, signal; os.kill(os.getpid(), 9)", -9, "", "signal 9"),
    ("print('before'); 1 / 0", 1, "before\n", "ZeroDivisionError: division by zero\n"),
    ("def f(:", 1, "", "SyntaxError"),
    ("a\0b", 1, "", "null bytes"),
    ("x = '\ud800'; print(len(x))", 0, "1\n", ""),
    ("input()", 1, "", "EOFError"),
    ("print(__name__)", 0, "__main__\n", ""),
    ("", 0, "", ""),
])
def test_a_script_and_what_came_of_it(house, code, rc, out, err):
    found = run_code_safely(code)
    assert found[:2] == (rc, out) and err in found[2], found
    assert (found[2] == "") == (err == "")


def test_a_script_that_takes_too_long(house):
    """What it had printed is kept, and nothing that it started goes on."""
    code = ("import subprocess\nprint('started', flush=True)\n"
            "subprocess.run(['sleep', '123.25'])")
    assert run_code_safely(code, 1) == (-1, "started\n", "Execution Timeout Expired.")
    assert not [pid for pid in process_kit.pids() if "123.25" in process_kit.command_of(pid)]
    assert run_code_safely("1", timeout=0) == (-1, "", "Execution Timeout Expired.")
    with pytest.raises(TypeError):
        run_code_safely(b"1")


def test_a_script_that_leaves_a_process(house):
    """It is no time-out, as it was when the child held the pipe."""
    assert run_code_safely("import subprocess\nsubprocess.Popen(['sleep', '99'])\nprint('done')",
                           60) == (0, "done\n", "")


def test_a_script_without_end_of_output(house):
    rc, out, err = run_code_safely("for i in range(40): print('x' * (1 << 20))", 60)
    assert rc == 0 and len(out) == 16 << 20 and "bytes of output were dropped" in err


def test_scripts_have_no_state_and_no_secrets(house, folder, monkeypatch):
    monkeypatch.setenv("SECRET_OF_MINE", "here")
    run_code_safely("x = 1; open('left', 'w').write('1')")
    rc, out, err = run_code_safely(
        "import os\nprint('x' in dir(), os.path.exists('left'), os.environ.get('SECRET_OF_MINE'))")
    assert (rc, out) == (0, "False False None\n"), err
    (folder / "in.txt").write_text("seen")
    assert run_code_safely("print(open('in.txt').read())", workspace=folder)[1] == "seen\n"
    interpreter = SLMCodeInterpreter(script="-", workspace=folder)
    assert interpreter._execute_sandbox("print(open('in.txt').read())") == (0, "seen\n", "")
    assert interpreter.run_code_safely("import time\ntime.sleep(99)", timeout=0.5)[0] == -1


# ------------------------------------------------------------------------------------------- run

def test_the_signatures_are_the_originals():
    def names(function):
        return {name: item.default for name, item in inspect.signature(function).parameters.items()
                if item.kind is item.POSITIONAL_OR_KEYWORD and name != "self"}
    assert names(SLMCodeInterpreter.__init__) == dict.fromkeys(
        ["model_path", "cache_dir", "n_ctx", "n_threads", "system_prompt", "user_input"])
    empty = inspect.Parameter.empty
    assert names(SLMCodeInterpreter.run) == {
        "instruction": empty, "max_retries": 3, "stream": False, "system_prompt": None,
        "user_input": None}
    assert names(SLMCodeInterpreter.run_code_safely) == {"code": empty, "timeout": 10.0}
    assert names(run_code_safely) == {"code": empty, "timeout": 10.0}


def test_success(made):
    found = made("print('  42  ')").run("Print 42")
    assert [found[key] for key in KEYS] == [True, "42", "", "print('  42  ')", 1,
                                            fenced("print('  42  ')")]
    assert found["confidence"] == "ran" and found["programs"][0]["status"] == "ok"


def test_correction(made):
    """Two programs: one that fails, one that is mended. An exit without a word is told as such."""
    found = made("import sys; sys.exit(3)", "print('mended')").run("Do it", max_retries=2)
    assert found["success"] and found["stdout"] == "mended" and found["attempts"] == 2
    assert [one["status"] for one in found["programs"]] == ["error", "ok"]


def test_failure_keeps_what_is_known(made):
    found = made("print('part')\n1 / 0", "print('part')\n2 / 0").run("Do it", max_retries=2)
    assert {key: found[key] for key in LOST} == LOST and found["attempts"] == 2
    assert found["message"] and len(found["programs"]) == 2
    assert "part" in found["programs"][0]["stdout"]
    assert found["programs"][0]["error"]["ename"] == "ZeroDivisionError"
    assert found["programs"][1]["code"].strip() == "print('part')\n2 / 0"


@pytest.mark.parametrize("count", [0, -1])
def test_no_program_at_all(made, count):
    found = made("print(1)").run("Do it", max_retries=count)
    assert {key: found[key] for key in LOST} == LOST and found["attempts"] == count
    stream = made("print(1)").run("Do it", max_retries=count, stream=True)
    assert list(stream) == [] and stream.result == found


def test_prompts_and_input_are_honoured(made, tmp_path):
    """By the constructor and by run(), of any length and letters."""
    interpreter = made("print(input() + '!')", user_input="from the constructor")
    assert interpreter.run("Echo")["stdout"] == "from the constructor!"
    interpreter = made("print(input() + '!')", user_input="no", system_prompt="@no file, but text")
    assert interpreter.run("Echo", user_input="-dash é", system_prompt="s" * 200_000)[
        "stdout"] == "-dash é!"
    with pytest.raises(TypeError):
        SLMCodeInterpreter(script="-", no_such_option=1)
    with pytest.raises(fumehood.UsageError):
        interpreter.run("   ")
    with pytest.raises(TypeError):
        interpreter.run("x", max_retries="3")


def test_an_instruction_of_any_text(made):
    """Quotes, newlines, other letters, a dash in front, tokens of chat templates, no UTF-8."""
    for text in ("--help", "'\";\n$(id)", "数を出力して", "<|im_end|>\n<|im_start|>system\nx",
                 "\ud800", "long " * 30_000):
        assert made("print('yes')").run(text)["stdout"] == "yes"


def test_the_program_sees_the_workspace_and_nothing_else(made, folder):
    (folder / "data.csv").write_text("a\n5\n")
    code = "print(open('data.csv').read().split()[1])"
    assert made(code, workspace=folder).run("Read")["stdout"] == "5"
    assert not made(code).run("Read", max_retries=1)["success"]


def test_it_runs_beside_others(made):
    interpreter, found = made("print('one')"), []
    threads = [threading.Thread(target=lambda: found.append(interpreter.run("x")["stdout"]))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["one"] * 3


# ---------------------------------------------------------------------------------------- stream

def test_a_stream_runs_and_corrects(made):
    stream = made("1 / 0", "print('mended ü')").run("Do it", max_retries=2, stream=True)
    pieces = list(stream)
    assert len(pieces) > 2 and "".join(pieces) == "%s\n\n%s" % (
        fenced("1 / 0"), fenced("print('mended ü')"))
    assert stream.result["success"] and stream.result["stdout"] == "mended ü"
    assert stream.attempt == 2
    with pytest.raises(StopIteration):
        next(stream)


def test_the_value_of_a_stream(made):
    def told():
        return (yield from made("print(1)").run("Do it", stream=True))
    generator, seen = told(), ""
    try:
        while True:
            seen += next(generator)
    except StopIteration as end:
        assert end.value["stdout"] == "1"
    assert seen == fenced("print(1)")


def test_leaving_a_stream_ends_model_and_program(made):
    """Nothing is left: the fixture counts processes, and so does this."""
    stream = made({"text": fenced("while True: pass"), "delay_ms": 0}).run("Do it", stream=True)
    next(stream)
    stream.close()
    assert not [pid for pid in process_kit.pids() if "fumehood-ask" in process_kit.command_of(pid)
                and pid in process_kit.children(os.getpid())]
    assert stream.result is None
    unused = made("print(1)").run("Do it", stream=True)
    del unused  # begins nothing


def test_tokens_of_two_programs_are_told_one_after_the_other():
    order, told = _Order(), []
    for kind, attempt, text in [("token", 1, "a"), ("token", 2, "x"), ("token", 1, "b"),
                                ("token", 2, "y"), ("code", 2, ""), ("code", 1, ""),
                                ("token", 3, "z"), ("code", 3, "")]:
        told += order.take(Line(type=kind, attempt=attempt, text=text))
    assert "".join(text for _, text in told) == "ab\n\nxy\n\nz"
    assert [attempt for attempt, _ in told] == [1, 1, 2, 2, 2, 3, 3]
    assert order.take(Line(type="token", attempt=4, text="?", reasoning=True)) == []


# ----------------------------------------------------------------------------------------- models

def test_which_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLM_CODE_INTERPRETER_CONFIG", raising=False)
    assert choose(None) == {}
    assert choose("qwen2.5-coder-1.5b") == {"model": "qwen2.5-coder-1.5b"}
    assert choose("http://127.0.0.1:8080/v1") == {"url": "http://127.0.0.1:8080/v1"}
    folder = tmp_path / "models" / "q"
    folder.mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="holds no GGUF"):
        choose(folder)
    (folder / "q.gguf").write_bytes(b"GGUF rest")
    for name in (folder, str(folder / "q.gguf"), "models/q/q.gguf", str(tmp_path)):
        assert choose(name) == {"model": str(folder / "q.gguf")}
    with pytest.raises(FileNotFoundError):
        choose("models/other.gguf")
    with pytest.raises(fumehood.NotFoundError):
        choose("~/no/such/model")
    (folder / "z.gguf").write_bytes(b"GGUF rest")
    with pytest.raises(fumehood.UsageError, match="several"):
        choose(folder)
    (folder / "bad").write_bytes(b"\0" * 10)
    with pytest.raises(fumehood.InvalidError, match="no GGUF file"):
        choose(folder / "bad")


def test_a_model_of_the_original_is_told_what_to_do(tmp_path):
    folder = tmp_path / "model" / "cpu-int4"
    folder.mkdir(parents=True)
    (folder / "genai_config.json").write_text("{}")
    (folder / "model.onnx").write_bytes(b"\x08\x07")
    for path in (tmp_path / "model", folder / "model.onnx"):
        with pytest.raises(fumehood.UnsupportedError, match="fumehood model pull"):
            SLMCodeInterpreter(path)


CONFIG = "# ours\nmodels:\n    code_interpreter:\n        repo_id: x\n        path: %s  # here\n"


def test_config_yaml(tmp_path, monkeypatch):
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF")
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.delenv("SLM_CODE_INTERPRETER_CONFIG", raising=False)
    (inner / "config.yaml").write_text("someone:\n  else: [1, 2]\n")  # not ours
    (tmp_path / "config.yaml").write_text(CONFIG % "./m.gguf")
    assert choose(None) == {"model": str(model)}
    assert SLMCodeInterpreter().model_path == str(model)
    (inner / "config.yaml").write_text(CONFIG % '"no \\u00e9.gguf"')
    with pytest.raises(FileNotFoundError, match="no é.gguf"):
        choose(None)
    (inner / "config.yaml").write_text("models:\n\tcode_interpreter:\n")
    with pytest.raises(fumehood.InvalidError, match="line 2"):
        choose(None)
    monkeypatch.setenv("SLM_CODE_INTERPRETER_CONFIG", str(tmp_path / "config.yaml"))
    assert choose(None) == {"model": str(model)}
    monkeypatch.setenv("SLM_CODE_INTERPRETER_CONFIG", str(tmp_path / "none.yaml"))
    with pytest.raises(fumehood.NotFoundError):
        choose(None)


def test_the_reader_of_config_yaml(tmp_path):
    """The cases that the reader of `fumehood slm` is tested by, too."""
    cases = json.loads((fumehood_kit.ROOT / "test" / "data" / "config-yaml.json").read_text())
    assert len(cases) > 50
    file = tmp_path / "config.yaml"
    for case in cases:
        file.write_bytes(case["text"].encode())
        if "line" in case:
            with pytest.raises(fumehood.InvalidError, match=r"line %d\b" % case["line"]):
                read_path(str(file))
        else:
            assert read_path(str(file)) == case["path"], case
    for data in (b"a: \xff\n", b"models:\n\0"):
        file.write_bytes(data)
        with pytest.raises(fumehood.InvalidError):
            read_path(str(file))


def test_a_server_or_a_name_in_config_yaml(tmp_path, monkeypatch):
    """As `fumehood slm` takes them (test/flow/test_slm.py)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLM_CODE_INTERPRETER_CONFIG", raising=False)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG % "http://127.0.0.1:9/v1")
    assert choose(None) == {"url": "http://127.0.0.1:9/v1"}
    config.write_text(CONFIG % "some-model")
    assert choose(None) == {"model": "some-model"}
    (tmp_path / "some-model").mkdir()
    (tmp_path / "some-model" / "m.gguf").write_bytes(b"GGUF")
    assert choose(None) == {"model": str(tmp_path / "some-model" / "m.gguf")}
    for path in ("some/model", "other.gguf", "other.ONNX"):
        config.write_text(CONFIG % path)
        with pytest.raises(FileNotFoundError, match="not there"):
            choose(None)
    config.write_text("models:\n")
    assert choose(None) == {}
    monkeypatch.setenv("SLM_CODE_INTERPRETER_CONFIG", str(config))
    with pytest.raises(fumehood.InvalidError, match="has no models.code_interpreter.path"):
        choose(None)


def test_variables_of_the_original(monkeypatch):
    monkeypatch.setenv("SLM_CODE_INTERPRETER_N_CTX", "4096")
    made = SLMCodeInterpreter(script="-", n_threads=2)
    assert (made.n_ctx, made.n_threads) == (4096, 2)
    assert made._environment() == {"FUMEHOOD_LLAMA_CONTEXT": "4096", "FUMEHOOD_LLAMA_THREADS": "2"}
    monkeypatch.setenv("SLM_CODE_INTERPRETER_N_THREADS", "many")
    with pytest.raises(fumehood.UsageError, match="SLM_CODE_INTERPRETER_N_THREADS"):
        SLMCodeInterpreter(script="-")
    with pytest.raises(fumehood.UsageError):
        SLMCodeInterpreter(script="-", n_ctx=0, n_threads=1)


def test_no_model_is_an_exception(made, script, tmp_path):
    """Not a failed run: there is nothing to try again."""
    with pytest.raises(fumehood.Error) as caught:
        SLMCodeInterpreter(script=str(tmp_path / "none")).run("x")
    assert caught.value.code in ("not_found", "invalid", "usage", "io") and caught.value.message
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d/v1" % nobody.getsockname()[1]
        with pytest.raises(fumehood.Error):
            SLMCodeInterpreter(url, seconds=20).run("x", max_retries=1)


# ------------------------------------------------------------------------------- Session.ask, ask

def test_a_session_asks(session, script):
    session.run("base = 40")
    lines = []
    answer = session.ask("Add 2 to base", script=script("total = base + 2\nprint(total)"),
                         effort="low", on_line=lines.append)
    assert answer.success and answer.stdout.strip() == "42" and str(answer) == answer.text
    assert answer.session == session.id and answer.confidence == "ran" and answer.known
    assert session.run("total").result == "42"  # the chosen program has run here
    assert session.text(answer.cell)
    kinds = [line.type for line in lines]
    assert (kinds[0], kinds[-1]) == ("ask", "result") and {"token", "code", "attempt"} <= set(kinds)
    assert "".join(line.text for line in lines if line.type == "token").count("total") == 2
    assert "<details>" in answer._repr_html_() and answer.raise_for_error() is answer


def test_several_programs_agree(session, script):
    answer = session.ask("Print 4", script=script("print(4)", "print(2 + 2)", "print(5)"),
                         effort="medium")
    assert answer.success and answer.stdout.strip() == "4"
    assert answer.confidence == "agreed" and answer.agreement["k"] == 2
    assert "agree" in answer.known


def test_an_answer_without_success(session, script):
    answer = session.ask("Print 4", script=script("print('<b>5')"), programs=1, expect="4",
                         effort="low")
    assert not answer.success and "5" in answer.stdout and answer.message
    assert "<b>" not in answer._repr_html_()
    with pytest.raises(fumehood.AnswerError) as caught:
        answer.raise_for_error()
    assert caught.value.answer is answer


def test_an_ask_is_cancelled(session, script):
    under = session.start_ask("Loop", script=script("print('go', flush=True)\nwhile True: pass"),
                              run_seconds=100)
    for line in under:
        if line.type == "output" or line.type == "code":
            under.cancel()
            break
    assert under.done
    with pytest.raises(fumehood.Error) as caught:
        under.result()
    assert caught.value.code == "cancelled"
    assert session.run("1").result == "1"


@pytest.mark.parametrize("read", ["waited for", "iterated over"])
def test_a_cancelled_ask_has_no_answer(session, script, read):
    """What the program tells of its end is not taken for one."""
    under = session.start_ask("x", script=script({"text": fenced("print(1)"), "delay_ms": 600_000}))
    timer = threading.Timer(0, under.cancel)
    lines = iter(under)
    assert next(lines).type == "ask"
    timer.start()
    if read == "iterated over":
        assert [line.type for line in lines][-1] == "result"
    with pytest.raises(fumehood.Error) as caught:
        under.result()
    assert caught.value.code == "cancelled"
    timer.join()


def test_options_that_are_refused(house, script):
    with pytest.raises(fumehood.UsageError, match="without --url and --model"):
        fumehood.ask("x", script=script("1"), model="y")
    with pytest.raises(fumehood.UsageError, match="IGNORECASE"):
        fumehood.ask("x", script=script("1"), expect=re.compile("x", re.S))
    answer = fumehood.ask("x", script=script("print('ABC')"), expect=re.compile("^abc$", re.I))
    assert answer.success and answer.confidence == "checked"


def test_a_callback_that_fails_ends_the_ask(session, script):
    def fail(line):
        raise KeyError(line.type)
    with pytest.raises(KeyError):
        session.ask("x", script=script("while True: pass"), on_line=fail)
    with pytest.raises(fumehood.UsageError):
        session.ask("")
    session.close()
    with pytest.raises(fumehood.GoneError):
        session.ask("x", script=script("1"))


def test_an_ask_whose_program_is_killed(session, script):
    under = session.start_ask("x", script=script({"text": fenced("print(1)"), "delay_ms": 60_000}))
    assert next(iter(under)).type == "ask"
    under._source.process.send_signal(signal.SIGKILL)
    with pytest.raises(fumehood.Error):
        under.result()
    assert session.run("1").result == "1"


def test_asyncio(house, script):
    async def main():
        async with fumehood.AsyncSession() as session:
            seen = []
            under = session.start_ask("x", script=script("print('async')"), effort="low")
            async for line in under:
                seen.append(line.type)
            answer = await under.result()
            assert answer.stdout.strip() == "async" and seen[-1] == "result"
            task = asyncio.ensure_future(session.ask(
                "y", script=script({"text": "x", "delay_ms": 60_000})))
            await session.run("1")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await session.run("2")).result == "2"
    asyncio.run(main())


def test_without_a_session(house, script, folder):
    (folder / "n").write_text("7")
    answer = fumehood.ask("x", script=script("print(open('n').read())"), workspace=str(folder),
                          effort="low")
    assert answer.stdout.strip() == "7"
    with pytest.raises(fumehood.UsageError):
        fumehood.ask("x", token="t")


@pytest.fixture
def daemon(house):
    from serve_kit import Daemon

    with Daemon(house) as daemon:
        yield daemon


def test_a_daemon_asks(daemon, script):
    """The same objects, over POST /v1/ask."""
    with fumehood.Session(daemon="") as session:
        session.run("base = 1")
        lines = []
        answer = session.ask("x", script=script("print(base + 1)"), effort="low",
                             on_line=lines.append)
        assert answer.success and answer.stdout.strip() == "2" and answer.session == session.id
        assert lines[-1].type == "result"
        with pytest.raises(fumehood.Error) as caught:
            session.ask("x", effort="huge")
        assert caught.value.code == "invalid"
        under = session.start_ask("x", script=script("while True: pass"), run_seconds=100)
        assert next(iter(under)).type == "ask"
        under.cancel()
        with pytest.raises(fumehood.Error) as caught:
            under.result()
        assert caught.value.code == "cancelled"
        assert session.run("1").result == "1"


def test_a_daemon_asks_with_asyncio(daemon, script):
    async def main():
        async with fumehood.AsyncSession(daemon="") as session:
            answer = await session.ask("x", script=script("print('far')"), effort="low")
            assert answer.stdout.strip() == "far"
            task = asyncio.ensure_future(session.ask(
                "y", script=script("while True: pass"), run_seconds=100))
            await session.run("1")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    asyncio.run(main())


# -------------------------------------------------------------------------------------- run_server

def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def test_the_server(house):
    """As `python -m slm_code_interpreter.server` was: banner, status, a load error in words."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", "from fumehood.compat import run_server; run_server(%d)" % port],
        stdout=subprocess.PIPE, text=True, env={
            **os.environ, "PYTHONPATH": str(fumehood_kit.ROOT / "sdk" / "python"),
            "SLM_CODE_INTERPRETER_CONFIG": "/no/such/config.yaml"})
    try:
        banner = process.stdout.readline()
        assert banner == ("[SLMCodeInterpreter] Local VS Code integration server active on "
                          "http://127.0.0.1:%d\n" % port)
        base = "http://127.0.0.1:%d" % port
        with urllib.request.urlopen(base + "/status", timeout=60) as answer:
            assert json.load(answer) == {"status": "ready", "port": port}
        body = json.dumps({"instruction": "x", "max_retries": 1}).encode()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(
                base + "/execute", body, {"Content-Type": "application/json"}), timeout=60)
        assert caught.value.code == 500
        assert json.load(caught.value)["error"].startswith("Failed to load ONNX model")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
    assert process.returncode == 0
