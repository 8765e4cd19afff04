"""Which transactions make up a batch, as values: nothing here is asked of anybody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client import Committed, TopicPartition, Transaction
from ottla.client.transaction_states import Described
from ottla.spark import decision as decisions
from ottla.spark.decision import Chosen, Decision, Staged, Standing, Task
from ottla.spark.errors import SourceError

ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 4)
OFFSETS = st.integers(0, 2**63 - 1)
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["orders", "refunds", "ü"]), st.integers(0, 5000))
CHOSEN = st.builds(
    Chosen, *[st.integers(0, 2**31)] * 3, st.integers(0, 32767), st.integers(0), PARTITIONS, OFFSETS
)
SPANS = st.dictionaries(PARTITIONS, st.tuples(OFFSETS, OFFSETS), min_size=1)


def staged(number: int, attempt: int = 0, *, rows: int = 2, **spans: tuple[int, int]) -> Staged:
    task = Task("q", 7, number, attempt)
    if not spans:
        return Staged(task, is_written=True)
    offsets = {TopicPartition(topic, 0): span for topic, span in spans.items()}
    return Staged(task, Transaction(task.transactional_id, 100 + number, 3), rows, offsets, is_written=True)


def described(message: Staged, state: str = "Ongoing", *, epochs: int = 0) -> dict[str, Described]:
    assert message.transaction is not None
    name, producer_id, epoch = message.transaction
    return {name: Described(name, 0, producer_id, epoch + epochs, state, 60_000, None, [])}


def test_a_batch_is_undecided_until_its_number_is_stored() -> None:
    assert decisions.standing(None, 0) is Standing.UNDECIDED
    assert decisions.standing(6, 7) is Standing.UNDECIDED
    assert decisions.standing(7, 7) is Standing.DECIDED
    assert decisions.standing(8, 7) is Standing.PASSED


def test_a_decision_has_every_transaction_and_where_all_of_their_records_are() -> None:
    messages = [staged(1, 2, a=(15, 30), b=(0, 1)), staged(0, a=(10, 20)), staged(2)]
    decision = decisions.decide(7, messages)
    first, second = TopicPartition("a", 0), TopicPartition("b", 0)
    assert decision.spans == {first: (10, 30), second: (0, 1)}
    assert decision.chosen == (Chosen(0, 0, 100, 3, 2, first, 10), Chosen(1, 2, 101, 3, 2, first, 15))
    assert decision.chosen[1].transaction("q") == Transaction("ottla-spark-q-1-2", 101, 3)
    assert decision.without(decision.chosen[:1]) == Decision(7, decision.chosen[1:], decision.spans)


@given(st.lists(CHOSEN), SPANS)
def test_a_decision_is_read_as_it_was_stored(chosen: list[Chosen], spans: decisions.Spans) -> None:
    spans = dict.fromkeys((task.topic_partition for task in chosen), (0, 1)) | spans
    decision = Decision(7, tuple(chosen), spans)
    first, *others = [{decision.anchor: piece} for piece in decisions.to_offsets(decision)]
    head = decisions.head("q", {TopicPartition("before", 0): Committed(6, "v1 1 x")} | first)
    assert head is not None
    assert head.pieces == 1 + len(others)
    assert decisions.whole("q", head, others) == decision
    assert all(len(piece.metadata) <= 4096 for piece in decisions.to_offsets(decision))


def test_hundreds_of_tasks_fit_into_a_few_offsets() -> None:
    messages = [staged(number, a=(number * 1000, number * 1000 + 1000)) for number in range(400)]
    assert len(decisions.to_offsets(decisions.decide(7, messages))) <= 4


def test_what_is_no_decision_or_not_whole_is_an_error_that_says_what_to_do() -> None:
    assert decisions.head("q", {}) is None
    for metadata in ("", "by hand", "v2 1 abc", "v1 x abc"):
        with pytest.raises(SourceError, match=r"group ottla-spark-q.*Delete the group"):
            decisions.head("q", {ORDERS: Committed(7, metadata)})
    head = decisions.head("q", {ORDERS: Committed(7, "v1 2 abcd")})
    assert head is not None
    for others in ([{}], [{ORDERS: Committed(6, "v1 2 efgh")}], [{ORDERS: Committed(7, "v1 2 efgh")}]):
        with pytest.raises(SourceError, match="cannot be read"):
            decisions.whole("q", head, others)


def test_attempts_that_failed_and_a_speculative_copy_are_asked_for() -> None:
    assert decisions.attempts([staged(4, 1, a=(0, 1))]) == {
        "ottla-spark-q-4-0",
        "ottla-spark-q-4-1",
        "ottla-spark-q-4-2",
    }


def test_a_transaction_is_open_only_with_its_own_producer_id_and_epoch() -> None:
    message, without_rows = staged(0, a=(0, 1)), staged(1)
    both = [message, without_rows]
    assert decisions.ran_out(both, described(message)) == []
    assert decisions.ran_out(both, {}) == [message]
    assert decisions.ran_out(both, described(message, "CompleteAbort")) == [message]
    assert decisions.ran_out(both, described(message, epochs=1)) == [message], "begun again by somebody else"


def test_only_open_attempts_that_were_not_chosen_are_rivals() -> None:
    chosen = staged(0, 1, a=(0, 1))
    loser, ended, idle = staged(0, 0, a=(0, 1)), staged(0, 2, a=(0, 1)), staged(3, a=(0, 1))
    states = (
        described(chosen) | described(loser) | described(ended, "CompleteAbort") | described(idle, "Empty")
    )
    assert decisions.rivals([chosen], states) == ["ottla-spark-q-0-0"]
    without_rows = staged(5, 0)
    assert decisions.rivals([without_rows], described(staged(5, 1, a=(0, 1)))) == ["ottla-spark-q-5-1"]
