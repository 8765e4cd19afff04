"""Producers: idempotent with acks=all, which never give up; with acks=1, which never try again; newcomers."""

from typing import Any

from tests.sim.client import Client, Script
from tests.sim.frames import BY_NAME
from tests.sim.ledger import Ledger
from tests.sim.world import START_MS, ViolationError, World

from ottla.base.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


def produce_request(topic: str, partition: int, batch: bytes, acks: int, timeout_ms: int) -> ProduceRequest:
    part = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[part])]
    )


def batch_of(world: World, values: list[str], **fields: Any) -> bytes:
    """Some are compressed, some have headers and long keys; the smallest segment has room for each."""
    codec = list(Codec)[world.draw(0, len(Codec) - 1)] if world.chance(0.2) else Codec.NONE
    is_rich = world.chance(0.2)
    key = b"k" * (world.draw(1, 40) if is_rich else 1)
    headers = (("h", b"v"),) if is_rich else ()
    records = [NewRecord(key, value.encode(), headers, START_MS) for value in values]
    return bytes(build_batch(records, codec=codec, **fields))


class Producer(Client):
    """One partition's producer. `pace_ms`: the longest it waits between two batches."""

    def __init__(self, *place: Any, ledger: Ledger, topic: str, partition: int, pace_ms: int) -> None:
        super().__init__(*place)
        self.ledger, self.topic, self.partition, self.pace_ms = ledger, topic, partition, pace_ms
        self.sent = 0
        self.voice = self.name  # among whose records there is an order

    def values(self) -> list[str]:
        count = self.world.draw(4, 10) if self.world.chance(0.2) else self.world.draw(1, 3)
        self.sent += count
        return [f"{self.voice}#{number}" for number in range(self.sent - count, self.sent)]

    def leader(self) -> Script:
        """Who is said to lead; waits until somebody is."""
        while True:
            leader = self.leader_of(self.topic, self.partition)
            if leader >= 0:
                return leader
            yield from self.refresh(self.topic)
            if self.is_stopping:
                return -1
            yield self.world.draw(20, 150)

    def forget_leader(self) -> Script:
        yield self.world.draw(5, 100)
        yield from self.refresh(self.topic)


class SafeProducer(Producer):
    """acks=all, idempotent: a batch is sent until it is acknowledged, always with the same sequence. Up to
    `in_flight` batches are on their way at once, on one connection. A leader that knows nothing of a producer
    takes whatever comes first, as in Kafka: what it refused before that has failed for good."""

    in_flight, timeout_ms = 1, 1_500
    first_acknowledged: int | None = None  # the lowest sequence of this producer id
    renewals = (0.05, 0.4)  # how often it begins anew, with another producer id: one or the other

    def script(self) -> Script:
        producer_id = yield from self._producer_id()
        self.in_flight = self.world.draw(2, 4) if self.world.chance(0.5) else 1
        self.timeout_ms = 1_500 if self.world.chance(0.5) else self.world.draw(200, 1_500)
        renewals = self.renewals[self.world.chance(0.5)]
        sequence = 0
        while not self.is_stopping:
            yield self.world.draw(1, self.pace_ms)
            if sequence and self.world.chance(renewals):
                producer_id, sequence = (yield from self._producer_id()), 0
                self.first_acknowledged = None
            unsent = []
            for _ in range(self.world.draw(1, self.in_flight)):
                values = self.values()
                batch = batch_of(
                    self.world, values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
                )
                unsent.append((values, batch, sequence))
                sequence += len(values)
            while unsent := (yield from self._send_all(unsent)):
                if self.is_stopping:
                    return
                yield from self.forget_leader()

    def _producer_id(self) -> Script:
        while True:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            answer = yield self.ask(self.any_broker(), request)
            if answer is not None and not answer.error_code:
                return answer.producer_id
            yield 100

    def _send_all(self, unsent: list[tuple[list[str], bytes, int]]) -> Script:
        """Send all of these; answers those that have to be sent again."""
        leader = yield from self.leader()
        if leader < 0:
            return unsent
        place = (self.topic_ids[self.topic], self.partition)
        asks = [
            self.ask(leader, produce_request(self.topic, self.partition, batch, -1, self.timeout_ms), BY_NAME)
            for _, batch, _ in unsent
        ]
        answers = yield asks
        left = []
        for (values, batch, sequence), answer in zip(unsent, answers, strict=True):
            part = None if answer is None else answer.responses[0].partition_responses[0]
            if part is not None and not part.error_code:
                self.world.note(f"{self.name} acked {part.base_offset} +{len(values)} by b{leader}")
                self.ledger.on_acknowledged(place, part.base_offset, values, self.name)
                if self.first_acknowledged is None:
                    self.first_acknowledged = sequence
                continue
            if part is not None:
                code = ErrorCode(part.error_code).name
                self.world.note(f"{self.name} is told {code} for {values[0]} +{len(values)} by b{leader}")
            if part is not None and part.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self.ledger.on_duplicate(place, values)  # longer ago than the broker remembers
                continue
            if part is not None and self._is_overtaken(part.error_code, sequence):
                continue
            if part is not None and not self._may_repeat(part.error_code, is_first=not left):
                raise ViolationError(
                    f"{self.name} is refused with {ErrorCode(part.error_code).name} at {values}"
                )
            left.append((values, batch, sequence))
        return left

    def _is_overtaken(self, code: int, sequence: int) -> bool:
        first = self.first_acknowledged
        return code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and first is not None and sequence < first

    @staticmethod
    def _may_repeat(code: int, *, is_first: bool) -> bool:
        """A batch whose predecessor was not taken comes too early."""
        return code in AGAIN or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first)


