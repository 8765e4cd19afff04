"""What a reader sees of what it has fetched."""

from collections.abc import Iterator

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records.batch import assign, set_crc
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import build_marker
from ottla.records.fetched import Aborted, Fetched
from ottla.records.record import read_records
from ottla.records.visible import visible

PLACE = TopicPartition("t", 0)


def of(value: bytes, offset: int, producer_id: int = -1, *, transactional: bool = False) -> bytearray:
    batch = build_batch([NewRecord(None, value)], producer_id=producer_id, transactional=transactional)
    assign(batch, offset, 0)
    return batch


def marker(producer_id: int, offset: int, *, committed: bool) -> bytearray:
    batch = build_marker(producer_id, 0, committed, 0, 0)
    assign(batch, offset, 0)
    return batch


def seen(*batches: bytearray, aborted: tuple[Aborted, ...] = ()) -> Iterator[bytes | None]:
    chunk = Fetched(memoryview(b"".join(batches)), aborted)
    return (record.value for _, batch in visible(PLACE, [chunk]) for record in read_records(batch))


def test_aborted_records_and_markers_are_not_seen() -> None:
    log = (
        of(b"plain", 0),
        of(b"aborted", 1, 7, transactional=True),
        of(b"committed", 2, 8, transactional=True),
        marker(7, 3, committed=False),
        of(b"after", 4, 7, transactional=True),
        marker(8, 5, committed=True),
        marker(7, 6, committed=True),
    )
    assert list(seen(*log, aborted=(Aborted(7, 1),))) == [b"plain", b"committed", b"after"]
    assert list(seen(*log)) == [b"plain", b"aborted", b"committed", b"after"]


def test_what_is_damaged_or_no_batch_is_an_error_that_names_the_place() -> None:
    damaged = of(b"value", 5)
    damaged[-2] ^= 1
    for log, said in (
        (damaged, "t-0: the record batch of offsets 5 to 5 is damaged"),
        (of(b"v", 0)[:40], "t-0: "),
    ):
        with pytest.raises(ApiError, match=said) as raised:
            list(seen(log))
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    torn = build_batch([NewRecord(b"no", b"marker")], producer_id=7, transactional=True, control=True)
    torn[-9:-1] = bytes(8)
    set_crc(torn)
    with pytest.raises(ApiError, match="is damaged"):
        list(seen(torn, aborted=(Aborted(7, 0),)))
