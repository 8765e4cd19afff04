"""The journal of a coordinator's shard, in memory."""

from collections.abc import Iterator

from ottla.base.errors import ApiError
from ottla.coordinator.turn import StoredRecord


class Journal:
    """In memory. What is written is committed at once, unless `waits`; then `committed` is the watermark."""

    def __init__(self) -> None:
        self.records: list[tuple[StoredRecord, int, int]] = []
        self.waits = False
        self.committed = 0
        self.error: ApiError | None = None

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def committed_offset(self) -> int:
        return self.committed if self.waits else self.end_offset

    @property
    def batch_bytes_max(self) -> int:
        return 1 << 20

    def place(self, offset: int) -> str:
        return f"file of {offset}"

    def stored(self) -> Iterator[tuple[StoredRecord, int, int]]:
        return iter(list(self.records))

    def append(self, records: list[StoredRecord], now_ms: int, wall_ms: int) -> int:
        if self.error is not None:
            raise self.error
        base = len(self.records)
        self.records.extend((record, base + at, wall_ms) for at, record in enumerate(records))
        return base
