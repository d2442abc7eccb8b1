"""The files of a session's workspace, from outside: the same for a session on this machine or
another.

Paths are relative to the workspace; `/workspace/…` as the session sees it will do, too. No symlink
is followed, whoever put it there. A file that is written gets its name at once and whole.
"""
from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, BinaryIO, List, Union

from . import calls, errors
from .calls import Entry, Path

if TYPE_CHECKING:
    from .session import Session

Source = Union[bytes, bytearray, memoryview, str, BinaryIO]


def upload_name() -> str:
    return secrets.token_hex(16)


def parts_of(data: Source) -> List[bytes]:
    """Pieces of what is to be written, none of them too large; of a file those that are next."""
    if isinstance(data, str):
        data = data.encode("utf-8")
    if isinstance(data, (bytes, bytearray, memoryview)):
        whole = bytes(data)
        return [whole[at:at + calls.PART_BYTES] for at in range(0, len(whole), calls.PART_BYTES)]
    part = data.read(calls.PART_BYTES)
    if isinstance(part, str):
        raise errors.UsageError("the file is open as text: open it with mode 'rb'")
    return [part] if part else []


class Files:
    """session.files"""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, path: Path = "") -> List[Entry]:
        """What is in a folder, by name."""
        found: List[Entry] = []
        while True:
            entries, more = self._session._ask(
                calls.list_files(path, found[-1].name if found else None))
            found += entries
            if not more or not entries:
                return found

    def get(self, path: Path) -> bytes:
        """The content of a file."""
        data = bytearray()
        while True:
            part, total = self._session._ask(calls.read_file(path, len(data)))
            data += part
            if len(data) >= total or not part:
                return bytes(data)

    def put(self, path: Path, data: Source, *, mode: int = 0o644) -> int:
        """Writes a file, whole or not at all; folders above it must be there. `data`: bytes, text,
        or a file that is open for reading. Returns how many bytes."""
        upload, offset = upload_name(), 0
        while True:
            parts = parts_of(data)
            for part in parts:
                self._session._ask(calls.write_file(path, upload, part, offset, False, mode))
                offset += len(part)
            if not parts or isinstance(data, (bytes, bytearray, memoryview, str)):
                break
        self._session._ask(calls.write_file(path, upload, b"", offset, True, mode))
        return offset

    def download(self, path: Path, to: Path) -> int:
        """Copies a file of the workspace to this machine; returns how many bytes."""
        name = os.fspath(to)
        if os.path.isdir(name):
            name = os.path.join(name, os.path.basename(os.fspath(path)))
        offset = 0
        with open(name, "wb") as file:
            while True:
                part, total = self._session._ask(calls.read_file(path, offset))
                file.write(part)
                offset += len(part)
                if offset >= total or not part:
                    return offset

    def upload(self, source: Path, path: Path = "") -> int:
        """Copies a file of this machine into the workspace, under its own name if none is given."""
        with open(source, "rb") as file:
            return self.put(path or os.path.basename(os.fspath(source)), file,
                            mode=os.fstat(file.fileno()).st_mode & 0o777)

    def remove(self, path: Path, *, whole: bool = False) -> None:
        """Removes a file, or a folder: an empty one, or `whole`."""
        self._session._ask(calls.remove_file(path, whole))

    def make_folder(self, path: Path) -> None:
        """Makes a folder, and those above it."""
        self._session._ask(calls.make_folder(path))
