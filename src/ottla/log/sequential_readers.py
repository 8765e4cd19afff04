"""Who reads a segment from front to back: where they stopped, and what is brought into memory for them.

Where one stopped is where it goes on, so neither index nor scan is needed to find its next batch. Once such a
reader has found something missing in memory, what it will ask for next is to be brought in before
(`log/cold`): half of `AHEAD_BYTES` at a time, by a worker that reads it, rather than by advice to the kernel.
Who touches a page first pays for it, on a virtual machine 2 to 6 us, and that must not be the loop. So what a
worker has begun to bring in is not read before it is done, though the kernel may have it in memory already.
"""

from typing import NamedTuple
from weakref import ref

from ottla.log.cold import ReadAhead

AHEAD_BYTES = 8 << 20
_STOPS_MAX = 16


class _Stop(NamedTuple):
    """Where a reader goes on, and up to where something was asked for ahead of it."""

    position: int
    ahead_end: int


class SequentialReaders:
    """Of one segment. Each has its own bytes ahead."""

    __slots__ = ("_awaited", "_is_cold", "_stops")

    def __init__(self) -> None:
        self._stops: dict[int, _Stop] = {}
        # What workers bring in. Whoever is to hand it out may drop it, and then it is not awaited either.
        self._awaited: list[ref[ReadAhead]] = []
        self._is_cold = False  # something was not in memory when it was read

    def stop(self, offset: int, position: int, begun_at: int) -> None:
        """One that began at the offset `begun_at` stopped before `offset`, which begins at `position`, and
        may come back for it."""
        stops = self._stops
        before = stops.get(begun_at)
        if len(stops) >= _STOPS_MAX:
            del stops[next(iter(stops))]
        stops[offset] = _Stop(position, 0 if before is None else before.ahead_end)

    def position(self, offset: int) -> int | None:
        stop = self._stops.get(offset)
        return None if stop is None else stop.position

    def on_missing(self, offset: int) -> None:
        """What one who reads from `offset` wants is not in memory, whatever was asked for before."""
        self._is_cold = True
        stop = self._stops.get(offset)
        if stop is not None:
            self._stops[offset] = _Stop(stop.position, 0)

    def ahead_of(self, offset: int, end: int, size: int) -> tuple[int, int] | None:
        """From where to where something is to be brought in for one who reads from `offset` to the position
        `end`, in a segment of `size` bytes. None if it has not stopped here before, and while enough is there
        or on its way."""
        stop = self._stops.get(offset) if self._is_cold else None
        if stop is None:
            return None
        wanted = min(end + AHEAD_BYTES, size)
        begin = stop.ahead_end if end <= stop.ahead_end <= wanted else end
        if begin >= wanted or wanted - begin < min(AHEAD_BYTES // 2, size - end):
            return None
        self._stops[offset] = _Stop(stop.position, wanted)
        return begin, wanted

    def expect(self, ahead: ReadAhead) -> None:
        self._awaited.append(ref(ahead))

    def is_awaited(self, begin: int, end: int) -> bool:
        """Is a worker bringing in something of this?"""
        if not self._awaited:
            return False
        under_way = [ahead for held in self._awaited if (ahead := held()) and not ahead.is_done]
        self._awaited = [ref(ahead) for ahead in under_way]
        return any(
            piece.at < end and begin < piece.at + piece.size for ahead in under_way for piece in ahead.pieces
        )
