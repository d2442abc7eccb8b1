"""Code that was written for the original classes runs here: the same texts, files and messages,
beside the documented behaviour on a real ipykernel, and none of the faults."""
import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import time

import documented
import nbformat
import pytest

import fumehood
from fumehood.compat import (InterpreterMessage, LocalCodeInterpreter, NotebookSerializer,
                             ResultModel, StdErrModel, SystemMessage, create_interpreter)
from fumehood.compat import ansi

PNG = base64.b64encode(bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082")).decode()


class Interpreter:
    """A LocalCodeInterpreter and its loop, for tests that wait."""

    def __init__(self, folder, **options):
        self.loop = asyncio.new_event_loop()
        self.messages = []
        self.serializer = NotebookSerializer(str(folder))
        self.raw = LocalCodeInterpreter("20260101-000000-abcdef01", str(folder), self.serializer,
                                        publish=self.hear, **options)

    async def hear(self, task_id, message):
        assert task_id == self.raw.task_id
        self.messages.append(message)

    def wait(self, awaitable):
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 60))

    def run(self, code):
        return self.wait(self.raw.execute_code(code))

    def close(self):
        self.wait(self.raw.cleanup())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture
def made(house, folder):
    made = Interpreter(folder)
    made.wait(made.raw.initialize())
    yield made
    made.close()


# --------------------------------------------------------------------------------- side by side

SAME = [
    "print('hello')", "1 + 1", "x = 5", "print('a')\nprint('b')\n'c'", "'x' * 3000",
    "print('y' * 983)", "print('y' * 984)", "print('y' * 5000)", "None", "[i for i in range(400)]",
    "import pandas as pd\npd.DataFrame({'a': range(3), 'b': list('xyz')})",
    "pd.Series(range(200))", "from IPython.display import display\ndisplay('shown')\n'value'",
    "print('中文' * 600)", "import math; math.pi", "%time 3", "!echo from the shell",
    "for i in range(3): print(i)",
    "from IPython.display import Image\nimport base64\nImage(base64.b64decode('%s'))" % PNG,
]


IMAGE = "_text]\n<IPython.core.display.Image object>\n"  # a fault


def test_the_texts_are_those_of_the_documented_original(made, tmp_path):
    for code, theirs in zip(SAME, documented.run(SAME, tmp_path)):
        ours = made.run(code)
        if code == "%time 3":  # the time differs
            assert theirs[0].split("\n")[0] == ours[0].split("\n")[0] == "[stdout]"
            continue
        texts = [text.replace("[display" + IMAGE, "").replace("[execute_result" + IMAGE, "")
                 .replace("\r\n", "\n") for text in (ours[0], theirs[0])]
        assert texts[0] == texts[1] and ours[1:] == theirs[1:], code


ERRORS = ["1 / 0", "print('before')\nundefined_name", "raise KeyError('k')", "x = 1 +* 2",
          "def f(n):\n    raise ValueError('deep')\nf(1)", "raise ValueError('z' * 4000)"]


def test_errors_beside_the_documented_original(made, tmp_path):
    """The traceback is CPython's here and IPython's there; what happened is the same."""
    for code, theirs in zip(ERRORS, documented.run(ERRORS, tmp_path)):
        ours = made.run(code)
        assert ours[1] is theirs[1] is True
        assert (ours[2].strip().split("\n")[-1][-60:] == theirs[2].strip().split("\n")[-1][-60:])
        assert ours[0].endswith(ours[2]) and len(ours[2]) <= 1017
        if "before" in code:
            assert ours[0].split("\n")[:2] == theirs[0].split("\n")[:2] == ["[stdout]", "before"]


def test_a_figure_is_one_line_and_a_file(made, tmp_path):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    (theirs,), ours = documented.run([code], tmp_path), made.run(code)
    figure = "[display_png 图片已生成，内容为 base64，未展示]"
    assert theirs[0].endswith(figure) and "<Figure size" in theirs[0]  # a fault: not here
    assert ours == (figure, False, "")


def test_the_cut_is_the_documented_one(made):
    raw = made.raw
    for length in (0, 1, 999, 1000, 1001, 5000):
        assert raw._truncate_text("x" * length) == documented.cut("x" * length)
    assert len(raw._truncate_text("x" * 1001)) == 1017
    assert raw._truncate_text("abcdef", 4) == "ab\n... (内容已截断) ...\nef"
    assert raw.delete_color_control_char("\x1b[31mred\x1b[0m") == "red"


