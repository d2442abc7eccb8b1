"""Python environments in every layout that people have, made for a test from what the machine has.

All of it lies in a folder of the test's house. `standalone` makes the form in which uv and conda
ship CPython: a prefix that can be anywhere, whose program finds libpython by $ORIGIN/../lib.
Neither can be had without their download servers, so it is made from a Python of pyenv; the bytes
are CPython's, the layout (names, links, files that mark it) is theirs.
"""
import base64
import glob
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import fumehood_kit

CACHE = pathlib.Path(os.environ.get("FUMEHOOD_PYTHONS") or
                     pathlib.Path.home() / ".cache" / "fumehood-pythons")
PYENV = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
UNNEEDED = ("test", "idlelib", "ensurepip", "site-packages", "__pycache__", "tkinter", "config-*")


def find_uv():
    """uv beside the tests' Python, or on PATH; else the test is skipped."""
    for path in (os.path.join(os.path.dirname(sys.executable), "uv"), str(CACHE / "uv/bin/uv"),
                 shutil.which("uv")):
        if path and os.access(path, os.X_OK):
            return path
    return pytest.skip("missing optional component uv")


def outside_usr():
    """(prefix, version) of a CPython of pyenv; else the test is skipped."""
    found = []
    for path in glob.glob(str(PYENV / "versions" / "3.*" / "bin" / "python3.*[0-9]")):
        minor = os.path.basename(path)[len("python3."):]
        if minor.isdigit() and int(minor) >= 9 and not os.path.islink(path):
            found.append((int(minor), path))
    if not found:
        pytest.skip("no Python outside /usr")
    minor, path = max(found)
    return pathlib.Path(path).parent.parent, "3.%d" % minor


def run(*command, **environment):
    """Runs a program that must succeed; what it printed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_OFFLINE": "1",
                               **environment})
    assert done.returncode == 0, "%s: %s%s" % (command, done.stdout, done.stderr)
    return done.stdout


def venv(folder, python, *options):
    run(python, "-m", "venv", "--without-pip", *options, folder)
    return folder


def uv_venv(folder, python, *options, **environment):
    run(find_uv(), "venv", "--quiet", "--python", python, *options, folder, **environment)
    return folder


def standalone(prefix):
    """A prefix of CPython that does not care where it lies. Returns its bin/python3.N."""
    source, version = outside_usr()
    if not shutil.which("patchelf"):
        pytest.skip("missing optional component patchelf")
    name = "python" + version
    (prefix / "bin").mkdir(parents=True)
    shutil.copytree(source / "lib" / name, prefix / "lib" / name, symlinks=True,
                    copy_function=os.link, ignore=shutil.ignore_patterns(*UNNEEDED))
    (prefix / "lib" / name / "site-packages").mkdir()
    for library in glob.glob(str(source / "lib" / "libpython3*.so*")):
        shutil.copy2(library, prefix / "lib", follow_symlinks=False)
    program = prefix / "bin" / name
    shutil.copy2(source / "bin" / name, program)
    run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", program)
    (prefix / "bin" / "python3").symlink_to(name)
    (prefix / "bin" / "python").symlink_to(name)
    return program


def conda(prefix):
    """What `conda create` makes: a standalone prefix with conda-meta, and no pyvenv.cfg."""
    program = standalone(prefix)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "history").write_text("==> 2026-01-01 00:00:00 <==\n")
    return program


def uv_managed(root):
    """What `uv python install` makes, in a root of its own. Returns (bin/python3.N, the setting by
    which uv finds it)."""
    _, version = outside_usr()
    full = run(outside_usr()[0] / "bin" / ("python" + version), "-c",
               "import platform; print(platform.python_version())").strip()
    prefix = root / ("cpython-%s-linux-x86_64-gnu" % full)
    program = standalone(prefix)
    mark = prefix / "lib" / ("python" + version) / "EXTERNALLY-MANAGED"
    mark.write_text("[externally-managed]\n")
    (root / ("cpython-%s-linux-x86_64-gnu" % version)).symlink_to(prefix.name)
    return program, {"UV_PYTHON_INSTALL_DIR": str(root)}


def pyenv_shim(root):
    """A pyenv root with one version and its shims. Returns (shim, what its user has set)."""
    source, version = outside_usr()
    program = shutil.which("pyenv") or str(PYENV / "bin" / "pyenv")
    if not os.access(program, os.X_OK):
        pytest.skip("pyenv is not here")
    (root / "versions").mkdir(parents=True)
    (root / "versions" / source.name).symlink_to(source)
    settings = {"PYENV_ROOT": str(root), "PYENV_VERSION": source.name}
    run(program, "rehash", **settings)
    settings["PATH"] = "%s:%s" % (os.path.dirname(program), os.environ["PATH"])
    return root / "shims" / ("python" + version), settings


# ---------------------------------------------------------------------------- a package of our own
def wheel(folder, name, sources, script=None):
    """A wheel with these modules ({file: text}) and, if wanted, a console script of its name that
    calls `script` ("module:function")."""
    path = folder / ("%s-1.0-py3-none-any.whl" % name)
    info = "%s-1.0.dist-info/" % name
    files = dict(sources)
    files[info + "METADATA"] = "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name
    files[info + "WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if script:
        files[info + "entry_points.txt"] = "[console_scripts]\n%s = %s\n" % (name, script)
    record = ""
    for file, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += "%s,sha256=%s,%d\n" % (file, digest.decode(), len(text.encode()))
    files[info + "RECORD"] = record + info + "RECORD,,\n"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def install(python, *wheels, **environment):
    run(find_uv(), "pip", "install", "--quiet", "--no-deps", "--break-system-packages", "--python",
        python, *wheels, **environment)


def site_packages(python):
    return pathlib.Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip())


def stop_pools(house):
    assert fumehood_kit.House.cli(house, "pool", "stop").status == 0
