"""How much room there is on the disks of the log directories.

A disk that hangs must not hold up the loop, so a thread looks, at most every ten seconds and only while
somebody reads metrics; what is shown is what it saw last. The first reader finds nothing yet.
"""

import asyncio
import os
from collections.abc import Iterable

LOOK_MS = 10_000


class DiskRoom:
    """What was last seen of the disks."""

    def __init__(self) -> None:
        self.by_directory: dict[str, tuple[int, int]] = {}  # free, and all, bytes
        self._looked_ms = -LOOK_MS
        self._is_looking = False

    def look(self, directories: Iterable[str], now_ms: int) -> None:
        if self._is_looking or now_ms - self._looked_ms < LOOK_MS:
            return
        self._is_looking, self._looked_ms = True, now_ms
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, _room, list(directories)).add_done_callback(self._on_seen)

    def _on_seen(self, seen: "asyncio.Future[dict[str, tuple[int, int]]]") -> None:
        self._is_looking = False
        if not seen.cancelled():
            self.by_directory = seen.result()


def _room(directories: list[str]) -> dict[str, tuple[int, int]]:
    room = {}
    for directory in directories:
        try:
            disk = os.statvfs(directory)
        except OSError:
            continue  # it is offline, which another metric says
        room[directory] = (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)
    return room
