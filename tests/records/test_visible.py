"""Which batches a reader sees."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batch import assign, split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import build_marker
from ottla.records.fetched import Aborted
from ottla.records.visible import visible

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
    seen = [header.base_offset for header, _ in visible(split(bytes(log)), named)]
    committed = [offset for offset, owner in owners.items() if fates[owner] == "commit"]
    assert seen == sorted(offset for offset in plain + committed if offset >= first)
