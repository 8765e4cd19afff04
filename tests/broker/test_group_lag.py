"""Leaders are asked where partitions end that groups read, while somebody wants to know."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.endpoints import plaintext

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.group_lag import ASKED_MAX, CHANNEL, NAME_MAX, PAUSE_MS, STEP, WATCHED_MS, GroupLag
from ottla.broker.parked import Waiting
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import NodeChanged
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

INTERVAL_MS = 5_000
HERE, THERE, AWAY = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)
GROUP = (7, "readers")


@dataclass
class Led:
    """A partition on this broker."""

    high_watermark: int = 42
    is_leader: bool = True
    is_settled: bool = True


@dataclass(eq=False)
class World:
    """Broker 1 leads partition 0 of topic `t`, broker 2 partition 1, broker 3 partition 2."""

    image: Image = field(default_factory=Image)
    waiting: Waiting = field(default_factory=Waiting)
    partitions: dict[TopicPartition, Any] = field(default_factory=lambda: {HERE: Led()})
    committed: dict[tuple[int, str], dict[str, dict[int, int]]] = field(
        default_factory=lambda: {GROUP: {"t": {0: 5, 1: 6, 2: 7}}}
    )
    sent: list[tuple[int, ListOffsetsRequest, Callable[[Any, int], None]]] = field(default_factory=list)
    present: tuple[tuple[int, str], ...] = (GROUP,)
    limit: int = 10
    interval_ms: int = INTERVAL_MS
    now_ms: int = 1_000

    def __post_init__(self) -> None:
        for broker in (1, 2, 3):
            node = znodes.broker_node(plaintext("host", broker), None)
            self.image.apply(NodeChanged(znodes.BROKERS + str(broker), node, 0, broker))
        self.lead({0: 1, 1: 2, 2: 3})
        self.lag = GroupLag(
            1, self.image, self.partitions, lambda: self.present,
            lambda shard, group: self.committed.get((shard, group), {}),
            self.send, self.waiting, lambda: self.limit, lambda: self.interval_ms,
        )  # fmt: skip

    def lead(self, leaders: dict[int, int], topic: str = "t") -> None:
        node = znodes.topic_node(topic.encode().ljust(16), dict.fromkeys(leaders, (1, 2, 3)))
        self.image.apply(NodeChanged(znodes.topic_path(topic), node, 0))
        states = {index: (leader, 0, (1, 2, 3)) for index, leader in leaders.items()}
        self.image.apply(NodeChanged(znodes.state_path(topic), znodes.state_node(1, states), 0))

    def send(self, peer: int, channel: str, request: Any, then: Callable[[Any, int], None]) -> None:
        assert channel == CHANNEL
        self.sent.append((peer, request, then))

    def watch(self, *groups: tuple[int, str], limit: int = 10) -> Any:
        self.present, self.limit = groups or (GROUP,), limit
        return self.lag.watch(self.now_ms)

    def pass_time(self, ms: int) -> None:
        """From one deadline to the next, as the broker does."""
        until_ms = self.now_ms + ms
        while (due_ms := self.waiting.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.waiting.on_tick(self.now_ms)
        self.now_ms = until_ms

    def asked(self) -> dict[int, list[TopicPartition]]:
        """By leader, what requests are under way for."""
        return {
            peer: [
                TopicPartition(topic.name, part.partition_index)
                for topic in request.topics
                for part in topic.partitions
            ]
            for peer, request, _ in self.sent
        }

    def answer(self, peer: int, end: int = 100, error: ErrorCode = ErrorCode.NONE) -> None:
        _, request, then = self.take(peer)
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=part.partition_index,
                        offset=-1 if error else end,
                        error_code=error,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        then(ListOffsetsResponse(topics=topics), self.now_ms)

    def take(self, peer: int) -> tuple[int, ListOffsetsRequest, Callable[[Any, int], None]]:
        sent = next(sent for sent in self.sent if sent[0] == peer)
        self.sent.remove(sent)
        return sent

    def ends(self) -> list[int | None]:
        return [self.lag.end_of(topic_partition) for topic_partition in (HERE, THERE, AWAY)]


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_led_here_is_there_at_once_and_others_are_asked_for_the_rest(world: World) -> None:
    world.watch()
    assert world.ends() == [42, None, None]
    assert not world.sent, "nothing is sent by whoever reads"
    world.pass_time(0)
    assert world.asked() == {2: [THERE], 3: [AWAY]}
    request = world.sent[0][1]
    assert (request.replica_id, request.isolation_level, request.topics[0].partitions[0].timestamp) == (
        -1, 0, -1
    )  # fmt: skip
    world.answer(2, 17)
    assert world.ends() == [42, 17, None]


def test_leaders_are_asked_again_after_an_interval_which_may_change(world: World) -> None:
    world.watch()
    world.pass_time(0)
    world.answer(2), world.answer(3)
    world.pass_time(INTERVAL_MS - 1)
    assert not world.sent
    world.interval_ms = 1_000
    world.pass_time(1)
    assert world.asked() == {2: [THERE], 3: [AWAY]}
    world.answer(2), world.answer(3)
    world.pass_time(1_000)
    assert world.asked() == {2: [THERE], 3: [AWAY]}


def test_nothing_is_asked_or_kept_when_nobody_has_read_for_a_while(world: World) -> None:
    world.watch()
    world.pass_time(0)
    for _ in range(WATCHED_MS // INTERVAL_MS):
        world.answer(2, 17), world.answer(3)
        world.pass_time(INTERVAL_MS)
    assert world.sent, "as long as that it goes on"
    world.answer(2, 17), world.answer(3)
    world.pass_time(INTERVAL_MS)
    assert not world.sent
    assert world.waiting.next_deadline_ms() is None, "not even a timer is left"
    assert world.ends() == [42, None, None]
    world.watch()
    world.pass_time(0)
    assert world.asked() == {2: [THERE], 3: [AWAY]}


def test_an_answer_that_comes_after_everybody_has_gone_is_not_kept(world: World) -> None:
    world.watch()
    world.pass_time(0)
    world.pass_time(WATCHED_MS + 2 * INTERVAL_MS)
    world.answer(2, 17)
    assert world.ends() == [42, None, None]
    assert world.asked() == {3: [AWAY]}


def test_one_request_is_under_way_to_a_leader_that_does_not_answer(world: World) -> None:
    world.watch()
    world.pass_time(0)
    world.answer(3, 9)
    world.pass_time(3 * INTERVAL_MS)
    assert world.asked() == {2: [THERE], 3: [AWAY]}
    assert [peer for peer, _, _ in world.sent] == [2, 3]


def test_an_end_that_is_not_told_again_is_known_for_one_more_round(world: World) -> None:
    world.watch()
    world.pass_time(0)
    world.answer(2, 17), world.answer(3, 18)
    world.pass_time(INTERVAL_MS)
    world.take(2)[2](None, world.now_ms)
    world.answer(3, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert world.ends() == [42, 17, 18]
    world.pass_time(INTERVAL_MS)
    assert world.ends() == [42, None, None]
    world.answer(2, 20)
    assert world.ends() == [42, 20, None]


def test_whoever_leads_next_is_asked_next(world: World) -> None:
    world.watch()
    world.pass_time(0)
    world.answer(2, 17), world.answer(3, 18)
    world.lead({0: 1, 1: 3, 2: -1})
    world.pass_time(INTERVAL_MS)
    assert world.asked() == {3: [THERE]}, "and nobody for what has no leader"


def test_a_broker_that_is_gone_is_not_asked_nor_is_anybody_for_a_topic_that_is(world: World) -> None:
    world.image.apply(NodeChanged(znodes.BROKERS + "3", None, 0))
    world.committed[GROUP] |= {"deleted": {0: 1}}
    world.watch()
    world.pass_time(0)
    assert world.asked() == {2: [THERE]}


def test_leadership_that_comes_here_counts_once_it_is_settled(world: World) -> None:
    world.watch()
    world.pass_time(0)
    world.answer(2, 17)
    world.partitions[THERE] = Led(high_watermark=3, is_settled=False)
    assert world.lag.end_of(THERE) == 17
    world.partitions[THERE] = Led(high_watermark=19)
    assert world.lag.end_of(THERE) == 19
    world.partitions[THERE] = Led(high_watermark=18, is_leader=False)
    assert world.lag.end_of(THERE) == 17, "a follower may be behind"


def test_a_partition_that_many_groups_read_is_asked_for_once(world: World) -> None:
    groups = [(7, f"group-{number}") for number in range(20)]
    world.committed = {group: {"t": {1: 5}} for group in groups}
    world.watch(*groups, limit=100)
    world.pass_time(0)
    assert world.asked() == {2: [THERE]}


def test_many_partitions_are_asked_for_one_request_after_the_other(world: World) -> None:
    count = 2 * ASKED_MAX + 10
    world.lead(dict.fromkeys(range(count), 2), "large")
    world.committed = {GROUP: {"large": dict.fromkeys(range(count), 1)}}
    world.watch()
    world.pass_time(10 * PAUSE_MS)
    sizes = []
    while world.sent:
        sizes.append(len(world.asked()[2]))
        world.answer(2, 100)
    assert sizes == [ASKED_MAX, ASKED_MAX, 10]
    assert world.lag.end_of(TopicPartition("large", count - 1)) == 100


def test_a_leader_that_is_gone_is_asked_for_the_rest_in_the_next_round(world: World) -> None:
    count = ASKED_MAX + 1
    world.lead(dict.fromkeys(range(count), 2), "large")
    world.committed = {GROUP: {"large": dict.fromkeys(range(count), 1)}}
    world.watch()
    world.pass_time(10 * PAUSE_MS)
    world.take(2)[2](None, world.now_ms)
    assert not world.sent
    world.pass_time(INTERVAL_MS)
    assert world.asked()[2][0] == TopicPartition("large", 0)


def test_what_a_round_did_not_come_to_is_first_in_the_next(world: World) -> None:
    count = ASKED_MAX + 1
    world.lead(dict.fromkeys(range(count), 2), "large")
    world.committed = {GROUP: {"large": dict.fromkeys(range(count), 1)}}
    world.watch()
    world.pass_time(10 * PAUSE_MS)
    world.pass_time(INTERVAL_MS)
    world.answer(2)
    assert world.asked()[2][0] == TopicPartition("large", count - 1)


def test_gathering_pauses_after_every_few_offsets(world: World) -> None:
    groups = [(7, f"group-{number}") for number in range(3 * STEP)]
    world.committed = {group: {"t": {1: 5}} for group in groups}
    world.watch(*groups, limit=10_000)
    world.pass_time(0)
    assert not world.sent
    world.pass_time(10 * PAUSE_MS)
    assert world.asked() == {2: [THERE]}


def test_a_round_that_is_not_gathered_when_the_next_begins_goes_on(world: World) -> None:
    world.interval_ms = PAUSE_MS
    groups = [(7, f"group-{number}") for number in range(3 * STEP)]
    world.committed = {group: {"t": {1: 5}} for group in groups}
    world.watch(*groups, limit=10_000)
    for _ in range(10):
        world.pass_time(PAUSE_MS)
        assert world.waiting.parked <= 2, "the next step, and the next round"
    assert world.asked() == {2: [THERE]}


def test_groups_that_go_while_a_round_is_gathered_are_left_out(world: World) -> None:
    groups = [(7, f"group-{number}") for number in range(2 * STEP)]
    world.committed = {group: {"t": {1: 5}} for group in groups}
    world.watch(*groups, limit=10_000)
    world.pass_time(0)
    world.committed.clear()
    world.pass_time(10 * PAUSE_MS)
    assert world.asked() == {2: [THERE]}


def test_groups_beyond_the_limit_are_not_watched_and_those_that_were_stay(world: World) -> None:
    first, second, third = (1, "b"), (1, "c"), (0, "a")
    assert world.watch(first, second, limit=2) == [first, second]
    assert world.watch(third, first, second, limit=2) == [first, second]
    assert world.watch(third, second, limit=2) == [second, third]
    assert world.watch(third, second, limit=1) == [second]
    assert world.lag.left_out == 1
    assert world.watch(third, second, limit=0) == []


def test_a_group_with_a_very_long_name_is_not_watched(world: World) -> None:
    """Its name would stand in each of its series: a few such groups could make a scrape of gigabytes."""
    longest, too_long = (1, "x" * NAME_MAX), (1, "x" * (NAME_MAX + 1))
    assert world.watch(too_long, longest) == [longest]
    assert world.lag.left_out == 1


def test_a_group_that_came_since_somebody_read_has_its_lag_when_they_read_next(world: World) -> None:
    """So that a new coordinator of groups does not begin with a gap."""
    world.watch((7, "nobody"))
    world.pass_time(0)
    assert not world.sent
    world.present = (GROUP,)
    world.pass_time(INTERVAL_MS)
    assert world.asked() == {2: [THERE], 3: [AWAY]}
