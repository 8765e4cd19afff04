"""What is being verified in a partition."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.log import producer_limit
from ottla.log.producers import Producers
from ottla.log.verifications import VERIFICATIONS_MAX, Verifications
from ottla.records.batch import BatchHeader, read_header
from ottla.records.builder import NewRecord, build_batch


def header(sequence: int, epoch: int = 0) -> BatchHeader:
    return read_header(
        build_batch(
            [NewRecord(None, b"v", (), 0)],
            producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=True,
        )
    )  # fmt: skip


def refused(verifications: Verifications, batch: BatchHeader, *, is_new: bool = False) -> ErrorCode | None:
    try:
        verifications.check(batch, is_new=is_new)
    except ApiError as error:
        return error.code
    return None


def test_a_verification_holds_until_it_is_taken_away_and_the_next_is_another() -> None:
    verifications = Verifications()
    first = verifications.begin(7, 0, 0, adds=False)
    assert verifications.begin(7, 0, 1, adds=False) is first
    assert verifications.holds(first)
    verifications.on_opened(7)
    second = verifications.begin(7, 0, 0, adds=False)
    assert (verifications.holds(first), verifications.holds(second)) == (False, True)


@pytest.mark.parametrize(
    ("adds", "epoch", "holds"),
    [(False, 4, True), (False, 5, False), (False, 6, False), (True, 5, True), (True, 6, False)],
)
def test_only_the_marker_of_its_own_transaction_takes_a_verification_away(
    adds: bool, epoch: int, holds: bool
) -> None:
    verifications = Verifications()
    verification = verifications.begin(7, 5, 0, adds=adds)
    verifications.on_ended(7, epoch)
    assert verifications.holds(verification) is holds


def test_nothing_is_written_before_the_lowest_sequence_that_came() -> None:
    verifications = Verifications()
    verifications.begin(7, 0, 5, adds=False)
    assert refused(verifications, header(5)) is None
    assert refused(verifications, header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    verifications.begin(7, 0, 3, adds=False)
    assert refused(verifications, header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_newer_epoch_counts_anew() -> None:
    verifications = Verifications()
    verifications.begin(7, 0, 3, adds=False)
    verifications.begin(7, 1, 5, adds=False)
    assert refused(verifications, header(5, epoch=1)) is None
    verifications.begin(7, 0, 0, adds=False)
    assert refused(verifications, header(5, epoch=1)) is None, "an older epoch says nothing of the newer"


@pytest.mark.parametrize(("adds", "code"), [(True, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (False, None)])
def test_with_an_epoch_for_each_transaction_a_new_producer_begins_with_0(
    adds: bool, code: ErrorCode | None
) -> None:
    verifications = Verifications()
    verifications.begin(7, 0, 4, adds=adds)
    assert refused(verifications, header(4), is_new=True) is code


def test_of_too_many_the_oldest_is_forgotten() -> None:
    verifications = Verifications()
    first = verifications.begin(0, 0, 0, adds=False)
    for producer_id in range(1, VERIFICATIONS_MAX):
        verifications.begin(producer_id, 0, 0, adds=False)
    assert verifications.holds(first)
    last = verifications.begin(VERIFICATIONS_MAX, 0, 0, adds=False)
    assert (verifications.holds(first), verifications.holds(last)) == (False, True)
    assert len(verifications.by_id) == VERIFICATIONS_MAX


def test_a_log_that_begins_anew_has_none() -> None:
    producers = Producers()
    verification = producers.verifications.begin(7, 0, 0, adds=False)
    producers.clear(100)
    assert not producers.verifications.holds(verification)


def test_made_up_producers_in_all_partitions_are_forgotten_where_most_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_limit, "VERIFICATIONS_MAX", 30)
    partitions = [Producers() for _ in range(5)]
    kept = partitions[0].verifications.begin(7, 0, 0, adds=False)
    for producers in partitions[1:]:
        for producer_id in range(100):
            producers.verifications.begin(producer_id, 0, 0, adds=False)
    producer_limit.ProducerLimit().enforce(partitions, 1_000, now_ms=0)
    assert [len(producers.verifications.by_id) for producers in partitions] == [1, 6, 6, 6, 6]
    assert list(partitions[1].verifications.by_id) == list(range(94, 100))
    assert partitions[0].verifications.holds(kept)