# ------------------------------------------------------------------------------------- messages


def test_messages_come_in_the_documented_order_and_form(made):
    made.messages.clear()
    made.run("print('out')\n7")
    first, second, third = made.messages
    assert isinstance(first, SystemMessage) and isinstance(third, InterpreterMessage)
    assert [one.content for one in (first, second)] == ["开始执行代码", "代码执行完成"]
    assert first.model_dump() == {"id": first.id, "msg_type": "system", "content": "开始执行代码",
                                  "type": "info"}
    assert json.loads(third.model_dump_json()) == {
        "id": third.id, "msg_type": "tool", "content": None, "tool_name": "execute_code",
        "input": None, "output": [
            {"res_type": "result", "format": "text", "msg": "out\n"},
            {"res_type": "result", "format": "text", "msg": "7"}]}
    assert len({first.id, second.id, third.id}) == 3
    made.messages.clear()
    made.run("print('x')\n1 / 0")
    assert [one.content for one in made.messages[:2]] == ["开始执行代码", "代码执行完成"]
    shown = made.messages[2].output
    assert isinstance(shown[0], ResultModel) and isinstance(shown[1], StdErrModel)
    assert "ZeroDivisionError" in shown[1].msg and "\x1b" not in shown[1].msg
    made.messages.clear()
    made.run("print('y' * 3000)")  # whole in the message, cut in the text
    assert made.messages[2].output[0].msg == "y" * 3000 + "\n"


def test_the_hook_can_be_overridden(house, folder):
    class Own(LocalCodeInterpreter):
        pushed = []

        async def _push_to_websocket(self, content_to_display):
            self.pushed.append(content_to_display)

    async def main():
        own = Own("t", str(folder), NotebookSerializer())
        await own.initialize()
        await own.execute_code("2")
        await own.cleanup()
        await asyncio.get_running_loop().shutdown_default_executor()
        return own.pushed
    assert [[item.msg for item in items] for items in asyncio.run(main())] == [["2"]]


# ----------------------------------------------------------------------------------- the faults


def test_stderr_is_not_lost(made):
    text = made.run("import sys\nprint('out')\nprint('warned', file=sys.stderr)")[0]
    assert text == "[stdout]\nout\n\n[stderr]\nwarned\n"
    assert made.messages[-1].output[1].res_type == "stderr"


def test_thirty_prints_are_one_item(made):
    """27,329 characters in the original: every flush was an item of its own, without a total."""
    text = made.run("for i in range(30): print('z' * 900, flush=True)")[0]
    assert text.count("[stdout]") == 1 and len(text) == 1017
    text = made.run("from IPython.display import display\n"
                    "for i in range(300): display('w' * 900)")[0]
    assert len(text) <= 20_000 + 17


def test_a_cell_ends(house, folder):
    made = Interpreter(folder, timeout=0.5)
    made.wait(made.raw.initialize())
    text, failed, error = made.run("print('kept', flush=True)\nwhile True: pass")
    assert failed and text.startswith("[stdout]\nkept\n") and "longer than it may" in error
    made.close()


def test_a_dead_interpreter_is_an_error_and_the_session_goes_on(made):
    for death in ("import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"):
        text, failed, error = made.run("print('kept', flush=True)\n" + death)
        assert failed and "[stdout]\nkept" in text and "the interpreter died" in error
        assert made.run("1") == ("[execute_result_text]\n1", False, "")


def test_a_killed_keeper_is_an_error_and_the_next_cell_runs(made):
    os.kill(made.raw.session._hello["pid"], 9)
    text, failed, error = made.run("1")
    assert failed and "died" in error and text == error
    assert made.run("2") == ("[execute_result_text]\n2", False, "")


def test_input_ends_at_once(made):
    assert "EOFError" in made.run("input('? ')")[2]


def test_exit_has_no_hint(made):
    text, failed, error = made.run("import sys; sys.exit(1)")
    assert failed and "%tb" not in text and error.strip().endswith("SystemExit: 1")


def test_text_that_the_original_lost(made):
    assert made.run("'\\ud800'")[0] != "" and made.run("print('\\ud800')")[1] is False
    assert made.run("print('10%\\r20%\\rdone')")[0] == "[stdout]\ndone\n"[0:9] + "done\n"


