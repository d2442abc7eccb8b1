"""Pools of threads and processes, in a copy that has been woken: their workers are gone.

A pool that went on waiting for them would hang whoever uses it. So:

- a ThreadPoolExecutor, and with it asyncio.to_thread, gets new threads: what waited in its queue is
  done by them, what a thread was at has failed;
- a ProcessPoolExecutor begins anew: whatever it had not finished has failed;
- a multiprocessing.Pool or ThreadPool has failed: it refuses more work and says why, and so do the
  results that were still to come;
- joblib and loky, which keep one pool for all, make a new one.

What is failed here may have callbacks of the program's. They run at the beginning of the next cell,
where they can be interrupted and their output belongs somewhere; callbacks of asyncio only tell a
loop, and run at once.
"""
__builtins__ = dict(__builtins__)

import sys
import threading

from fumehood_guest import imports
from fumehood_guest.tracking import Tracked

GONE = "%s did not come back when the session returned to an earlier state"
POOL = "the workers of this pool did not come back when the session returned to an earlier " \
    "state: make a new pool"

LOKY = "loky", "joblib.externals.loky"

_thread_executors = Tracked()
_process_executors = Tracked()
_pools = Tracked()
_running = {}   # {id: work item} that a thread is at
_plain = {}     # {class: its own __init__}


def install():
    imports.when_imported("concurrent.futures.thread", _threads_imported)
    imports.when_imported("concurrent.futures.process", _processes_imported)
    imports.when_imported("multiprocessing.pool", lambda module: _pools.watch(module.Pool))


def _threads_imported(module):
    _thread_executors.watch(module.ThreadPoolExecutor)
    plain = module._WorkItem.run

    def run(self, *args):
        _running[id(self)] = self
        try:
            return plain(self, *args)
        finally:
            del _running[id(self)]

    run.__qualname__ = plain.__qualname__
    module._WorkItem.run = run


def _processes_imported(module):
    kind = module.ProcessPoolExecutor
    _plain[kind] = _process_executors.watch(kind)


def after_wake(later):
    """Calls `later(action, *arguments)` with what the next cell has to do first."""
    broken = list(_running.values())
    _running.clear()
    for item in broken:
        fail(item.future, _broken_executor(GONE % "the thread that was at it"), later)
    for executor in _thread_executors:
        renew_threads(executor, later)
    for executor in _process_executors:
        begin_anew(executor, later)
    for name in LOKY:
        if name + ".reusable_executor" in sys.modules:
            forget_loky(sys.modules[name + ".reusable_executor"], later)
    for pool in _pools:
        if pool._state != "TERMINATE":
            end_pool(pool, later)


# ---------------------------------------------------------------- concurrent.futures

def _broken_executor(text):
    return sys.modules["concurrent.futures._base"].BrokenExecutor(text)


def fail(future, error, later):
    """A lock of it may have been held by the thread that is gone."""
    if future._state not in ("PENDING", "RUNNING"):
        return
    future._condition = threading.Condition()
    if all(of_asyncio(call) for call in future._done_callbacks):
        future.set_exception(error)
    else:
        later(future.set_exception, error)


def of_asyncio(callback):
    return str(getattr(callback, "__module__", "")).startswith("asyncio.")


def renew_threads(executor, later):
    if not executor._threads:
        return
    waiting = drain(executor._work_queue)
    executor._work_queue = sys.modules["queue"].SimpleQueue()
    executor._threads = set()
    executor._idle_semaphore = threading.Semaphore(0)
    executor._shutdown_lock = threading.Lock()
    for item in waiting:
        executor._work_queue.put(item)
    if waiting:
        later(start_threads, executor, len(waiting))


def drain(queue):
    """Its work items, without what wakes threads."""
    found = []
    try:
        while True:
            found.append(queue.get_nowait())
    except sys.modules["queue"].Empty:
        return [item for item in found if item is not None]


def start_threads(executor, count):
    for _ in range(min(count, executor._max_workers)):
        executor._adjust_thread_count()


def begin_anew(executor, later):
    """As if it had just been made. One that has been shut down only ends what it was at."""
    if executor._executor_manager_thread is None and not executor._pending_work_items:
        return  # not used yet
    module = sys.modules["concurrent.futures.process"]
    waiting = list(executor._pending_work_items.values())
    options = {"max_workers": executor._max_workers, "mp_context": executor._mp_context,
               "initializer": executor._initializer, "initargs": executor._initargs}
    if getattr(executor, "_max_tasks_per_child", None) is not None:
        options["max_tasks_per_child"] = executor._max_tasks_per_child
    ended = executor._shutdown_thread
    silence(executor)
    try:
        _plain[module.ProcessPoolExecutor](executor, **options)
    except Exception as error:
        executor._broken = "%s (%s)" % (GONE % "its processes", error)
    executor._shutdown_thread = ended
    for item in waiting:
        fail(item.future, module.BrokenProcessPool(GONE % "the process that was at it"), later)


def silence(executor):
    """Nothing wakes its manager any more, whose socket leads nowhere."""
    wakeup = executor._executor_manager_thread_wakeup
    if wakeup is not None:
        wakeup._closed = True


def forget_loky(module, later):
    executor = module._executor
    if executor is None:
        return
    module._executor = module._executor_kwargs = None
    error = sys.modules["concurrent.futures.process"].BrokenProcessPool(
        GONE % "the processes of this pool")
    executor._flags.shutdown, executor._flags.broken = True, error
    silence(executor)
    for item in list(executor._pending_work_items.values()):
        fail(item.future, error, later)


# ---------------------------------------------------------------- multiprocessing.pool

def end_pool(pool, later):
    def refuse():
        raise ValueError(POOL)

    pool._state = "TERMINATE"
    pool._check_running = refuse
    for result in list(pool._cache.values()):
        fail_result(result, sys.modules["multiprocessing.context"].ProcessError(POOL), later)
    pool._cache.clear()


def fail_result(result, error, later):
    """Of apply_async, map_async or imap."""
    if hasattr(result, "_cond"):  # an iterator: waits for items, one after the other
        result._cond = threading.Condition(threading.Lock())
        result._items.append((False, error))
        result._length = result._index = result._index + 1
        return
    if result.ready():
        return
    if hasattr(result, "_number_left"):
        result._number_left = 1
    result._event = threading.Event()
    result._cache = {result._job: result}  # the pool's own would tell a thread that is gone
    if result._callback is None and result._error_callback is None:
        result._set(0, (False, error))
    else:
        later(result._set, 0, (False, error))
