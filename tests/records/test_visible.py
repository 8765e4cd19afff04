"""Which batches a reader sees."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records.batch import assign, set_crc, split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import build_marker
from ottla.records.fetched import Aborted, Fetched
from ottla.records.record import read_records
from ottla.records.visible import seen, visible

PLACE = TopicPartition("t", 0)
steps = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["write", "commit", "abort", "plain"])), max_size=30
)


@given(steps, st.integers(0, 30))
def test_what_is_seen_are_committed_records_and_those_without_a_transaction(
    script: list[tuple[int, str]], first: int
) -> None:
    """A fetch may begin anywhere: transactions that are open there are named as well."""
    log, opened, aborted = bytearray(), {}, []
    owners: dict[int, tuple[int, int]] = {}  # offset -> producer and the first offset of its transaction
    fates: dict[tuple[int, int], str] = {}
    plain = []
    for offset, (producer, what) in enumerate(script):
        if what in ("commit", "abort"):
            batch = build_marker(producer, 0, what == "commit", 0, 0)
            if producer in opened:
                began = opened.pop(producer)
                fates[producer, began] = what
                if what == "abort":
                    aborted.append((Aborted(producer, began), offset))
        else:
            is_in = what == "write"
            batch = build_batch(
                [NewRecord(b"k", b"v", (), 0)],
                producer_id=producer if is_in else -1, producer_epoch=0 if is_in else -1,
                base_sequence=0 if is_in else -1, transactional=is_in,
            )  # fmt: skip
            if is_in:
                owners[offset] = producer, opened.setdefault(producer, offset)
            else:
                plain.append(offset)
        assign(batch, offset, 0)
        if offset >= first:
            log += batch
    for producer, began in opened.items():  # still open: no marker says that they were aborted
        fates[producer, began] = "commit"
    named = [transaction for transaction, end in aborted if end >= first]
    shown = [header.base_offset for header, _ in visible(split(bytes(log)), named)]
    committed = [offset for offset, owner in owners.items() if fates[owner] == "commit"]
    assert shown == sorted(offset for offset in plain + committed if offset >= first)


def of(value: bytes, offset: int, producer_id: int = -1, *, transactional: bool = False) -> bytearray:
    batch = build_batch([NewRecord(None, value)], producer_id=producer_id, transactional=transactional)
    assign(batch, offset, 0)
    return batch


def marker(producer_id: int, offset: int, *, committed: bool) -> bytearray:
    batch = build_marker(producer_id, 0, committed, 0, 0)
    assign(batch, offset, 0)
    return batch


def read(*batches: bytearray, aborted: tuple[Aborted, ...] = ()) -> Iterator[bytes | None]:
    chunk = Fetched(memoryview(b"".join(batches)), aborted)
    return (record.value for _, batch in seen(PLACE, [chunk]) for record in read_records(batch))


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
    assert list(read(*log, aborted=(Aborted(7, 1),))) == [b"plain", b"committed", b"after"]
    assert list(read(*log)) == [b"plain", b"aborted", b"committed", b"after"]


def test_what_is_damaged_or_no_batch_is_an_error_that_names_the_place() -> None:
    damaged = of(b"value", 5)
    damaged[-2] ^= 1
    for log, said in (
        (damaged, "t-0: the record batch of offsets 5 to 5 is damaged"),
        (of(b"v", 0)[:40], "t-0: "),
    ):
        with pytest.raises(ApiError, match=said) as raised:
            list(read(log))
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    torn = build_batch([NewRecord(b"no", b"marker")], producer_id=7, transactional=True, control=True)
    torn[-9:-1] = bytes(8)
    set_crc(torn)
    with pytest.raises(ApiError, match="is damaged"):
        list(read(torn, aborted=(Aborted(7, 0),)))
