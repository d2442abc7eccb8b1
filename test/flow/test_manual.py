"""The manual says what the program does: its commands, its options, and the members of what it
writes. Pages are read as their sources, so that this runs also where scdoc(1) is missing.
"""
import json
import re
import shutil

import pytest

import fumehood_kit
from test_completion import offered

MAN = fumehood_kit.ROOT / "man"
COMMANDS = re.findall(r"&COMMAND_([A-Z_]+)\b",
                      (fumehood_kit.ROOT / "src" / "cli" / "main.c").read_text())
COMMANDS = [name.lower().replace("_", "-") for name in COMMANDS]
# Members of maps whose keys are names: of modules, MIME types, JSON of others.
MAPS = ("data", "metadata", "modules", "language_info", "layers")


def page(name):
    text = (MAN / (name + ".scd")).read_text()
    for part in ("session", "policy"):
        text = text.replace("@%s_options@" % part, (MAN / (part + "-options.scd")).read_text())
    return text


def options_of_help(text):
    """The options in the left column."""
    found = set()
    for line in text.splitlines():
        if re.match(r" +-", line):
            column = re.split(r"(?<=\S)   *", line.strip())[0]
            found.update(re.findall(r"(?:^|, )(-[a-zA-Z]|--[a-z][a-z0-9-]*)\b", column))
    return found


def options_of_page(text):
    """The options that a paragraph is about: a line of them, with an indented one behind it."""
    found = set()
    for line in re.findall(r"(?m)^(\*-{1,2}[a-zA-Z].*)\n\t", text):
        found.update(re.findall(r"(?:^|, )\*(-{1,2}[a-zA-Z][a-z0-9-]*)\*", line))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page(house, command):
    text = page("fumehood-%s.1" % command)
    assert text.startswith("fumehood-%s(1)\n" % command)
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "SEE ALSO"):
        assert "\n# %s\n" % heading in text, heading
    assert re.search(r"(?m)^fumehood-%s - \S" % command, text)
    assert re.search(r"(?m)^\t(.*\| |.*; )?fumehood %s\b" % command, text), "no example"
    assert "*fumehood-%s*(1)" % command in page("fumehood.1"), "the overview does not name it"
    result = house.cli("help", command)
    assert result.out.splitlines()[-1] == "man fumehood-%s says more." % command


@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_the_same_everywhere(house, command):
    told = options_of_help(house.cli("help", command).out)
    assert options_of_page(page("fumehood-%s.1" % command)) == told
    completed = set(offered(house, command, "--"))
    assert completed == {name for name in told if name.startswith("--")} | {"--help"}
    for name in sorted(told):
        words = house.cli(command, name, "--help", env={"FUMEHOOD_PYTHON": "/nosuch"}).err
        assert "there is no option" not in words, name


def test_no_option_is_hidden(house):
    """What a table in the source has, some command's help tells."""
    rows = set()
    for path in (fumehood_kit.ROOT / "src" / "cli").glob("*.[ch]"):
        if not path.name.endswith("_test.c"):
            rows.update(re.findall(r"\{\"([a-z][a-z0-9-]*)\",\s*'[^']*',\s*OPTION_",
                                   path.read_text()))
    assert {"session", "json", "until"} <= rows
    told = set()
    for command in COMMANDS:
        told |= options_of_help(house.cli("help", command).out)
    assert rows <= {name[2:] for name in told}


def test_completion_knows_the_commands(house):
    assert set(offered(house, "")) == set(COMMANDS) | {"--help", "--version"}
    script = (fumehood_kit.ROOT / "completions" / "fumehood.bash").read_text()
    cases = script[script.index("case $command in"):]
    for label in re.findall(r"(?m)^\t([a-z |]+)\)$", cases):
        assert set(label.split(" | ")) <= set(COMMANDS), label


def test_pages_are_made():
    if not shutil.which("scdoc"):
        pytest.skip("missing optional component: scdoc")
    sources = {path.name[:-4] for path in MAN.glob("*.[157].scd")}
    assert sources >= {"fumehood-%s.1" % command for command in COMMANDS}
    for name in sources:
        text = (fumehood_kit.BUILD / "man" / name).read_text()
        assert text.startswith((".\\\"", ".")) and "_options@" not in text, name


def test_pages_name_pages_that_are_there():
    ours = {(path.name[:-6], path.name[-5]) for path in MAN.glob("*.[157].scd")}
    for path in MAN.glob("*.scd"):
        for named in re.findall(r"\*(fumehood[a-z-]*)\*\((\d)\)", path.read_text()):
            assert named in ours, (path.name, named)


