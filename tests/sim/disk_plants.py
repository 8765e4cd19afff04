"""Known bugs of reads that wait for a slow disk, to be planted (`plants`). They are looked for in seeds whose
disks are slow, and forget."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast
from unittest.mock import patch

from tests.sim.plants import Plant

from ottla.base.files import Bytes
from ottla.log.cold import ColdError, Warmth
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.log.segment_reader import Read


def _impatient(stack: ExitStack) -> None:
    original = Segment.read

    def read(self: Segment, position: int, count: int, warmth: Warmth | None = None) -> Bytes:
        return original(self, position, count, None)

    stack.enter_context(patch.object(Segment, "read", read))


@contextmanager
def _unseen(log: Log) -> Iterator[None]:
    """That the plant itself waits for the disk is not what is to be found."""
    waits = cast(Any, log.files)._files.waits
    before = len(waits)
    yield
    del waits[before:]


def _read_where_it_was(stack: ExitStack, *, is_shared: bool) -> None:
    """Who comes back is given the bytes from where they were, whatever has become of the log; if they are
    shared, whoever asks for that offset next."""
    original = Log.read
    places: dict[tuple[int, ...], tuple[Segment, int, int, int]] = {}

    def read(self: Log, offset: int, max_bytes: int, *, end: int, **more: Any) -> Read:
        key = (id(self), offset) if is_shared else (id(self), offset, end)
        if (stale := places.pop(key, None)) is not None:
            segment, position, size, next_offset = stale
            with _unseen(self):
                return Read(segment.read(position, size), next_offset)
        try:
            return original(self, offset, max_bytes, end=end, **more)
        except ColdError as missing:
            with _unseen(self):
                at_once = original(self, offset, max_bytes, end=end, **more | {"warmth": None})
                paths = {piece.path for piece in missing.pieces}
                segment = next(one for one in self.segments if one.path() in paths)
                places[key] = segment, segment.locate(offset), len(at_once.records), at_once.next_offset
            raise

    stack.enter_context(patch.object(Log, "read", read))


read_where_it_was = partial(_read_where_it_was, is_shared=False)

DISK_PLANTS: dict[str, Plant] = {
    "a consumer's read waits for the disk": _impatient,
    "what was read from the disk for one is given to who asks for it next": partial(
        _read_where_it_was, is_shared=True
    ),
}
