"""Interfaces of others, against their real packages: tool calls of OpenAI and Anthropic,
smolagents, AutoGen."""
import asyncio
import base64
import json
import pathlib

import pytest

import fumehood
from fumehood import tools

# ------------------------------------------------------------------------------------ tool calls


@pytest.fixture
def box(session):
    return tools.Toolbox(session)


def test_the_definitions_are_what_the_clients_take():
    import anthropic.types
    import openai.types.chat
    import openai.types.responses
    from pydantic import TypeAdapter

    chat = TypeAdapter(openai.types.chat.ChatCompletionToolParam)
    responses = TypeAdapter(openai.types.responses.FunctionToolParam)
    messages = TypeAdapter(anthropic.types.ToolParam)
    for ours, adapter in ((tools.OPENAI, chat), (tools.OPENAI_RESPONSES, responses),
                          (tools.ANTHROPIC, messages)):
        for one in ours:
            adapter.validate_python(one, strict=True)
    for one in tools.DEFINITIONS:  # what `strict` demands
        schema = one["parameters"]
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False


def test_calls_of_the_clients_are_answered(box):
    from anthropic.types import ToolUseBlock
    from openai.types.chat import ChatCompletionMessageToolCall
    from openai.types.responses import ResponseFunctionToolCall

    code = json.dumps({"code": "x = 2\nx + 3"})
    call = ChatCompletionMessageToolCall.model_validate({
        "id": "call_1", "type": "function",
        "function": {"name": "execute_code", "arguments": code}})
    assert box.openai(call) == {"role": "tool", "tool_call_id": "call_1", "content": "5"}
    assert box.openai(call.model_dump())["content"] == "5"
    response = ResponseFunctionToolCall(type="function_call", call_id="call_2", name="execute_code",
                                        arguments=code)
    assert box.openai(response) == {"type": "function_call_output", "call_id": "call_2",
                                    "output": "5"}
    block = ToolUseBlock(type="tool_use", id="toolu_1", name="execute_code",
                         input={"code": "1 / 0"})
    answer = box.anthropic(block)
    assert answer["tool_use_id"] == "toolu_1" and answer["is_error"] is True
    assert "ZeroDivisionError" in answer["content"][0]["text"]


def test_a_figure_goes_to_a_model_that_sees(box):
    answer = box.anthropic({"id": "t", "name": "execute_code", "input": {
        "code": "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"}})
    text, image = answer["content"]
    assert "image/png" in text["text"] and image["source"]["media_type"] == "image/png"
    assert base64.b64decode(image["source"]["data"]).startswith(b"\x89PNG")


def test_files_of_the_session(box):
    assert box.call("write_file", {"path": "a.txt", "content": "text"}) == (
        "4 bytes were written to a.txt")
    assert box.call("read_file", '{"path": "a.txt"}') == "text"
    assert "a.txt  4 bytes" in box.call("list_files", {"path": "."})
    box.call("write_file", {"path": "long", "content": "x" * 20_000})
    assert "20000 bytes" in box.call("read_file", {"path": "long"})
    assert box.call("execute_code", {"code": "open('a.txt').read()"}) == "'text'"
    box.call("restart_session", None)
    assert "NameError" in box.call("execute_code", {"code": "x"})


@pytest.mark.parametrize("name, arguments, words", [
    ("no_such", {}, "there are execute_code"), ("execute_code", "no json", "no JSON"),
    ("execute_code", "[1]", "object"), ("execute_code", {}, "needs code"),
    ("execute_code", {"code": 5}, "needs code"), ("execute_code", None, "needs code"),
    ("read_file", {"path": "missing"}, "not_found"), ("read_file", {"path": "../../etc/passwd"},
    ":"), ("write_file", {"path": "", "content": ""}, "usage"), ("list_files", {"path": "missing"},
    ":")])
def test_mistakes_of_a_model_are_answered(box, name, arguments, words):
    answer = box.answer(name, arguments)
    assert answer.failed and words in answer.text


def test_some_tools_only(session):
    box = tools.Toolbox(session, only=["execute_code"], max_chars=200, timeout=0.3)
    assert "there is no tool" in box.call("write_file", {"path": "a", "content": "b"})
    assert len(box.call("execute_code", {"code": "print('x' * 5000)"})) <= 200
    assert "limit" in box.call("execute_code", {"code": "while True: pass"})
    session.close()
    with pytest.raises(fumehood.GoneError):
        box.call("execute_code", {"code": "1"})


# ------------------------------------------------------------------------------------- smolagents


def agent(executor, tools, answers):
    from smolagents import ChatMessage, CodeAgent, Model

    class Scripted(Model):
        def __init__(self):
            super().__init__()
            self.answers = list(answers)

        def generate(self, messages, **_):
            return ChatMessage(role="assistant", content="Thought: so\n<code>\n%s\n</code>"
                               % self.answers.pop(0))
    return CodeAgent(tools=tools, model=Scripted(), executor=executor, verbosity_level=0,
                     additional_authorized_imports=["*"])


