"""Settings: the file config.json, variables, options, and what each of them changes.

Each key is shown to have its effect in a real session, a real pool or a real text; the order
command line > environment > file > default is shown pair by pair.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

import pool_kit
from fumehood_kit import CELL_FAILED, FAULT, ROOT, USAGE, WAIT_S, House, Refused

sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture(scope="module")
def plain_python(tmp_path_factory):
    """An environment without packages: its zygote is there at once."""
    place = tmp_path_factory.mktemp("venv") / "plain"
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(place)],
                   check=True)
    return str(place / "bin" / "python")


class ConfigHouse(House):
    """A house with a configuration file and a pool of its own."""

    def __init__(self, python):
        super().__init__(python)
        self.place = self.dir / "config" / "fumehood" / "config.json"

    def configure(self, raw=None, /, **keys):
        """Puts a new file into the place of the old one."""
        self.place.parent.mkdir(parents=True, exist_ok=True)
        new = self.place.with_suffix(".new")
        new.write_text(json.dumps(keys) if raw is None else raw)
        new.rename(self.place)

    def config(self, **env):
        """{key: (value, from)}, as fumehood config prints it."""
        done = self.cli("config", "--json", env=env)
        assert done.status == 0, done.err
        lines = map(json.loads, done.out.splitlines())
        return {line["key"]: (line["value"], line["from"]) for line in lines}

    def run(self, code, *options, **env):
        done = self.cli("run", *options, "-c", code, env=env)
        assert done.status == 0, done.err
        return done.out.strip()

    def limits(self, *options, **env):
        """The limits of a new session, from the first line of its journal."""
        done = self.cli("run", "--json", *options, "-c", "1", env=env)
        assert done.status == 0, done.err
        return next(event for event in map(json.loads, done.out.splitlines())
                    if event["type"] == "session")["limits"]


@pytest.fixture
def home(plain_python):
    home = ConfigHouse(plain_python)
    yield home
    if home.sockets():
        home.stop_sessions()
    bad = home.close()
    assert not bad, "\n".join(bad)


# ------------------------------------------------------------------------------------ what is there

def test_without_a_file(home):
    done = home.cli("config")
    assert done.status == 0 and not done.err
    assert "there is no file %s" % home.place in done.out
    config = home.config(FUMEHOOD_PYTHON="")
    assert {source for _, source in config.values()} == {"default"}
    assert os.access(config["python"][0], os.X_OK)  # what was found is shown
    assert not home.place.parent.exists()  # reading makes nothing


def test_defaults_are_those_of_a_session(home):
    """The table in C shows what keeper, zygote and texts do by themselves."""
    config = home.config()
    limits = home.limits()
    shown = {key[7:]: value for key, (value, _) in config.items() if key.startswith("limits.")}
    assert shown == {key: value for key, value in limits.items() if key != "wall_s"}
    assert config["timeout"][0] == limits["wall_s"]
    from fumehood_guest import zygote
    assert config["preload"][0] == list(zygote.DEFAULT_MODULES)


def test_where_values_come_from(home):
    home.configure(timeout=7, limits={"queue": 3})
    lines = [json.loads(line) for line in
             home.cli("config", "--json", env={"FUMEHOOD_LIMITS_QUEUE": "9"}).out.splitlines()]
    by_key = {line["key"]: line for line in lines}
    assert by_key["timeout"]["value"] == 7 and by_key["timeout"]["where"] == str(home.place)
    queue = by_key["limits.queue"]
    assert (queue["value"], queue["from"], queue["where"]) == (9, "environment",
                                                               "FUMEHOOD_LIMITS_QUEUE")
    assert by_key["spare"]["where"] is None
    lines = home.cli("config", env={"FUMEHOOD_LIMITS_QUEUE": "9"}).out.splitlines()
    table = {line.split()[0]: line.split() for line in lines if line}
    assert table["timeout"] == ["timeout", "file", "7"]
    assert table["limits.queue"] == ["limits.queue", "environment", "9"]


def test_a_named_file_and_none(home):
    home.configure(timeout=7)
    other = home.dir / "other.json"
    other.write_text('{"timeout": 8}')
    assert home.config(FUMEHOOD_CONFIG=str(other))["timeout"] == (8, "file")
    assert home.config(FUMEHOOD_CONFIG="")["timeout"] == (300, "default")
    assert "no file is read" in home.cli("config", env={"FUMEHOOD_CONFIG": ""}).out
    gone = home.cli("config", env={"FUMEHOOD_CONFIG": str(home.dir / "gone.json")})
    assert gone.status == FAULT and "gone.json" in gone.err
    relative = home.cli("config", env={"FUMEHOOD_CONFIG": "other.json"})
    assert relative.status == FAULT and "absolute path" in relative.err


@pytest.mark.parametrize("text, words", [
    ('{\n "timeot": 5}', ':2: there is no key "timeot"; did you mean "timeout"?'),
    ('{"limits": {"queue": 0}}', '"limits.queue" must be a whole number from 1 to 100000, not 0'),
    ('{"spare": true,\n"spare": false}', ':2: a key is repeated: "spare"'),
    ('{"spare": true,}', ":1: this is no JSON: "),
    ('{"tier": "none"}', "--tier none"),
    ("", "this is no JSON"),
    ('{"\x1b[31m": 1}', "control character"),
    ('{"\\u001b[31m": 1}', "\\x1b[31m"),
])
def test_a_broken_file(home, text, words):
    home.configure(text)
    for command in (["config"], ["config", "--json"], ["run", "-c", "1"]):
        done = home.cli(*command)
        assert done.status == FAULT and not done.out
        assert words in done.err and "config.json:" in done.err and "\x1b" not in done.err
    # What makes no session works on.
    assert home.cli("ls").status == 0 and home.cli("config", "--schema").status == 0


def test_a_session_that_is_there_needs_no_settings(home):
    assert home.run("x = 6", "-s", "work") == ""
    home.configure("{")
    assert home.run("x * 7", "-s", "work") == "42"


def test_usage(home):
    assert home.cli("config", "timeout").status == USAGE
    assert home.cli("config", "--json", "--schema").status == USAGE


# ------------------------------------------------------------------------------------- the schema

GOOD = [
    {}, {"$schema": "x"}, {"timeout": 0.001}, {"timeout": 31536000}, {"spare": False},
    {"python": "python3"}, {"python": "/a b"}, {"python": "x~"}, {"durability": "power"},
    {"preload": []}, {"preload": ["a", "_b.c1"]}, {"preload": {}}, {"preload": {"default": ["a"]}},
    {"preload": {"/x": [], "default": []}}, {"limits": {}}, {"limits": {"files": 128}},
    {"limits": {"output_bytes": 2 ** 53 - 1}}, {"pool": {"idle_s": 1}}, {"text": {"max_chars": 1}},
    {"notebook": {"rolled_back": "keep"}},
]
BAD = [
    [], None, {"x": 1}, {"timeout": 0}, {"timeout": "1"}, {"timeout": 31536001}, {"timeout": None},
    {"spare": 1}, {"spare": "true"}, {"python": ""}, {"python": "a/b"}, {"python": "~/a"},
    {"python": "a\0"}, {"python": 1}, {"durability": "disk"}, {"durability": None},
    {"preload": "a"}, {"preload": ["a", "a"]}, {"preload": ["a b"]}, {"preload": ["1"]},
    {"preload": ["a."]}, {"preload": ["b%d" % i for i in range(65)]},
    {"preload": ["a" * 129]}, {"preload": {"x": []}}, {"preload": {"default": "a"}},
    {"preload": {"/x": [1]}}, {"limits": []}, {"limits": {"files": 127}},
    {"limits": {"queue": 1.5}}, {"limits": {"output_bytes": 2 ** 53}}, {"limits": {"wall_s": 1}},
    {"pool": {"x": 1}},
    {"pool.idle_s": 1}, {"tier": "none"}, {"$schema": 1},
]


def test_the_schema_says_what_fumehood_does(home):
    jsonschema = pytest.importorskip("jsonschema", reason="missing optional component jsonschema")
    schema = json.loads(home.cli("config", "--schema").out)
    assert schema == json.loads((ROOT / "doc" / "config.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for expected, values in ((True, GOOD), (False, BAD)):
        for value in values:
            home.configure(json.dumps(value))
            assert validator.is_valid(value) == expected, value
            assert (home.cli("config").status == 0) == expected, value
    # Every default is allowed, too; one for each key that the schema has.
    for key, (value, _) in home.config(FUMEHOOD_CONFIG="").items():
        if value is None and key.startswith(("ask.", "llama.")):
            continue  # not set
        for part in reversed(key.split(".")):
            value = {part: value}
        assert validator.is_valid(value), value


# ---------------------------------------------------------------------------- each key's effect

def test_precedence_of_the_python(home, plain_python):
    other = home.dir / "other"
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(other)],
                   check=True)
    code = "import sys; print(sys.prefix)"
    ours = str(pathlib.Path(plain_python).parent.parent)
    home.configure(python=str(other))
    assert home.run(code, FUMEHOOD_PYTHON="") == str(other)  # file
    assert home.run(code, FUMEHOOD_PYTHON=ours) == ours      # environment over file
    assert home.run(code, "--python", str(other), FUMEHOOD_PYTHON=ours) == str(other)
    home.configure(python="/nowhere/python")
    done = home.cli("run", "-c", "1", env={"FUMEHOOD_PYTHON": ""})
    assert done.status == FAULT and '"python" of the configuration: ' in done.err
    done = home.cli("run", "-c", "1", env={"FUMEHOOD_PYTHON": "/nowhere/else"})
    assert done.status == FAULT and "FUMEHOOD_PYTHON: " in done.err


def test_precedence_of_the_timeout(home):
    endless = "while True: pass"
    assert home.limits()["wall_s"] == 300
    home.configure(timeout=0.2)
    assert home.limits()["wall_s"] == 0.2
    assert home.limits(FUMEHOOD_TIMEOUT="400")["wall_s"] == 400
    assert home.limits("--timeout", "500", FUMEHOOD_TIMEOUT="400")["wall_s"] == 500
    assert home.cli("run", "-c", endless).status == CELL_FAILED  # it ends at all
    assert home.cli("run", "-c", endless, env={"FUMEHOOD_TIMEOUT": "0.1"}).status == CELL_FAILED
    done = home.cli("run", "--timeout", "0.1", "-c", endless, env={"FUMEHOOD_TIMEOUT": "400"})
    assert done.status == CELL_FAILED and "0.1" in done.err


def test_every_limit_reaches_the_session(home):
    wanted = {"output_bytes": 1001, "background_bytes": 1002, "queue": 5, "record_bytes": 10 ** 9,
              "processes": 200, "files": 128, "file_bytes": 1 << 20, "tmp_bytes": 2 << 20,
              "checkpoints": 5,
              "memory_bytes": 1 << 30, "disk_bytes": 3 << 20, "disk_inodes": 99, "cpus": 1.5,
              "cpu_s": 30}
    home.configure(limits=wanted)
    limits = home.limits()
    assert {key: limits[key] for key in wanted} == wanted
    env = {"FUMEHOOD_LIMITS_" + key.upper(): str(value + 1) for key, value in wanted.items()}
    limits = home.limits(**env)
    assert {key: limits[key] for key in wanted} == {key: wanted[key] + 1 for key in wanted}
    out = home.run("import resource, os\n"
                   "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0],"
                   " resource.getrlimit(resource.RLIMIT_FSIZE)[0],"
                   " resource.getrlimit(resource.RLIMIT_NPROC)[0],"
                   " os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize)")
    assert out == "128 1048576 200 2097152"
    done = home.cli("run", "-c", "print('x' * 5000)")
    assert done.out.count("x") <= 1001


def test_the_smallest_limits_allow_a_session(home):
    """The least values of the table, all at once."""
    schema = json.loads(home.cli("config", "--schema").out)
    limits = schema["properties"]["limits"]["properties"]
    smallest = {key: limit["minimum"] for key, limit in limits.items() if "minimum" in limit}
    assert set(limits) - set(smallest) == {"cpus", "cpu_s"}  # these are above 0
    home.configure(limits=smallest)
    limits = home.limits()
    assert {key: limits[key] for key in smallest} == smallest
    assert home.cli("run", "-c", "import os; os.listdir('/tmp'); x = 6 * 7; assert x == 42"
                    ).status == 0


def test_limits_of_all_sessions(home):
    """Memory, disk and processors: a default, which a session that waited ready has as well, and
    which an option goes over."""
    fill = "x = bytearray(500 << 20); len(x)"
    home.run("1")
    home.configure(limits={"memory_bytes": 200 << 20, "disk_bytes": 1 << 20, "cpus": 0.5})
    waiting = home.until_spare("ready")["spare_pid"]
    home.run("1", "-s", "ready")
    with home.connect(home.find("ready")) as session:
        assert session.pid == waiting
        limits = session.ask("limits")["limits"]
        assert limits["disk_bytes"]["value"] == 1 << 20 and limits["cpus"]["value"] == 0.5
        cell = session.run(fill)
        assert cell.status == "died" and cell.finished["limit"]["value"] == 200 << 20, cell
        cell = session.run("import time\nopen('f', 'wb').write(bytes(4 << 20))\n"
                           "while True: time.sleep(0.01)")
        assert cell.finished["limit"]["name"] == "disk_bytes", cell
    assert home.run(fill + "; print(len(x))", "--memory", "1G") == str(500 << 20)
    assert home.limits("--cpus", "2")["cpus"] == 2
    assert home.run(fill + "; print(len(x))", FUMEHOOD_LIMITS_MEMORY_BYTES="null") == \
        str(500 << 20)
    home.configure(limits={"memory_bytes": None})
    assert home.limits()["memory_bytes"] is None
    # A session keeps what it was made with.
    home.run("1", "-s", "kept", FUMEHOOD_LIMITS_MEMORY_BYTES=str(100 << 20))
    home.run("1", "-s", "kept")
    with home.connect(home.find("kept")) as session:
        assert session.ask("limits")["limits"]["memory_bytes"]["value"] == 100 << 20


def test_the_queue(home):
    home.configure(limits={"queue": 1})
    with home.pipe() as pipe:
        cell = pipe.ask("run", code="input()", allow_stdin=True)["cell"]
        pipe.event("input_request", cell=cell)
        pipe.ask("run", code="2")
        with pytest.raises(Refused, match="1 cells are waiting"):
            pipe.ask("run", code="3")
        pipe.ask("input", text="x")


def test_durability(home):
    def durability(*options, **env):
        home.run("1", "-s", "d", *options, **env)
        found = json.loads((home.find("d") / "session.json").read_text())["durability"]
        assert home.cli("stop", "d").status == 0 and home.cli("gc", "d").status == 0
        return found

    assert durability() == "process"
    home.configure(durability="power")
    assert durability() == "power"
    assert durability(FUMEHOOD_DURABILITY="process") == "process"
    assert durability("--durability", "power", FUMEHOOD_DURABILITY="process") == "power"


def test_rolled_back(home):
    def kept(*options, **env):
        home.run("1", "-s", "d", *options, **env)
        found = json.loads((home.find("d") / "session.json").read_text())
        assert home.cli("stop", "d").status == 0 and home.cli("gc", "d").status == 0
        return found.get("notebook", {}).get("rolled_back") == "keep"

    assert not kept()
    home.configure(notebook={"rolled_back": "keep"})
    assert kept()
    assert not kept(FUMEHOOD_NOTEBOOK_ROLLED_BACK="omit")
    assert kept("--rolled-back", "keep", FUMEHOOD_NOTEBOOK_ROLLED_BACK="omit")
    home.run("1", "-s", "d")
    done = home.cli("run", "-s", "d", "--rolled-back", "omit", "-c", "1")
    assert done.status == FAULT and "--rolled-back" in done.err
    done = home.cli("run", "--rolled-back", "drop", "-c", "1")
    assert done.status == USAGE and "omit or keep" in done.err


def test_length_of_texts(home):
    code = "print('word ' * 400)"
    home.run(code, "-s", "t")

    def within(least, most, *options, **env):
        for command in (["text", "t"], ["run", "--text", "-c", code]):
            text = home.cli(*command, *options, env=env).out.rstrip()
            assert least < len(text) <= most, command

    within(1900, 2100)
    home.configure(text={"max_chars": 500})
    within(400, 500)
    within(200, 300, FUMEHOOD_TEXT_MAX_CHARS="300")
    within(800, 1000, "--max-chars", "1000", FUMEHOOD_TEXT_MAX_CHARS="300")
    assert len(home.cli("text", "t", "--marks").out) > 900  # has its own default


def test_spare(home):
    def pool():
        return json.loads(home.cli("pool", "list", "--json").out.splitlines()[0])

    def is_spare(**env):
        waiting = home.until_spare("ready")["spare_pid"]
        home.run("1", "-s", "s", **env)
        with home.connect(home.find("s")) as session:
            taken = session.pid == waiting
        assert home.cli("gc", "s").status == 0
        return taken

    home.run("1")
    assert is_spare()
    home.configure(spare=False)
    assert not is_spare()
    assert is_spare(FUMEHOOD_SPARE="1")
    home.configure(spare=True)
    assert not is_spare(FUMEHOOD_SPARE="0")
    # Its box is another one.
    assert not is_spare(FUMEHOOD_LIMITS_FILES="200")
    assert is_spare(FUMEHOOD_LIMITS_QUEUE="7")
    # A pool whose file says no does not keep one.
    for keys in ({"spare": False}, {"limits": {"files": 200}}):
        assert home.cli("pool", "stop").status == 0
        home.configure(**keys)
        home.run("1")
        home.run("1")
        assert pool()["spare"] == "off" and pool()["guests"] == 2


def test_preload(home, plain_python):
    code = "import sys; print([n for n in ('wave', 'colorsys', 'sched') if n in sys.modules])"
    assert home.run(code) == "[]"
    home.configure(preload=["wave", "colorsys"])
    assert home.run(code) == "['wave', 'colorsys']"  # the running pool has noticed
    home.configure(preload={"default": ["wave"], str(pathlib.Path(plain_python).parent.parent):
                            ["sched", "no_such_module"]})
    assert home.run(code) == "['sched']"
    log = "".join(path.read_text() for path in home.runtime.glob("pool-*.log"))
    assert "not imported: no_such_module: No module named 'no_such_module'" in log
    home.configure(preload={"default": ["wave"], "/usr/bin/python-of-others": ["sched"]})
    assert home.run(code) == "['wave']"
    home.configure(preload={"/usr/bin/python-of-others": ["sched"]})
    assert home.run(code) == "[]"


def test_a_spare_is_of_the_present_list(home):
    code = "import sys; print('wave' in sys.modules)"
    home.run("1")
    home.until_spare("ready")
    home.configure(preload=["wave"])
    assert home.run(code) == "True"


# ------------------------------------------------------------------- the pool, with a fake zygote

@pytest.fixture
def pools(tmp_path):
    pools = pool_kit.House(tmp_path)
    yield pools
    pools.end()


def configure(pools, **keys):
    place = pools.folder / ".config" / "fumehood"
    place.mkdir(parents=True, exist_ok=True)
    (place / "new").write_text(json.dumps(keys))
    (place / "new").rename(place / "config.json")


def given(pools, pid):
    return json.loads((pools.state / str(pid)).read_text())["argv"][1]


def test_the_zygote_is_told_its_modules(pools):
    configure(pools, preload=["a", "b.c"])
    first = pools.environment()["pid"]
    assert given(pools, first) == '{"protocol":1,"modules":["a","b.c"]}'
    configure(pools, preload=["a", "b.c"], timeout=5)  # another file, the same list
    assert pools.environment()["pid"] == first
    configure(pools, preload=["a"])
    second = pools.environment()["pid"]
    assert second != first and given(pools, second) == '{"protocol":1,"modules":["a"]}'
    # A file that breaks while the pool runs changes nothing, and the log says why.
    (pools.folder / ".config/fumehood/config.json").write_text("{")
    assert pools.environment()["pid"] == second
    assert "the configuration is not used" in pools.log()


def test_a_failed_zygote_is_tried_again_with_another_list(pools):
    configure(pools, preload=["bad"])
    pools.fake(mode="failed")
    assert pools.command("environment", pools.python).returncode == 1
    pools.status()
    pools.fake()
    configure(pools, preload=[])
    assert given(pools, pools.environment()["pid"]) == '{"protocol":1,"modules":[]}'


def test_idle_time(pools):
    def ends(*args, **env):
        """Whether such a pool ends by itself when nobody needs it, and is not told to."""
        with subprocess.Popen([pool_kit.BUILD / "fumehood-pool", "--python", pools.python, *args],
                              env={**pools.env, **env}) as pool:
            pools.pids.add(pool.pid)
            assert pool.wait(WAIT_S) == 0
        return "nobody needs it" in pools.log()

    configure(pools, pool={"idle_s": 1})
    assert ends()
    configure(pools, pool={"idle_s": 9999})
    assert ends(FUMEHOOD_POOL_IDLE_S="1")  # environment over file
    assert ends("--idle-seconds", "1", FUMEHOOD_POOL_IDLE_S="9999")


def test_a_pool_that_is_started_gets_the_variable(pools):
    pools.env["FUMEHOOD_POOL_IDLE_S"] = "1"
    pools.env["FUMEHOOD_CONFIG"] = str(pools.folder / "named.json")
    pathlib.Path(pools.env["FUMEHOOD_CONFIG"]).write_text('{"preload":["x"]}')
    body = pools.environment()
    assert given(pools, body["pid"]) == '{"protocol":1,"modules":["x"]}'
    pool_kit.until(lambda: not pools.socket.exists())  # a look at it by `list` would keep it awake
    assert "nobody needs it" in pools.log()
