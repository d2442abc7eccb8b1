"""The verbs that ask a session, or write into its notebook without running; and the marked text."""
import json

import pytest

NOT_FOUND = FAULT = 125
UNKNOWN, USAGE = 1, 2


@pytest.fixture
def lab(house):
    result = house.cli("run", "-s", "asked", "-c", "x = 40; name = 'Bob'; import os")
    assert result.status == 0, result
    yield house
    house.cli("stop", "asked")
    house.cli("gc", "asked")


def ask(house, verb, *args, status=0, **rest):
    result = house.cli(verb, "asked", *args, **rest)
    assert result.status == status, result
    return result


def test_complete(lab):
    assert ask(lab, "complete", "os.getcw").out.split() == ["getcwd", "getcwdb"]
    answer = json.loads(ask(lab, "complete", "-", "--json", stdin="é = 1\nos.getcw").out)
    assert answer["matches"] == ["getcwd", "getcwdb"]
    assert (answer["cursor_start"], answer["cursor_end"]) == (9, 14)
    result = ask(lab, "complete", "os.getcw + 1", "--cursor", "8")
    assert result.out.split() == ["getcwd", "getcwdb"]
    assert ask(lab, "complete", "no.such.thing").out == ""


def test_inspect(lab):
    ask(lab, "note", "-", "--type", "code", stdin="def f(a):\n    return a")
    lab.cli("run", "-s", "asked", "-c", "def f(a):\n    'Does it.'\n    return a")
    assert "Does it." in ask(lab, "inspect", "f").out
    assert "return a" in ask(lab, "inspect", "f", "--source").out
    assert json.loads(ask(lab, "inspect", "f(", "--json").out)["found"] is True
    assert "nothing is known of nonono" in ask(lab, "inspect", "nonono", status=UNKNOWN).err


def test_variables(lab):
    lines = ask(lab, "variables").out.splitlines()
    assert lines[0].split()[:2] == ["NAME", "TYPE"]
    assert [line.split()[0] for line in lines[1:]] == ["name", "os", "x"]
    assert lines[1].split()[1:3] == ["str", "3"] and lines[1].endswith("'Bob'")
    answer = json.loads(ask(lab, "variables", "n*", "--json").out)
    assert [v["name"] for v in answer["variables"]] == ["name"] and answer["total"] == 1
    assert "2 more" in ask(lab, "variables", "--max", "1").err
    # What a session calls its things does no harm to a terminal.
    lab.cli("run", "-s", "asked", "-c", "evil = 'a\\x1b[2J'")
    assert "\x1b" not in ask(lab, "variables").out


def test_questions_of_a_busy_session_are_refused(lab):
    with lab.script("run", "-s", "asked", "-c", "print('runs'); input()") as script:
        script.expect("runs\n")
        assert "a cell is running" in ask(lab, "variables", status=FAULT).err
        script.type("\n")
        assert script.end() == 0


def test_files_and_images(lab):
    ask(lab, "section", "Figures")
    lab.cli("run", "-s", "asked", "-c", "open('a.txt', 'w').write('12345')\n"
            "import matplotlib.pyplot as p; p.plot([1]); p.savefig('fig.png'); p.show()")
    rows = sorted(line.split() for line in ask(lab, "files").out.splitlines())
    assert [(row[0], row[-1]) for row in rows] == [("created", "a.txt"), ("created", "fig.png")]
    answer = json.loads(ask(lab, "files", "--json").out)
    assert {file["path"] for file in answer["files"]} == {"a.txt", "fig.png"}
    assert ask(lab, "files", "--since", str(answer["last_seq"])).out == ""
    assert len(ask(lab, "files", "--cell", rows[0][1]).out.splitlines()) == 2
    rows = [line.split() for line in ask(lab, "images", "--section", "Figures").out.splitlines()]
    assert [row[1:3] for row in rows] == [["Figures", "image/png"]] * 2
    for row in rows:
        with open(row[3], "rb") as image:
            assert image.read(4) == b"\x89PNG"
    assert ask(lab, "images", "--section", "Others").out == ""
    result = ask(lab, "files", "--cell", "c1", "--since", "1", status=USAGE)
    assert "exclude each other" in result.err