# ---------------------------------------------------------------------- members of what is written

def members(value, found=None):
    """The keys of a value and of all that is in it, but those of maps."""
    found = set() if found is None else found
    if isinstance(value, dict):
        for key, inner in value.items():
            found.add(key)
            if key not in MAPS:
                members(inner, found)
    elif isinstance(value, list):
        for inner in value:
            members(inner, found)
    return found


def untold(text, value):
    """The keys that a page does not have between marks: *key*, _key_, `key`, or in {...}."""
    words = set()
    for marked in re.findall(r"\*[^*\n]+\*|_[^\n ]+_|`[^`\n]+`|\{[^}]*\}", text):
        words.update(re.findall(r"[a-z$][a-z0-9_$]*[a-z0-9]|[a-z]", marked.replace("\\_", "_")))
    return members(value) - words


CODE = """
import sys, pandas, matplotlib.pyplot as plt
print(1); print(2, file=sys.stderr)
display(pandas.DataFrame({"a": [1]}), display_id="d").update(1)
plt.plot([1, 2]); plt.show()
open("made.csv", "w").write("x")
open("picture.png", "wb").write(b"\\x89PNG\\r\\n\\x1a\\n")
from IPython.display import clear_output
clear_output(wait=True)
frame = pandas.DataFrame({"a": [1]})
input("? ")
"""


@pytest.fixture
def rich(house):
    """A session that has done a bit of everything: its directory, its pipe."""
    with house.pipe("-s", "rich") as pipe:
        pipe.ask("section", title="One")
        pipe.ask("note", text="words")
        cell = pipe.start(CODE, allow_stdin=True, metadata={"tags": ["t"]})
        pipe.event("input_request")
        pipe.ask("input", text="answer")
        assert pipe.finished(cell).status == "ok"
        assert pipe.run("1 / 0").status == "error"
        assert pipe.run("import os; os.kill(os.getpid(), 9)").status == "died"
        assert pipe.run("print('x' * 100000)", max_chars=1000).status == "ok"
        yield house.find("rich"), pipe
    house.cli("stop", "rich")
    house.cli("gc", "rich")


def test_session_page_is_complete(house, rich):
    directory, _ = rich
    text = page("fumehood-session.5")
    assert not untold(text, json.loads((directory / "session.json").read_text()))
    for entry in directory.iterdir():
        assert "_%s" % entry.name in text, entry.name
    limits = json.loads(house.cli("limits", "rich", "--json").out)
    assert not untold(text, {"limits": {name: None for name in limits}})


def test_protocol_is_complete(house, rich):
    """doc/protocol.md names each member of each event and answer; the page, each event and op."""
    directory, pipe = rich
    text = (fumehood_kit.ROOT / "doc" / "protocol.md").read_text()
    events = [json.loads(line) for line in (directory / "journal.ndjson").read_text().splitlines()]
    kinds = {event["type"] for event in events}
    assert kinds >= {"session", "section", "note", "cell", "started", "stream", "display", "clear",
                     "result", "error", "input_request", "input", "finished", "update_display"}
    missing = {event["type"]: sorted(untold(text, event)) for event in events
               if untold(text, event)}
    assert not missing
    answers = {op: pipe.ask(op, **fields) for op, fields in (
        ("status", {}), ("files", {}), ("images", {}), ("variables", {}), ("outputs", {}),
        ("complete", {"code": "frame.he"}), ("inspect", {"code": "frame"}), ("save", {}),
        ("text", {"cell": events[-1].get("cell", "c1")}), ("notebook", {}), ("limits", {}),
        ("policy", {}))}
    answers["notebook"]["notebook"] = None  # nbformat's members
    missing = {op: sorted(untold(text, answer)) for op, answer in answers.items()
               if untold(text, answer)}
    assert not missing
    assert not untold(text, pipe.hello)
    overview = page("fumehood-protocol.7")
    for op in re.findall(r"(?m)^\| `([a-z_]+)`", text[text.index("## Requests"):
                                                      text.index("## Events")]):
        assert "*%s*" % op in overview, op


@pytest.mark.parametrize("command, words", [
    ("ls", ()), ("pool", ("list",)), ("version", ()), ("doctor", ("system",)), ("config", ())])
def test_json_is_told(house, rich, command, words):
    result = house.cli(command, *words, "--json")
    text = page("fumehood-%s.1" % command)
    for line in result.out.splitlines():
        value = json.loads(line)
        value.pop("value", None)
        assert not untold(text, value), line
    assert result.out
