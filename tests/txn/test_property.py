"""Producers that start, take over, retry and are late; a coordinator that crashes; time that runs out: what
holds all the same.

Everything comes from one seed. The checkers go by what producers were told and by the markers that partitions
got, and read the journal:

- a coordinator that loads the journal knows what the one before knew;
- the steps of an id are those of the table, and its producer never goes back;
- markers are only written for an end that is committed, and two ends of one epoch never differ;
- who was told that its transaction is committed has every partition in it, and no crash loses that; who was
  told that it is aborted has none committed;
- once the noise stops, no transaction is open, and every marker is written.

A seed that fails: `World(seed).live()`.
"""

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.support.transaction_coordinator import V1_END, V2_END, Coordinator

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.turn import Turn
from ottla.txn.config import TransactionConfig
from ottla.txn.markers import EndedTransaction
from ottla.txn.records import parse
from ottla.txn.shard import Producer, TransactionShard
from ottla.txn.states import IDLE, PREPARED, TransactionState, check_step
from ottla.txn.transaction import LAST_CLIENT_EPOCH, Transaction

SEEDS = 200
STEPS = 120
PLANTED_SEEDS = 60
IDS = ("a", "b")
PARTITIONS = [TopicPartition("t", index) for index in range(4)]
TIMEOUT_MS = 5_000


class Broken(AssertionError):  # noqa: N818
    """An invariant does not hold."""


