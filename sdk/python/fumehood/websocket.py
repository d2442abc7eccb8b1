"""The session protocol over a WebSocket (RFC 6455), as the daemon speaks it: a message a request,
an answer or an event.

A codec for wire.py: pure, and without state but a hint of how many bytes are worth looking at. What
a client sends is masked (§5.3); what a server sends is not, and may come in fragments; a ping is
answered, a close ends the connection with its reason. No extension is spoken.
"""
from __future__ import annotations

import os
import struct
from typing import List, Optional, Sequence, Tuple

from . import errors
from .wire import MESSAGE_BYTES_MAX, Found

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


def frame(opcode: int, payload: bytes) -> bytes:
    """A whole message of a client."""
    size, key = len(payload), os.urandom(4)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    mask = (key * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")
    return head + key + masked.to_bytes(size, "big")


Frame = Tuple[int, int, int, bool]  # opcode, begin and end of the payload, whether it is the last


def _parse(buffer: bytes, at: int) -> Tuple[Optional[Frame], int]:
    """The frame at this place; if it is not all there, None and how many bytes it takes."""
    if len(buffer) < at + 2:
        return None, 2
    first, second = buffer[at], buffer[at + 1]
    if first & 0x70 or second & 0x80:
        raise errors.CorruptError("the daemon sent a frame that RFC 6455 forbids")
    size, head = second & 0x7f, 2
    if size >= 126:
        head = 4 if size == 126 else 10
        if len(buffer) < at + head:
            return None, head
        size = int.from_bytes(buffer[at + 2:at + head], "big")
    if size > MESSAGE_BYTES_MAX:
        raise errors.LimitError("the daemon sent a message of more than 1 GiB")
    if len(buffer) < at + head + size:
        return None, head + size
    return (first & 0x0f, at + head, at + head + size, bool(first & 0x80)), 0


class WebSocketCodec:
    """See wire.Codec."""

    def __init__(self) -> None:
        self._need = 2  # bytes, before another look can find something

    def encode(self, payload: bytes) -> bytes:
        return frame(_TEXT, payload)

    def worthwhile(self, new: Sequence[bytes], size: int) -> bool:
        return size >= self._need or not new[-1]

    def find(self, buffer: bytes, start: int) -> Optional[Found]:
        at = start
        parts: List[bytes] = []
        while True:
            found, need = _parse(buffer, at)
            if found is None:
                self._need = at - start + need
                return None
            opcode, begin, end, last = found
            if opcode in (_CLOSE, _PING, _PONG):
                if not parts:
                    self._need = 2
                    return self._control(opcode, buffer[begin:end], end)
                # Between fragments: a ping is not answered before the message is whole.
            elif opcode in (_TEXT, _BINARY, _CONTINUATION):
                parts.append(buffer[begin:end])
                if last:
                    self._need = 2
                    return Found(b"".join(parts), end)
            else:
                raise errors.CorruptError("the daemon sent a frame of an unknown kind")
            at = end

    def _control(self, opcode: int, payload: bytes, end: int) -> Found:
        if opcode == _CLOSE:
            code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
            reason = payload[2:].decode("utf-8", "replace")
            raise errors.GoneError("the daemon closed the connection (%d%s)"
                                   % (code, ": " + reason if reason else ""))
        return Found(None, end, frame(_PONG, payload) if opcode == _PING else b"")
