"""Guests: they write to the output in transactions, with no input and no offsets, each time with another
transactional id. Many leave in the middle and never come back: only its timeout ends what they began."""

from typing import Any

from tests.sim.client import Script
from tests.sim.copiers import DeathError
from tests.sim.transactional import AbortError, AnewError, TransactionalProducer
from tests.sim.transactions import NO_SOURCE, value_of

TRANSACTIONS_MAX = 4
RECORDS_MAX = 6


class Guest(TransactionalProducer):
    """`targets`: how many partitions the output has."""

    def __init__(self, *where: Any, targets: int, **how: Any) -> None:
        super().__init__(*where, **how)
        self.targets = targets
        self.visits = self.begun = self.written = 0
        self.leaves = False

    def step(self) -> None:
        if self.is_stopping or (self.leaves and self.world.chance(0.1)):
            raise DeathError

    def script(self) -> Script:
        while not self.is_stopping:
            yield self.world.draw(50, 1_500)
            self.visits += 1
            self.transactional_id = f"{self.name}-{self.visits}"
            self.leaves = self.world.chance(0.6)
            try:
                yield from self.init()
                for _ in range(self.world.draw(1, TRANSACTIONS_MAX)):
                    yield from self._write()
            except (AnewError, DeathError) as error:
                self.world.note(f"{self.transactional_id} leaves: {error}")
                self.hang_up()

    def _write(self) -> Script:
        self.begun += 1
        transaction = self.transactions.begin(f"{self.name}.{self.begun}")
        for _ in range(self.world.draw(1, RECORDS_MAX)):
            target = self.world.draw(0, self.targets - 1)
            value = value_of(transaction.name, NO_SOURCE, self.written, f"{self.name}#{self.written}")
            transaction.records.setdefault(target, []).append(value)
            self.written += 1
        try:
            yield from self.begin()
            yield from self.add_partitions(list(transaction.records))
            yield from self.send(self.batches(transaction.records))
            yield from self.end(transaction, committed=self.world.chance(0.6))
        except AbortError:
            yield from self._abort(transaction)

    def _abort(self, transaction: Any) -> Script:
        try:
            yield from self.end(transaction, committed=False)
        except AbortError as error:
            raise AnewError(str(error)) from error
