"""The zygote and guests in bare namespaces: entering, lockdown, refusals, warm modules.

Each test runs with every Python that test/kit/guest_env.py finds, and where it matters both with
vfork and with plain fork.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kit"))
import guest_kit  # noqa: E402
from guest_env import PACKAGE, has, need, python  # noqa: E402, F401


@pytest.fixture
def workspace():
    path = tempfile.mkdtemp(prefix="box-")
    os.chmod(path, 0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def box(workspace):
    box = guest_kit.Box(workspace)
    yield box
    box.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to map a uid that is not its own")
def test_zygote_of_root_takes_the_boxs_uid(python, workspace):
    """Uid 0 is not mapped into such a box; the guest must not stay an unmapped root."""
    os.chmod(workspace, 0o700)
    os.chown(workspace, 100_000, 100_000)
    box = guest_kit.MappedBox(workspace, 100_000)
    zygote = guest_kit.Zygote(python, PACKAGE, {"modules": []})
    guest, kind, body = zygote.enter(box, workspace)
    assert kind == "e", body
    cell = guest.run("import os\nopen('made', 'w').close()\n(os.getresuid(), os.getresgid(), "
        "os.getgroups())")
    assert cell.result.replace("\n",
        "") == "((1000, 1000, 1000), (1000, 1000, 1000), [])", cell.events
    assert os.stat(os.path.join(workspace, "made")).st_uid == 100_000
    guest.control.shutdown(2)
    guest.close()
    zygote.close()
    box.close()


@pytest.fixture(params=["vfork", "fork"])
def zygote(python, request):
    env = {"FUMEHOOD_PLAIN_FORK": "1"} if request.param == "fork" else {}
    zygote = guest_kit.Zygote(python, PACKAGE, env=env)
    yield zygote
    assert zygote.close() == 0


def test_zygote_is_ready(zygote, python):
    assert zygote.kind == "R" and zygote.ready["threads"] == 1
    for path in zygote.ready["paths"]:
        assert os.path.isabs(path) and not path.startswith("/usr/")
    for name in ("IPython", "numpy", "pandas", "matplotlib"):
        assert (name in zygote.ready["modules"]) == has(python, name)


def kib(pid, key):
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
        return int(next(line for line in file if line.startswith(key + ":")).split()[1])


def test_shared_memory_is_in_large_pages(zygote, box, workspace):
    """What a fork has to copy the table of; a guest's own memory is in small ones."""
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
            forbidden = "[never]" in file.read()
    except FileNotFoundError:
        forbidden = True
    if forbidden or tuple(map(int, os.uname().release.split(".")[:2])) < (6, 1):
        pytest.skip("cannot simulate a kernel that makes large pages when it is asked to")
    assert kib(zygote.pid, "AnonHugePages") > 0
    guest, kind, _ = zygote.enter(box, workspace)
    assert kind == "e"
    guest.run("import os\nblocks = [bytes(1000) for _ in range(50000)]\nprint(os.getpid())")
    assert kib(guest.pid, "AnonHugePages") <= kib(zygote.pid, "AnonHugePages")
    guest.close()


def test_guest_in_a_box(zygote, box, workspace):
    guest, kind, _ = zygote.enter(box, workspace, processes=200, files=512, file_bytes=1 << 30)
    assert kind == "e" and guest.hello["modules"] == zygote.ready["modules"]
    look = ("import json, os, resource, random\n"
            "status = dict(line.split(':\\t', 1) for line in "
            "open('/proc/self/status').read().splitlines() if ':\\t' in line)\n"
            "print(json.dumps(dict(pid=os.getpid(), parent=os.getppid(), uid=os.getuid(), "
            "cwd=os.getcwd(), "
            "sid=os.getsid(0), caps=status['CapEff'] + status['CapBnd'] + status['CapAmb'], "
            "nnp=status['NoNewPrivs'], groups=os.getgroups(), "
            "files=resource.getrlimit(resource.RLIMIT_NOFILE), "
            "core=resource.getrlimit(resource.RLIMIT_CORE), environ=dict(os.environ), "
            "mask=os.umask(0o22), "
            "random=random.random(), count=get_ipython().execution_count if 'get_ipython' in "
            "dir(__builtins__) else 1)))")
    cell = guest.run(look)
    seen = json.loads(cell.stdout)
    assert (seen["parent"], seen["uid"], seen["cwd"], seen["sid"]) == (1, 1000, workspace,
        seen["pid"])
    assert set(seen["caps"]) == {"0"} and seen["nnp"] == "1" and seen["files"] == [512, 512]
    assert seen["core"] == [0, 0] and seen["mask"] == 0o22 and seen["count"] == 1
    assert seen["environ"]["HOME"] == workspace and "FUMEHOOD_PLAIN_FORK" not in seen["environ"]
    assert (cell.count, guest.run("In[1:] == [In[1], In[2]] and len(Out) == 0").result) == (1,
        "True")
    with pytest.raises(guest_kit.Died):
        guest.run("os._exit(7)")
    assert box.next_exit() == (seen["pid"], 7 << 8)  # PID 1 of the box has reaped it
    guest.close()


