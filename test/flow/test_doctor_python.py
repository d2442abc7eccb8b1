"""`fumehood doctor`: what it finds about Python environments, fonts and records. Each finding is
provoked for real (see doctor_kit.py).
"""
import json
import os
import pathlib
import shutil

import pytest

import fumehood_kit
from doctor_kit import bare_venv, doctor, libexec, own, root_only  # noqa: F401 (own is a fixture)
from fumehood_kit import FAULT

PYENV = pathlib.Path.home() / ".pyenv" / "versions"


# ---------------------------------------------------------------------------------------- python

def test_python_is_not_there(own):
    report = doctor(own(), "python", env={"FUMEHOOD_PYTHON": "/nosuch"})
    assert report.status == FAULT
    report.expect("python", "failed", "/nosuch", "FUMEHOOD_PYTHON")


def test_broken_environment(own):
    house = own()
    venv = house.folder() / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to("/nosuch/python3.11")
    for name in (venv, venv / "bin" / "python"):
        report = doctor(house, "python", env={"FUMEHOOD_PYTHON": str(name)})
        report.expect("python", "failed", "points to /nosuch/python3.11")
        report.expect("python", "failed", "python3 -m venv --clear '%s'" % venv, part="cure")


def test_own_environment_is_broken(own):
    house = own()
    del house.env["FUMEHOOD_PYTHON"]
    folder = house.dir / "data" / "fumehood" / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to("/nosuch/python3")
    report = doctor(house, "python")
    report.expect("own environment", "warning", "points to /nosuch/python3")
    report.expect("python", "ok", "chosen by python3 on PATH")


def test_own_environment(own):
    house = own()
    del house.env["FUMEHOOD_PYTHON"]
    bare_venv(house.dir / "data" / "fumehood" / "venv")
    doctor(house, "python").expect("python", "ok", "Fumehood's own environment")


def test_python_behind_a_shim(own):
    """As pyenv has them: a script that knows which Python is meant."""
    house = own()
    del house.env["FUMEHOOD_PYTHON"]
    shims = house.folder() / "shims"
    shims.mkdir()
    (shims / "python3").write_text("#!/bin/sh\nexec '%s' \"$@\"\n" % fumehood_kit.PYTHON)
    (shims / "python3").chmod(0o755)
    report = doctor(house, "python", env={"PATH": "%s:%s" % (shims, os.environ["PATH"])})
    report.expect("python", "ok", "chosen by python3 on PATH, %s/python3, a shim" % shims)


def test_python_from_the_file(own):
    house = own()
    del house.env["FUMEHOOD_PYTHON"]
    config = house.dir / "config.json"
    config.write_text(json.dumps({"python": fumehood_kit.PYTHON}))
    env = {"FUMEHOOD_CONFIG": str(config)}
    doctor(house, "python", env=env).expect("python", "ok", "chosen by python \"", str(config))
    config.write_text("{\n\"python\": 3}")
    report = doctor(house, "python", env=env)
    report.expect("python", "failed", str(config))
    assert report.status == FAULT


def test_python_is_too_old(own):
    old = sorted(PYENV.glob("3.8.*/bin/python")) if PYENV.is_dir() else []
    if not old:
        pytest.skip("pyenv is not here")
    report = doctor(own(), "python", env={"FUMEHOOD_PYTHON": str(old[0])})
    report.expect("python", "failed", "3.8.")
    assert "zygote" not in report


def test_python_does_not_run(own):
    house = own()
    python = house.folder() / "python"
    shutil.copy(os.path.realpath("/bin/false"), python)
    report = doctor(house, "python", env={"FUMEHOOD_PYTHON": str(python)})
    report.expect("python", "failed", str(python))


def test_packages_are_missing(own):
    house = own()
    venv = house.dir / "venv"
    packages = bare_venv(venv)
    house.env["FUMEHOOD_PYTHON"] = str(venv)
    report = doctor(house, "python", "fonts")
    assert report.status == 0
    for name in ("IPython", "numpy", "pandas", "matplotlib"):
        report.expect(name, "warning", "not installed")
        report.expect(name, "warning", "-m pip install " + name, part="cure")
    report.expect("fonts", "ok", "no matplotlib")
    # Modules that the zygote has to leave out, with its reasons.
    (packages / "numpy.py").write_text("raise RuntimeError('built for another numpy')")
    (packages / "pandas.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n")
    report = doctor(house, "python")
    report.expect("numpy", "warning", "RuntimeError: built for another numpy")
    report.expect("pandas", "warning", "starts threads")


@root_only
def test_environment_is_open_to_others(own):
    house = own()
    venv = house.dir / "venv"
    packages = bare_venv(venv)
    house.env["FUMEHOOD_PYTHON"] = str(venv)
    doctor(house, "python").expect("owner", "ok")
    packages.chmod(0o777)
    report = doctor(house, "python")
    report.expect("owner", "warning", str(packages))
    report.expect("owner", "warning", "chmod -R o-w '%s'" % packages, part="cure")
    packages.chmod(0o755)
    os.chown(packages, 12345, 12345)
    doctor(house, "python").expect("owner", "warning", "uid 12345")


