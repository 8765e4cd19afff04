"""Readers of what transactions write, each of one partition from its beginning. Who reads committed records
leaves out the aborted ones as Kafka's clients do: an answer names the aborted transactions among its records,
each by its producer and its first offset, and holds the markers that end them. Who reads all gets all.

A watcher asks any broker at any time for the group's offsets and for the transactions there are.
"""

from heapq import heapify, heappop
from typing import Any

from tests.sim.client import Client, Script
from tests.sim.consumers import AGAIN
from tests.sim.copiers import COPIERS, OFFSETS_BY_NAME, READ_COMMITTED
from tests.sim.transactions import Shown, TransactionLedger
from tests.sim.world import ViolationError

from ottla.base.errors import ErrorCode
from ottla.records.batch import split
from ottla.records.control import ControlType, control_type
from ottla.records.record import read_records
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)


class TransactionReader(Client):
    """`shown`: what it takes for committed, or all, as it was given."""

    def __init__(
        self, *where: Any, transactions: TransactionLedger, topic: str, partition: int, isolation: int
    ) -> None:
        super().__init__(*where)
        self.transactions, self.topic, self.partition = transactions, topic, partition
        self.isolation = isolation
        self.position = 0
        self.shown: list[Shown] = []

    def script(self) -> Script:
        while not self.is_stopping:
            leader, epoch = self.leaders.get((self.topic, self.partition), (-1, -1))
            if leader < 0 or not (yield from self._fetch(leader, epoch)):
                yield self.world.draw(20, 200)
                yield from self.refresh(self.topic)

    def _fetch(self, leader: int, epoch: int) -> Script:
        wanted = FetchPartition(
            partition=self.partition, current_leader_epoch=epoch, fetch_offset=self.position,
            partition_max_bytes=self.world.draw(1, 1_500),
        )  # fmt: skip
        topic = FetchTopic(topic_id=self.topic_ids[self.topic], partitions=[wanted])
        request = FetchRequest(max_wait_ms=300, min_bytes=1, isolation_level=self.isolation, topics=[topic])
        answer = yield self.ask(leader, request)
        if answer is None or answer.error_code or answer.throttle_time_ms:
            return False
        part = answer.responses[0].partitions[0]
        if part.error_code:
            if part.error_code not in AGAIN:
                raise ViolationError(
                    f"{self.name} at {self.position} gets {ErrorCode(part.error_code).name} from b{leader}"
                )
            return False
        if self.isolation == READ_COMMITTED and not 0 <= part.last_stable_offset <= part.high_watermark:
            raise ViolationError(
                f"{self.name} is told by broker {leader} that the last stable offset is "
                f"{part.last_stable_offset}, with the high watermark at {part.high_watermark}"
            )
        self._take(part)
        return True

    def _take(self, part: Any) -> None:
        is_committed = self.isolation == READ_COMMITTED
        end = part.last_stable_offset if is_committed else part.high_watermark
        ahead = [(entry.first_offset, entry.producer_id) for entry in part.aborted_transactions or ()]
        heapify(ahead)
        aborted: set[int] = set()
        for header, batch in split(memoryview(bytes(part.records or b""))):
            if header.next_offset > end:
                raise ViolationError(
                    f"{self.name} is given {header.base_offset} to {header.last_offset}, beyond {end}"
                )
            while ahead and ahead[0][0] <= header.last_offset:
                aborted.add(heappop(ahead)[1])
            records = list(read_records(batch, header))
            if header.is_control:
                if control_type(records[0].key) is ControlType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (is_committed and header.producer_id in aborted):
                for record in records:
                    if record.offset >= self.position:
                        self._show(Shown(record.offset, (record.value or b"").decode()))
            self.position = max(self.position, header.next_offset)

    def _show(self, record: Shown) -> None:
        self.shown.append(record)
        if self.isolation == READ_COMMITTED:
            self.transactions.on_shown(self.partition, record, self.name)


class Watcher(Client):
    def __init__(
        self, *where: Any, transactions: TransactionLedger, source: str, sources: int, topic: str,
        transactional_ids: list[str],
    ) -> None:  # fmt: skip
        super().__init__(*where)
        self.transactions, self.source, self.sources = transactions, source, sources
        self.topic, self.transactional_ids = topic, transactional_ids

    def script(self) -> Script:
        while not self.is_stopping:
            if self.world.chance(0.7):
                yield from self.read_offset(self.any_broker(), self.world.draw(0, self.sources - 1))
            else:
                request = self._request()
                yield self.ask(self.any_broker(), request)
            yield self.world.draw(10, 200)

    def _request(self) -> Any:
        topic = TopicRequest(name=self.topic, partition_indexes=[0, 1])
        requests = (
            ListTransactionsRequest(),
            DescribeTransactionsRequest(transactional_ids=[*self.transactional_ids, "nobody"]),
            DescribeProducersRequest(topics=[topic]),
        )
        return requests[self.world.draw(0, len(requests) - 1)]

    def read_offset(self, broker: int, source: int, *, is_stable: bool | None = None) -> Script:
        """The offset, or None."""
        if is_stable is None:
            is_stable = self.world.chance(0.5)
        before = self.transactions.offsets_seen.get(source, -1)
        if is_stable:
            before = max(before, self.transactions.committed(source))
        wanted = OffsetFetchRequestTopics(name=self.source, partition_indexes=[source])
        group = OffsetFetchRequestGroup(group_id=COPIERS, topics=[wanted])
        request = OffsetFetchRequest(groups=[group], require_stable=is_stable)
        answer = yield self.ask(broker, request, OFFSETS_BY_NAME)
        if answer is None or answer.groups[0].error_code:
            return None
        part = answer.groups[0].topics[0].partitions[0]
        if part.error_code:
            return None
        self.transactions.on_offset_read(source, part.committed_offset, self.name, before=before)
        return part.committed_offset


class TransactionAuditor(Watcher):
    """Reads in the end what the group has committed: all of the input, and nothing is pending."""

    def __init__(self, *where: Any, ends: dict[int, int], **how: Any) -> None:
        super().__init__(*where, **how)
        self.ends = ends

    def script(self) -> Script:
        for source, end in self.ends.items():
            for is_stable in (True, False):
                while (offset := (yield from self._ask_all(source, is_stable=is_stable))) is None:
                    yield 100
                if max(offset, 0) != end:
                    raise ViolationError(
                        f"the committed offset of the input's {source} is {offset}, and {end} were copied"
                    )

    def _ask_all(self, source: int, *, is_stable: bool) -> Script:
        for broker in self.brokers:
            offset = yield from self.read_offset(broker, source, is_stable=is_stable)
            if offset is not None:
                return offset
        return None
