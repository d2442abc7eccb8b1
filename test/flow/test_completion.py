"""What bash offers behind `fumehood`."""
import shlex
import subprocess

import fumehood_kit

SCRIPT = fumehood_kit.ROOT / "completions" / "fumehood.bash"


def offered(house, *words, cwd=None):
    """The completions of the last word."""
    line = " ".join(shlex.quote(word) for word in (fumehood_kit.FUMEHOOD, *words))
    code = ("source %s; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _fumehood; "
            "printf '%%s\\n' \"${COMPREPLY[@]}\"" % (SCRIPT, line))
    result = subprocess.run(["bash", "--norc", "-uc", code], env=house.env,
                            cwd=cwd or house.dir / "work", capture_output=True, text=True,
                            timeout=60)
    assert result.returncode == 0 and not result.stderr, result
    return [line for line in result.stdout.splitlines() if line]


def test_commands(house):
    assert offered(house, "re") == ["repl", "reset", "restart"]
    assert set(offered(house, "")) > {"run", "repl", "pipe", "variables", "gc", "help", "--version"}
    assert offered(house, "help", "ver") == ["version"]


def test_options_are_those_of_the_help(house):
    assert offered(house, "text", "--ma") == ["--marks", "--max-chars"]
    assert "--session" in offered(house, "repl", "--") and "--help" in offered(house, "repl", "--")
    assert offered(house, "run", "--tier", "") == ["full", "none"]


def test_limits(house):
    assert offered(house, "run", "--durability", "p") == ["process", "power"]
    assert offered(house, "limits", "work", "f") == ["files=", "file_bytes="]


def test_groups_of_doctor(house):
    groups = offered(house, "doctor", "")
    result = house.cli("doctor", "--json", "nosuch")
    assert result.err.splitlines()[0].endswith("but: %s (fumehood help doctor)" % ", ".join(groups))
    assert offered(house, "doctor", "fo") == ["fonts"]


def test_sessions(house):
    house.cli("run", "-s", "my lab", "-c", "1")
    try:
        assert offered(house, "stop", "m") == ["my\\ lab"]
        assert offered(house, "run", "-s", "m") == ["my\\ lab"]
        assert offered(house, "text", "my lab", "m") == []
    finally:
        house.cli("stop", "my lab")
        house.cli("gc", "my lab")


def test_actions_of_files(house):
    assert offered(house, "files", "work", "un") == ["unzip"]
    assert offered(house, "files", "work", "d") == ["diff", "discard"]


def test_files(house):
    folder = house.folder()
    for name in ("a.py", "a.ipynb", "a.txt"):
        (folder / name).write_text("")
    (folder / "a folder").mkdir()
    assert sorted(offered(house, "run", "a", cwd=folder)) == ["a folder", "a.ipynb", "a.py"]
    assert sorted(offered(house, "run", "x.py", "-o", "a", cwd=folder)) == ["a folder", "a.ipynb"]
    assert offered(house, "repl", "-w", "a", cwd=folder) == ["a folder"]