def test_extension_does_not_load(own):
    house = own()
    folder = house.folder()
    env = libexec(folder)
    (folder / "python").unlink()
    shutil.copytree(fumehood_kit.BUILD / "python", folder / "python",
                    ignore=shutil.ignore_patterns("*.so*", "*.p"))
    report = doctor(house, "python", env=env)
    report.expect("extension", "failed", "_guest")
    assert report.status == FAULT


def test_other_environments(own):
    house = own()
    work, home = house.folder(), house.folder()
    bare_venv(work / ".venv")
    for folder in (home / ".pyenv" / "versions" / "3.99", home / "miniconda3" / "envs" / "data",
                   home / ".local" / "share" / "uv" / "python" / "cpython-3"):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(fumehood_kit.PYTHON)
    broken = home / ".pyenv" / "versions" / "broken"
    (broken / "bin").mkdir(parents=True)
    (broken / "bin" / "python").symlink_to("/nosuch/python3")
    report = doctor(house, "environments", cwd=work, env={"HOME": str(home), "PYENV_ROOT": ""})
    report.expect("./.venv", "ok", "--python .venv")
    for name in ("pyenv 3.99", "conda data", "uv cpython-3"):
        report.expect(name, "ok", "--python " + str(home))
    report.expect("pyenv broken", "warning", "points to /nosuch/python3")
    report.expect("pyenv broken", "warning", "--clear '%s'" % broken, part="cure")
    assert report.status == 0
    report = doctor(house, "environments", cwd="/", env={
        "HOME": "/nosuch", "PYENV_ROOT": "", "PATH": "/nosuch"})
    report.expect("others", "ok", "none")


# ----------------------------------------------------------------------------------------- fonts

def make_font(path):
    """A font of two Chinese characters, which are squares."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in ((0, 500), (500, 500), (500, 0)):
        pen.lineTo(point)
    pen.closePath()
    glyph, names = pen.glyph(), [".notdef", "zhong", "wen"]
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap({0x4e2d: "zhong", 0x6587: "wen"})
    font.setupGlyf({name: glyph for name in names})
    font.setupHorizontalMetrics({name: (600, 0) for name in names})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Noto Sans SC", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)


@root_only
def test_fonts(own):
    """None with Chinese characters; one that came after the pool; one that was there before it."""
    house = own()
    fonts = house.folder()
    before = "mount --bind %s /usr/share/fonts" % fonts
    report = doctor(house, "fonts", before=before)
    report.expect("Chinese", "warning", "no font with Chinese characters")
    report.expect("Chinese", "warning", "apt-get install fonts-noto-cjk", part="cure")
    report.expect("DejaVu Sans", "ok", "DejaVuSans.ttf")
    make_font(fonts / "square.ttf")
    report = doctor(house, "fonts", before=before)
    report.expect("Chinese", "warning", "/usr/share/fonts/square.ttf is there, but")
    report.expect("Chinese", "warning", "fumehood pool stop", part="cure")
    assert house.cli("pool", "stop").status == 0
    report = doctor(house, "fonts", before=before)
    report.expect("Chinese", "ok", "Noto Sans SC", "/usr/share/fonts/square.ttf")
    assert report.status == 0


# --------------------------------------------------------------------------------------- records

def test_sessions_that_died(own):
    house = own()
    house.cli("run", "-s", "lost", "-c", "1")
    house.cli("run", "-s", "well", "-c", "1")
    house.cli("run", "-s", "runs", "-c", "1")
    house.cli("stop", "well")
    keeper = house.connect(house.find("lost"))
    fumehood_kit.kill(keeper.pid)
    assert fumehood_kit.wait_gone(keeper.pid, fumehood_kit.WAIT_S)
    keeper.sock.close()
    report = doctor(house, "records")
    report.expect("sessions that died", "warning", "1: lost")
    report.expect("sessions that died", "warning", "fumehood run -s NAME", part="cure")
    for name in ("keepers that crashed", "damaged sessions", "times to come"):
        report.expect(name, "ok", "none")
    house.cli("stop", "runs")
    assert house.cli("gc", "lost").status == 0  # with the socket that its keeper has left


def test_records_that_are_not_well(own):
    house = own()
    crashed, damaged, future = house.session(), house.session(), house.session()
    (crashed / "keeper.log").write_text("one\nassertion \x1b[31m failed\n")
    (damaged / "session.json").write_text("{")
    config = json.loads((future / "session.json").read_text())
    (future / "session.json").write_text(
        json.dumps({**config, "created": "2999-01-01T00:00:00.000000Z"}))
    report = doctor(house, "records")
    report.expect("keepers that crashed", "warning",
                  "1: %s: assertion \x1b[31m failed" % crashed.name)
    report.expect("damaged sessions", "warning", damaged.name)
    report.expect("times to come", "warning", "1: " + future.name)
    assert report.status == 0
    assert "\x1b" not in house.cli("doctor", "records").out
    (crashed / "keeper.log").write_text("")


def test_pool_that_fails(own):
    house = own()
    venv = house.dir / "venv"
    packages = bare_venv(venv)
    # Not sitecustomize: Debian's own comes before it.
    (packages / "fails.pth").write_text("import os; os._exit(3)\n")
    house.env["FUMEHOOD_PYTHON"] = str(venv / "bin" / "python")
    assert house.cli("run", "-c", "1").status == FAULT
    report = doctor(house, "records", "python")
    report.expect("pools", "warning", str(venv), "fails")
    report.expect("python", "failed", str(venv))