class Client:
    """A producer. `speaks` is the version of EndTxn; `added` what it was told takes part in its
    transaction."""

    def __init__(self, transactional_id: str, speaks: int) -> None:
        self.transactional_id = transactional_id
        self.speaks = speaks
        self.producer: tuple[int, int] | None = None
        self.added: set[TopicPartition] = set()
        self.ending: bool | None = None  # whether it wants to commit, while it has no answer
        self.is_stopped = False


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        config = TransactionConfig(abort_interval_ms=1_000, id_expiration_ms=1 << 30)
        self.coordinator = Coordinator(config, level=self.random.choice((0, 1, 2, 2, 2)))
        self.coordinator.journal.waits = True
        self.clients: list[Client] = []
        self.late: list[Any] = []  # requests that the network delivers once more
        self.told: list[tuple[int, Any]] = []  # what is true once the journal is committed so far
        self.outcomes: dict[
            tuple[str, int, int], bool
        ] = {}  # by the epoch of the markers, of transactions V2
        self.seen = 0
        self.last: dict[str, Transaction] = {}

    def live(self) -> None:
        for number in range(STEPS):
            self.step()
            self.follow_the_journal()
            if number % 8 == 0:
                self.check()
        self.settle()

    def step(self) -> None:
        coordinator, draw = self.coordinator, self.random.random()
        if draw < 0.08 or not self.clients:
            speaks = V2_END if coordinator.level == 2 and self.random.random() < 0.8 else V1_END
            self.clients.append(Client(self.random.choice(IDS), speaks))
        elif draw < 0.60:
            self.act(self.random.choice(self.clients[-4:]))
        elif draw < 0.70 and self.late:
            self.random.choice(self.late)()
        elif draw < 0.80:
            coordinator.commit_journal()
        elif draw < 0.90:
            self.write_some_markers()
        elif draw < 0.95:
            coordinator.advance(self.random.choice((10, 600, 4_000)))
        elif draw < 0.97:
            self.exhaust(self.random.choice(IDS))
        else:
            self.crash()

    # Producers

    def act(self, client: Client) -> None:
        if client.is_stopped:
            return
        if client.producer is None or (client.ending is None and self.random.random() < 0.1):
            self.init(client)
        elif client.ending is not None:
            self.end(client)
        elif client.added and self.random.random() < 0.5:
            client.ending = self.random.random() < 0.6
            self.end(client)
        else:
            self.add(client, self.random.choice(PARTITIONS))

    def ask(self, request: Any) -> Any:
        """What is answered, if the answer arrives: it waits until all that was written is committed."""
        if self.random.random() < 0.3:
            self.late.append(request)
        reply = request()
        if self.random.random() < 0.7:
            self.coordinator.commit_journal()
        journal = self.coordinator.journal
        is_sent = journal.committed == journal.end_offset
        return reply if is_sent and self.random.random() < 0.85 else None

    def init(self, client: Client) -> None:
        had = client.producer if self.random.random() < 0.5 else None
        reply = self.ask(
            partial(self.coordinator.init, client.transactional_id, timeout_ms=TIMEOUT_MS, had=had)
        )
        if isinstance(reply, tuple):
            client.producer, client.added, client.ending = reply, set(), None
        elif reply in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            client.is_stopped = True

    def add(self, client: Client, topic_partition: TopicPartition) -> None:
        assert client.producer is not None
        version = 2 if client.speaks == V2_END else 0
        reply = self.ask(
            partial(
                self.coordinator.add,
                client.producer,
                topic_partition,
                transactional_id=client.transactional_id,
                client_version=version,
            )
        )
        if reply == ErrorCode.NONE:
            client.added.add(topic_partition)
        elif reply not in (None, ErrorCode.CONCURRENT_TRANSACTIONS):
            client.is_stopped = True

    def end(self, client: Client) -> None:
        assert client.producer is not None
        assert client.ending is not None
        request = partial(
            self.coordinator.end, client.producer, committed=client.ending, version=client.speaks,
            transactional_id=client.transactional_id,
        )  # fmt: skip
        reply = self.ask(request)
        if reply in (None, ErrorCode.CONCURRENT_TRANSACTIONS):
            return
        if not isinstance(reply, tuple):
            client.is_stopped = True
            return
        if client.speaks == V2_END:
            key = (client.transactional_id, *client.producer)
            claim = (key, client.ending, frozenset(client.added))
            self.told.append((self.coordinator.journal.end_offset, claim))
            client.producer = reply
        client.added, client.ending = set(), None

    # What happens to them

    def write_some_markers(self) -> None:
        coordinator = self.coordinator
        if not coordinator.sent:
            return
        ended = self.random.choice(coordinator.sent)
        self.on_marker(ended)
        partitions = self.random.sample(
            sorted(ended.partitions), self.random.randint(1, len(ended.partitions))
        )
        coordinator.written(ended, *partitions)
        if coordinator.state(ended.transactional_id) not in PREPARED:
            coordinator.sent.remove(ended)

    def on_marker(self, ended: EndedTransaction) -> None:
        """A partition sees a marker: the end must be committed, and be the only one."""
        for record, offset, _ in reversed(self.coordinator.journal.records):
            entry = parse(record)
            assert entry is not None
            assert entry.value is not None
            transaction = Transaction.from_value(entry.transactional_id, entry.value)
            if transaction.is_prepared and transaction.ended(ended.coordinator_epoch) == ended:
                if offset >= self.coordinator.journal.committed:
                    raise Broken(f"a marker for an end that is not committed: {ended}")
                break
        else:
            raise Broken(f"a marker for an end that nobody decided: {ended}")
        if ended.transaction_version == 2:
            key = (ended.transactional_id, ended.producer_id, ended.producer_epoch)
            if self.outcomes.setdefault(key, ended.committed) != ended.committed:
                raise Broken(f"one epoch ends in two ways: {ended}")

    def exhaust(self, transactional_id: str) -> None:
        """Thirty thousand transactions pass: whoever has this id has its last epoch now."""
        transaction = self.coordinator.shard.transactions.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return
        last = replace(transaction, epoch=LAST_CLIENT_EPOCH)
        for client in self.clients:
            if client.transactional_id == transactional_id:
                if client.producer == (transaction.producer_id, transaction.epoch):
                    client.producer = (transaction.producer_id, LAST_CLIENT_EPOCH)
                elif client.producer == (transaction.producer_id, LAST_CLIENT_EPOCH):
                    return

        def write(_shard: TransactionShard, turn: Turn, answer: Any) -> None:
            turn.write(last.record(2))
            turn.answer(answer, "done")

        self.coordinator.run(write)

    def crash(self) -> None:
        """Another broker leads, with all that is committed and perhaps more."""
        journal = self.coordinator.journal
        kept = self.random.randint(journal.committed, journal.end_offset)
        del journal.records[kept:]
        self.told = [(after, claim) for after, claim in self.told if after <= kept]
        self.seen, self.last = 0, {}
        before = self.coordinator.fresh().transactions
        self.coordinator.restart()
        if self.coordinator.shard.transactions != before:
            raise Broken("the next coordinator knows something else")

    # What must be true

    def check(self) -> None:
        self.coordinator.check()
        self.follow_the_journal()
        committed = self.coordinator.journal.committed
        for after, claim in self.told:
            if after <= committed:
                self.check_claim(*claim)
        self.told = [(after, claim) for after, claim in self.told if after > committed]

    def follow_the_journal(self) -> None:
        records = self.coordinator.journal.records
        for record, _, _ in records[self.seen :]:
            entry = parse(record)
            assert entry is not None
            assert entry.value is not None
            transaction = Transaction.from_value(entry.transactional_id, entry.value)
            before = self.last.get(entry.transactional_id)
            if before is not None:
                check_step(before.state, transaction.state)
                if (transaction.producer_id, transaction.epoch) < (before.producer_id, before.epoch):
                    raise Broken(f"the producer goes back: {before} {transaction}")
            self.last[entry.transactional_id] = transaction
        self.seen = len(records)
        for transactional_id, stored in self.last.items():
            held = self.coordinator.transaction(transactional_id)
            # An InitProducerId remembers the epoch before it, which is not stored.
            is_same_epoch = stored.state is TransactionState.EMPTY or held.last_epoch == stored.last_epoch
            if held != stored or not is_same_epoch:
                raise Broken(f"in memory is {held}, in the journal {stored}")

    def check_claim(
        self, key: tuple[str, int, int], is_commit: bool, added: frozenset[TopicPartition]
    ) -> None:
        transactional_id, producer_id, epoch = key
        committed = self.coordinator.journal.committed
        for record, _, _ in self.coordinator.journal.records[:committed]:
            entry = parse(record)
            assert entry is not None
            assert entry.value is not None
            ended = Transaction.from_value(entry.transactional_id, entry.value)
            if not ended.is_prepared or ended.transactional_id != transactional_id:
                continue
            if (ended.producer_id, ended.epoch) == (producer_id, epoch + 1):
                if ended.is_commit != is_commit:
                    raise Broken(f"{key} was told committed={is_commit}, and it is not so")
                if is_commit and not added <= ended.partitions:
                    raise Broken(f"{key} has lost {added - ended.partitions}")
                return
        raise Broken(f"{key} was told of an end that is not in the journal")

    def settle(self) -> None:
        """The noise stops."""
        coordinator = self.coordinator
        for _ in range(20):
            coordinator.commit_journal()
            for ended in list(coordinator.sent):
                self.on_marker(ended)
            coordinator.write_markers()
            coordinator.advance(TIMEOUT_MS)
        self.check()
        for transaction in coordinator.shard.transactions.values():
            if transaction.state not in IDLE:
                raise Broken(f"a transaction is left hanging: {transaction}")


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_whatever_happens_transactions_end_once_and_as_their_producers_were_told(first: int) -> None:
    for seed in range(first, first + 50):
        World(seed).live()


