"""Who reads a segment from front to back: where they stopped, and what is brought into memory for them.

Where one stopped is where it goes on, so neither index nor scan is needed to find its next batch. Once such a
reader has found something missing in memory, what it will ask for next is to be brought in before
(`log/cold`): half of `AHEAD_BYTES` at a time, by a worker that reads it, rather than by advice to the kernel.
Who touches a page first pays for it, on a virtual machine 2 us and more, and that must not be the loop.
"""

AHEAD_BYTES = 8 << 20
_STOPS_MAX = 16
_NOTHING_MISSING = -1


class SequentialReaders:
    """Of one segment. One of several may find missing what it wants, as another is elsewhere: then the bytes
    ahead of it are asked for anew."""

    __slots__ = ("_ahead_end", "_stops")

    def __init__(self) -> None:
        self._stops: dict[int, int] = {}
        self._ahead_end = _NOTHING_MISSING  # up to where was brought in, or will be

    def stop(self, offset: int, position: int) -> None:
        """One stopped before `offset`, which begins at `position`, and may come back for it."""
        stops = self._stops
        if len(stops) >= _STOPS_MAX:
            del stops[next(iter(stops))]
        stops[offset] = position

    def position(self, offset: int) -> int | None:
        return self._stops.get(offset)

    def on_missing(self) -> None:
        """Something is not in memory."""
        self._ahead_end = max(self._ahead_end, 0)

    def ahead_of(self, offset: int, end: int, size: int) -> tuple[int, int] | None:
        """From where to where something is to be brought in for one who reads from `offset` to the position
        `end`, in a segment of `size` bytes. None if it has not stopped here before, and while enough is there
        or on its way."""
        if self._ahead_end == _NOTHING_MISSING or offset not in self._stops:
            return None
        wanted = min(end + AHEAD_BYTES, size)
        begin = self._ahead_end if end <= self._ahead_end <= wanted else end
        if begin >= wanted or wanted - begin < min(AHEAD_BYTES // 2, size - begin):
            return None
        self._ahead_end = wanted
        return begin, wanted
