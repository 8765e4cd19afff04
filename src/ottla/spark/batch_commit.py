"""The driver's half of writing exactly once: decide a batch, end its transactions, and finish what an earlier
driver has decided and not ended. docs/design/017-exactly-once-from-spark.md says why it is right; the numbers
below are its steps.

Every call is in a new process, and may be the last one: whatever has to be remembered is in the cluster.
"""

import logging
from collections.abc import Iterable

from ottla.base.errors import ErrorCode
from ottla.client import (
    Aborted,
    Client,
    ClientError,
    Committed,
    OffsetOutOfRange,
    TopicPartition,
    Transaction,
)
from ottla.records.batch import SEQUENCES, read_header, split
from ottla.records.builder import of_producer
from ottla.spark import decision as decisions
from ottla.spark.clients import client
from ottla.spark.decision import Chosen, Decision, Staged, Standing
from ottla.spark.options import WriteOptions

log = logging.getLogger(__name__)

FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
# The transaction was ended before, one way or the other: only the log still knows which.
ENDED = FENCED | {
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTION_ABORTABLE,
}


def commit_batch(options: WriteOptions, staged: list[Staged], batch: int) -> None:
    """All rows of the chosen attempts, or, if the batch was decided before, of those chosen then."""
    if any(message.transaction is not None or not message.is_written for message in staged):
        Query(options, staged[0].task.query).commit(staged, batch)


def abort_batch(options: WriteOptions, staged: list[Staged], batch: int) -> None:
    if any(message.transaction is not None for message in staged):
        Query(options, staged[0].task.query).abort(staged, batch)


def commit_job(options: WriteOptions, staged: list[Staged]) -> None:
    """A batch write is not repeated under the same name, so nothing is stored for a repetition."""
    source = client(options.where)
    open_rivals = _check_open(source, options, staged)
    refused = source.end_transactions(_transactions(staged), committed=True)
    _abort_rivals(source, options, open_rivals)
    if refused:
        transaction, code = next(iter(refused.items()))
        raise ClientError(f"committing {transaction.transactional_id!r}: {code.name}", code)


def abort_job(options: WriteOptions, staged: list[Staged]) -> None:
    _abort(client(options.where), staged)


def last_decided(source: Client, query: str) -> int | None:
    """The number of the last batch of a query that was decided, for a task. It does not wait for a decision
    that is pending: that may be of a driver that is dead, and ends when the next one begins."""
    first = decisions.head(query, source.committed_entries(decisions.group_of(query, 0)))
    return None if first is None else first.batch


def read_decision(source: Client, query: str) -> Decision | None:
    """The last decision of a query, for the driver, which has begun: what was pending is being ended."""

    def piece(nth: int) -> dict[TopicPartition, Committed]:
        return source.committed_entries(decisions.group_of(query, nth), require_stable=True)

    first = decisions.head(query, piece(0))
    if first is None:
        return None
    return decisions.whole(query, first, map(piece, range(1, first.pieces)))


