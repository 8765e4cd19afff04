"""The disks of the log directories."""

from collections.abc import Iterable, Iterator

from ottla.base.metrics import Family, gauge
from ottla.shell.disk_room import DiskRoom


class DiskMetrics:
    FREE = gauge(
        "ottla_log_directory_free_bytes", "What is free on the disk of a log directory.", "logDirectory"
    )
    SIZE = gauge("ottla_log_directory_size_bytes", "The size of that disk.", "logDirectory")

    def __init__(self, room: DiskRoom, directories: Iterable[str]) -> None:
        self._room = room
        self._directories = directories

    def read(self, now_ms: int) -> Iterator[Family]:
        self._room.look(self._directories, now_ms)
        room = self._room.by_directory.items()
        yield self.FREE, [((directory,), free) for directory, (free, _) in room]
        yield self.SIZE, [((directory,), size) for directory, (_, size) in room]
