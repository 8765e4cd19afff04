"""One consumer group: how its tests talk to it, and what must be true of it after every turn."""

from typing import Any

from tests.support.groups import Coordinator, G, Topics

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.turn import Answer
from ottla.group.config import GroupConfig
from ottla.group.consumer.group import ConsumerGroup
from ottla.group.group import Caller
from ottla.group.shard import GroupShard


class Cluster(Coordinator):
    """A broker with one group, and its topics. A refused request raises.

    After every operation a group made by replaying the whole journal has to equal the live one. `shadow` is
    never asked anything: it knows only what was replayed.
    """

    def __init__(self, config: GroupConfig | None = None, checks: bool = True, **counts: int) -> None:
        self.shadow: GroupShard | None = None
        self.shadowed = 0
        super().__init__(config or GroupConfig(), Topics(**counts), now_ms=1_000, checks=checks)

    def new_shard(self) -> GroupShard:
        return self.without_expiry()

    def caller(self, version: int, client: str = "client", name: str | None = None) -> Caller:
        self.ids += 1
        return Caller("client", "/host", version, f"new-{self.ids}")

    def restart(self) -> None:
        super().restart()
        self.check()

    def check(self) -> None:
        self.shadow = self.shadow or self.new_shard()
        for record, offset, timestamp_ms in self.journal.records[self.shadowed :]:
            self.shadow.replay(record, offset, timestamp_ms)
        self.shadowed = self.journal.end_offset
        group: Any = self.group
        if not self.checks or not isinstance(group, ConsumerGroup):
            return
        shadow: Any = self.shadow.groups[G]
        assert shadow.state == group.state
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for partitions in (member.assigned, member.pending):
                for topic, numbers in partitions.items():
                    for number in numbers:
                        assert owners.setdefault((topic, number), member.member_id) == member.member_id
        assert owners == {
            (topic, number): owner
            for topic, numbers in group.state.owners.items()
            for number, owner in numbers.items()
        }

    def beat(self, member: str, epoch: int, owned: Any = None, **fields: Any) -> Any:
        """A ConsumerGroupHeartbeat's reply. `owned`: partitions by topic name; a join owns nothing."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 60_000, **fields}
            owned = {} if owned is None else owned
        return self.ask_consume(member, epoch, owned, **fields).reply

    def assigned(self, reply: Any) -> dict[str, set[int]] | None:
        told = self.told(reply)
        return None if told is None else {topic: set(numbers) for topic, numbers in told.items()}

    def refused(self, *args: Any, **fields: Any) -> ErrorCode:
        """The code a heartbeat is refused with."""
        journal_end = self.journal.end_offset
        try:
            reply = self.beat(*args, **fields)
        except ApiError as error:
            assert self.journal.end_offset == journal_end
            return error.code
        raise AssertionError(f"not refused: {reply}")

    def start_join(
        self,
        member: str = "",
        *,
        metadata: bytes = b"",
        names: tuple[str, ...] = ("range",),
        rebalance_ms: int = 30_000,
        **fields: Any,
    ) -> Answer:
        protocols = dict.fromkeys(names, metadata)
        return self.ask_join(member, protocols=protocols, rebalance_ms=rebalance_ms, **fields)

    def join(self, *args: Any, **fields: Any) -> Any:
        return self.start_join(*args, **fields).reply

    def sync(self, *args: Any, **fields: Any) -> Any:
        return self.ask_sync(*args, **fields).reply

    def classic_beat(self, member: str, generation: int, instance: str | None = None) -> int:
        code: int = self.ask_heartbeat(member, generation, instance=instance).reply.error_code
        return code

    def leave(self, *members: str | tuple[str, str], version: int = 5) -> Any:
        """Each member is an id, or (id, instance id)."""
        who = [(member, None) if isinstance(member, str) else member for member in members]
        return self.ask_leave(*who, version=version).reply


class Consumer:
    """A member as a client sees itself: its epoch and what it owns."""

    def __init__(self, cluster: Cluster, member_id: str, topics: Any = ("t",), **fields: Any) -> None:
        self.cluster, self.member_id, self.fields = cluster, member_id, fields
        self.topics = list(topics)
        self.identity = {name: value for name, value in fields.items() if name == "instance_id"}
        self.epoch = 0
        self.owned: dict[str, set[int]] = {}

    def join(self) -> "Consumer":
        """Join, or join again from scratch."""
        self.epoch, self.owned = 0, {}
        return self.take(self.full())

    def full(self) -> Any:
        fields = {"rebalance_timeout_ms": 60_000, "topics": self.topics, **self.fields}
        return self.cluster.beat(self.member_id, self.epoch, owned=self.owned, **fields)

    def beat(self) -> "Consumer":
        """A heartbeat that says nothing new, and then takes what it is told at once."""
        return self.take(self.cluster.beat(self.member_id, self.epoch, **self.identity))

    def confirm(self) -> "Consumer":
        """A heartbeat that says what it owns."""
        return self.take(self.cluster.beat(self.member_id, self.epoch, owned=self.owned, **self.identity))

    def take(self, reply: Any) -> "Consumer":
        self.epoch = reply.member_epoch
        assigned = self.cluster.assigned(reply)
        if assigned is not None:
            self.owned = assigned
        return self

    def leave(self, epoch: int = -1) -> Any:
        return self.cluster.beat(self.member_id, epoch, owned=None, **self.identity)


def settle(*consumers: Consumer, rounds: int = 6) -> None:
    """Heartbeats until nothing is left to do."""
    for _ in range(rounds):
        for consumer in consumers:
            consumer.confirm()
