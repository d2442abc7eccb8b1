"""run_code_safely(): a script and what came of it, as (return code, stdout, stderr).

The original started the code as a plain child with all of the user's rights. Here it runs in a
session of its own, which is gone afterwards with all that the code has started: contained, no
network, nothing of this machine to read but the packages. So its child processes end with it, what
it printed before a time-out is kept, bytes that are no UTF-8 become U+FFFD, and there is no end of
output that fills the memory. Its stdin is empty, and its working directory is a fresh one unless
`workspace` names a folder.

    rc 0      it ended well, or by sys.exit(0)
    rc n      sys.exit(n), os._exit(n); 1: an exception, whose traceback ends stderr
    rc -n     killed by signal n, as subprocess has it
    rc -1     it ran for longer than `timeout`; stderr ends with "Execution Timeout Expired."
"""
from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ..result import Result
from ..session import Session
from ..start import PathLike

OUTPUT_BYTES_MAX = 16 << 20  # stdout and stderr together
TIMED_OUT = "Execution Timeout Expired."
_NAME = "script.py"


def run_code_safely(code: str, timeout: Optional[float] = 10.0, *,
                    workspace: Optional[PathLike] = None, python: Optional[str] = None
                    ) -> Tuple[int, str, str]:
    """Runs code as a script in a sandbox; returns (rc, stdout, stderr). See the head of this file.
    `timeout`: seconds; None: as long as the user's settings allow a cell."""
    if not isinstance(code, str):
        raise TypeError("code is text, not %s" % type(code).__name__)
    if timeout is not None and not timeout > 0:
        return -1, "", TIMED_OUT
    with Session(workspace=workspace, python=python, timeout=timeout,
                 limits={"output_bytes": OUTPUT_BYTES_MAX}) as session:
        result = session.run(code, max_chars=0, file=_NAME)
    return _code(result), result.stdout, _stderr(result)


def _code(result: Result) -> int:
    if result.ok:
        return 0
    if result.status == "timeout":
        return -1
    if result.status == "died":
        found = re.match(r"(exit status|signal) (\d+)", result.reason or "")
        if found is None:
            return -9  # a limit of the session: its processes were killed
        return int(found[2]) if found[1] == "exit status" else -int(found[2])
    failure = result.error
    if failure is not None and failure.name == "SystemExit":
        value = failure.value.strip()
        if value in ("", "None"):
            return 0
        if re.fullmatch(r"-?\d{1,18}", value):
            return int(value) & 0xFF
    return 1


def _stderr(result: Result) -> str:
    """What the code wrote there, and how it ended, as a script's stderr has it."""
    parts: List[str] = [result.stderr]
    failure = result.error
    if result.status == "timeout":
        parts.append(TIMED_OUT)
    elif result.status == "error" and failure is not None:
        if failure.name != "SystemExit":
            parts.append(str(failure) + "\n")
        elif _code(result) == 1 and failure.value != "1":
            parts.append(failure.value + "\n")  # sys.exit("words")
    elif not result.ok:
        parts.append("The script ended: %s\n" % (result.reason or result.explain()))
    if result.dropped:
        parts.append("%d bytes of output were dropped: more than %d MiB\n" % (
            result.dropped, OUTPUT_BYTES_MAX >> 20))
    text = ""
    for part in parts:
        text += ("\n" if text and part and not text.endswith("\n") else "") + part
    return text
