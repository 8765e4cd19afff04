"""The journal of a coordinator's shard, in memory."""

from collections.abc import Iterator

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime import Stored
from ottla.coordinator.turn import StoredEnd, StoredRecord, Writer
from ottla.records.batch import HEADER_SIZE
from ottla.records.control import Marker


class Journal:
    """In memory. What is written is committed at once, unless `waits`; then `committed` is the watermark."""

    def __init__(self) -> None:
        self.items: list[tuple[StoredRecord, int, int] | StoredEnd] = []
        self.writers: dict[int, Writer] = {}  # of transactions, by the offset of each batch
        self.waits = False
        self.committed = 0
        self.batch_bytes_max = 1 << 20
        self.error: ApiError | None = None

    @property
    def records(self) -> list[tuple[StoredRecord, int, int]]:
        return [item for item in self.items if not isinstance(item, StoredEnd)]

    @property
    def end_offset(self) -> int:
        return len(self.items)

    @property
    def committed_offset(self) -> int:
        return self.committed if self.waits else self.end_offset

    def place(self, offset: int) -> str:
        return f"file of {offset}"

    def stored(self) -> Iterator[Stored]:
        return iter(list(self.items))

    def append(
        self, records: list[StoredRecord], now_ms: int, wall_ms: int, writer: Writer | None = None
    ) -> int:
        if self.error is not None:
            raise self.error
        if HEADER_SIZE + sum(len(record.key) + len(record.value or b"") for record in records) > (
            self.batch_bytes_max
        ):
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        base = len(self.items)
        if writer is not None:
            self.writers[base] = writer
            records = [record._replace(producer_id=writer.producer_id) for record in records]
        self.items.extend((record, base + at, wall_ms) for at, record in enumerate(records))
        return base

    def append_end(self, marker: Marker, now_ms: int, wall_ms: int) -> int | None:
        if self.error is not None:
            raise self.error
        self.items.append(StoredEnd(marker.producer_id, marker.committed, len(self.items)))
        return len(self.items) - 1
