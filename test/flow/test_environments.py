"""Python environments: every layout works in a box, and none that a session can write becomes a
zygote.

A layout is right when the cell that looks at it (LOOK) finds itself in its prefix, with its
libraries, its packages, children that are the same Python, and the console scripts of its packages.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import environment_kit as kit
import fumehood_kit
from fumehood_kit import wait_gone

LOOK = """
import ctypes, json, os, sqlite3, ssl, subprocess, sys
def child(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return (done.stdout + done.stderr).strip()
sqlite3.connect(":memory:").execute("select 1")
ssl.create_default_context()
import fh_hello
print(json.dumps({
    "prefix": sys.prefix, "executable": sys.executable, "version": "%d.%d" % sys.version_info[:2],
    "child": child(sys.executable, "-c", "import sys, ssl, fh_hello; print(sys.prefix)"),
    "script": child(os.path.join(os.path.dirname(sys.executable), "fh_hello")),
    "on_path": child("sh", "-c", "command -v fh_hello"),
    "module": fh_hello.__file__,
}))
"""
HELLO = {"fh_hello.py": "import sys\ndef main():\n    print('hello from', sys.prefix)\n"}


@pytest.fixture(autouse=True)
def end_pools(house):
    """Each environment has a pool; they would add up."""
    yield
    kit.stop_pools(house)


@pytest.fixture
def hello(folder):
    return kit.wheel(folder, "fh_hello", HELLO, "fh_hello:main")


def look(house, python, *options, cwd=None, **environment):
    result = house.cli("run", "--python", python, *options, "-c", LOOK, cwd=cwd, env=environment)
    assert result.status == 0, result
    return json.loads(result.out.splitlines()[-1])


def pools(house):
    return [json.loads(line) for line in house.cli("pool", "list", "--json").out.splitlines()]


def check(house, python, prefix, **environment):
    """Looks at the environment that `python` names, in a session with a workspace of its own."""
    seen = look(house, str(python), **environment)
    assert seen["prefix"] == str(prefix)
    assert seen["child"] == str(prefix)
    assert seen["script"] == "hello from %s" % prefix
    assert seen["on_path"] == os.path.join(os.path.dirname(seen["executable"]), "fh_hello")
    assert seen["module"].startswith(str(prefix))
    pool, = pools(house)
    assert pool["state"] == "ready" and pool["zygote"]
    return seen


# ---------------------------------------------------------------------------------------- layouts

def test_venv(house, folder, hello):
    prefix, version = kit.outside_usr()
    venv = kit.venv(folder / "venv", prefix / "bin" / "python3")
    kit.install(venv / "bin/python", hello)
    assert check(house, venv, venv)["version"] == version
    # All its names are one environment: one pool.
    for name in ("bin/python3", "bin/python" + version):
        check(house, venv / name, venv)


def test_venv_of_a_venv(house, folder, hello):
    first = kit.venv(folder / "first", kit.outside_usr()[0] / "bin" / "python3")
    second = kit.venv(folder / "second", first / "bin/python", "--system-site-packages")
    kit.install(second / "bin/python", hello)
    check(house, second, second)


def test_venv_of_copies(house, folder, hello):
    """bin/python is no link: only pyvenv.cfg tells where the libraries are."""
    venv = kit.venv(folder / "venv", kit.outside_usr()[0] / "bin" / "python3", "--copies")
    assert not (venv / "bin/python").is_symlink()
    kit.install(venv / "bin/python", hello)
    check(house, venv, venv)


def test_system_python(house, folder, hello):
    venv = kit.venv(folder / "venv", "/usr/bin/python3")
    kit.install(venv / "bin/python", hello)
    check(house, venv, venv)
    result = house.cli("run", "--python", "/usr/bin/python3", "-c", "import sys; print(sys.prefix)")
    assert result.out == "/usr\n"


def test_pyenv_shim(house, folder):
    shim, settings = kit.pyenv_shim(folder / "pyenv")
    source, version = kit.outside_usr()
    for name in (str(shim), shim.name):
        settings["PATH"] = "%s:%s" % (shim.parent, settings["PATH"])
        result = house.cli("run", "--python", name, "-c", "import sys, ssl; print(sys.base_prefix)",
                           env=settings)
        assert result.out == "%s\n" % source, result
    assert [pool["python"] for pool in pools(house)] == [os.path.realpath(
        source / "bin" / ("python" + version))]


def test_pyenv_venv(house, folder, hello):
    shim, settings = kit.pyenv_shim(folder / "pyenv")
    kit.run(shim, "-m", "venv", "--without-pip", folder / "venv", **settings)
    kit.install(folder / "venv/bin/python", hello)
    check(house, folder / "venv", folder / "venv")


@pytest.mark.parametrize("options", [(), ("--relocatable",), ("--system-site-packages",)])
def test_uv_venv(house, folder, hello, options):
    venv = kit.uv_venv(folder / ".venv", kit.outside_usr()[0] / "bin" / "python3", *options)
    kit.install(venv / "bin/python", hello)
    check(house, venv, venv)


def test_uv_managed(house, folder, hello):
    program, settings = kit.uv_managed(folder / "uv" / "python")
    venv = kit.uv_venv(folder / ".venv", "3." + program.name.split(".")[1], "--managed-python",
                       **settings)
    assert str(folder) in os.path.realpath(venv / "bin/python")
    kit.install(venv / "bin/python", hello)
    check(house, venv, venv)
    result = house.cli("run", "--python", str(program), "-c", "import sys, ssl; print(sys.prefix)")
    assert result.out == "%s\n" % program.parent.parent


def test_conda(house, folder, hello):
    program = kit.conda(folder / "miniconda" / "envs" / "work")
    prefix = program.parent.parent
    kit.install(program, hello)
    check(house, prefix, prefix)
    check(house, program, prefix)


def test_links_to_an_interpreter(house, folder, hello):
    """A chain of links, through folders that are links, is one name more."""
    program = kit.standalone(folder / "versions" / "3.x.1")
    (folder / "versions" / "3.x").symlink_to("3.x.1")
    (folder / "current").symlink_to(folder / "versions" / "3.x")
    (folder / "one").symlink_to("current/bin/python3")
    (folder / "two").symlink_to(folder / "one")
    kit.install(program, hello)
    check(house, folder / "two", program.parent.parent)
    # A venv made through the link keeps that name.
    venv = kit.venv(folder / "venv", folder / "current" / "bin" / "python3")
    kit.install(venv / "bin/python", hello)
    seen = look(house, str(venv))
    assert seen["prefix"] == seen["child"] == str(venv)


@pytest.mark.parametrize("name", ["my tools", "Zürich 東京", "a=b'c\"$d"])
def test_names_of_folders(house, folder, hello, name):
    place = folder / name
    place.mkdir()
    venv = kit.uv_venv(place / ".venv", kit.outside_usr()[0] / "bin" / "python3")
    kit.install(venv / "bin/python", hello)
    seen = look(house, str(venv))
    assert seen["prefix"] == seen["child"] == str(venv)
    assert seen["script"] == "hello from %s" % venv


# ------------------------------------------------------------------- environments of the session's

def look_cold(house, python, workspace, prefix):
    """Looks at an environment that the session can write: it works, and no pool has it."""
    seen = look(house, str(python), "--workspace", str(workspace), cwd=workspace)
    assert seen["prefix"] == seen["child"] == str(prefix)
    assert pools(house) == []
    return seen


def workspace_venv(folder, hello):
    """A project with a venv of a Python that is not in /usr."""
    project = folder / "project"
    project.mkdir()
    venv = kit.venv(project / "venv", kit.outside_usr()[0] / "bin" / "python3")
    kit.install(venv / "bin/python", hello)
    return project, venv


def test_venv_in_the_workspace_is_cold(house, folder, hello):
    project, venv = workspace_venv(folder, hello)
    look_cold(house, venv, project, "/workspace/venv")
    look_cold(house, "./venv", project, "/workspace/venv")
    look_cold(house, "venv/bin/../bin/python3", project, "/workspace/venv")
    # Read-only, the session cannot change it.
    seen = look(house, str(venv), "--workspace", "%s:ro" % project, cwd=project)
    assert seen["prefix"] == str(venv) and len(pools(house)) == 1


def test_links_to_the_workspace(house, folder, hello):
    project, venv = workspace_venv(folder, hello)
    (folder / "alias").symlink_to("project")
    (folder / "tools").symlink_to(venv)
    look_cold(house, folder / "alias" / "venv", project, "/workspace/venv")
    look_cold(house, folder / "tools", project, "/workspace/venv")
    look_cold(house, venv, folder / "alias", "/workspace/venv")
    look_cold(house, folder / "alias" / "venv", "%s/./alias/" % folder, "/workspace/venv")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_mount_of_the_workspace(house, folder, hello):
    """The same folder by another name, without a symlink anywhere."""
    project, venv = workspace_venv(folder, hello)
    other = folder / "other"
    other.mkdir()
    done = subprocess.run(["mount", "--bind", venv, other], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("mounting a directory is not permitted: " + done.stderr.strip())
    try:
        look_cold(house, other, project, other)
    finally:
        subprocess.run(["umount", other], check=True)


def test_uv_venv_and_conda_in_the_workspace(house, folder, hello):
    project = folder / "project"
    project.mkdir()
    venv = kit.uv_venv(project / ".venv", kit.outside_usr()[0] / "bin" / "python3",
                       "--relocatable")
    kit.install(venv / "bin/python", hello)
    # Scripts name their Python by its path on the host, which is another one inside; these do not.
    seen = look_cold(house, venv, project, "/workspace/.venv")
    assert seen["script"] == "hello from /workspace/.venv"
    program = kit.conda(project / "env")
    kit.install(program, hello)
    look_cold(house, program, project, "/workspace/env")


def test_what_it_stands_on_is_the_workspaces(house, folder):
    """A venv elsewhere whose way leads through the workspace."""
    project, venv = folder / "project", folder / "venv"
    project.mkdir()
    base = kit.outside_usr()[0] / "bin" / "python3"
    kit.venv(venv, base)
    packages = kit.site_packages(venv / "bin/python")
    shutil.move(packages, project / "packages")
    packages.symlink_to(project / "packages")
    result = house.cli("run", "--workspace", str(project), "--python", str(venv), "-c",
                       "import sys; print(sys.prefix)", cwd=project)
    assert result.out == "%s\n" % venv, result
    assert pools(house) == []


def test_session_cannot_show_itself_more(house, folder, hello):
    """pyvenv.cfg and the links of a venv in the workspace are the session's to write."""
    project, venv = workspace_venv(folder, hello)
    secret = folder / "secret"
    for name in ("bin", "lib"):
        (secret / name).mkdir(parents=True)
        (secret / name / "key").write_text("0123456789")
    program = secret / "bin" / "python3"
    program.write_bytes(b"\x7fNOT a program")
    program.chmod(0o755)
    (venv / "pyvenv.cfg").write_text("home = %s/bin\n" % secret)
    result = house.cli("run", "--workspace", str(project), "--python", str(venv), "-c",
                       "import os; print(os.path.exists(%r))" % str(secret), cwd=project)
    assert result.out == "False\n", result
    (venv / "bin" / "python3").unlink()
    (venv / "bin" / "python3").symlink_to(program)
    result = house.cli("run", "--workspace", str(project), "--python", str(venv), "-c", "1",
                       cwd=project)
    assert result.status == fumehood_kit.FAULT
    assert "lies in the workspace" in result.err and "make the environment again" in result.err


def test_script_in_the_workspace_is_not_run(house, folder):
    """A shim is asked for its interpreter, outside of any box."""
    project, trap = folder / "project", folder / "trap"
    (project / "venv" / "bin").mkdir(parents=True)
    script = project / "venv" / "bin" / "python"
    script.write_text("#!/bin/sh\ntouch %s\necho %s\n" % (trap, sys.executable))
    script.chmod(0o755)
    for name in ("./venv", "venv/bin/python", str(script)):
        result = house.cli("run", "--workspace", ".", "--python", name, "-c", "1", cwd=project)
        assert result.status == fumehood_kit.FAULT and "script in the workspace" in result.err
    assert not trap.exists()


# ------------------------------------------------------------------------------------- the zygote

def python_of(house, environment):
    with house.pipe("--python", str(environment), cwd=house.folder()) as pipe:
        return pipe.run("import os, sys; print(os.path.basename(sys.prefix))").out


def the_zygote(house):
    pool, = pools(house)
    return pool["zygote"]


def test_new_packages_make_a_new_zygote(house, folder, hello):
    venv = kit.venv(folder / "venv", kit.outside_usr()[0] / "bin" / "python3")
    assert python_of(house, venv) == "venv\n"
    first = the_zygote(house)
    assert python_of(house, venv) == "venv\n" and the_zygote(house) == first
    kit.install(venv / "bin/python", hello)
    assert look(house, str(venv))["script"] == "hello from %s" % venv
    second = the_zygote(house)
    assert second != first and wait_gone(first)
    # A package that is replaced by another version: the same names, new files.
    kit.install(venv / "bin/python", "--reinstall", hello)
    assert look(house, str(venv)) and the_zygote(house) != second


def test_editable_install_is_not_imported_into_the_zygote(house, folder):
    """A .pth file leads into a project that sessions write: what they write there, as numpy.py say,
    would run outside of any box."""
    project, venv = folder / "project", folder / "venv"
    project.mkdir()
    kit.venv(venv, kit.outside_usr()[0] / "bin" / "python3")
    (kit.site_packages(venv / "bin/python") / "project.pth").write_text(str(project) + "\n")
    trap = folder / "trap"
    (project / "numpy.py").write_text("open(%r, 'w').close()\n__version__ = '9'\n" % str(trap))
    with house.pipe("--python", str(venv), "--workspace", str(project), cwd=project) as pipe:
        cell = pipe.run("import sys; print('numpy' in sys.modules, %r in sys.path)" % str(project))
    assert cell.out == "False True\n", cell
    assert not trap.exists() and len(pools(house)) == 1


def test_thread_at_import_costs_one_module(house, folder):
    """It is left out by name; the others stay loaded, and it can be imported in a cell."""
    venv = kit.venv(folder / "venv", kit.outside_usr()[0] / "bin" / "python3")
    kit.install(
        venv / "bin/python",
        kit.wheel(folder, "numpy", {"numpy.py": "__version__ = '1'\nfrom threading import Event, "
                                                "Thread\nThread(target=Event().wait, "
                                                "daemon=True).start()\n"}),
        kit.wheel(folder, "pandas", {"pandas.py": "__version__ = '2'\n"}))
    with house.pipe("--python", str(venv), cwd=house.folder()) as pipe:
        cell = pipe.run("import sys; print([name in sys.modules for name in ('numpy', 'pandas')])")
        assert cell.out == "[False, True]\n"
        assert pipe.run("import numpy; numpy.__version__").result == "'1'"
    python = pools(house)[0]["python"]
    probe = subprocess.run([fumehood_kit.BUILD / "src/pool/pool_probe", "environment", python],
                           env=house.env, capture_output=True, text=True, check=True)
    ready = json.loads(probe.stdout)
    print(ready)
    assert ready["skipped"]["numpy"].startswith("starts threads") and ready["threads"] == 1
    assert ready["modules"] == {"pandas": "2"}


# ----------------------------------------------------------------------------------- free-threaded

def free_threaded():
    """A free-threaded CPython; else the test is skipped."""
    found = [kit.CACHE / ("env-3.%dt" % minor) / "bin" / "python" for minor in (14, 13)]
    found += sorted(kit.PYENV.glob("versions/3.*t/bin/python3"))
    found.append(pathlib.Path(sys.executable))
    for path in found:
        if path.exists() and "t" in kit.run(path, "-c", "import sys; print(sys.abiflags)"):
            return path
    return pytest.skip("missing optional component free-threaded CPython")


def test_free_threaded_is_cold_and_free(house):
    python = free_threaded()
    with house.pipe("--python", str(python)) as pipe:
        assert pipe.run("import sys; sys._is_gil_enabled()").result == "False"
        cell = pipe.run("import os, sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')\n'e'")
        shown = [(event["type"], event.get("text")) for event in cell.of("stream", "result")]
        assert shown == [("stream", "a\n"), ("stream", "b\n"), ("stream", "c\n"), ("result", None)]
        assert pipe.run("print('x' * 3_000_000)").out == "x" * 3_000_000 + "\n"
        assert len(pipe.run("'y' * 3_000_000").result) == 3_000_002  # a body in a memfd
        assert pipe.run("z = '" + "z" * 100_000 + "'\nlen(z)").result == "100000"
        cell = pipe.run("from threading import Thread\n"
                        "def say(n):\n"
                        "    for i in range(2000): sys.stdout.write('%d %d\\n' % (n, i))\n"
                        "threads = [Thread(target=say, args=(n,)) for n in range(4)]\n"
                        "[t.start() for t in threads]; [t.join() for t in threads]; None")
        # What several threads write is in no order, but nothing is lost or twice.
        assert sorted(cell.out.splitlines()) == sorted(
            "%d %d" % (n, i) for n in range(4) for i in range(2000))
        cell = pipe.start("while True: pass")
        pipe.event("started", cell=cell)
        pipe.ask("interrupt")
        assert pipe.finished(cell).status == "interrupted"
        assert pipe.run("len(z)").result == "100000"
        assert pipe.run("import os, signal\nos.kill(os.getpid(), signal.SIGINT)").error == \
            "KeyboardInterrupt"
        cell = pipe.run("import os; os._exit(3)")
        assert cell.status not in ("ok", "interrupted")
        assert pipe.run("6 * 7").result == "42"
    pool, = pools(house)
    assert pool["guests"] == 0  # its zygote gives none


def test_free_threaded_is_asked_for_input(house):
    python = free_threaded()
    with house.pipe("--python", str(python)) as pipe:
        cell = pipe.start("print('hello', input('who? '))", allow_stdin=True)
        assert pipe.event("input_request", cell=cell)["prompt"] == "who? "
        pipe.ask("input", text="Ada")
        assert pipe.finished(cell).out == "hello Ada\n"
