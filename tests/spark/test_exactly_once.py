"""delivery=exactly-once on a real broker, without Spark: a process dies, or is there twice, between any two
requests, and every row is there once. The points are those of docs/design/017-exactly-once-from-spark.md.

`test_exactly_once_crashes` has the same with a real Spark.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pyarrow as pa
import pytest
from tests.compat.transactional import Server, kill_and_start
from tests.spark.harness import LONG, Topic, new_topic
from tests.spark.staging import TASKS, Killed, Query, committed, counted, dying
from tests.support.waiting import wait_for

from ottla.client import Client, TopicPartition
from ottla.spark import batch_commit, decision, writer
from ottla.spark.decision import Staged, Task, attempt_id, driver_id
from ottla.spark.errors import SourceError

DEATHS = ["before it is sent", "before it is answered"]


@pytest.fixture
def query(target: Topic) -> Query:
    return Query(target)


@pytest.fixture
def client(target: Topic) -> Iterator[Client]:
    with Client(target.bootstrap) as made:
        yield made


def lose(client: Client, query: Query, *tasks: int) -> None:
    """Another process begins under the ids of these tasks: what was staged there is aborted."""
    for number in tasks:
        client.begin_transaction(attempt_id(query.id, number, 0), 60_000)


def time_out(client: Client, query: Query, *tasks: int) -> None:
    """The coordinator aborts them."""
    ids = [attempt_id(query.id, number, 0) for number in tasks]

    def are_aborted() -> bool:
        return {state.state for state in client.describe_transactions(ids).values()} == {"CompleteAbort"}

    wait_for(are_aborted, 60, what="the timeout")


End = Callable[..., None]
ENDS = [lose, pytest.param(time_out, marks=LONG)]
TIMEOUT_MS = "10000"


def decided_and_not_ended(
    monkeypatch: pytest.MonkeyPatch, query: Query, label: str = "first", ended: int = 1, batch: int = 0
) -> None:
    """A driver that dies when it has ended so many of the transactions of its batch."""
    with monkeypatch.context() as patch:
        end = Client.end_transactions

        def some(client: Client, transactions: list, *, committed: bool) -> dict:  # type: ignore[type-arg]
            if transactions[0].transactional_id == driver_id(query.id):
                return end(client, transactions, committed=committed)
            end(client, transactions[:ended], committed=committed)
            raise Killed

        patch.setattr(Client, "end_transactions", some)
        with pytest.raises(Killed):
            query.run(label, batch)


def test_rows_are_seen_when_their_batch_is_committed_and_not_before(query: Query, client: Client) -> None:
    staged = query.tasks("first")
    partitions = [topic_partition for message in staged for topic_partition in message.spans]
    assert set(client.ends(partitions, read_committed=True).values()) == {0}
    assert min(client.ends(partitions).values()) > 0
    query.commit(staged)
    assert committed(query.target) == query.values("first")
    query.run("second", 1)
    assert committed(query.target) == sorted(query.values("first") + query.values("second", 1))


def test_a_batch_that_is_replayed_writes_nothing(query: Query) -> None:
    query.run("first")
    replayed = query.tasks("again")
    assert replayed == [Staged(Task(query.id, 0, number, 0)) for number in range(TASKS)]
    query.commit(replayed)
    assert committed(query.target) == query.values("first")


def test_a_checkpoint_that_was_set_back_is_refused(query: Query) -> None:
    """Its batches have the old numbers, and not the old rows."""
    staged = query.tasks("zombie")
    for batch in range(2):
        query.run("first", batch)
    with pytest.raises(SourceError, match=r"CHECKPOINT_SET_BACK.*Batch 0 .* batch 1 already"):
        query.task("again", 0, batch=0)
    with pytest.raises(SourceError, match=r"CHECKPOINT_SET_BACK.*Batch 0 .* batch 1 already"):
        query.commit(staged)
    assert committed(query.target) == sorted(query.values("first") + query.values("first", 1))


@pytest.mark.parametrize("is_sent", [False, True], ids=DEATHS)
def test_a_driver_that_dies_at_any_request_of_a_commit_leaves_all_of_the_batch_or_none(
    target: Topic, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    """The replay has other rows. What is there in the end is one run or the other, whole."""
    outcomes = []
    for at in count():
        query = Query(target)
        query.run("before", 0)
        staged = query.tasks("first", 1)
        with dying(monkeypatch, at, is_sent=is_sent) as requests, suppress(Killed):
            query.commit(staged, 1)
        query.run("again", 1)
        values = [value for value in committed(target, query.id) if "before" not in value]
        assert values in (query.values("first", 1), query.values("again", 1)), f"dead at request {at}"
        outcomes.append(values == query.values("first", 1))
        if requests.sent <= at:
            break
    assert outcomes == sorted(outcomes), "from some point on the first run counts"
    assert (outcomes[0], outcomes[-1]) == (False, True)
    assert len(outcomes) > 12


@pytest.mark.parametrize("is_sent", [False, True], ids=DEATHS)
def test_a_task_that_dies_at_any_request_is_run_again_and_its_rows_are_there_once(
    target: Topic, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    for at in count():
        query = Query(target)
        with dying(monkeypatch, at, is_sent=is_sent) as requests, suppress(Killed):
            query.task("dead", 0)
        others = [query.task("first", number) for number in range(1, TASKS)]
        query.commit([query.task("first", 0, attempt=1), *others])
        assert committed(target, query.id) == query.values("first"), f"dead at request {at}"
        if requests.sent <= at:
            break
    assert at > 6


def test_two_drivers_of_one_query_write_a_batch_once(target: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one runs as a whole between any two requests of the first."""
    for at in count():
        query = Query(target)
        staged = query.tasks("first")
        error = None
        with counted(monkeypatch) as requests:
            requests.acts[at] = lambda query=query: query.run("second")  # type: ignore[misc]
            try:
                query.commit(staged)
            except SourceError as raised:
                error = raised
            is_last = bool(requests.acts)
        values = committed(target, query.id)
        assert values in (query.values("first"), query.values("second")), f"at request {at}"
        if error is not None:
            assert error.error_class in {"KAFKA_PRODUCER_FENCED", "KAFKA_TRANSACTION_TIMED_OUT"}
            assert values == query.values("second")
        if is_last:
            break
    assert at > 12


