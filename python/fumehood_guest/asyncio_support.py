"""Both worlds of asyncio.

A cell without a top-level await runs with no loop running, so asyncio.run and
loop.run_until_complete behave as in a script. A cell that awaits (or names create_task,
ensure_future or get_running_loop at its top level) runs whole inside the session's loop. That loop
is the current one of every cell; what a cell leaves behind in it goes on while the guest waits for
its next order.

All cells share one context, so context variables persist. A task can be given a context since 3.11;
before, what the cell's task has set is copied back at its end.
"""
__builtins__ = dict(__builtins__)

import contextvars
import sys

from fumehood_guest import wire

WHOLE_IN_LOOP = frozenset(("create_task", "ensure_future", "get_running_loop"))

# All code of the session runs in it. Never entered twice: a task's steps enter it by themselves.
shared = contextvars.copy_context()


class Loops:
    """The session's event loop, and how cells and waits get into it."""

    def __init__(self, interrupts):
        self.loop = None
        self.task = None        # the running cell's
        self.interrupts = interrupts
        self.cancelled = False  # the running cell's task was cancelled by an interrupt

    # ---- which loop

    def _policy(self):
        events = sys.modules["asyncio.events"]
        get = getattr(events, "_get_event_loop_policy", None) or events.get_event_loop_policy
        return get()

    def _current(self):
        """The loop that the program has made current, if it is usable."""
        try:
            loop = self._policy().get_event_loop()
        except Exception:
            return None
        return None if loop is None or loop.is_closed() else loop

    def before_cell(self, code):
        """Makes the session's loop current. Costs nothing until asyncio is in use."""
        if "asyncio" not in sys.modules:
            if "asyncio" not in code and "await" not in code and "async" not in code:
                return
        self.ready()

    def ready(self):
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        self._policy().set_event_loop(self.loop)
        return self.loop

    def after_cell(self):
        """A program that has made another loop current wants that one from now on."""
        if self.loop is None:
            return
        loop = self._current()
        if loop is not None and loop is not self.loop:
            self.loop = loop

    def busy(self):
        """Does the loop hold anything that wants to run between cells?"""
        loop = self.loop
        if loop is None or loop.is_closed():
            return False
        try:
            if sys.modules["asyncio"].all_tasks(loop):
                return True
            if getattr(loop, "_ready", None) or getattr(loop, "_scheduled", None):
                return True
            selector = getattr(loop, "_selector", None)
            return selector is not None and len(selector.get_map()) > 1  # the self-pipe is one
        except Exception:
            return False

    # ---- cells

    def run_cell(self, main):
        """Runs the coroutine function `main` as the cell's task and returns its value."""
        loop = self.ready()
        self.cancelled = False
        self.task = task = self._make_task(loop, main)
        self.interrupts.on_wait = self._on_interrupt
        try:
            return loop.run_until_complete(task)
        except sys.modules["asyncio"].CancelledError as error:
            if not self.cancelled:
                raise
            raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
        finally:
            self.interrupts.on_wait = None
            self.task = None

    def run_nested(self, main):
        """Runs a cell for a cell. The shared context is entered already, so this one gets a copy of
        it; inside a running loop it gets a loop of its own."""
        loop = self.ready()
        asyncio = sys.modules["asyncio"]
        if asyncio.events._get_running_loop() is not None:
            return asyncio.run(main())
        return loop.run_until_complete(loop.create_task(main()))

    def _make_task(self, loop, main):
        if sys.version_info >= (3, 11):
            try:
                return loop.create_task(main(), context=shared)
            except TypeError:
                pass  # a loop of the program's own
        return shared.run(loop.create_task, copying_back(main))

    def _on_interrupt(self):
        """True when the cell's task is waiting, and has been cancelled instead of being
        interrupted."""
        asyncio = sys.modules["asyncio"]
        try:
            if self.task is None or self.task.done():
                return False
            if asyncio.events._get_running_loop() is not self.loop:
                return False  # code of a nested asyncio.run, or of the cell itself
            if asyncio.current_task(self.loop) is self.task:
                return False
            self.cancelled = True
            self.task.cancel()
            self.loop.call_soon_threadsafe(lambda: None)  # a signal alone wakes no selector
            return True
        except Exception:
            return False

    # ---- between cells

    def wait_readable(self, fd):
        """Runs the loop until `fd` is readable. Returns whatever exception broke out of a task, if
        any."""
        loop = self.loop
        future = loop.create_future()

        def arrived():
            loop.remove_reader(fd)
            if not future.done():
                future.set_result(None)

        loop.add_reader(fd, arrived)
        try:
            loop.run_until_complete(future)
        finally:
            if not loop.is_closed():
                loop.remove_reader(fd)
                future.cancel()


async def copying_back(main):
    """For Python before 3.11: what the task has set in its copy of the context is set in the shared
    one."""
    try:
        return await main()
    finally:
        shared.run(_set_all, contextvars.copy_context())


def _set_all(context):
    for var, value in context.items():
        if var is not wire.cell_of_context and var.get(var) is not value:
            var.set(value)


def patch_run(runners, loops):
    """Lets asyncio.run have its turn inside a cell that awaits: the running loop and task are set
    aside."""
    events, tasks = sys.modules["asyncio.events"], sys.modules["asyncio.tasks"]

    def aside(call):
        def run(*args, **kwargs):
            loop, task = loops.loop, loops.task
            if task is None or events._get_running_loop() is not loop \
                    or tasks.current_task(loop) is not task:
                return call(*args, **kwargs)
            tasks._leave_task(loop, task)  # from 3.14 on only while its loop is the running one
            events._set_running_loop(None)
            try:
                return call(*args, **kwargs)
            finally:
                events._set_running_loop(loop)
                tasks._enter_task(loop, task)
                loops.ready()

        for name in ("__doc__", "__name__", "__qualname__", "__module__"):
            setattr(run, name, getattr(call, name))
        run.__wrapped__ = call
        return run

    runners.run = aside(runners.run)
    if hasattr(runners, "Runner"):
        runners.Runner.run = aside(runners.Runner.run)
    package = sys.modules.get("asyncio")
    if hasattr(package, "run"):
        package.run = runners.run