class HastyProducer(Producer):
    """acks=1: what it sends may be lost, but is never there twice and never out of order, unless an answer
    was lost: what waits in a cut may then come after what is sent later on another connection."""

    def script(self) -> Script:
        while not self.is_stopping:
            yield self.world.draw(1, self.pace_ms)
            leader = yield from self.leader()
            if leader < 0:
                return
            batch = batch_of(self.world, self.values())
            request = produce_request(self.topic, self.partition, batch, 1, 1_500)
            answer = yield self.ask(leader, request, BY_NAME)
            if answer is None:
                self.voice = f"{self.name}.{self.sent}"
            if answer is None or answer.responses[0].partition_responses[0].error_code:
                yield 700  # longer than a frame can be on its way, or the next could overtake it
                yield from self.forget_leader()


class Newcomer(Producer):
    """acks=all, each time as a client that has just come: it asks who leads, of anybody, and sends once. So
    records are acknowledged by a new leader while others still believe in the one before."""

    def script(self) -> Script:
        while not self.is_stopping:
            yield self.world.draw(1, self.pace_ms)
            yield from self.refresh(self.topic)
            leader = self.leader_of(self.topic, self.partition)
            if leader < 0:
                continue
            self.voice = f"{self.name}.{self.sent}"  # what was not answered may come at any time
            sent = {index: self.values() for index in self._partitions()}
            data = [
                PartitionProduceData(index=index, records=batch_of(self.world, values))
                for index, values in sent.items()
            ]
            topic = TopicProduceData(name=self.topic, partition_data=data)
            request = ProduceRequest(acks=-1, timeout_ms=400, topic_data=[topic])
            answer = yield self.ask(leader, request, BY_NAME, 500)
            for part in answer.responses[0].partition_responses if answer is not None else ():
                if not part.error_code:
                    values = sent[part.index]
                    self.world.note(f"{self.name} acked {part.base_offset} +{len(values)} by b{leader}")
                    place = (self.topic_ids[self.topic], part.index)
                    self.ledger.on_acknowledged(place, part.base_offset, values, self.name)

    def _partitions(self) -> list[int]:
        """Its own, and at times others, which somebody else may lead, or nobody."""
        others = [index for index in range(3) if index != self.partition and self.world.chance(0.5)]
        return [self.partition, *others] if self.world.chance(0.3) else [self.partition]
