"""asyncio in a copy that has been woken.

An epoll is shared by all copies of a process (epoll(7)), so the copy's was plugged, and with it the
pair of sockets that wakes a loop. Each loop gets new ones and goes on: its tasks, timers and queues
are memory. What it watched leads nowhere now:

- a connection is reset, so that whoever reads or writes there is told;
- a pipe stays watched: what reads there finds its end;
- a server is closed, because nobody can connect to it any more;
- a callback of the program's own (add_reader, add_writer) is called once more, finds the end of the
  file, and is forgotten: watched on, it would be called for ever.

A process that asyncio has started ends as killed. A loop that ran in a thread of its own gets a new
one as soon as somebody hands it work: until then nobody can tell the difference, unless it had
tasks, and then its thread is told to be lost.
"""
__builtins__ = dict(__builtins__)

import os
import signal
import stat
import sys
import threading

from fumehood_guest import imports
from fumehood_guest.tracking import Tracked

KILLED = -signal.SIGKILL
RESET = "the connection did not come back when the session returned to an earlier state"
UVLOOP = "event loops of uvloop did not come back: make a new one"

_loops = Tracked()
_foreign = Tracked()     # loops of uvloop: what they are made of is not ours to renew
_transports = Tracked()  # of processes
_lost = []               # loops whose thread is gone, while the copy is being put right
_kept = []               # foreign loops: to free one would touch its dead descriptors


def install():
    imports.when_imported("asyncio.base_events",
                          lambda module: _loops.watch(module.BaseEventLoop))
    imports.when_imported("asyncio.base_subprocess",
                          lambda module: _transports.watch(module.BaseSubprocessTransport))
    imports.when_imported("uvloop", lambda module: _foreign.watch(module.Loop))


def descriptors():
    """How many loops have that were plugged and get new ones: an epoll and a pair of sockets
    each."""
    return 3 * sum(not loop.is_closed() for loop in _loops)


def after_wake(guest, notes):
    """Puts every loop right; what cannot be is told in `notes`."""
    for loop in _loops:
        if not loop.is_closed():
            renew(loop)
            if loop._thread_id is not None:
                forget_thread(loop)
                _lost.append(loop)
    for transport in _transports:
        end_process(transport)
    if len(_foreign):
        leave_foreign(guest)
        notes.append(UVLOOP)


def renew(loop):
    """A loop that selects: everything of asyncio but what others have built."""
    selector = getattr(loop, "_selector", None)
    if selector is None or getattr(loop, "_ssock", None) is None:
        return
    own = loop._ssock.fileno(), loop._csock.fileno()
    watched = [key for key in list(selector.get_map().values()) if key.fd not in own]
    renew_epoll(selector)
    loop._close_self_pipe()
    loop._make_self_pipe()
    if getattr(loop, "_signal_handlers", None):
        signal.set_wakeup_fd(loop._csock.fileno())
    for key in watched:
        renew_watch(loop, selector, key)
    for transport in list(getattr(loop, "_transports", {}).values()):
        reset(transport)


def renew_epoll(selector):
    """Other selectors have no descriptor of their own."""
    inner = getattr(selector, "_selector", None)
    if hasattr(inner, "fromfd"):  # a select.epoll
        inner.close()
        selector._selector = type(inner)()


def renew_watch(loop, selector, key):
    try:
        dead = stat.S_ISSOCK(os.fstat(key.fd).st_mode)
    except OSError:
        dead = True
    if not dead:
        watch_again(selector, key)
        return
    handles = [handle for handle in key.data or () if handle is not None]
    name = getattr(handles[0]._callback, "__name__", "") if handles else ""
    if name == "_accept_connection":
        close_server(loop, key, handles[0])
    elif name == "_do_wait":  # the end of a process: end_process() tells it
        drop(selector, key)
    elif all(of_asyncio(handle._callback) for handle in handles):
        watch_again(selector, key)
    else:
        drop(selector, key)
        loop._ready.extend(handle for handle in handles if not handle._cancelled)


def of_asyncio(callback):
    return str(getattr(callback, "__module__", "")).startswith("asyncio.")


def watch_again(selector, key):
    """The new epoll does not know it yet."""
    try:
        selector.unregister(key.fd)
        selector.register(key.fd, key.events, key.data)
    except (OSError, ValueError, KeyError):
        pass  # a file, that no epoll takes; or closed


def drop(selector, key):
    try:
        selector.unregister(key.fd)
    except (OSError, ValueError, KeyError):
        pass


def close_server(loop, key, handle):
    """The arguments of _accept_connection: protocol factory, socket, TLS context, server ..."""
    server = handle._args[3] if len(handle._args) > 3 else None
    if server is not None:
        server.close()
    else:
        loop._remove_reader(key.fd)


def reset(transport):
    """Nothing of the program runs here: what it is told of comes in the loop's next turn."""
    force = getattr(transport, "_force_close", None)
    if force is not None and not transport.is_closing():
        force(ConnectionResetError(RESET))


def end_process(transport):
    loop = getattr(transport, "_loop", None)
    if transport._returncode is not None or loop is None or loop.is_closed():
        return
    if getattr(transport, "_proc", None) is None:
        return
    code = transport._proc.returncode  # restore_processes.py was there before
    loop.call_soon(transport._process_exited, KILLED if code is None else code)


def is_idle_loop(thread):
    """Whether all that this thread does is to run a loop without tasks, for the work of others:
    IPython has one for %%bash, fsspec for its files."""
    target = getattr(thread, "_target", None)
    loop = getattr(target, "__self__", None)
    return any(loop is other for other in _loops) and target.__name__ == "run_forever" \
        and not sys.modules["asyncio"].all_tasks(loop)


def forget_thread(loop):
    """Its thread is gone, in the midst of run_forever(). Another one begins in let_begin()."""
    loop._thread_id = None
    loop._stopping = False
    current = getattr(sys.modules.get("asyncio.tasks"), "_current_tasks", None)
    if current:
        current.pop(loop, None)


def let_begin():
    """Nothing of the session may run before the copy has been put right: only now do the loops
    that have lost their thread get a new one when they are handed work."""
    for loop in _lost:
        begin_when_called(loop)
    del _lost[:]


def begin_when_called(loop):
    def call_soon_threadsafe(*args, **kwargs):
        del loop.call_soon_threadsafe, loop.run_forever
        threading.Thread(target=loop.run_forever, daemon=True).start()
        return loop.call_soon_threadsafe(*args, **kwargs)

    def run_forever():
        del loop.call_soon_threadsafe, loop.run_forever
        return loop.run_forever()

    loop.call_soon_threadsafe = call_soon_threadsafe
    loop.run_forever = run_forever


def leave_foreign(guest):
    """If the session's loop is one of them, it gets a new one."""
    for loop in _foreign:
        if any(loop is other for other in _kept):
            continue
        _kept.append(loop)
        if guest.loops.loop is loop:
            guest.loops.loop = None
