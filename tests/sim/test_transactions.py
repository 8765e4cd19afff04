"""The ledger of transactions, by itself: each thing that must not happen is told to it, and found."""

import pytest
from tests.sim.transactions import Shown, Told, TransactionLedger, value_of
from tests.sim.world import ViolationError

from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import build_marker

INPUTS = {0: {0: "a#0", 1: "a#1"}}


class Log:
    """One partition's bytes, as a leader would hold them."""

    def __init__(self) -> None:
        self.bytes, self.end = b"", 0

    def write(self, values: list[str], producer_id: int = 1) -> "Log":
        records = [NewRecord(None, value.encode(), (), 0) for value in values]
        batch = build_batch(
            records, base_offset=self.end, producer_id=producer_id, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip
        return self._add(batch, len(values))

    def mark(self, *, committed: bool, producer_id: int = 1) -> "Log":
        marker = build_marker(producer_id, 0, committed=committed, coordinator_epoch=0, timestamp_ms=0)
        marker[:8] = self.end.to_bytes(8)
        return self._add(marker, 1)

    def _add(self, batch: bytes | bytearray, count: int) -> "Log":
        self.bytes += batch
        self.end += count
        return self


def a_copy(told: Told, name: str = "t.1") -> TransactionLedger:
    """Of both records of the input, one to each partition of the output."""
    ledger = TransactionLedger()
    transaction = ledger.begin(name)
    transaction.taken = {0: (0, 2)}
    transaction.records = {0: [value_of(name, 0, 0, "a#0")], 1: [value_of(name, 0, 1, "a#1")]}
    ledger.on_told(transaction, told)
    return ledger


def logs(*outcomes: bool | None, name: str = "t.1") -> dict[int, bytes]:
    """Both partitions of the output, each with a marker, or none."""
    made = {}
    for partition, committed in enumerate(outcomes):
        log = Log().write([value_of(name, 0, partition, f"a#{partition}")])
        made[partition] = (log if committed is None else log.mark(committed=committed)).bytes
    return made


@pytest.mark.parametrize("told", [Told.ASKED, Told.COMMITTED])
def test_a_transaction_that_is_whole_is_well_and_shown(told: Told) -> None:
    visible = a_copy(told).check_end(logs(True, True), INPUTS)
    assert visible == {0: [Shown(0, "t.1|0|0|a#0")], 1: [Shown(0, "t.1|0|1|a#1")]}


@pytest.mark.parametrize("told", [Told.NOTHING, Told.ABORTED, Told.REFUSED])
def test_what_nobody_committed_is_found_when_it_is(told: Told) -> None:
    with pytest.raises(ViolationError, match=f"is committed, and was {told}"):
        a_copy(told).check_end(logs(True, True), INPUTS)


def test_what_was_answered_as_committed_is_missed() -> None:
    with pytest.raises(ViolationError, match="is not committed, and was answered as committed"):
        a_copy(Told.COMMITTED).check_end(logs(False, False), {0: {}})


def test_half_a_transaction_is_found() -> None:
    with pytest.raises(ViolationError, match="this much is committed"):
        a_copy(Told.ASKED).check_end(logs(True, False), INPUTS)


def test_a_transaction_that_nobody_ended_is_found() -> None:
    with pytest.raises(ViolationError, match="that nobody ended"):
        a_copy(Told.ASKED).check_end(logs(True, None), INPUTS)


def test_a_record_that_is_there_twice_is_found() -> None:
    twice = Log().write([value_of("t.1", 0, 0, "a#0")] * 2).mark(committed=True)
    with pytest.raises(ViolationError, match="this much is committed"):
        a_copy(Told.COMMITTED).check_end({0: twice.bytes, 1: logs(True, True)[1]}, INPUTS)


def test_an_input_that_was_copied_twice_or_not_to_its_end_is_found() -> None:
    ledger = a_copy(Told.COMMITTED)
    with pytest.raises(ViolationError, match="with 3 records, 2 were taken"):
        ledger.check_end(logs(True, True), {0: {**INPUTS[0], 2: "a#2"}})
    again = ledger.begin("t.2")
    again.taken, again.records = {0: (1, 2)}, {1: [value_of("t.2", 0, 1, "a#1")]}
    ledger.on_told(again, Told.COMMITTED)
    second = Log().write([value_of("t.1", 0, 1, "a#1")]).mark(committed=True)
    second.write([value_of("t.2", 0, 1, "a#1")]).mark(committed=True)
    with pytest.raises(ViolationError, match=r"t\.2 takes the input's 0 from 1 to 2, after 2"):
        ledger.check_end({0: logs(True)[0], 1: second.bytes}, INPUTS)


def test_a_reader_is_not_shown_what_may_not_be_committed() -> None:
    ledger = a_copy(Told.ASKED)
    ledger.on_shown(0, Shown(0, "t.1|0|0|a#0"), "a reader")
    ledger.on_told(ledger.transactions["t.1"], Told.ABORTED)
    with pytest.raises(ViolationError, match="which was answered as aborted"):
        ledger.on_shown(0, Shown(0, "t.1|0|0|a#0"), "a reader")


def test_an_offset_that_goes_back_or_that_nobody_gave_is_found() -> None:
    ledger = a_copy(Told.COMMITTED)
    ledger.on_offset_read(0, 2, "a reader", before=ledger.committed(0))
    with pytest.raises(ViolationError, match="reads offset -1 of the input's 0, when it was 2"):
        ledger.on_offset_read(0, -1, "a reader", before=ledger.committed(0))
    with pytest.raises(ViolationError, match="which no transaction gave"):
        ledger.on_offset_read(0, 1, "a reader", before=-1)


def test_an_offset_that_was_read_and_then_not_committed_is_found() -> None:
    ledger = a_copy(Told.ASKED)
    ledger.on_offset_read(0, 2, "a reader", before=-1)
    with pytest.raises(ViolationError, match="offset 2 of the input's 0 was read"):
        ledger.check_end(logs(False, False), {0: {}})
