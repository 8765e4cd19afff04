"""Clients that ask how things stand, of any broker, at any time: right after elections, while an ISR is
small, and of brokers that do not know yet that they were replaced.

They belong to no group and know no leader. They know what clients were told before they asked, and an answer
without an error must not say less: no committed offset that is older, no end of a log that is lower, no
offset out of range that was acknowledged, no group that is gone.
"""

from collections.abc import Callable
from typing import Any

from tests.sim.client import Client, Script
from tests.sim.ledger import Ledger
from tests.sim.world import ViolationError

from ottla.base.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

LATEST = -1
OFFSETS_BY_NAME = 9
FETCH_FROM_LEADERS = 10  # later versions may be answered by followers, who may be behind
DEAD = "Dead"


class Inquirer(Client):
    """`read` is the topic that the groups read, of all `topics` and their numbers of partitions;
    `coordinator_of` says who leads a group's partition and knows it, and in which epoch."""

    def __init__(
        self,
        *place: Any,
        ledger: Ledger,
        groups: list[str],
        read: str,
        topics: dict[str, int],
        coordinator_of: Callable[[str], tuple[int, int]],
    ) -> None:
        super().__init__(*place)
        self.ledger, self.groups, self.read, self.topics = ledger, groups, read, topics
        self.topic = read
        self.coordinator_of = coordinator_of
        self.answers = 0
        self._answered: dict[str, int] = {}  # who last knew something

    def script(self) -> Script:
        asks: list[Callable[[int, int], Script]] = [
            self._ask_committed, self._ask_committed, self._ask_end, self._fetch_at_end, self._describe,
            self._list,
        ]  # fmt: skip
        of_logs = (self._ask_end, self._fetch_at_end)
        while not self.is_stopping:
            ask = asks[self.world.draw(0, len(asks) - 1)]
            self.topic = self.read if ask not in of_logs else list(self.topics)[self.world.draw(0, 1)]
            if self.topic not in self.topic_ids:
                yield from self.refresh(self.topic)
            yield from ask(self._who(ask.__name__), self.world.draw(0, self.topics[self.topic] - 1))
            yield self.world.draw(10, 150)

    def _who(self, what: str) -> int:
        """Anybody, or whoever last knew: a client does not hear at once that another one leads."""
        known = self._answered.get(what)
        return known if known is not None and self.world.chance(0.6) else self.any_broker()

    def _group(self) -> str:
        return self.groups[self.world.draw(0, len(self.groups) - 1)]

    def _others(self) -> int:
        """How many that do not exist are asked about besides, now and then."""
        names = self.world.limits.names
        return self.world.draw(1, names) if names and self.world.chance(0.4) else 0

    def _among_others(self, group: str) -> list[str]:
        """The group, perhaps twice, somewhere among names that nobody has."""
        others = [f"nobody-{number}" for number in range(self._others())]
        if others:
            others.insert(self.world.draw(0, len(others)), group)
        return [*others, group]

    def _only(self, answers: list[Any], group: str) -> Any:
        found = [one for one in answers if one.group_id == group]
        if len(found) != 1:
            raise ViolationError(f"{self.name} asked about group {group} and gets {len(found)} answers")
        return found[0]

    def _acknowledged_end(self, partition: int) -> int:
        place = (self.topic_ids.get(self.topic, b""), partition)
        return self.ledger.acknowledged_end.get(place, 0)

    def _ask_committed(self, broker: int, partition: int) -> Script:
        group = self._group()
        before = self.ledger.committed(group, self.topic, partition)
        wanted = OffsetFetchRequestTopics(name=self.topic, partition_indexes=[partition])
        groups = [
            OffsetFetchRequestGroup(group_id=name, topics=[wanted]) for name in self._among_others(group)
        ]
        answer = yield self.ask(broker, OffsetFetchRequest(groups=groups), OFFSETS_BY_NAME)
        described = None if answer is None else self._only(answer.groups, group)
        if described is None or described.error_code:
            return
        found = described.topics[0].partitions[0]
        if not found.error_code:
            self._answered["_ask_committed"] = broker
            self._compare(broker, f"committed offset of {group}", found.committed_offset, before)

    def _list_offsets(self, broker: int, partition: int, epoch: int = -1) -> Script:
        wanted = [
            ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=LATEST)
            for index in (partition, *range(100, 100 + self._others()))
        ]
        topic = ListOffsetsTopic(name=self.topic, partitions=wanted)
        answer = yield self.ask(broker, ListOffsetsRequest(replica_id=-1, topics=[topic]))
        return answer.topics[0].partitions[0] if answer else None

    def _ask_end(self, broker: int, partition: int) -> Script:
        before = self._acknowledged_end(partition)
        found = yield from self._list_offsets(broker, partition)
        if found is not None and not found.error_code:
            self._answered["_ask_end"] = broker
            self._compare(broker, f"end of {self.topic}-{partition}", found.offset, before)

    def _fetch_at_end(self, broker: int, partition: int) -> Script:
        before = self._acknowledged_end(partition)
        wanted = FetchPartition(
            partition=partition, current_leader_epoch=-1, fetch_offset=before, partition_max_bytes=100
        )
        request = FetchRequest(
            replica_id=-1, max_wait_ms=self.world.draw(0, 300), min_bytes=1,
            topics=[FetchTopic(topic=self.topic, partitions=[wanted])],
        )  # fmt: skip
        answer = yield self.ask(broker, request, FETCH_FROM_LEADERS)
        if answer is None or answer.error_code or answer.throttle_time_ms:
            return
        found = answer.responses[0].partitions[0]
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise ViolationError(
                f"broker {broker} says that {before} is out of the range of {self.topic}-{partition}, "
                "whose records before it were acknowledged"
            )
        if not found.error_code:
            self._answered["_fetch_at_end"] = broker
            self._compare(broker, f"high watermark of {self.topic}-{partition}", found.high_watermark, before)

    def _describe(self, broker: int, partition: int) -> Script:
        group = self._group()
        before = self.ledger.committed(group, self.topic, partition)
        answer = yield self.ask(broker, DescribeGroupsRequest(groups=self._among_others(group)))
        if answer is None:
            return
        found = self._only(answer.groups, group)
        is_denied = found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == DEAD
        # A group of the new protocol is no classic group, and GROUP_ID_NOT_FOUND says that, too.
        if group == "classic" and is_denied and before >= 0:
            raise ViolationError(f"broker {broker} says that group {group} is gone, which committed {before}")

    def _list(self, _broker: int, partition: int) -> Script:
        """A coordinator, and nobody else since, cannot leave a group out of its list."""
        group = self._group()
        before = self.ledger.committed(group, self.topic, partition)
        broker, epoch = self.coordinator_of(group)
        if broker < 0:
            return
        answer = yield self.ask(broker, ListGroupsRequest())
        if answer is None or answer.error_code or self.coordinator_of(group) != (broker, epoch):
            return
        self.answers += 1
        listed = sorted(found.group_id for found in answer.groups)
        if before >= 0 and group not in listed:
            raise ViolationError(f"broker {broker} coordinates {group} in epoch {epoch} and lists {listed}")

    def _compare(self, broker: int, what: str, found: int, before: int) -> None:
        self.answers += 1
        if found < before:
            raise ViolationError(f"broker {broker} says that the {what} is {found}, when it was {before}")