# The checkers find what they are for


def _send_early(self: TransactionShard) -> None:
    self._committed_below = 1 << 60
    _send(self)


def _ignore_epochs(self: TransactionShard, producer: Producer) -> Transaction:
    transaction = self.transactions.get(producer.transactional_id)
    return _transaction_of(
        self, producer if transaction is None else producer._replace(epoch=transaction.epoch)
    )


def _forget_prepared(self: TransactionShard, turn: Turn) -> None:
    self._unsent.clear()
    _on_loaded(self, turn)


def _write_otherwise(self: TransactionShard, turn: Turn, transaction: Transaction) -> None:
    _write(self, turn, transaction)
    for record, decided in self._decided.items():
        self._decided[record] = replace(decided, timeout_ms=1)


def _keep_epoch(_: TransactionShard, transaction: Transaction) -> tuple[int, int]:
    return transaction.epoch, -1


_send = TransactionShard._send_committed
_write = TransactionShard._write
_transaction_of = TransactionShard._transaction_of
_on_loaded = TransactionShard.on_loaded


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("_send_committed", _send_early),
        ("_transaction_of", _ignore_epochs),
        ("on_loaded", _forget_prepared),
        ("_moved_on", _keep_epoch),
        ("_write", _write_otherwise),
    ],
)
def test_a_planted_bug_is_found(name: str, planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionShard, name, planted)
    with pytest.raises(AssertionError):
        _live_all(PLANTED_SEEDS)


def _live_all(seeds: int) -> None:
    for seed in range(seeds):
        World(seed).live()
