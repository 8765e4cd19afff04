"""Clients that come when the faults are over: nobody may starve, whatever was left behind by those before.

Each asks every broker for something of every kind, on one connection, and is answered in time: large
requests, long answers, batches that the worker has to check, and small ones behind all of them. A broker that
was paused does not yet know whether it was replaced, and sends its clients away: they come again.
"""

from typing import Any

from tests.sim.client import Client, Script
from tests.sim.frames import BY_NAME
from tests.sim.producers import batch_of, produce_request
from tests.sim.world import ViolationError

from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

PATIENCE_MS = 5_000
NAMES = 30
RECORDS = 20


class Latecomer(Client):
    def __init__(self, *place: Any, topic: str) -> None:
        super().__init__(*place)
        self.topic = topic

    def script(self) -> Script:
        for broker in self.brokers:
            begun_ms = self.world.now_ms
            while unanswered := (yield from self._ask_all(broker)):
                if self.world.now_ms - begun_ms >= PATIENCE_MS:
                    raise ViolationError(
                        f"{self.name} gets no answer to {unanswered} from broker {broker} "
                        f"within {PATIENCE_MS} ms, though the faults are over"
                    )
                yield 100

    def _ask_all(self, broker: int) -> Script:
        """The first request that is not answered, if there is one."""
        asks = [self.ask(broker, *wanted, PATIENCE_MS) for wanted in self._requests()]
        answers = yield asks
        unanswered = (one.request for one, answer in zip(asks, answers, strict=True) if answer is None)
        return next((type(request).__name__ for request in unanswered), None)

    def _requests(self) -> list[tuple[Any, int | None]]:
        """In any order. What is produced comes after all that `ledger` was asked about."""
        named = [MetadataRequestTopic(name=f"no-{number}") for number in range(NAMES)]
        wanted = FetchPartition(
            partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1_000
        )
        topic = FetchTopic(topic=self.topic, partitions=[wanted])
        values = [f"{self.name}.{self.world.draw(0, 1 << 30)}#{number}" for number in range(RECORDS)]
        batch = batch_of(self.world, values)
        requests: list[tuple[Any, int | None]] = [
            (MetadataRequest(topics=named, allow_auto_topic_creation=False), None),
            (DescribeGroupsRequest(groups=[f"no-{number}" for number in range(NAMES)]), None),
            (FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), BY_NAME),
            (ListGroupsRequest(), None),
            (produce_request(self.topic, 0, batch, 1, 1_000), BY_NAME),
        ]
        self.world.random.shuffle(requests)
        return requests
