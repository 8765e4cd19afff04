"""The transactions of a seed: an input that producers fill, copiers and their rivals, the output and its
readers, and what must hold of all of them in the end. What is special to a seed is drawn from the seed alone.

Seeds from `world.TRANSACTIONS_FROM` on have transactions.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from tests.sim.admin import FeatureAdmin, new_topic
from tests.sim.client import Client
from tests.sim.copiers import READ_COMMITTED, Copier
from tests.sim.guests import Guest
from tests.sim.invariants import Invariants
from tests.sim.producers import SafeProducer
from tests.sim.readers import TransactionAuditor, TransactionReader, Watcher
from tests.sim.settled import unsettled_brokers
from tests.sim.team import TeamCopier
from tests.sim.transactional import EXPLICIT, FEATURE, FIRST, GENERATIONS
from tests.sim.transactions import TransactionLedger
from tests.sim.world import TRANSACTIONS_FROM, ViolationError, World

from ottla.base.ids import TopicPartition
from ottla.records.batch import split
from ottla.records.record import read_records
from ottla.txn import shard, transaction
from ottla.wire.messages.create_topics import CreateTopicsRequest

INPUT, OUTPUT = "inbox", "outbox"
COPIERS_MAX = 2
READ_UNCOMMITTED = 0


def properties(replicas: int, isr_min: int) -> dict[str, str]:
    return {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
        "transaction.state.log.min.isr": str(isr_min),
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(replicas),
    }


@contextmanager
def few_epochs(seed: int) -> Iterator[None]:
    """In a third of the seeds with transactions a producer id has few epochs, and then comes the next one."""
    random = Random(f"epochs of {seed}")
    with ExitStack() as stack:
        if seed >= TRANSACTIONS_FROM and random.random() < 0.33:
            epoch_max = random.randint(3, 15)
            for module in (transaction, shard):
                stack.enter_context(patch.object(module, "EPOCH_MAX", epoch_max))
            stack.enter_context(patch.object(transaction, "LAST_CLIENT_EPOCH", epoch_max - 1))
        yield


class Copying:
    """`where` names a new client's place; `invariants` knows the brokers and `ledger` what they told."""

    def __init__(
        self, world: World, replicas: int, invariants: Invariants, where: Callable[[str], tuple[Any, ...]]
    ) -> None:
        self.world, self.replicas, self.invariants, self.where = world, replicas, invariants, where
        self.ledger = TransactionLedger()
        random = Random(f"transactions of {world.seed}")
        self.level = random.choice([0, 1, 2, 2, 2])
        self.is_restless = random.random() < 0.2  # is the level changed while all goes on?
        self.sources, self.targets = random.choice([1, 2, 2]), random.choice([2, 3])
        self.has_rivals = random.random() < 0.6
        self.is_alone = random.random() < 0.7  # or are there other clients besides?
        self.generations = [random.choice(GENERATIONS) for _ in range(2 * COPIERS_MAX)]
        self.is_shared = random.random() < 0.3  # does one copier have the whole input?
        self.is_team = random.random() < 0.4  # do they share the input as members of a group?
        self.producers: list[SafeProducer] = []
        self.readers: list[TransactionReader] = []
        self.copiers: list[Copier] = []

    def topics(self) -> dict[str, CreateTopicsRequest]:
        return {
            INPUT: new_topic(INPUT, self.sources, self.replicas, segment_bytes="1000000"),
            OUTPUT: new_topic(OUTPUT, self.targets, self.replicas, segment_bytes="3000"),
        }

    @property
    def expected(self) -> dict[str, int]:
        return {INPUT: self.replicas, OUTPUT: self.replicas}

    # Clients

    def feature_admin(self) -> FeatureAdmin:
        return FeatureAdmin(*self.where("level"), feature=FEATURE, level=self.level)

    def clients(self) -> list[Client]:
        """All but the readers."""
        for source in range(self.sources):
            producer = SafeProducer(
                *self.where(f"p-{INPUT}{source}"), ledger=self.invariants.ledger, topic=INPUT,
                partition=source, pace_ms=self.world.draw(60, 300),
            )  # fmt: skip
            self.producers.append(producer)
        owned = (
            [list(range(self.sources))] if self.is_shared else [[source] for source in range(self.sources)]
        )
        if self.is_team:
            owned = [list(range(self.sources))] * COPIERS_MAX
        for number, sources in enumerate(owned):
            self._add_copier(number, sources, is_rival=False)
            if self.has_rivals:
                self._add_copier(number, sources, is_rival=True)
        guest = Guest(
            *self.where("guest"), ledger=self.invariants.ledger, transactions=self.ledger,
            transactional_id="", topic=OUTPUT, generation=self.generations[-1], targets=self.targets,
        )  # fmt: skip
        for target in range(self.targets):
            self._add_reader(target, READ_COMMITTED)
        self._add_reader(0, READ_UNCOMMITTED)
        watcher = Watcher(*self.where("watcher"), **self._watched())
        restless = FeatureAdmin(*self.where("restless"), feature=FEATURE, level=None)
        return [*self.producers, *self.copiers, guest, watcher, *([restless] if self.is_restless else [])]

    def _add_copier(self, number: int, sources: list[int], *, is_rival: bool) -> None:
        generation = self.generations[2 * number + is_rival]
        if self.is_team and generation is FIRST:
            generation = EXPLICIT  # the first clients could not say of which group they are
        copier = (TeamCopier if self.is_team else Copier)(
            *self.where(f"{'r' if is_rival else 't'}-{number}"), ledger=self.invariants.ledger,
            transactions=self.ledger, transactional_id=f"copy-{number}", topic=OUTPUT,
            generation=generation, source=INPUT, sources=sources,
            targets=self.targets, is_rival=is_rival,
            is_copied=self._is_copied,
        )  # fmt: skip
        self.copiers.append(copier)

    def _is_copied(self, sources: list[int]) -> bool:
        """Nobody writes to the input any more, and whoever took its end was seen to be committed."""
        if not all(producer.is_done for producer in self.producers):
            return False
        ends = {source: self.invariants.end(INPUT, source) for source in sources}
        seen = self.ledger.offsets_seen
        return all(end <= max(self.ledger.committed(it), seen.get(it, 0)) for it, end in ends.items())

    def _add_reader(self, target: int, isolation: int) -> None:
        name = f"{'committed' if isolation == READ_COMMITTED else 'all'}-{target}"
        reader = TransactionReader(
            *self.where(name),
            transactions=self.ledger,
            topic=OUTPUT,
            partition=target,
            isolation=isolation,
        )
        self.readers.append(reader)

    def _watched(self) -> dict[str, Any]:
        return {
            "transactions": self.ledger, "source": INPUT, "sources": self.sources, "topic": OUTPUT,
            "transactional_ids": sorted({copier.transactional_id for copier in self.copiers}),
        }  # fmt: skip

    def counts(self) -> dict[str, int]:
        return {
            "transactions": len(self.ledger.transactions),
            "transactions committed": self.ledger.committed_count,
            "transactions aborted": self.ledger.aborted_count,
        }

    # The end

    def unsettled(self) -> str | None:
        """What is still open, half done or behind."""
        for reader in self.readers:
            end = self.invariants.end(OUTPUT, reader.partition)
            if reader.position < end:
                return f"{reader.name} is at {reader.position} of {end}"
        return unsettled_brokers(self.invariants)

    def check_end(self) -> None:
        logs = {target: self._contents(OUTPUT, target) for target in range(self.targets)}
        inputs = {
            source: {
                record.offset: (record.value or b"").decode()
                for header, batch in split(memoryview(self._contents(INPUT, source)))
                for record in read_records(batch, header)
            }
            for source in range(self.sources)
        }
        visible = self.ledger.check_end(logs, inputs)
        for reader in self.readers:
            if reader.isolation == READ_COMMITTED and reader.shown != visible[reader.partition]:
                difference = _difference(reader.shown, visible[reader.partition])
                raise ViolationError(f"{reader.name} was shown {difference}")

    def _contents(self, topic: str, partition: int) -> bytes:
        topic_id = self.invariants.topics[topic][0]
        return self.invariants.contents(TopicPartition(topic, partition), topic_id)

    def auditor(self) -> TransactionAuditor:
        ends = {source: self.invariants.end(INPUT, source) for source in range(self.sources)}
        return TransactionAuditor(*self.where("audit"), ends=ends, **self._watched())


def _difference(shown: list[Any], visible: list[Any]) -> str:
    more = [record for record in shown if record not in visible]
    less = [record for record in visible if record not in shown]
    return f"{more[:3]} too much, {less[:3]} too little, of {len(visible)}"
