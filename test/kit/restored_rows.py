"""What a session must be like after it has returned to an earlier state: one row for each thing
that a program can have.

A row makes something (`make`, cells), then a cell changes it (`change`) and dies or is undone, and
a last cell checks (`check`: every assert in it). `lost`: what must be told, by member; a member
that is not named must not be told. `needs`: modules without which there is nothing to try.
"""
import textwrap

ANY = object()    # is told, whatever it says
MAYBE = object()  # may be told


class Row:
    def __init__(self, name, make, change, check, lost=None, needs=(), oldest=(3, 9), stderr=""):
        cells = [make] if isinstance(make, str) else make
        self.name, self.make = name, [textwrap.dedent(cell) for cell in cells]
        self.change, self.check = textwrap.dedent(change), textwrap.dedent(check)
        self.lost, self.needs, self.oldest, self.stderr = lost or {}, needs, oldest, stderr

    def __repr__(self):
        return self.name


def complaints(row, lost):
    """What is told and should not be, or is not as it should be."""
    lost = dict(lost or {})
    for name, wanted in row.lost.items():
        told = lost.pop(name, None)
        if wanted is not MAYBE and (told is None or wanted is not ANY and told != wanted):
            yield "%s: told %r instead of %r" % (name, told, wanted)
    for name, told in lost.items():
        yield "%s: %r is told" % (name, told)