def test_a_thread_does_not_print_into_the_next_cell(made):
    made.run("import threading, time\ndef late():\n    time.sleep(0.3); print('late')\n"
             "threading.Thread(target=late).start()")
    assert made.run("time.sleep(0.6); 'mine'")[0] == "[execute_result_text]\n'mine'"


def test_interrupt_hits_the_cell_that_runs_and_no_other(made):
    async def interrupted():
        task = asyncio.ensure_future(made.raw.execute_code(
            "import time\nwhile True:\n    print('busy', flush=True); time.sleep(0.05)"))
        while not (made.raw.session.status().state == "running"):
            await asyncio.sleep(0.01)
        made.raw.send_interrupt_signal()
        return await task
    began = time.monotonic()
    _, failed, error = made.wait(interrupted())
    assert failed and "KeyboardInterrupt" in error and time.monotonic() - began < 10
    made.raw.send_interrupt_signal()  # nothing runs
    assert made.run("'next'") == ("[execute_result_text]\n'next'", False, "")
    assert made.raw.interrupt_signal is False


def test_a_cancelled_task_stops_its_cell(made):
    async def cancelled():
        task = asyncio.ensure_future(made.raw.execute_code("while True: pass"))
        while made.raw.session.status().state != "running":
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    made.wait(cancelled())
    assert made.run("1")[1] is False


def test_the_code_sees_nothing_of_the_caller(made, monkeypatch):
    monkeypatch.setenv("API_KEY_OF_THE_CALLER", "secret")
    made.wait(made.raw.cleanup())
    made.wait(made.raw.initialize())
    assert made.run("import os; os.environ.get('API_KEY_OF_THE_CALLER')")[0] == ""
    assert made.run("os.path.exists(%r)" % os.path.abspath(fumehood.__file__))[0].endswith("False")


def test_cleanup_at_any_time_and_life_after_it(house, folder):
    made = Interpreter(folder)
    made.wait(made.raw.cleanup())
    with pytest.raises(fumehood.UsageError, match="initialize"):
        made.run("1")
    made.wait(made.raw.initialize())
    assert made.raw.kc.is_alive() and made.raw.km is not None
    made.raw.restart_jupyter_kernel()
    assert made.run("1")[1] is False
    made.wait(made.raw.cleanup())
    assert made.raw.kc is None and (folder / "notebook.ipynb").exists()
    made.close()


def test_fonts_and_awkward_paths(house, folder):
    """A quote in the path, a relative path, a font file of the task, one that is none."""
    import matplotlib

    place = folder / "it's here"
    place.mkdir()
    font = os.path.join(os.path.dirname(matplotlib.__file__), "mpl-data/fonts/ttf/cmr10.ttf")
    shutil.copy(font, place / "own.ttf")
    (place / "broken.ttf").write_bytes(b"no font")
    before = os.getcwd()
    os.chdir(folder)
    try:
        made = Interpreter("it's here")
        made.wait(made.raw.initialize())
        assert made.run("import matplotlib as m\n"
                        "m.rcParams['axes.unicode_minus']")[0].endswith("False")
        assert made.run("from matplotlib import font_manager as f\n"
                        "any(x.fname.endswith('own.ttf') for x in f.fontManager.ttflist)"
                        )[0].endswith("True")
        assert made.run("open('x.txt', 'w').write('1')")[1] is False
        assert (place / "x.txt").exists()
        assert "findfont" not in made.run(
            "import matplotlib.pyplot as p; p.plot([1]); p.title('t'); p.savefig('f.png')")[0]
        made.close()
    finally:
        os.chdir(before)


# --------------------------------------------------------------------------- sections and images


def test_sections_have_their_texts(made):
    made.raw.add_section("eda")
    made.run("print('one')")
    made.raw.add_content("eda", made.run("print('two')")[0])  # once, not twice
    made.raw.add_section("ques1")
    made.run("3")
    assert made.raw.get_code_output("eda") == "[stdout]\none\n\n[stdout]\ntwo\n"
    assert made.raw.get_code_output("ques1") == "[execute_result_text]\n3"
    assert made.raw.get_code_output("never") == ""
    assert made.raw.section_output["eda"]["content"] and made.raw.session.outputs("eda")


