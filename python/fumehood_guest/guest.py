"""The guest: takes orders from the keeper, runs cells, says how they ended.

One loop, one order at a time (GUEST_RUN, GUEST_ASK). Between two orders it waits in the kernel, or
inside the session's event loop while tasks are alive there. At end of file on the control socket it
ends at once: no atexit, no flush; a guest without a keeper has nobody to write for.
"""
__builtins__ = dict(__builtins__)

import linecache
import os
import sys
import threading

from fumehood_guest import (_guest, asyncio_support, checkpoint, display, imports,
                            matplotlib_backend, restore, sources, tables, traceback_text, wire)
from fumehood_guest.interrupt import Interrupts
from fumehood_guest.scripts import Script
from fumehood_guest.shell import CompileError, Shell
from fumehood_guest.streams import Streams, getpass, make_input, quiet_flush
from fumehood_guest.wire import state

_getpid, _exit = os.getpid, os._exit
_threads = threading._active  # its length is threading.active_count(), without a lock
_set_cell = wire.cell_of_context.set


class Practice(Shell):
    """Of its cells nothing is left."""

    def run(self, code, file=None):
        super().run(code, "<practice>")
        self.count = 0
        del self.inputs[1:]
        linecache.cache.pop("<practice>", None)


class Guest:
    """Made once, in the zygote or in a cold guest; becomes a session by settle_in()."""

    def __init__(self):
        self.interrupts = Interrupts()
        self.loops = asyncio_support.Loops(self.interrupts)
        self.shell = Shell(self.loops)
        self.practice = Practice(self.loops)
        self.streams = None
        self.modules = {}
        self.installed = False

    # ---- becoming a session

    def install(self):
        """What is the same in every session: in the zygote it is done for all of them."""
        import builtins
        self.installed = True
        if not hasattr(builtins, "display"):
            builtins.display = display.display
        imports.when_imported("getpass", _replace_getpass)
        imports.when_imported("asyncio.runners", self._asyncio_imported)
        matplotlib_backend.install()
        tables.install()
        sources.install()
        if hasattr(_guest, "copy"):
            restore.install()

    def settle_in(self):
        """In the new process: descriptors 0 to 3 are in place, nothing of the session has run."""
        import builtins
        state.owner = _getpid()
        state.main_thread = threading.get_ident()
        _guest.open_pipes()
        self.streams = Streams()
        self.streams.install()
        self.interrupts.install()
        wire.note_threads()
        self.shell.install()
        builtins.input = make_input(self.streams, builtins.input)
        if not self.installed:
            self.install()
        imports.when_imported("multiprocessing.process", self._processes_imported)
        imports.when_imported("multiprocessing.spawn", self._spawn_imported)
        if self.shell.ipython is not None:
            self.shell.ipython.settle_in()

    def _asyncio_imported(self, runners):
        asyncio_support.patch_run(runners, self.loops)

    def _processes_imported(self, process):
        """The zygote may have done so: in a folder and with a key that are not the session's."""
        process.ORIGINAL_DIR = os.getcwd()
        process.current_process().authkey = os.urandom(32)
        if "__mp_main__" in sys.modules:
            sys.modules["__mp_main__"] = self.shell.module

    def _spawn_imported(self, spawn):
        from fumehood_guest import children
        children.serve(self.shell, spawn)

    def hello(self, lost=None):
        """`lost`: in a copy that was woken, what could not come back (restore.py)."""
        pidfd = _guest.own_pidfd()
        body = {
            "protocol": _guest.PROTOCOL,
            "python": sys.version.split()[0],
            "implementation": "CPython" if sys.implementation.name == "cpython"
            else sys.implementation.name,
            "shell": "ipython" if self.shell.ipython is not None else "plain",
            "modules": self.modules,
            "language_info": {
                "name": "python",
                "version": sys.version.split()[0],
                "mimetype": "text/x-python",
                "codemirror_mode": {"name": "ipython", "version": 3},
                "pygments_lexer": "ipython3",
                "nbconvert_exporter": "python",
                "file_extension": ".py",
            },
        }
        if lost:
            body["lost"] = lost
        try:
            _guest.send(wire.CONTROL, _guest.HELLO, 0, 0, wire.to_json(body), pidfd)
        finally:
            os.close(pidfd)

    # ---- the loop

    def main(self, rehearse=lambda: None):
        """Obeys orders to the end. `rehearse` is called when the hello is out and nobody has asked
        for anything yet."""
        try:
            self.hello()
            rehearse()
            while True:
                order = self.next_order()
                if order is None:
                    _exit(0)
                kind, flags, cell, body, fds = order
                if kind == _guest.RUN:
                    self.run(cell, flags, body)
                elif kind == _guest.ASK:
                    self.ask(cell, body)
                elif kind == _guest.ENVIRONMENT:
                    self.take_environment(body)
                elif kind == _guest.COPY:
                    checkpoint.obey(self, cell, fds)
        except OSError:
            _exit(1)  # the session's code has closed or replaced the control socket

    def next_order(self):
        while self.loops.busy():
            try:
                self.loops.wait_readable(wire.CONTROL)
                break
            except NotImplementedError:
                break  # a loop that cannot watch descriptors
            except BaseException as error:  # SystemExit out of a task: nobody else reports it
                display.report(error)
            self.leave_if_copy(None)
        return _guest.receive(wire.CONTROL)

    def run(self, cell, flags, body):
        status = None
        try:
            status = self.attempt(cell, flags, body)
        except BaseException as error:  # an interrupt that hit the reporting of another error
            self.interrupts.armed = False
            status = self.report_error(error, False)
        try:
            self.finish(cell, status)
        except Exception:  # the program has broken something that the engine stands on
            wire.done(cell, status, self.shell.count)

    def ask(self, number, body):
        """Answers a question about the variables (asking.py)."""
        from fumehood_guest import asking
        try:
            asking.answer(self, number, body)
        except Exception:  # the program has broken something that the engine stands on
            wire.emit(_guest.ANSWER, b"{}", cell=number)

    def take_environment(self, body):
        from fumehood_guest import environment
        try:
            environment.take(body)
        except Exception as error:  # as above
            display.report(error)

    def attempt(self, cell, flags, body):
        """Runs the cell and reports its error. Returns its status."""
        script = None
        if flags & _guest.FLAG_SCRIPT:
            script = Script(body)
        code = script.code if script else body.decode("utf-8", "replace")
        state.cell = cell
        state.allow_stdin = bool(flags & _guest.FLAG_ALLOW_STDIN)
        state.running = True
        self.look_round()
        _guest.restore_pipes()
        self.streams.renew()
        try:
            self.loops.before_cell(code)
        except Exception as error:
            display.report(error)
        asyncio_support.shared.run(_set_cell, cell)
        failure, compiling = None, False
        try:
            self.interrupts.begin(cell)
            if restore.later and not state.practising:
                restore.begin_cell()
            if script:
                self.shell.run_script(script)
            else:
                self.shell.run(code)
        except CompileError as error:
            failure, compiling = error.error, True
        except BaseException as error:
            failure = error
        self.leave_if_copy(failure)
        status = "ok" if failure is None else self.report_error(failure, compiling)
        if not compiling:
            self.shell.after_cell(failure)
        if matplotlib_backend.in_use() and not state.practising:
            asyncio_support.shared.run(matplotlib_backend.show_open_figures)
        self.interrupts.armed = False
        return status

    def practise(self):
        """Runs an empty cell from end to end, of which nothing is seen (checkpoint.obey)."""
        shell, cell, stdin = self.shell, state.cell, state.allow_stdin
        self.shell, state.practising = self.practice, True
        try:
            self.run(0, 0, b"pass")
        finally:
            self.shell, state.practising = shell, False
            state.cell, state.allow_stdin = cell, stdin
            asyncio_support.shared.run(_set_cell, cell)

    def report_error(self, error, compiling):
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        bridge = self.shell.ipython
        body = bridge.describe(error) if bridge is not None else None
        if body is not False:
            wire.emit_json(_guest.ERROR, body or traceback_text.describe(error, compiling))
        if isinstance(error, KeyboardInterrupt) and self.interrupts.meant():
            return "interrupted"
        return "error"

    def finish(self, cell, status):
        """Everything the cell wrote is out before this is said; it is the last message of a
        cell."""
        self.interrupts.armed = False
        out = getattr(sys, "stdout", None)
        if out is not self.streams.stdout:
            quiet_flush(out)
        _guest.flush_c()
        wire.done(cell, status, self.shell.count)
        state.running = False
        self.loops.after_cell()
        self.look_round()

    def look_round(self):
        """Are there threads or tasks whose words may have to be tagged with another cell's
        number?"""
        self.streams.watch(len(_threads) > 1 or self.loops.busy())

    def leave_if_copy(self, failure):
        """A child that the cell has forked falls back to here: it must end, and never answer."""
        if _getpid() == state.owner:
            return
        code = 0
        try:
            if isinstance(failure, SystemExit):
                code = failure.code
                code = code if isinstance(code, int) else int(code is not None)
            elif failure is not None:
                display.report(failure)
                code = 1
            state.flush()
            quiet_flush(sys.stdout)
        finally:
            _exit(code & 0xff)


def _replace_getpass(module):
    module.getpass = getpass