def test_sections_and_notes(lab):
    ask(lab, "section", "Part one", "--level", "1")
    assert set(json.loads(ask(lab, "note", "Some *text*", "--json").out)) == {"note"}
    ask(lab, "note", "-", stdin="from stdin\nin two lines")
    assert "--level is 1 to 6" in ask(lab, "section", "x", "--level", "7", status=USAGE).err
    assert "--type is" in ask(lab, "note", "x", "--type", "html", status=USAGE).err
    notebook = json.loads(lab.cli("export", "asked").out)
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells[1:] == [("markdown", "# Part one"), ("markdown", "Some *text*"),
                         ("markdown", "from stdin\nin two lines")]


def test_a_stopped_session_is_not_started_to_be_asked(lab):
    lab.cli("stop", "asked")
    for verb, args in (("complete", ["x"]), ("inspect", ["x"]), ("variables", []), ("files", []),
                       ("images", [])):
        assert "fumehood restart asked" in ask(lab, verb, *args, status=FAULT).err
    assert not lab.sockets()
    ask(lab, "note", "written afterwards")
    assert lab.sockets()


# ---------------------------------------------------------------------------- --section

def test_texts_of_a_section(house):
    def cell(code):
        house.cli("run", "-s", "parts", "-c", code)
    cell("print('before')")
    for title, code in (("A", "print('one')\n5"), ("B", "print('two')"), ("A", "1/0")):
        assert house.cli("section", "parts", title).status == 0
        cell(code)
    text = house.cli("text", "parts", "--section", "A").out
    assert text.startswith("[c2]\none\n5\n\n[c4]\nTraceback") and "> 1 | 1/0" in text
    with house.pipe("-s", "parts") as pipe:
        told = pipe.ask("outputs", section="A")["cells"]
    assert json.loads(house.cli("text", "parts", "--section", "A", "--json").out) == {"cells": told}
    marked = house.cli("text", "parts", "--section", "B", "--marks", "--max-chars", "20").out
    assert marked == "[c3]\n[stdout]\ntwo\n\n"
    house.cli("stop", "parts")
    assert house.cli("text", "parts", "--section", "B").out == "[c3]\ntwo\n"
    missing = house.cli("text", "parts", "--section", "C")
    assert missing.status == FAULT and '"C"' in missing.err
    for wrong in (("c1", "--section", "A"), ("--json",)):
        assert house.cli("text", "parts", *wrong).status == USAGE


# ---------------------------------------------------------------------------- --marks

CODE = "print('a' * 2000)\n1/0"


def test_marks_of_a_run_and_of_a_record(lab):
    result = lab.cli("run", "-s", "asked", "--text", "--marks", "-c", CODE)
    assert result.status == UNKNOWN
    head, cut, rest = result.out.partition("\n... (内容已截断) ...\n")
    assert cut and head == "[stdout]\n" + "a" * 491
    assert rest.startswith("a" * 499 + "\n\n[error]\nTraceback")
    assert rest.endswith("ZeroDivisionError: division by zero\n")
    assert lab.cli("text", "asked", "--marks").out == result.out
    assert len(lab.cli("text", "asked", "--marks", "--max-chars", "100").out) <= 101


def test_marks_over_the_protocol(house):
    with house.pipe() as pipe:
        cell = pipe.run("6 * 7", marks=True)
        assert cell.finished["text"] == "[execute_result_text]\n42"
        assert pipe.ask("text", cell=cell.id, marks=True)["text"] == "[execute_result_text]\n42"
        assert pipe.ask("text", cell=cell.id)["text"] == "42"
        cells = pipe.ask("outputs", marks=True)["cells"]
        assert cells == [{"cell": cell.id, "text": "[execute_result_text]\n42"}]


def test_marks_of_a_figure(house):
    result = house.cli("run", "--text", "--marks", "-c",
                       "import matplotlib.pyplot as p; p.plot([1]); p.show()")
    assert "[display_png 图片已生成，内容为 base64，未展示]" in result.out


def test_marks_are_a_form_of_text(house):
    assert house.cli("run", "--marks", "-c", "1").status == USAGE