def test_guests_differ_and_the_zygote_stays_whole(zygote, box, workspace, python):
    code = "import random\nprint(random.random(), end=' ')\n"
    if has(python, "numpy"):
        code += "import numpy; print(numpy.random.rand())"
    said = set()
    fds = len(os.listdir("/proc/%d/fd" % zygote.pid))
    for _ in range(5):
        guest, kind, body = zygote.enter(box, workspace)
        assert kind == "e", body
        said.add(guest.run(code).stdout)
        guest.control.shutdown(2)
        assert guest.wait_exit()
        assert box.next_exit()[1] == 0
        guest.close()
    assert len(said) == 5
    with open("/proc/%d/task/%d/children" % (zygote.pid, zygote.pid), encoding="ascii") as file:
        assert file.read() == ""
    assert len(os.listdir("/proc/%d/fd" % zygote.pid)) == fds


def test_figures_in_copies_do_not_share_font_files(python, box, workspace):
    need(python, "matplotlib")
    zygote = guest_kit.Zygote(python, PACKAGE)
    guests = [zygote.enter(box, workspace)[0] for _ in range(3)]
    for guest in guests:
        cell = guest.run("import os; f = [os.open('/dev/null', 0) for _ in range(20)]\n"
                         "import matplotlib.pyplot as plt\nplt.plot([1, 2]); n = "
                         "plt.title('abc $x^2$')")
        assert [e["type"] for e in cell.events] == ["display"], cell.events
        guest.control.shutdown(2)
        guest.close()
    assert zygote.close() == 0


def test_rseq_works_in_a_copy(zygote, box, workspace):
    """A frozen sched_getcpu() never sees the other processor."""
    if os.cpu_count() < 2:
        pytest.skip("one processor")
    guest, _, _ = zygote.enter(box, workspace)
    cell = guest.run("import ctypes, os\nc = ctypes.CDLL(None)\nseen = []\nfor cpu in "
        "sorted(os.sched_getaffinity(0))[:2]:\n"
                     "    os.sched_setaffinity(0, [cpu]); seen.append((cpu, c.sched_getcpu()))\n"
                     "all(a == b for a, b in seen)")
    assert cell.result == "True"
    guest.control.shutdown(2)
    guest.close()


def test_refusal_names_the_step(zygote, box, workspace):
    good = list(box.namespace_fds)
    null = os.open("/dev/null", os.O_RDONLY)
    box.namespace_fds[1] = null
    guest, kind, body = zygote.enter(box, workspace)
    assert kind == "f" and body["step"] == "setns mnt" and body["errno"] == 22
    guest.close()
    box.namespace_fds[1] = good[1]
    os.close(null)
    guest, kind, body = zygote.enter(box, workspace)
    assert kind == "e" and guest.run("1").result == "1"
    guest.control.shutdown(2)
    guest.close()


def test_modules_that_fail_or_start_threads_are_skipped(python, workspace):
    site = subprocess.check_output([python, "-I", "-c", "import site; "
        "print(site.getsitepackages()[0])"],
                                   text=True).strip()
    if not os.access(site, os.W_OK) or site.startswith("/usr"):
        pytest.skip("no site-packages of its own to put modules into")
    made = []
    try:
        for name, text in (("fh_bad", "raise RuntimeError('no')"), ("fh_good",
            "__version__ = '1.2'"),
                           ("fh_threads", "import threading, time\n"
                            "threading.Thread(target=time.sleep, args=(99,), "
                            "daemon=True).start()"),
                           ("fh_shares", "import mmap\nmemory = mmap.mmap(-1, 4096)")):
            made.append(os.path.join(site, name + ".py"))
            with open(made[-1], "w", encoding="utf-8") as file:
                file.write(text)
        zygote = guest_kit.Zygote(python, PACKAGE,
                                  {"modules": ["fh_bad", "fh_none", "fh_threads", "fh_shares",
                                               "fh_good"]})
        assert zygote.ready["modules"] == {"fh_good": "1.2"} and zygote.ready["threads"] == 1
        assert zygote.ready["skipped"]["fh_bad"] == "RuntimeError: no"
        assert "thread" in zygote.ready["skipped"]["fh_threads"]
        assert zygote.ready["skipped"]["fh_shares"] == "maps shared memory"
        assert "fh_none" in zygote.ready["skipped"]["fh_none"]
        zygote.close()
    finally:
        for path in made:
            os.unlink(path)
