"""What runs inside a Fumehood session's Python: zygote, shell, streams and display.

Only the standard library is needed (CPython 3.9 or later), plus the extension `_guest` beside this
file, or plain.py in its place where it cannot be loaded. Reading order: guest.py (the main loop),
shell.py (one cell), wire.py and streams.py (everything that leaves the process), display.py,
asyncio_support.py, ipython.py and ipython_shell.py, asking.py (questions about the variables),
checkpoint.py and restore.py (copies of the guest, and what is not as it was when one wakes),
zygote.py.

The session's code lives in the same process and may do anything to it. So the engine's modules keep
`__builtins__` of their own (destroyed builtins then break the cell, not the engine), hold on to the
functions they need, and never trust sys.stdout, warnings filters or the current event loop.
"""
import sys

if "t" in sys.abiflags:  # a free-threaded build
    from fumehood_guest import plain as _guest
    sys.modules[__name__ + "._guest"] = _guest