@pytest.mark.parametrize("end", ENDS)
def test_what_was_decided_is_copied_from_the_log_if_its_transactions_ran_out(
    target: Topic, client: Client, monkeypatch: pytest.MonkeyPatch, end: End
) -> None:
    query = Query(target, kafka__transaction__timeout__ms=TIMEOUT_MS, kafka__compression__type="lz4")
    decided_and_not_ended(monkeypatch, query)
    end(client, query, 1, 2)
    query.run("again")
    assert committed(target) == query.values("first")
    query.run("again")
    query.run("next", 1)
    assert committed(target) == sorted(query.values("first") + query.values("next", 1))


@pytest.mark.parametrize("is_sent", [pytest.param(False, marks=LONG), True], ids=DEATHS)
def test_a_driver_that_dies_while_it_copies_copies_once(
    target: Topic, client: Client, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    for at in count(8):
        query = Query(target)
        decided_and_not_ended(monkeypatch, query)
        lose(client, query, 1, 2)
        with dying(monkeypatch, at, is_sent=is_sent) as requests, suppress(Killed):
            query.run("again")
        query.run("again")
        assert committed(target, query.id) == query.values("first"), f"dead at request {at}"
        if requests.sent <= at:
            break
    assert at > 30


def test_a_decided_transaction_that_was_committed_before_its_id_was_used_again_is_not_copied(
    query: Query, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator has forgotten how it ended; the log has not."""
    decided_and_not_ended(monkeypatch, query, ended=2)
    lose(client, query, 0, 1)
    query.run("again")
    assert committed(query.target) == query.values("first")


def test_decided_rows_that_the_log_has_not_any_more_are_an_error(
    query: Query, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided_and_not_ended(monkeypatch, query)
    lose(client, query, 1, 2)
    assert len(committed(query.target)) == 4
    partitions = [TopicPartition(query.target.name, number) for number in range(3)]
    for topic_partition, end in client.ends(partitions).items():
        query.target.delete_records(end, topic_partition.partition)
    with pytest.raises(SourceError, match=r"STAGED_ROWS_GONE.*Batch 0 was decided") as caught:
        query.run("again")
    assert "A new checkpoint writes the batch again" in str(caught.value)


@pytest.mark.parametrize("end", ENDS)
def test_a_batch_that_takes_longer_than_its_transactions_is_an_error_and_leaves_nothing(
    target: Topic, client: Client, end: End
) -> None:
    query = Query(target, kafka__transaction__timeout__ms=TIMEOUT_MS)
    staged = query.tasks("first")
    end(client, query, 0, 1, 2)
    said = rf"tasks 0, 1, 2 .*kafka.transaction.timeout.ms={TIMEOUT_MS}.*or raise"
    with pytest.raises(SourceError, match=said) as caught:
        query.commit(staged)
    assert caught.value.error_class == "KAFKA_TRANSACTION_TIMED_OUT"
    query.abort(staged)
    assert committed(target) == []
    query.run("again")
    assert committed(target) == query.values("again")


@pytest.mark.parametrize(("chosen", "loser"), [(0, 1), (1, 0)])
def test_of_two_attempts_the_chosen_one_counts_and_the_other_holds_nobody_up(
    query: Query, chosen: int, loser: int
) -> None:
    """As with speculation: both have written all rows, and nobody ends the other one but the driver."""
    query.task("loser", 1, attempt=loser)
    others = [query.task("first", number) for number in (0, 2)]
    query.commit([query.task("first", 1, attempt=chosen), *others])
    assert committed(query.target) == query.values("first")


def test_a_task_that_fails_after_it_wrote_takes_its_rows_back(query: Query, client: Client) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from [query.rows("failed", 0)] * (writer.STAGED_ROWS_MAX // 4 + 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        writer.stage(query.options, Task(query.id, 0, 0, 0), failing())
    assert committed(query.target) == []
    name = attempt_id(query.id, 0, 0)
    wait_for(lambda: client.describe_transactions([name])[name].state == "CompleteAbort", what="the abort")


def test_an_abort_takes_back_what_was_not_decided(query: Query) -> None:
    staged = query.tasks("first")
    query.abort(staged)
    assert committed(query.target) == []
    query.run("again")
    assert committed(query.target) == query.values("again")


def test_an_abort_after_a_commit_that_failed_half_way_takes_nothing_back(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark does it when `commit` raises."""
    staged = query.tasks("first")
    with monkeypatch.context() as patch:
        patch.setattr(batch_commit.Query, "_finish", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            query.commit(staged)
    query.abort(staged)
    query.run("again")
    assert committed(query.target) == query.values("first")


def test_a_decision_that_is_too_large_for_an_offset_is_kept_in_pieces(
    query: Query, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "METADATA_MAX", 30)
    decided_and_not_ended(monkeypatch, query)
    stored = batch_commit.read_decision(client, query.id)
    assert stored is not None
    assert [chosen.number for chosen in stored.chosen] == [0, 1, 2]
    query.run("again")
    assert committed(query.target) == query.values("first")


def test_a_task_without_rows_begins_no_transaction(query: Query, client: Client) -> None:
    staged = writer.stage(query.options, Task(query.id, 0, 0, 0), iter([]))
    assert staged == Staged(Task(query.id, 0, 0, 0), is_written=True)
    query.commit([staged])
    assert client.describe_transactions([attempt_id(query.id, 0, 0), driver_id(query.id)]) == {}


def test_a_batch_job_is_seen_when_it_is_done_and_written_twice_if_it_runs_twice(
    query: Query, client: Client
) -> None:
    for job in ("a", "b"):
        staged = [
            writer.stage(
                query.options, Task(job + query.id, None, number, 0), iter([query.rows("x", number)])
            )
            for number in range(TASKS)
        ]
        batch_commit.commit_job(query.options, staged)
    assert committed(query.target) == sorted(query.values("x") * 2)
    left = writer.stage(query.options, Task("c" + query.id, None, 0, 0), iter([query.rows("left", 0)]))
    batch_commit.abort_job(query.options, [left])
    assert len(committed(query.target)) == TASKS * 8
    assert client.committed(driver_id("a" + query.id)) == {}


def test_more_time_than_brokers_allow_is_an_error_that_says_so(target: Topic) -> None:
    query = Query(target, kafka__transaction__timeout__ms="999999999")
    with pytest.raises(Exception, match=r"INVALID_TRANSACTION_TIMEOUT.*transaction.max.timeout.ms"):
        query.task("first", 0)


@LONG
def test_a_broker_that_is_killed_at_any_step_of_a_batch_has_every_row_once(
    mortal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads every partition, and is the coordinator of every group and transaction."""
    query = Query(new_topic(mortal.bootstrap, 3))
    staged = query.tasks("first")
    kill_and_start(mortal)
    query.commit(staged)
    kill_and_start(mortal)
    query.run("again")
    assert committed(query.target) == query.values("first")
    decided_and_not_ended(monkeypatch, query, "second", batch=1)
    kill_and_start(mortal)
    query.run("again", 1)
    assert committed(query.target) == sorted(query.values("first") + query.values("second", 1))
    half = [query.task("third", number, batch=2) for number in range(2)]
    kill_and_start(mortal)
    query.commit([*half, query.task("third", 2, batch=2)], 2)
    assert [value for value in committed(query.target) if "third" in value] == query.values("third", 2)
