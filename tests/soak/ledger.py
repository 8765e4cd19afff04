"""What was acknowledged, against what was read, without keeping either for longer than it takes.

Offsets of a partition without transactions and compaction have no gaps: who reads them in order and meets
every one of them has seen everything. A record is remembered only until both sides have told of it, or until
retention has deleted it unread, which it may do when its time is over (a machine that stalls may hold up a
reader for that long) and not before.
"""

import threading
from typing import NamedTuple

Place = tuple[int, int]  # partition, offset


class Acknowledged(NamedTuple):
    value: str
    timestamp_ms: int


class Ledger:
    """Values are `writer:number`; a writer's numbers rise within a partition. For any number of threads."""

    def __init__(self, retention_ms: int) -> None:
        self.acknowledged = self.read = self.repeated = 0
        self._retention_ms = retention_ms
        self._wrong: list[str] = []
        self._acknowledged: dict[Place, Acknowledged] = {}
        self._read: dict[Place, str] = {}
        self._expired: set[Place] = set()  # deleted before they were read
        self._gaps: list[tuple[int, int, int]] = []  # partition, and from where to where nothing was read
        self._next: dict[int, int] = {}  # offset to be read, by partition
        self._start: dict[int, int] = {}  # of the log, by partition
        self._last: dict[tuple[int, str], int] = {}  # number that was read, by partition and writer
        self._lock = threading.Lock()

    @property
    def is_settled(self) -> bool:
        """Nothing is on its way: all that was acknowledged is read or deleted."""
        return not (self._acknowledged or self._read or self._gaps)

    @property
    def expired(self) -> int:
        return len(self._expired)

    def on_acknowledged(self, place: Place, value: str, timestamp_ms: int, now_ms: int) -> None:
        with self._lock:
            self.acknowledged += 1
            if place in self._read:
                self._compare(place, self._read.pop(place), value)
                return
            self._acknowledged[place] = Acknowledged(value, timestamp_ms)
            if place[1] < self._start.get(place[0], 0):
                self._expire(place, now_ms)

    def on_read(self, place: Place, value: str) -> None:
        """What a member reads again after it has lost its partition is no second record."""
        partition, offset = place
        with self._lock:
            wanted = self._next.get(partition, 0)
            if offset < wanted:
                self.repeated += 1
                return
            if offset > max(wanted, self._start.get(partition, 0)):
                self._gaps.append((partition, wanted, offset))
            self._next[partition] = offset + 1
            self.read += 1
            writer, number = value.rsplit(":", 1)
            if int(number) <= self._last.get((partition, writer), -1):
                self._wrong.append(f"{value} at {place} stands behind a later one, or is there twice")
            self._last[partition, writer] = int(number)
            if place in self._acknowledged:
                self._compare(place, self._acknowledged.pop(place).value, value)
            elif place in self._expired:  # the reader had it already
                self._expired.remove(place)
            else:
                self._read[place] = value

    def on_deleted(self, partition: int, start_offset: int, now_ms: int) -> None:
        """The log begins at `start_offset`."""
        with self._lock:
            self._start[partition] = start_offset
            self._gaps = [gap for gap in self._gaps if gap[0] != partition or gap[2] > start_offset]
            for place in [
                each for each in self._acknowledged if each[0] == partition and each[1] < start_offset
            ]:
                self._expire(place, now_ms)

    def on_refused(self, value: str, reason: str) -> None:
        with self._lock:
            self._wrong.append(f"{value} was refused: {reason}")

    def _expire(self, place: Place, now_ms: int) -> None:
        value, timestamp_ms = self._acknowledged.pop(place)
        self._expired.add(place)
        if now_ms - timestamp_ms < self._retention_ms:
            self._wrong.append(f"{value} at {place} was deleted after {now_ms - timestamp_ms} ms")

    def _compare(self, place: Place, value: str, other: str) -> None:
        if value != other:
            self._wrong.append(f"{value} and {other} were acknowledged and read at {place}")

    def close(self) -> list[str]:
        """A sentence for everything that must not be, when all was written and read."""
        gaps = [f"partition {number} goes from {wanted} to {offset}" for number, wanted, offset in self._gaps]
        lost = [
            f"{value} was acknowledged at {place}, and never read"
            for place, (value, _) in sorted(self._acknowledged.items())
        ]
        more = [
            f"{value} was read at {place}, and never acknowledged"
            for place, value in sorted(self._read.items())
        ]
        return [*self._wrong, *gaps, *lost, *more]
