"""The logs of the last runs: everything that Spark and the pipeline write, in `.ottla/` of the folder.

`driver.log` is the youngest, `driver.log.1` the one before. A run begins a new one, and so does a file that
has become too long: what is kept is bounded.
"""

import os
from collections.abc import Callable, Iterator

from ottla.pipelines.folder import PipelineFolder

LOG = "driver.log"
KEPT = 6
BYTES_MAX = 8 << 20
READ_BYTES = 1 << 16


class RunLog:
    """The log that is being written."""

    def __init__(self, folder: PipelineFolder, bytes_max: int = BYTES_MAX) -> None:
        self.path = folder.own(LOG)
        self._bytes_max = bytes_max
        self._begin()

    def _begin(self) -> None:
        for number in range(KEPT - 2, -1, -1):
            older = f"{self.path}.{number}" if number else self.path
            if os.path.exists(older):
                os.replace(older, f"{self.path}.{number + 1}")
        self._file = open(self.path, "wb", buffering=0)  # noqa: SIM115  # closed by `close`
        self._written = 0

    def write(self, content: bytes) -> None:
        if self._written and self._written + len(content) > self._bytes_max:
            self._file.close()
            self._begin()
        self._file.write(content)
        self._written += len(content)

    def take(self, descriptor: int) -> None:
        """All that comes from a pipe, until nobody holds its other end. Then both are closed."""
        with os.fdopen(descriptor, "rb", buffering=0) as pipe:
            while content := pipe.read(READ_BYTES):
                self.write(content)
        self.close()

    def close(self) -> None:
        self._file.close()


def paths(folder: PipelineFolder) -> list[str]:
    """Those that are there, youngest first."""
    names = [folder.own(LOG), *(folder.own(f"{LOG}.{number}") for number in range(1, KEPT))]
    return [path for path in names if os.path.exists(path)]


def last_lines(path: str, count: int | None) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    return lines if count is None else lines[len(lines) - min(count, len(lines)) :]


def followed(folder: PipelineFolder, count: int | None, is_over: Callable[[], bool]) -> Iterator[str]:
    """The last lines, and what is written from then on, in whichever file is the youngest. `is_over` waits a
    moment and says whether that is enough."""
    path = folder.own(LOG)
    inode, position = _inode(path), 0
    if inode is not None:
        lines, position = _rest(path, 0)
        yield from lines if count is None else lines[len(lines) - min(count, len(lines)) :]
    while True:
        over, now = is_over(), _inode(path)
        if now != inode:
            if inode is not None and os.path.exists(f"{path}.1"):
                yield from _rest(f"{path}.1", position)[0]
            position, inode = 0, now
        if now is not None:
            lines, position = _rest(path, position)
            yield from lines
        if over:
            return


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _rest(path: str, position: int) -> tuple[list[str], int]:
    """Whole lines from a position on, and where they end."""
    with open(path, "rb") as file:
        file.seek(position)
        content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), position + len(whole)