def test_images_are_found_and_belong_to_their_section(made, folder):
    raw = made.raw
    (folder / "uploaded.png").write_bytes(base64.b64decode(PNG))
    (folder / "old.png").write_bytes(base64.b64decode(PNG))
    made.run("1")
    raw.add_section("eda")
    made.run("import matplotlib.pyplot as plt, os\nos.makedirs('sub', exist_ok=True)\n"
             "for n in ('a.png', 'B.PNG', 'c.svg', 'd.pdf', 'sub/e.jpg', 'old.png'):\n"
             "    plt.plot([1]); plt.savefig(n)\nopen('data.csv', 'w').close()")
    raw.add_section("ques1")
    made.run("plt.plot([1, 2]); plt.show()")
    made.run("plt.savefig('gone.png'); os.unlink('gone.png')")
    assert made.wait(raw.get_created_images("ques1")) == ["figure-c4-1.png"]
    assert made.wait(raw.get_created_images("eda")) == [
        "B.PNG", "a.png", "c.svg", "d.pdf", "old.png", "sub/e.jpg"]
    assert (folder / "figure-c4-1.png").read_bytes().startswith(b"\x89PNG")
    for section in ("eda", "ques1", "other"):
        assert made.wait(raw.get_created_images(section)) == []
    made.run("plt.plot([3]); plt.savefig('a.png')")  # overwritten
    assert made.wait(raw.get_created_images("ques1")) == ["a.png"]


