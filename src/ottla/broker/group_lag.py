"""Where the partitions end that groups of this broker read, wherever they are led: for the lag of groups.

An end is the high watermark, as for Kafka's own tools and kafka_exporter: a consumer that reads only what is
committed lags behind an open transaction by what that has written so far.

Rules
- Nothing is asked unless somebody reads metrics (`watch`), nor for longer than a while after that; then what
  was learned is forgotten.
- What this broker leads it knows. Leaders of the rest are asked with ListOffsets (key 2), in a round every
  `interval_ms`: one request is under way to a leader, with as many partitions as are worth one.
- Which partitions that are is gathered in small steps: there may be a hundred thousand.
- What a round does not learn (there is no leader, it does not answer, it refuses) is what it was in the round
  before, and unknown after that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.offset_times import LATEST
from ottla.broker.parked import Parked, Waiting
from ottla.broker.ports import SendRequest
from ottla.controller.image import Image
from ottla.replication.partition import Partition
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

CHANNEL: Final = "group lag"
ASKED_MAX: Final = 500  # partitions in one request
STEP: Final = 500  # offsets that are looked at in one step, which is less than a millisecond
PAUSE_MS: Final = 1
NAME_MAX: Final = 255  # characters of a group's name, which stands in each of its series: it may have 32,767
WATCHED_MS: Final = 180_000  # after somebody has read: longer than from one scrape to the next
WATCHED_INTERVALS: Final = 3

Watched: TypeAlias = Sequence[tuple[int, str]]  # groups, each with its shard


class GroupLag:
    """`present` gives the groups of this broker, of which at most `limit` are watched; `committed` the
    offsets of one, by topic and partition; `partitions` are those on this broker."""

    def __init__(
        self,
        broker_id: int,
        image: Image,
        partitions: Mapping[TopicPartition, Partition],
        present: Callable[[], Watched],
        committed: Callable[[int, str], Mapping[str, Mapping[int, object]]],
        send: SendRequest,
        waiting: Waiting,
        limit: Callable[[], int],
        interval_ms: Callable[[], int],
    ) -> None:
        self.left_out = 0  # groups beyond the limit, or with a very long name
        self._broker_id = broker_id
        self._image = image
        self._partitions = partitions
        self._present = present
        self._committed = committed
        self._send = send
        self._waiting = waiting
        self._limit = limit
        self._interval_ms = interval_ms
        self._watched: Watched = ()
        self._watched_ms = 0
        self._is_running = self._is_gathering = False
        self._ends: dict[TopicPartition, int] = {}  # as this round has learned them
        self._ends_before: dict[TopicPartition, int] = {}
        self._queues: dict[int, list[TopicPartition]] = {}  # by leader
        self._is_asked: set[int] = set()  # to whom a request is under way

    def watch(self, now_ms: int) -> Watched:
        """Somebody wants to know the lag of groups, and will again; of which groups."""
        self._watched_ms = now_ms
        self._choose()
        if not self._is_running:
            self._is_running = True
            self._call_at(now_ms, self._begin_round)
        return self._watched

    def _choose(self) -> None:
        """As many groups as the limit allows; those that were watched before stay."""
        present = dict.fromkeys(self._present())
        choice = {group: None for group in present if len(group[1]) <= NAME_MAX}
        chosen = {group: None for group in self._watched if group in choice}
        chosen |= choice
        self._watched = list(islice(chosen, self._limit()))
        self.left_out = len(present) - len(self._watched)

    def end_of(self, topic_partition: TopicPartition) -> int | None:
        """None if that is not known."""
        partition = self._partitions.get(topic_partition)
        if partition is not None and partition.is_leader and partition.is_settled:
            return partition.high_watermark
        return self._ends.get(topic_partition, self._ends_before.get(topic_partition))

    # -- a round --

    def _begin_round(self, now_ms: int) -> None:
        interval_ms = self._interval_ms()
        if now_ms - self._watched_ms > max(WATCHED_MS, WATCHED_INTERVALS * interval_ms):
            self._is_running, self._watched = False, ()
            self._ends, self._ends_before, self._queues = {}, {}, {}
            return
        self._call_at(now_ms + interval_ms, self._begin_round)
        if self._is_gathering:
            return
        self._is_gathering = True
        self._choose()
        self._ends, self._ends_before = {}, self._ends
        # First of all what the round before has not come to.
        queues = {leader: dict.fromkeys(queue) for leader, queue in self._queues.items()}
        self._gather(self._read_partitions(self._watched), queues, now_ms)

    def _read_partitions(self, groups: Watched) -> Iterator[tuple[str, Iterable[int]]]:
        """Of which groups have committed something, by topic."""
        for shard, group_id in groups:
            for topic in list(self._committed(shard, group_id)):
                yield topic, self._committed(shard, group_id).get(topic, {})

    def _gather(
        self,
        read: Iterator[tuple[str, Iterable[int]]],
        queues: dict[int, dict[TopicPartition, None]],
        now_ms: int,
    ) -> None:
        """Whom to ask for what; a step of it."""
        looked_at = 0
        for topic, indexes in read:
            looked_at += 1
            states = self._image.topics[topic].states if topic in self._image.topics else {}
            for index in indexes:
                looked_at += 1
                state = states.get(index)
                if state is not None and state.leader != self._broker_id:
                    queues.setdefault(state.leader, {})[TopicPartition(topic, index)] = None
            if looked_at >= STEP:
                self._call_at(now_ms + PAUSE_MS, partial(self._gather, read, queues))
                return
        self._is_gathering = False
        if self._is_running:
            there = sorted(queues.keys() & self._image.brokers.keys())
            self._queues = {leader: list(queues[leader]) for leader in there}
            for leader in there:
                self._ask(leader)

    def _call_at(self, due_ms: int, action: Callable[[int], None]) -> None:
        self._waiting.park(
            Parked(
                keys=(), deadline_ms=due_ms, owner=CHANNEL, reply=lambda _answer: None,
                ready=lambda _key, _now_ms: None, expire=action,
            )
        )  # fmt: skip

    # -- questions and answers --

    def _ask(self, leader: int) -> None:
        queue = self._queues.get(leader)
        if leader in self._is_asked or not queue:
            return
        asked = queue[:ASKED_MAX]
        del queue[:ASKED_MAX]
        self._is_asked.add(leader)
        self._send(leader, CHANNEL, _request(asked), partial(self._on_answer, leader))

    def _on_answer(self, leader: int, answer: Any, now_ms: int) -> None:  # noqa: ARG002
        self._is_asked.discard(leader)
        if answer is None:
            self._queues.pop(leader, None)  # the next round tries again
        elif self._is_running:
            for topic in answer.topics:
                for part in topic.partitions:
                    if part.error_code == ErrorCode.NONE and part.offset >= 0:
                        self._ends[TopicPartition(topic.name, part.partition_index)] = part.offset
        self._ask(leader)


def _request(topic_partitions: Iterable[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in topic_partitions:
        asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(asked)
    return ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