class Loyal(Inquirer):
    """Asks one broker, about the ends of the `partitions` that it led when it was asked first: it may have
    been replaced, and not know it. Now and then it asks any leader, as if it had missed the last election."""

    def __init__(
        self, *place: Any, broker: int, partitions: list[tuple[str, int]], pace_ms: int, **known: Any
    ) -> None:
        super().__init__(*place, **known)
        self.broker, self.partitions, self.pace_ms = broker, partitions, pace_ms

    def script(self) -> Script:
        while not self.is_stopping:
            for topic, partition in self.partitions:
                self.topic = topic
                if topic not in self.topic_ids:
                    yield from self.refresh(topic)
                ask = self._ask_end if self.world.chance(0.7) else self._fetch_at_end
                yield from ask(self.broker, partition)
                if self.world.chance(0.2):
                    yield from self._ask_in_an_earlier_epoch(self.any_broker(), partition)
            yield self.world.draw(3, self.pace_ms)

    def _ask_in_an_earlier_epoch(self, broker: int, partition: int) -> Script:
        """A leader refuses who believes in an epoch that it knows to be over (KIP-320)."""
        topic = yield from self.refresh(self.topic, broker)
        partitions = topic.partitions if topic is not None else []
        led = {one.partition_index: one.leader_epoch for one in partitions if one.leader_id == broker}
        epoch = led.get(partition, 0)
        if epoch > 0:
            found = yield from self._list_offsets(broker, partition, epoch - 1)
            if found is not None and not found.error_code:
                raise ViolationError(
                    f"broker {broker} leads {self.topic}-{partition} in epoch {epoch} and answers somebody "
                    f"who believes in {epoch - 1}"
                )
