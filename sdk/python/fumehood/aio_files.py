"""Files of a workspace, for asyncio: what files.py is for threads, with the same names."""
from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, List

from . import calls
from .calls import Entry, Path
from .files import Source, parts_of, upload_name

if TYPE_CHECKING:
    from .aio import AsyncSession


class AsyncFiles:
    """session.files of an AsyncSession"""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def list(self, path: Path = "") -> List[Entry]:
        found: List[Entry] = []
        while True:
            entries, more = await self._session._ask(
                calls.list_files(path, found[-1].name if found else None))
            found += entries
            if not more or not entries:
                return found

    async def get(self, path: Path) -> bytes:
        data = bytearray()
        while True:
            part, total = await self._session._ask(calls.read_file(path, len(data)))
            data += part
            if len(data) >= total or not part:
                return bytes(data)

    async def put(self, path: Path, data: Source, *, mode: int = 0o644) -> int:
        upload, offset = upload_name(), 0
        while True:
            parts = await asyncio.to_thread(parts_of, data)
            for part in parts:
                await self._session._ask(calls.write_file(path, upload, part, offset, False, mode))
                offset += len(part)
            if not parts or isinstance(data, (bytes, bytearray, memoryview, str)):
                break
        await self._session._ask(calls.write_file(path, upload, b"", offset, True, mode))
        return offset

    async def download(self, path: Path, to: Path) -> int:
        name = os.fspath(to)
        if os.path.isdir(name):
            name = os.path.join(name, os.path.basename(os.fspath(path)))
        offset = 0
        with open(name, "wb") as file:
            while True:
                part, total = await self._session._ask(calls.read_file(path, offset))
                await asyncio.to_thread(file.write, part)
                offset += len(part)
                if offset >= total or not part:
                    return offset

    async def upload(self, source: Path, path: Path = "") -> int:
        with open(source, "rb") as file:
            return await self.put(path or os.path.basename(os.fspath(source)), file,
                                  mode=os.fstat(file.fileno()).st_mode & 0o777)

    async def remove(self, path: Path, *, whole: bool = False) -> None:
        await self._session._ask(calls.remove_file(path, whole))

    async def make_folder(self, path: Path) -> None:
        await self._session._ask(calls.make_folder(path))