ROWS = [
    # ---- what is memory
    Row("variables", """
        import collections, functools
        x, text, big = 41, "ä", list(range(100_000))
        class Point:
            def __init__(self, x): self.x = x
        point, counter = Point(3), collections.Counter("abca")
        @functools.lru_cache
        def double(n): return 2 * n
        double(4)
        def numbers():
            for n in range(10): yield n
        run = numbers(); next(run); next(run)
        """, """
        x, text, big = 0, "", []; point.x = 9; counter.clear(); double.cache_clear(); next(run)
        del Point; import json
        """, """
        assert (x, text, len(big), big[-1], point.x) == (41, "ä", 100_000, 99_999, 3)
        assert counter["a"] == 2 and double.cache_info().currsize == 1 and next(run) == 2
        assert Point(5).x == 5 and "json" not in globals()
        """),
    Row("In, Out and the count", ["1 + 1", "'two'"], "3 + 3; x = 5", """
        assert Out == {1: 2, 2: "two"}, Out
        assert _ == "two" and __ == 2 and _1 == 2 and _2 == "two"
        assert In[:3] == ["", "1 + 1", "'two'"] and len(In) == 4, In
        """),
    Row("source lines of earlier functions", "def broken():\n    return 1 / 0  # here", """
        def broken():
            pass
        """, """
        import traceback
        try:
            broken()
        except ZeroDivisionError:
            assert "return 1 / 0  # here" in traceback.format_exc()
        """),
    Row("directory, environment, limits, handlers", """
        import os, resource, signal
        os.mkdir("sub"); os.chdir("sub"); os.environ["MINE"] = "1"
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 22, resource.getrlimit(3)[1]))
        seen = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        umask = os.umask(0o027)
        """, """
        os.chdir("/"); os.environ["MINE"] = "2"; signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 21, resource.getrlimit(3)[1])); os.umask(0)
        """, """
        assert os.path.basename(os.getcwd()) == "sub" and os.environ["MINE"] == "1"
        assert resource.getrlimit(resource.RLIMIT_STACK)[0] == 1 << 22
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen == [signal.SIGUSR1] and os.umask(0) == 0o027
        """),
    Row("contexts, weak references, identities", """
        import contextvars, weakref
        var = contextvars.ContextVar("var", default=0); var.set(7)
        class Thing: pass
        thing = Thing(); ref = weakref.ref(thing); where = id(thing), hash("text")
        table = weakref.WeakValueDictionary(a=thing)
        """, "var.set(8); del thing", """
        assert var.get() == 7 and ref() is thing and table["a"] is thing
        assert where == (id(thing), hash("text"))
        """),
    Row("tracing and its tools", """
        import faulthandler, gc, sys, tracemalloc, warnings
        tracemalloc.start(); kept = [bytes(1000) for _ in range(100)]
        calls = []
        def profile(frame, event, argument):
            if event == "call": calls.append(frame.f_code.co_name)
        sys.setprofile(profile)
        faulthandler.enable(); gc.disable(); sys.setrecursionlimit(3333)
        warnings.simplefilter("error", ImportWarning)
        """, "tracemalloc.stop(); sys.setprofile(None); faulthandler.disable(); gc.enable()", """
        def mine(): pass
        mine(); sys.setprofile(None)
        assert "mine" in calls and tracemalloc.get_object_traceback(kept[5]) is not None
        assert faulthandler.is_enabled() and not gc.isenabled()
        assert sys.getrecursionlimit() == 3333
        """),
    Row("frames and figures", """
        import matplotlib.pyplot as plt, numpy as np, pandas as pd
        frame = pd.DataFrame({"a": [1, 2, 3]}); array = np.arange(6).reshape(2, 3)
        figure, axes = plt.subplots(); axes.plot([1, 2]); axes.set_title("kept")
        """, "frame['a'] = 0; array += 1; axes.set_title('gone')", """
        assert list(frame.a) == [1, 2, 3] and array.sum() == 15
        assert axes.get_title() == "kept"
        import io
        out = io.BytesIO(); figure.savefig(out, format="png"); plt.close("all")
        assert out.getvalue()[1:4] == b"PNG"
        """, needs=("matplotlib", "pandas")),
    Row("random numbers", """
        import random
        random.seed(5); random.random(); own = random.Random(6)
        state = random.getstate(), own.getstate()
        """, "[random.random() for _ in range(10)]; own.random()", """
        assert (random.getstate(), own.getstate()) == state
        """),
    Row("random numbers of numpy", """
        import numpy as np
        np.random.seed(5); generator = np.random.default_rng(7)
        wanted = np.random.get_state()[1].tolist(), generator.bit_generator.state
        """, "np.random.rand(5); generator.normal(size=3)", """
        assert np.random.get_state()[1].tolist() == wanted[0]
        assert generator.bit_generator.state == wanted[1]
        """, needs=("numpy",)),
    Row("generators of coroutines", """
        import asyncio
        async def numbers():
            try:
                for n in range(9):
                    await asyncio.sleep(0)
                    yield n
            finally:
                closed.append(True)
        closed, run = [], numbers()
        first = [await run.__anext__(), await run.__anext__()]
        """, "await run.__anext__(); await run.aclose()", """
        assert first == [0, 1] and await run.__anext__() == 2 and not closed
        await run.aclose(); assert closed
        """),
    Row("logging and warnings", """
        import logging, warnings
        handler = logging.FileHandler("log.txt"); log = logging.getLogger("mine")
        log.addHandler(handler); log.setLevel("INFO"); log.info("one")
        """, "log.info('two'); log.removeHandler(handler)", """
        log.info("three")
        assert open("log.txt").read() == "one\\ntwo\\nthree\\n"
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always"); warnings.warn("w")
        assert len(seen) == 1
        """),
    # ---- processes and their numbers
    Row("number of the process", """
        import os, tempfile
        before, parent = os.getpid(), os.getppid()
        """, "", """
        assert os.getpid() != before and os.getpid() == int(os.readlink("/proc/self"))
        with tempfile.NamedTemporaryFile() as file: assert os.path.exists(file.name)
        """),
    Row("process of before", """
        import subprocess, sys
        alive = subprocess.Popen(["sleep", "600"])
        cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ended = subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"])
        import os
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        polled = subprocess.run(["true"])
        """, "alive.kill(); alive.wait(); ended.wait()", """
        assert (alive.poll(), alive.wait(), alive.returncode) == (-9, -9, -9)
        assert cat.communicate(timeout=5) == (b"", None) and cat.returncode == -9
        assert ended.poll() == 5 and polled.returncode == 0
        assert subprocess.run(["echo", "new"], capture_output=True).stdout == b"new\\n"
        """, {"processes": ["sleep 600", "cat"]}),
    Row("waiting for all children", """
        import os, subprocess
        subprocess.run(["true"])
        """, "", """
        try:
            os.waitpid(-1, os.WNOHANG)
            raise AssertionError("there is a child")
        except ChildProcessError:
            pass
        """),
    Row("multiprocessing, a process", """
        import multiprocessing, time
        context = multiprocessing.get_context("fork")
        process = context.Process(target=time.sleep, args=(600,), name="sleeper")
        ended = context.Process(target=int); ended.start(); ended.join()
        later = context.Process(target=int)
        process.start()
        """, "process.kill(); process.join(); later.start()", """
        assert not process.is_alive() and process.exitcode == -9 and process.join(5) is None
        assert not ended.is_alive() and ended.exitcode == 0
        assert multiprocessing.active_children() == []
        later.start(); later.join(20); assert later.exitcode == 0
        """, {"processes": ["sleeper"], "connections": ANY}),
    # ---- threads and pools
    Row("threads", """
        import threading, time
        ticks, stop, local = [], threading.Event(), threading.local()
        local.x = 4
        def work():
            while not stop.wait(0.005): ticks.append(1)
        thread = threading.Thread(target=work, name="ticker"); thread.start()
        timer = threading.Timer(600, print); timer.name = "later"; timer.start()
        """, "stop.set(); thread.join(); timer.cancel(); timer.join()", """
        assert not thread.is_alive() and not timer.is_alive() and not stop.is_set()
        count = len(ticks); time.sleep(0.05); assert len(ticks) == count
        assert threading.active_count() == 1 and local.x == 4
        thread.join(5)
        again = threading.Thread(target=ticks.append, args=(2,)); again.start(); again.join()
        assert ticks[-1] == 2
        """, {"threads": ["ticker", "later"]}),
    Row("a queue for a thread", """
        import queue, threading
        jobs, done = queue.Queue(), queue.SimpleQueue()
        def work():
            while (job := jobs.get()) is not None: done.put(job)
        thread = threading.Thread(target=work, name="worker"); thread.start()
        jobs.put(1); first = done.get()
        """, "jobs.put(None); thread.join()", """
        jobs.put(2)
        thread = threading.Thread(target=work); thread.start()
        assert done.get(timeout=5) == 2
        jobs.put(None); thread.join(5); assert not thread.is_alive()
        """, {"threads": ["worker"]}),
    Row("a pool of threads", """
        import concurrent.futures, threading
        pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="pool")
        begun, gate, seen = threading.Event(), threading.Event(), []
        def work():
            begun.set(); gate.wait(600)
        running = pool.submit(work); waiting = pool.submit(lambda: 5)
        running.add_done_callback(lambda future: seen.append(repr(future.exception())))
        begun.wait(); idle = concurrent.futures.ThreadPoolExecutor(); idle.submit(int).result()
        """, "gate.set(); pool.shutdown()", """
        try:
            running.result(5)
            raise AssertionError("it has a result")
        except concurrent.futures.BrokenExecutor as error:
            assert "did not come back" in str(error)
        assert waiting.result(5) == 5 and len(seen) == 1 and "BrokenExecutor" in seen[0]
        assert pool.submit(lambda: 6).result(5) == 6 and idle.submit(lambda: 7).result(5) == 7
        assert list(pool.map(abs, [-1, -2])) == [1, 2]
        pool.shutdown(); idle.shutdown()
        """, {"threads": ANY}),
    Row("a pool of processes", """
        import concurrent.futures, multiprocessing, time
        context = multiprocessing.get_context("fork")
        pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=context)
        assert pool.submit(abs, -3).result() == 3
        running = pool.submit(time.sleep, 600)
        """, "pool.shutdown(wait=False, cancel_futures=True)", """
        from concurrent.futures.process import BrokenProcessPool
        try:
            running.result(5)
            raise AssertionError("it has a result")
        except BrokenProcessPool as error:
            assert "did not come back" in str(error)
        assert pool.submit(abs, -4).result(20) == 4
        pool.shutdown(); del pool, running; import gc; gc.collect()
        """, {"threads": ANY, "processes": ANY, "connections": ANY}),
    Row("a Pool of multiprocessing", """
        import multiprocessing, multiprocessing.pool, time
        pool = multiprocessing.get_context("fork").Pool(2)
        threads = multiprocessing.pool.ThreadPool(1)
        assert pool.map(abs, [-1, -2]) == [1, 2]
        late, many = pool.apply_async(time.sleep, (600,)), pool.map_async(time.sleep, [600, 600])
        each, thread = pool.imap(time.sleep, [600]), threads.apply_async(time.sleep, (600,))
        told = []
        heard = threads.apply_async(time.sleep, (600,), error_callback=told.append)
        """, "pool.terminate(); pool.join()", """
        def fails(call, *arguments):
            try:
                call(*arguments)
            except Exception as error:
                assert "did not come back" in str(error), error
                return True
        assert fails(late.get, 5) and fails(many.get, 5) and fails(each.next, 5)
        assert fails(thread.get, 5) and fails(heard.get, 5) and len(told) == 1
        assert fails(pool.apply_async, abs, (1,)) and fails(pool.map, abs, [1])
        assert fails(threads.apply, abs, (1,)) and "TERMINATE" in repr(pool)
        pool.close(); pool.terminate(); pool.join(); threads.terminate()
        with multiprocessing.get_context("fork").Pool(2) as new: assert new.map(abs, [-5]) == [5]
        del pool, threads
        """, {"threads": ANY, "processes": ANY, "connections": ANY}),
    Row("a Pool inside of a cell", """
        import multiprocessing
        def square(n): return n * n
        with multiprocessing.get_context("fork").Pool(2) as pool: first = pool.map(square, [2])
        """, "first = 0", """
        with multiprocessing.get_context("fork").Pool(2) as pool: second = pool.map(square, [3])
        assert (first, second) == ([4], [9])
        """, {"connections": ANY}),
    Row("processes that are no copies", """
        import concurrent.futures, multiprocessing
        def triple(n): return 3 * n
        pool = concurrent.futures.ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"))
        assert pool.submit(triple, 2).result() == 6
        """, "pool.shutdown()", """
        assert pool.submit(triple, 3).result(30) == 9
        pool.shutdown()
        with multiprocessing.get_context("forkserver").Pool(1) as new:
            assert new.map(triple, [4]) == [12]
        """, {"threads": ANY, "processes": ANY, "connections": ANY}),
    Row("a forkserver", """
        import multiprocessing
        def triple(n): return 3 * n
        context = multiprocessing.get_context("forkserver")
        with context.Pool(1) as pool: assert pool.map(triple, [1]) == [3]
        """, "", """
        with context.Pool(1) as pool: assert pool.map(triple, [2]) == [6]
        """, {"connections": ANY}),
    Row("a manager's proxies", """
        import multiprocessing
        manager = multiprocessing.get_context("fork").Manager(); shared = manager.dict(a=1)
        """, "shared['a'] = 2", """
        try:
            shared["a"]
            raise AssertionError("it has an answer")
        except (OSError, EOFError):
            pass
        manager.shutdown()
        """, {"processes": ANY, "connections": ANY}),
    Row("an import that a thread was at", """
        import sys, threading
        sys.path.insert(0, ".")
        with open("slow.py", "w") as file:
            file.write("import builtins, threading\\n"
                       "if getattr(builtins, 'wait_here', True):\\n"
                       "    builtins.began.set(); builtins.gate.wait()\\n"
                       "value = 5\\n")
        import builtins
        builtins.began, builtins.gate = threading.Event(), threading.Event()
        threading.Thread(target=__import__, args=("slow",), name="importer").start()
        builtins.began.wait()
        """, "builtins.gate.set()", """
        builtins.wait_here = False
        import slow
        assert slow.value == 5
        """, {"threads": ["importer"]}),
    # ---- asyncio
    Row("tasks in the background", """
        import asyncio
        ticks = []
        async def tick():
            while True:
                await asyncio.sleep(0.005); ticks.append(1)
        task = asyncio.create_task(tick()); mail = asyncio.Queue(); lock = asyncio.Lock()
        other = asyncio.new_event_loop()
        await asyncio.sleep(0.02)
        """, "task.cancel(); other.close(); await asyncio.sleep(0)", """
        count = len(ticks); await asyncio.sleep(0.1); assert len(ticks) > count
        assert not task.done() and not other.is_closed()
        mail.put_nowait(3); assert await mail.get() == 3
        async with lock: pass
        assert asyncio.run(asyncio.sleep(0, 8)) == 8
        import threading
        answer = []
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=lambda: loop.call_soon_threadsafe(answer.append, 1)); thread.start()
        await asyncio.sleep(0.05); assert answer == [1]
        task.cancel(); other.close()
        """),
    Row("connections and processes of asyncio", """
        import asyncio, socket
        process = await asyncio.create_subprocess_exec("sleep", "600", stdout=-1)
        async def wait(): return await process.communicate(), await process.wait()
        waits = asyncio.create_task(wait())
        kept = []
        server = await asyncio.start_server(lambda *ends: kept.append(ends), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reads = asyncio.create_task(reader.read(1)); serves = asyncio.create_task(
            server.serve_forever())
        a, b = socket.socketpair(); a.setblocking(False); got = []
        loop = asyncio.get_running_loop()
        loop.add_reader(a.fileno(), lambda: got.append(a.recv(10)))
        sleeps = asyncio.create_task(asyncio.to_thread(__import__("time").sleep, 600))
        await asyncio.sleep(0.05)
        """, "process.kill(); server.close(); writer.close(); b.send(b'x'); await asyncio.sleep(0)",
        """
        done = await asyncio.wait([waits, reads, serves, sleeps], timeout=5)
        assert not done[1], done
        assert waits.result() == ((b"", None), -9) and process.returncode == -9
        assert isinstance(reads.exception(), ConnectionResetError)
        assert serves.cancelled() and not server.is_serving()
        assert type(sleeps.exception()).__name__ == "BrokenExecutor"
        assert got == [b""], got
        assert await asyncio.to_thread(abs, -3) == 3
        again = await asyncio.create_subprocess_exec("echo", "hi", stdout=-1)
        assert (await again.communicate())[0] == b"hi\\n" and again.returncode == 0
        """, {"threads": ANY, "processes": ["sleep 600"], "connections": ANY}),
    Row("a loop in a thread", """
        import asyncio, threading
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="loop"); thread.start()
        def call(coroutine, timeout=5):
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout)
        assert call(asyncio.sleep(0, 3)) == 3
        """, "loop.call_soon_threadsafe(loop.stop); thread.join()", """
        assert not thread.is_alive() and call(asyncio.sleep(0, 4)) == 4
        loop.call_soon_threadsafe(loop.stop)
        """),
    Row("a loop in a thread, with tasks", """
        import asyncio, threading
        loop, ticks = asyncio.new_event_loop(), []
        async def tick():
            while True:
                await asyncio.sleep(0.001); ticks.append(1)
        task = loop.create_task(tick())
        thread = threading.Thread(target=loop.run_forever, name="loop"); thread.start()
        """, "loop.call_soon_threadsafe(loop.stop); thread.join()", """
        count = len(ticks)
        thread = threading.Thread(target=loop.run_forever); thread.start()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop).result(5)
        assert len(ticks) > count
        loop.call_soon_threadsafe(loop.stop); thread.join(5); assert not thread.is_alive()
        """, {"threads": ["loop"]}),
    Row("cells of bash", """
        get_ipython().run_cell_magic("bash", "", "echo one")
        """, "get_ipython().run_cell_magic('bash', '', 'echo two')", """
        get_ipython().run_cell_magic("bash", "--out text", "echo three")
        assert text == "three\\n", text
        """, needs=("IPython",)),
    Row("a bar of progress", """
        import time, tqdm
        bar = tqdm.tqdm(total=3); bar.update(); tqdm.tqdm.monitor_interval = 0.01
        """, "bar.close()", """
        bar.update(2); bar.close()
        assert bar.n == 3 and len(list(tqdm.tqdm(range(3)))) == 3
        """, needs=("tqdm",), stderr=None),
    # ---- files
    Row("where a file is read", """
        open("in.txt", "w").write("one\\ntwo\\nthree\\n")
        open("in.bin", "wb").write(bytes(100_000))
        text, binary, raw = open("in.txt"), open("in.bin", "rb"), open("in.bin", "rb", buffering=0)
        assert text.readline() == "one\\n"; binary.read(10); raw.read(20)
        """, "text.read(); binary.read(); raw.read(50); text.close()", """
        assert text.readline() == "two\\n" and text.tell() == 8
        assert (binary.tell(), raw.tell()) == (10, 20)
        """),
    Row("a file that is written", """
        out = open("out.txt", "w"); out.write("one "); out.flush()
        """, "out.write('two' * 3); out.flush()", """
        assert out.tell() == 4
        out.write("three"); out.close()
        assert open("out.txt").read().startswith("one three")
        """),
    Row("a file that is appended to", """
        out = open("out.txt", "a"); out.write("one "); out.flush()
        """, "out.write('two '); out.flush()", """
        out.write("three"); out.close()
        assert open("out.txt").read() in ("one two three", "one three")
        """),
    Row("a file that is locked", """
        import fcntl
        held, shared = open("held", "w"), open("shared", "w")
        fcntl.flock(held, fcntl.LOCK_EX); fcntl.flock(shared, fcntl.LOCK_SH)
        held.write("one"); held.flush()
        """, """
        held.close(); shared.close()  # the lock goes with the last descriptor: no copy may have one
        held = open("held", "a"); fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        """, """
        import subprocess
        def is_free(path, *how):
            return subprocess.run(["flock", "-n", *how, path, "true"]).returncode == 0
        assert not is_free("held") and not is_free("shared") and is_free("shared", "-s")
        assert held.tell() == 3; held.write("two"); held.close(); shared.close()
        assert is_free("held") and is_free("shared") and open("held").read() == "onetwo"
        """),
    Row("what is not flushed yet", """
        out = open("out.txt", "w"); out.write("once ")
        """, "", """
        out.write("and again"); out.close()
        assert open("out.txt").read() == "once and again"
        """),
    Row("compressed files", """
        import gzip, zipfile
        packed = gzip.open("a.gz", "wb"); packed.write(b"one "); packed.flush()
        archive = zipfile.ZipFile("a.zip", "w"); archive.writestr("one.txt", "1")
        """, """
        packed.write(b"two " * 1000); packed.flush(); archive.writestr("two.txt", "2" * 99)
        """, """
        packed.write(b"three"); packed.close()
        archive.writestr("three.txt", "3"); archive.close()
        import subprocess
        with zipfile.ZipFile("a.zip") as read: assert read.read("three.txt") == b"3"
        assert gzip.open("a.gz").read(9) == b"one three"
        """),
    Row("temporary files", """
        import os, tempfile
        file = tempfile.NamedTemporaryFile(); file.write(b"one"); file.flush()
        folder = tempfile.TemporaryDirectory(); nameless = tempfile.TemporaryFile()
        nameless.write(b"x"); nameless.flush()
        open(os.path.join(folder.name, "a"), "w").write("a")
        """, "", """
        assert os.path.exists(file.name) and open(file.name).read() == "one"
        assert os.listdir(folder.name) == ["a"]
        nameless.seek(0); assert nameless.read() == b"x"
        folder.cleanup(); file.close()
        assert not os.path.exists(file.name) and not os.path.exists(folder.name)
        """),
    Row("what runs at the exit", """
        import atexit, os
        atexit.register(lambda: open("ran", "w").close())
        class Closing:
            def __del__(self): open("deleted", "w").close()
        closing = Closing()
        """, "", """
        assert not os.path.exists("ran") and not os.path.exists("deleted")
        """),
    # ---- connections, timers, shared memory
    Row("sockets and pipes", """
        import os, select, socket
        a, b = socket.socketpair(); server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port)); far = server.accept()[0]
        read, write = os.pipe(); epoll = select.epoll(); epoll.register(a)
        """, "a.close(); b.close(); os.close(read)", """
        assert a.recv(9) == b"" and client.recv(9) == b"" and os.read(read, 9) == b""
        for call in (lambda: a.send(b"x"), lambda: client.send(b"x"), lambda: server.accept(),
                     lambda: os.write(write, b"x"), lambda: epoll.poll(0)):
            try:
                call()
                raise AssertionError("it works")
            except OSError:
                pass
        again = socket.create_server(("127.0.0.1", port)); again.close()
        """, {"connections": 8}),
    Row("timers", """
        import signal, time
        rung = []
        signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
        signal.setitimer(signal.ITIMER_REAL, 600)
        """, "signal.setitimer(signal.ITIMER_REAL, 0)", """
        left = signal.getitimer(signal.ITIMER_REAL)[0]
        assert 0 < left <= 600, left
        signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.1)
        assert rung == [signal.SIGALRM]
        """),
    Row("shared memory", """
        import mmap
        from multiprocessing import shared_memory
        memory = shared_memory.SharedMemory(create=True, size=100); memory.buf[0] = 1
        nameless = mmap.mmap(-1, 4096); nameless[0] = 1
        """, "memory.buf[0] = 99; nameless[0] = 99", """
        assert (memory.buf[0], nameless[0]) == (99, 99)
        import subprocess, sys
        memory.close()
        try:
            memory.unlink()
        except FileNotFoundError:
            pass
        new = shared_memory.SharedMemory(create=True, size=10); new.close(); new.unlink()
        """, {"shared_memory": ANY}),
    Row("a mapped array", """
        import numpy as np
        array = np.memmap("array.bin", dtype="int64", mode="w+", shape=(10,)); array[0] = 1
        private = np.memmap("array.bin", dtype="int64", mode="c", shape=(10,)); private[1] = 5
        """, "array[0] = 99; private[1] = 6", """
        assert array[0] == 99 and private[1] == 5
        """, {"shared_memory": MAYBE}, needs=("numpy",)),
]