def test_a_link_of_the_code_is_not_followed(made, folder, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    for number in range(1, 9):
        (folder / ("figure-c%d-1.png" % number)).symlink_to(victim)
    made.run("import matplotlib.pyplot as plt; plt.plot([1]); plt.show()")
    assert victim.read_text() == "untouched"


# ------------------------------------------------------------------------------------- notebook


def test_the_notebook_is_a_real_one(made, folder):
    made.raw.add_section("eda")
    made.run("import sys\nprint('\x1b[31mred\x1b[0m'); print('e', file=sys.stderr)\n6")
    made.run("import pandas as pd; pd.DataFrame({'a': [1]})")
    made.run("1 / 0")
    text = (folder / "notebook.ipynb").read_text()
    book = nbformat.reads(text, 4)
    nbformat.validate(book)
    assert text == nbformat.writes(book) + "\n"
    assert [cell.cell_type for cell in book.cells] == ["code", "markdown", "code", "code", "code"]
    assert book.cells[0].metadata.tags == ["setup"] and book.metadata.kernelspec.name == "python3"
    assert [output.output_type for output in book.cells[2].outputs] == [
        "stream", "stream", "execute_result"]
    assert "text/html" in book.cells[3].outputs[0].data
    assert book.cells[4].outputs[0].ename == "ZeroDivisionError"
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts[1:] == [2, 3, 4]
    assert book.cells[1].source == "## eda"
    assert made.serializer.get_notebook_output_content("eda").startswith("\x1b[31mred")


def test_the_serializers_methods(tmp_path):
    serializer = NotebookSerializer(str(tmp_path / "new" / "folder"), "task")
    serializer.add_code_cell_output_to_notebook("first of all")  # an error in the original
    serializer.add_code_cell_to_notebook("print(1)")
    serializer.add_code_cell_output_to_notebook("\x1b[1;32m<b>ok</b>\x1b[0m")
    serializer.add_image_to_notebook(PNG, "image/png")
    serializer.add_markdown_to_notebook("body", "Title")
    serializer.add_code_cell_output_to_notebook("after markdown")  # as well
    serializer.add_code_cell_error_to_notebook("Traceback …\nValueError: bad")
    serializer.add_markdown_segmentation_to_notebook("# S", "s")
    serializer.add_code_cell_to_notebook("2")
    serializer.add_code_cell_output_to_notebook("in s")
    assert serializer.get_notebook_output_content("s") == "in s"
    assert serializer.get_notebook_output_content("none") == ""
    path = tmp_path / "new" / "folder" / "task.ipynb"
    assert serializer.notebook_path == str(path)
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    assert [cell.source for cell in book.cells] == [
        "", "print(1)", "##### Title:\nbody", "# S", "2"]
    data = book.cells[1].outputs[0].data
    assert data["text/plain"] == "<b>ok</b>" and "&lt;b&gt;ok" in data["text/html"]
    assert "font-weight:bold" in data["text/html"] and "<html" not in data["text/html"]
    assert book.cells[1].outputs[1].data["image/png"] == PNG
    error = book.cells[1].outputs[3]
    assert (error.ename, error.evalue) == ("ValueError", "bad")
    nowhere = NotebookSerializer()
    nowhere.add_code_cell_to_notebook("1")
    assert nowhere.notebook_path is None and nowhere.nb.cells[0].source == "1"


def test_an_older_notebook_is_put_aside(tmp_path):
    for number in range(3):
        serializer = NotebookSerializer(str(tmp_path))
        serializer.add_code_cell_to_notebook("run %d" % number)
        serializer.add_code_cell_to_notebook("more")
    read = {path.name: nbformat.read(path, 4).cells[0].source for path in tmp_path.iterdir()}
    assert read == {"notebook.ipynb": "run 2", "notebook-1.ipynb": "run 0",
                    "notebook-2.ipynb": "run 1"}


def test_a_reader_never_sees_half_a_notebook(tmp_path):
    """The process is killed at random; what is there is whole."""
    code = ("import sys; sys.path[:0] = %r\nfrom fumehood.compat import NotebookSerializer\n"
            "s = NotebookSerializer(%r)\nprint('on', flush=True)\n"
            "while True: s.add_code_cell_to_notebook('x' * 10000)" % (sys.path, str(tmp_path)))
    there = False
    for turn in range(5):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        try:
            process.stdout.readline()
            until = time.monotonic() + 0.05 + turn * 0.03
            while time.monotonic() < until:
                if there or (tmp_path / "notebook.ipynb").exists():
                    there = True  # and from now on it always is, also when another puts it aside
                    nbformat.read(tmp_path / "notebook.ipynb", 4)
        finally:
            process.kill()
            process.communicate()
    assert all(nbformat.read(path, 4) for path in tmp_path.glob("*.ipynb"))


@pytest.mark.parametrize("text, shown", [
    ("plain <&>", "<pre>plain &lt;&amp;&gt;</pre>"),
    ("\x1b[38;5;196mx\x1b[39my", '<pre><span style="color:#ff0000">x</span>y</pre>'),
    ("\x1b[48;2;1;2;3mx", '<pre><span style="background-color:#010203">x</span></pre>'),
    ("\x1b[91;4mx\x1b[24my", '<pre><span style="color:#f55;text-decoration:underline">x</span>'
                             '<span style="color:#f55">y</span></pre>'),
    ("\x1b[2K\x1b]0;t\x07a\x1b[", "<pre>a[</pre>"), ("\x1b[38;5m\x1b[38mx", "<pre>x</pre>")])
def test_colours_as_html(text, shown):
    assert ansi.to_html(text) == shown


def test_a_program_of_the_original_runs(house, folder):
    """As its agent uses it, with one import changed."""
    program = """
import asyncio
from fumehood.compat import LocalCodeInterpreter, NotebookSerializer

async def main():
    work_dir = %r
    notebook = NotebookSerializer(work_dir=work_dir)
    interpreter = LocalCodeInterpreter(task_id="t", work_dir=work_dir, notebook_serializer=notebook)
    await interpreter.initialize()
    try:
        interpreter.add_section("eda")
        text, error_occurred, error_message = await interpreter.execute_code(
            "import matplotlib.pyplot as plt; plt.plot([1]); plt.savefig('p.png'); print('done')")
        print(text, error_occurred, repr(error_message))
        print(await interpreter.get_created_images("eda"))
    finally:
        await interpreter.cleanup()
asyncio.run(main())
""" % str(folder)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={
        **os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(fumehood.__file__))})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["[stdout]", "done"] and lines[-2].endswith("False ''")
    assert lines[-1] == "['p.png']"


def test_the_factory(house, folder):
    async def main():
        made = await create_interpreter("local", task_id="t", work_dir=str(folder),
                                        notebook_serializer=NotebookSerializer(), timeout=5)
        limit = made.session.limits()["wall_s"]["value"]
        await made.cleanup()
        with pytest.raises(fumehood.UsageError, match="kind"):
            await create_interpreter("other", task_id="t", work_dir="", notebook_serializer=None)
        await asyncio.get_running_loop().shutdown_default_executor()
        return limit
    assert asyncio.run(main()) == 5