class Query:
    """One streaming query, as one of its drivers sees it."""

    def __init__(self, options: WriteOptions, query: str) -> None:
        self._options = options
        self._query = query
        self._client = client(options.where)

    def commit(self, staged: list[Staged], batch: int) -> None:
        driver = self._begin()  # 1
        decision = read_decision(self._client, self._query)  # 2
        match decisions.standing(None if decision is None else decision.batch, batch):
            case Standing.UNDECIDED:
                if not all(message.is_written for message in staged):
                    why = f"tasks have seen that batch {batch} was decided, and that is gone"
                    raise decisions.unreadable(self._query, why)
                open_rivals = _check_open(self._client, self._options, staged)  # 3
                decision = decisions.decide(batch, staged)
                self._store(driver, decision)  # 4
                self._finish(decision)  # 5
                _abort_rivals(self._client, self._options, open_rivals)  # 6
            case Standing.DECIDED:
                assert decision is not None
                self._abort_others(staged, decision)
                self._finish(decision)
            case Standing.PASSED:
                assert decision is not None
                _abort(self._client, staged)
                raise decisions.set_back(batch, decision.batch)

    def abort(self, staged: list[Staged], batch: int) -> None:
        self._begin()
        decision = read_decision(self._client, self._query)
        if decision is not None and decision.batch == batch:
            self._abort_others(staged, decision)
        else:
            _abort(self._client, staged)

    def _begin(self) -> Transaction:
        """Fence every other driver of the query; what it was deciding is whole or gone after this."""
        timeout_ms = self._options.transaction_timeout_ms
        return self._client.begin_transaction(decisions.driver_id(self._query), timeout_ms)

    def _store(self, driver: Transaction, decision: Decision) -> None:
        try:
            for nth, piece in enumerate(decisions.to_offsets(decision)):
                group = decisions.group_of(self._query, nth)
                self._client.commit_offsets_in(driver, group, {decision.anchor: piece})
        except ClientError as error:
            if error.code in FENCED:
                raise decisions.other_driver(self._query) from error
            raise
        refused = self._client.end_transactions([driver], committed=True)
        if refused:
            raise decisions.other_driver(self._query)

    def _finish(self, decision: Decision) -> None:
        by_transaction = {chosen.transaction(self._query): chosen for chosen in decision.chosen}
        refused = self._client.end_transactions(list(by_transaction), committed=True)
        for transaction, code in refused.items():
            if code not in ENDED:
                raise ClientError(f"committing {transaction.transactional_id!r}: {code.name}", code)
        lost = [
            by_transaction[transaction]
            for transaction in refused
            if self._is_aborted(decision, by_transaction[transaction])
        ]
        if lost:
            log.warning(
                "batch %d: %d transactions ran out after it was decided; their rows are copied",
                decision.batch,
                len(lost),
            )
            self._copy(decision, lost)

    def _is_aborted(self, decision: Decision, chosen: Chosen) -> bool:
        """What the log says of a transaction, at its first record. Reading committed waits for its marker."""
        producer = chosen.producer_id, chosen.producer_epoch
        at = chosen.offset
        try:
            for fetched in self._client.fetch(chosen.topic_partition, at, at + 1, read_committed=True):
                header = read_header(fetched.records)
                if (header.base_offset, header.producer_id, header.producer_epoch) == (at, *producer):
                    return Aborted(chosen.producer_id, at) in fetched.aborted
        except OffsetOutOfRange:
            pass
        raise decisions.rows_gone(decision, chosen.rows, 0)

    def _copy(self, decision: Decision, lost: list[Chosen]) -> None:
        """The rows again, and the decision without them, in one transaction."""
        driver = self._begin()
        if read_decision(self._client, self._query) != decision:
            raise decisions.other_driver(self._query)
        rows = sum(chosen.rows for chosen in lost)
        producers = {(chosen.producer_id, chosen.producer_epoch) for chosen in lost}
        copied = sum(
            self._copy_partition(driver, topic_partition, span, producers)
            for topic_partition, span in sorted(decision.spans.items())
        )
        if copied != rows:
            self._client.end_transactions([driver], committed=False)
            raise decisions.rows_gone(decision, rows, copied)
        self._store(driver, decision.without(lost))

    def _copy_partition(
        self,
        driver: Transaction,
        topic_partition: TopicPartition,
        span: tuple[int, int],
        producers: set[tuple[int, int]],
    ) -> int:
        start, end = span
        rows = sequence = 0
        try:
            for fetched in self._client.fetch(topic_partition, start, end, read_committed=False):
                for header, batch in split(fetched.records):
                    producer = header.producer_id, header.producer_epoch
                    if (
                        header.is_control
                        or producer not in producers
                        or not start <= header.base_offset < end
                    ):
                        continue
                    if not rows:
                        self._client.add_partitions(driver, [topic_partition])
                    again = of_producer(batch, *driver[1:], sequence)
                    self._client.produce({topic_partition: again}, transaction=driver)
                    rows += header.count
                    sequence = (sequence + header.count) % SEQUENCES
        except OffsetOutOfRange:
            pass  # fewer rows than were decided: the caller counts
        return rows

    def _abort_others(self, staged: list[Staged], decision: Decision) -> None:
        """What these tasks wrote, if it is not the very thing that was decided."""
        decided = {chosen.transaction(self._query) for chosen in decision.chosen}
        _abort(self._client, [message for message in staged if message.transaction not in decided])


def _transactions(staged: Iterable[Staged]) -> list[Transaction]:
    return [message.transaction for message in staged if message.transaction is not None]


def _abort(source: Client, staged: Iterable[Staged]) -> None:
    """One that is refused is not open any more."""
    source.end_transactions(_transactions(staged), committed=False)


def _check_open(source: Client, options: WriteOptions, staged: list[Staged]) -> list[str]:
    """The error that says what ran out; otherwise the attempts that were not chosen and are open."""
    described = source.describe_transactions(decisions.attempts(staged))
    late = decisions.ran_out(staged, described)
    if late:
        raise decisions.transactions_ran_out(late, options.transaction_timeout_ms)
    return decisions.rivals(staged, described)


def _abort_rivals(source: Client, options: WriteOptions, rivals: list[str]) -> None:
    """Whoever has begun them is fenced, in case it still writes. A failure is no
    reason to fail a batch that is committed: they end by their timeout, too."""
    for transactional_id in rivals:
        try:
            source.begin_transaction(transactional_id, options.transaction_timeout_ms)
        except ClientError as error:
            log.warning("a transaction that was not chosen stays open until its timeout: %s", error)