def test_a_code_agent_of_smolagents(house):
    from smolagents import tool

    from fumehood.smolagents import FumehoodExecutor

    called = []

    @tool
    def weather(city: str, days: int = 1) -> dict:
        """Tells the weather.

        Args:
            city: where
            days: how many
        """
        called.append((city, days))
        if city == "Atlantis":
            raise ValueError("under water")
        return {"city": city, "sun": [True] * days}
    with FumehoodExecutor() as executor:
        made = agent(executor, [weather], [
            "w = weather('Rome', days=2)\nprint(w['sun'], given)\nx = 20",
            "print('before')\nweather('Atlantis')",
            "try:\n    final_answer({'n': x + 1, 'w': w, 't': (1, {2})})\n"
            "except Exception:\n    pass\nprint('never')"])
        answer = made.run("How is it?", additional_args={"given": {1: "one"}})
        assert answer == {"n": 21, "w": {"city": "Rome", "sun": [True, True]}, "t": (1, {2})}
        assert called == [("Rome", 2), ("Atlantis", 1)]
        first, second, third = made.memory.steps[-3:]
        assert "[True, True] {1: 'one'}" in first.observations
        assert "under water" in str(second.error) and "before" in second.observations
        assert "never" not in third.observations
        executor.session.restart()  # the tools come back by themselves after a death
        executor.session.run("import os")


def test_what_comes_from_the_session_is_data(house):
    from smolagents import FinalAnswerTool

    from fumehood.smolagents import FumehoodExecutor

    with FumehoodExecutor() as executor:
        executor.send_tools({"final_answer": FinalAnswerTool()})
        for code, value in (
                ("b'bytes'", b"bytes"), ("2.5", 2.5), ("None", None), ("[1, 'a']", [1, "a"]),
                ("{'text': 'mine'}", {"text": "mine"}), ("{1: 2}", "{1: 2}"),
                ("__import__('numpy').arange(3)", [0, 1, 2]),
                ("__import__('numpy').float64(1.5)", 1.5), ("float('inf')", float("inf")),
                ("__import__('pandas').DataFrame({'a': [1]})", {"a": [1]}),
                ("type('Evil', (), {'__reduce__': lambda self: (exit, ())})", None)):
            output = executor("final_answer(%s)" % code)
            assert output.is_final_answer
            assert output.output == value or value is None, code
        result = executor.session.run("_fumehood_tool('no_such')()", input=executor._answer)
        assert "there is no tool no_such" in result.error.value
        assert executor("1 + 1").output == "2" and not executor("1").is_final_answer
        with pytest.raises(fumehood.CellError, match="EOFError"):
            executor("input('a question of the code')")
        with pytest.raises(fumehood.CellError, match="died"):
            executor("import os; os._exit(1)")
        assert executor("final_answer(1)").is_final_answer  # an interpreter that is new
        executor.send_variables({"made": range(3), "word": "w"})
        assert executor("list(made), word").output == "([0, 1, 2], 'w')"
        with pytest.raises(fumehood.UsageError):
            executor.send_variables({"no name": 1})
        with pytest.raises(fumehood.UsageError):
            executor.send_variables({"local": lambda: 1})


# --------------------------------------------------------------------------------------- autogen


def test_a_code_executor_of_autogen(house, tmp_path):
    from autogen_core import CancellationToken
    from autogen_core.code_executor import CodeBlock, CodeExecutor

    from fumehood.autogen import FumehoodCodeExecutor

    async def main():
        async with FumehoodCodeExecutor(timeout=1, output_dir=str(tmp_path)) as executor:
            assert isinstance(executor, CodeExecutor)

            async def run(*blocks):
                return await executor.execute_code_blocks(
                    [CodeBlock(code, language) for code, language in blocks], CancellationToken())
            result = await run(("x = 1\nprint('first')", "python"), ("echo second", "bash"),
                               ("x + 1", "py"))
            assert (result.exit_code, result.output) == (0, "first\nsecond\n2")
            result = await run(("print('kept')", "python"), ("1 / 0", "python"), ("3", "python"))
            assert result.exit_code == 1 and "kept" in result.output and "3" != result.output[-1]
            assert "ZeroDivisionError" in result.output
            assert (await run(("exit 3", "sh"))).exit_code == 3
            assert (await run(("x", "cobol"))).exit_code == 1
            result = await run(("print('on', flush=True)\nwhile True: pass", "python"))
            assert result.exit_code == 124 and result.output.startswith("on")
            result = await run(("import matplotlib.pyplot as p; p.plot([1]); p.show()", "python"))
            assert [pathlib.Path(path).read_bytes()[:4] for path in result.output_files] == [
                b"\x89PNG"]
            token = CancellationToken()
            waiting = asyncio.ensure_future(executor.execute_code_blocks(
                [CodeBlock("import time; time.sleep(60)", "python")], token))
            while (await executor.session.status()).state != "running":
                await asyncio.sleep(0.01)
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await run(("x", "python"))).output == "1"
            await executor.restart()
            assert "NameError" in (await run(("x", "python"))).output
            again = FumehoodCodeExecutor.load_component(executor.dump_component())
            assert again._timeout == 1
        await asyncio.get_running_loop().shutdown_default_executor()
    asyncio.run(main())
    with pytest.raises(fumehood.UsageError):
        FumehoodCodeExecutor(timeout=0)
