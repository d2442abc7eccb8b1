"""Which Pythons and which built package the tests of the guest use.

$FUMEHOOD_TEST_PYTHONS: colon-separated (default /usr/bin/python3 and, where it exists,
/tmp/venv-guest/bin/python). $FUMEHOOD_TEST_GUEST: the folder of the built package (default: the
newest build directory beside the sources). Tests that need a module the Python lacks are skipped by
that name.
"""
import glob
import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def find_package():
    given = os.environ.get("FUMEHOOD_TEST_GUEST")
    if given:
        return given
    built = glob.glob(os.path.join(ROOT, "build*", "python", "fumehood_guest", "_guest.abi3.so"))
    if not built:
        pytest.exit("no built guest: set FUMEHOOD_TEST_GUEST", 2)
    return os.path.dirname(max(built, key=os.path.getmtime))


def pythons():
    given = os.environ.get("FUMEHOOD_TEST_PYTHONS")
    found = given.split(":") if given else ["/usr/bin/python3", "/tmp/venv-guest/bin/python"]
    return [path for path in found if os.path.exists(path)]


PACKAGE = find_package()
_modules = {}


def has(python, *names):
    for name in names:
        key = python, name
        if key not in _modules:
            _modules[key] = subprocess.run([python, "-I", "-c", "import " + name],
                                           stderr=subprocess.DEVNULL).returncode == 0
        if not _modules[key]:
            return False
    return True


def need(python, *names):
    if not has(python, *names):
        pytest.skip("%s lacks %s" % (python, " or ".join(names)))


def version(python):
    text = subprocess.check_output([python, "-I", "-c", "import sys; print(*sys.version_info[:2])"],
                                   text=True)
    return tuple(map(int, text.split()))


@pytest.fixture(params=pythons(), scope="session")
def python(request):
    return request.param
