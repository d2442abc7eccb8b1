"""run_server(): the original's local service for editors, on 127.0.0.1 (doc/rest.md).

The service is the program's (`fumehood slm`), with the original's replies and banner, and without
its faults: it answers /status while a program runs, and no web page can use it.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import List, Optional

from .. import errors, install

PORT = 8085
_STOP_S = 10


def run_server(port: int = PORT) -> None:
    """Serves until Ctrl-C. Its model is that of SLM_CODE_INTERPRETER_CONFIG or ./config.yaml, else
    the default of `fumehood model`."""
    words = _words(port)
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise errors.from_os(error, "cannot start %s" % words[0]) from error
    status: Optional[int] = None
    try:
        status = process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    if status not in (None, 0, -signal.SIGINT, -signal.SIGTERM):
        raise errors.GoneError("the server on port %d ended with status %d" % (port, status or 0))


def _words(port: int) -> List[str]:
    return [str(install.program()), "slm", "--port", str(int(port))]


if __name__ == "__main__":
    try:
        chosen = _words(int(sys.argv[1]) if len(sys.argv) > 1 else PORT)
        os.execv(chosen[0], chosen)  # in our place: signals reach it
    except (errors.Error, OSError, ValueError) as failure:
        sys.exit("fumehood.compat.server: %s" % failure)
