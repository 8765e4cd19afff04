"""Copiers: they read an input from where the group's offsets say, write what they read to an output, and
commit both in one transaction. Some transactions they abort; some copiers die in the middle of one, and leave
it to its timeout. A rival has the same transactional id and takes over while the other one goes on, which is
then a zombie: one of them is fenced, and later takes over again.

When the faults are over rivals leave at once, wherever they are, and copiers go on until all is copied.
"""

from collections.abc import Callable
from typing import Any

from tests.sim.client import Script
from tests.sim.consumers import AGAIN
from tests.sim.transactional import GROUP, AbortError, AnewError, TransactionalProducer
from tests.sim.transactions import Told, Transaction, value_of

from ottla.base.errors import ErrorCode
from ottla.records.batch import split
from ottla.records.record import read_records
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

COPIERS = "copiers"
OFFSETS_BY_NAME = 9
READ_COMMITTED = 1
RECORDS_MAX = 12


class DeathError(Exception):
    """The client is gone, in the middle of whatever it did."""


class Copier(TransactionalProducer):
    """`sources`: the partitions of the input that are its own; `targets`: how many the output has;
    `is_copied`: whether these partitions of the input are, to their very end."""

    def __init__(
        self, *where: Any, source: str, sources: list[int], targets: int, is_rival: bool,
        is_copied: Callable[[list[int]], bool], **how: Any,
    ) -> None:  # fmt: skip
        super().__init__(*where, **how)
        self.source, self.sources, self.targets = source, sources, targets
        self.whole = sources
        self.is_rival, self.is_copied = is_rival, is_copied
        self.positions: dict[int, int] = {}
        self.begun = 0
        draw = self.world.draw
        self.deaths = (0.0, 0.003, 0.01)[draw(0, 2)]
        self.aborts = (0.0, 0.1, 0.3)[draw(0, 2)]
        self.pace_ms = draw(5, 150)
        self.records_max = draw(2, RECORDS_MAX)

    def step(self) -> None:
        if self.is_stopping:
            if self.is_rival:
                raise DeathError
        elif self.deaths and self.world.chance(self.deaths):
            raise DeathError

    @property
    def _is_finished(self) -> bool:
        return self.is_stopping and self.is_copied(self.whole)

    def script(self) -> Script:
        if self.is_rival:
            yield self.world.draw(200, 3_000)
        while not self._is_finished:
            try:
                yield from self._live()
            except AnewError as error:
                self.world.note(f"{self.name} begins anew: {error}")
                if not self.world.is_calm:
                    yield self.world.draw(1, 800)
            except DeathError:
                self.world.note(f"{self.name} dies")
                self.hang_up()
                yield self.world.draw(20, 3_000 if self.world.chance(0.3) else 500)
            if self.is_rival and self.is_stopping:
                return

    def _live(self) -> Script:
        """One incarnation."""
        yield from self.init()
        yield from self.read_offsets()
        for _ in range(self.world.draw(3, 40)):
            self.step()
            yield from self.keep_in_touch()
            records = yield from self._read()
            if records:
                yield from self._copy(records)
            elif self._is_finished:
                return
            yield self.world.draw(1, self.pace_ms)

    def keep_in_touch(self) -> Script:
        """With the group, of whoever is a member of one."""
        yield from ()

    # The input

    def read_offsets(self) -> Script:
        """Where to go on: an offset that is pending is waited for."""
        while True:
            told = {part: self.transactions.committed(part) for part in self.sources}
            seen = {part: self.transactions.offsets_seen.get(part, -1) for part in self.sources}
            wanted = OffsetFetchRequestTopics(name=self.source, partition_indexes=self.sources)
            group = OffsetFetchRequestGroup(group_id=COPIERS, topics=[wanted])
            request = OffsetFetchRequest(groups=[group], require_stable=True)
            answer = yield from self.coordinated(GROUP, COPIERS, request, OFFSETS_BY_NAME)
            described = None if answer is None else answer.groups[0]
            parts = described.topics[0].partitions if described is not None and described.topics else []
            if described is not None and not described.error_code and not any(p.error_code for p in parts):
                for part in parts:
                    source = part.partition_index
                    self.transactions.on_offset_read(
                        source, part.committed_offset, self.name, before=max(told[source], seen[source])
                    )
                    self.positions[source] = max(part.committed_offset, 0)
                self.world.note(f"{self.name} goes on from {self.positions}")
                return
            if described is not None and described.error_code:
                self.coordinators.pop(f"{GROUP} {COPIERS}", None)
            yield self.world.draw(20, 150)

    def _read(self) -> Script:
        """Some records of each partition of the input, by partition; from where this client is."""
        draw = self.world.draw
        records: dict[int, list[tuple[int, str]]] = {}
        for source in self.sources:
            leader = self.leader_of(self.source, source)
            if leader < 0:
                yield from self.refresh(self.source)
                continue
            part = yield from self._fetch(leader, source)
            if part is None:
                yield from self.refresh(self.source)
                continue
            batches = split(memoryview(bytes(part.records or b"")))
            values = [
                (record.offset, (record.value or b"").decode())
                for header, batch in batches
                for record in read_records(batch, header)
                if record.offset >= self.positions[source]
            ]
            if values:
                records[source] = values[
                    : draw(1, self.records_max) if not self.world.is_calm else RECORDS_MAX
                ]
        return records

    def _fetch(self, leader: int, source: int) -> Script:
        wanted = FetchPartition(
            partition=source, fetch_offset=self.positions[source], partition_max_bytes=1_000,
            current_leader_epoch=self.leaders[self.source, source][1],
        )  # fmt: skip
        topic = FetchTopic(topic_id=self.topic_ids[self.source], partitions=[wanted])
        request = FetchRequest(max_wait_ms=100, min_bytes=1, isolation_level=READ_COMMITTED, topics=[topic])
        self.step()
        answer = yield self.ask(leader, request)
        if answer is None or answer.error_code or answer.throttle_time_ms:
            return None
        part = answer.responses[0].partitions[0]
        if part.error_code:
            if part.error_code not in AGAIN:
                self.refused([ErrorCode.UNKNOWN_SERVER_ERROR])
            return None
        return part

    # The output

    def _copy(self, records: dict[int, list[tuple[int, str]]]) -> Script:
        self.begun += 1
        transaction = self.transactions.begin(f"{self.name}.{self.begun}")
        for source, values in records.items():
            transaction.taken[source] = (values[0][0], values[-1][0] + 1)
            for offset, value in values:
                target = (offset + source) % self.targets
                copied = value_of(transaction.name, source, offset, value)
                transaction.records.setdefault(target, []).append(copied)
        offsets = {source: end for source, (_, end) in transaction.taken.items()}
        is_last = self.is_stopping and not self.is_rival
        try:
            yield from self.begin()
            yield from self._fill(transaction.records, offsets)
            if not is_last and self.world.chance(self.aborts):
                raise AbortError("on purpose")
            if not is_last and self.world.chance(0.05):
                yield self.world.draw(100, 5_000)  # perhaps longer than the transaction may take
            yield from self.end(transaction, committed=True)
            self.positions.update(offsets)
        except AbortError as error:
            self.world.note(f"{self.name} aborts {transaction.name}: {error}")
            yield from self._abort(transaction)

    def _fill(self, records: dict[int, list[str]], offsets: dict[int, int]) -> Script:
        """Records and offsets, in either order."""
        is_offsets_first = self.world.chance(0.3)
        if is_offsets_first:
            yield from self.commit_offsets(COPIERS, self.source, offsets)
        yield from self.add_partitions(list(records))
        yield from self.send(self.batches(records))
        if not is_offsets_first:
            yield from self.commit_offsets(COPIERS, self.source, offsets)

    def _abort(self, transaction: Transaction) -> Script:
        may_be_committed = transaction.told is Told.ASKED
        try:
            yield from self.end(transaction, committed=False)
        except AbortError as error:
            raise AnewError(str(error)) from error
        if may_be_committed or self.world.chance(0.5):
            yield from self.read_offsets()
