"""Drives one consumer group through the real runtime, with a clock that is moved by hand.

After every operation a group made by replaying the whole journal has to equal the live one: that is what
"decide, then replay" promises.
"""

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.turn import Answer
from ottla.group.classic import Caller, ClassicGroup
from ottla.group.config import GroupConfig
from ottla.group.consumer import ConsumerGroup
from ottla.group.consumer_requests import check_heartbeat
from ottla.group.records import GroupMetadata, parse
from ottla.group.records import store as to_record
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"


def topic_id(name):
    return name.encode().ljust(16, b".")


class FakeTopics:
    def __init__(self, **counts):
        self.counts = counts
        self.generation = {}
        self.revision = 1

    def set(self, name, count):
        if name not in self.counts:
            self.generation[name] = self.generation.get(name, 0) + 1
        self.counts[name] = count
        self.revision += 1

    def delete(self, name):
        del self.counts[name]
        self.revision += 1

    def names(self):
        return list(self.counts)

    def id_of(self, name):
        if name not in self.counts:
            return None
        born = self.generation.get(name, 0)
        return topic_id(name) if born < 2 else name.encode().ljust(15, b".") + bytes([born])

    def name_of(self, wanted):
        return next((name for name in self.counts if self.id_of(name) == wanted), None)

    def partition_count(self, name):
        return self.counts.get(name, 0)

    def racks(self, name):
        return {}


class OneGroup:
    """A shard with one group of either kind."""

    def __init__(self, config, topics):
        self.config, self.topics = config, topics
        self.group = None

    def replay(self, record, offset, timestamp_ms):
        entry = parse(record)
        if isinstance(entry, GroupMetadata):
            self.group = None
            if entry.value is not None:
                self.group = ClassicGroup.from_record(GROUP, entry.value, self.config, timestamp_ms)
            return
        if self.group is None:
            if entry.value is None:
                return
            self.group = ConsumerGroup(GROUP, self.config, self.topics)
        self.group.replay(entry)
        if self.group.is_gone:
            self.group = None

    def on_committed(self, below):
        """Groups do not care."""

    def on_loaded(self, turn):
        if self.group is not None:
            self.group.on_loaded(turn)

    def on_timer(self, turn, key):
        if self.group is not None:
            self.group = self.group.on_timer(turn, key) or self.group

    def beat(self, turn, answer, request, caller):
        check_heartbeat(request, caller.version, self.config)
        group = self.group
        if group is None:
            if request.member_epoch != 0:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
            group = ConsumerGroup(GROUP, self.config, self.topics)
        if isinstance(group, ClassicGroup):
            if request.member_epoch != 0:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
            if group.is_empty:
                turn.write(to_record(GroupMetadata(GROUP, None)))
                ConsumerGroup(GROUP, self.config, self.topics).heartbeat(turn, answer, request, caller)
                return
            ConsumerGroup.from_classic(turn, group, self.config, self.topics).heartbeat(
                turn, answer, request, caller
            )
            group.close(turn, ErrorCode.REBALANCE_IN_PROGRESS)
            return
        classic = group.heartbeat(turn, answer, request, caller)
        if classic is not None:
            self.group = classic

    def join(self, turn, answer, request, caller):
        if self.group is None:
            self.group = ClassicGroup(GROUP, self.config, wall_ms=turn.wall_ms)
        if isinstance(self.group, ClassicGroup):
            self.group.join(turn, answer, request, caller)
        else:
            self.group = self.group.classic_join(turn, answer, request, caller) or self.group

    def sync(self, turn, answer, request):
        is_classic = isinstance(self.group, ClassicGroup)
        (self.group.sync if is_classic else self.group.classic_sync)(turn, answer, request)

    def classic_beat(self, turn, answer, request):
        is_classic = isinstance(self.group, ClassicGroup)
        (self.group.heartbeat if is_classic else self.group.classic_heartbeat)(turn, answer, request)

    def leave(self, turn, answer, request, version):
        is_classic = isinstance(self.group, ClassicGroup)
        (self.group.leave if is_classic else self.group.classic_leave)(turn, answer, request, version)


class Journal:
    def __init__(self):
        self.records = []

    @property
    def end_offset(self):
        return len(self.records)

    committed_offset = end_offset

    @property
    def batch_bytes_max(self) -> int:
        return 1 << 20

    def place(self, offset: int) -> str:
        return f"file of {offset}"

    def stored(self):
        return iter(list(self.records))

    def append(self, records, now_ms, wall_ms):
        start = len(self.records)
        for at, record in enumerate(records, start):
            self.records.append((record, at, wall_ms))
        return start


class Cluster:
    """One broker with one group, and its topics."""

    def __init__(self, config=None, checks=True, **counts):
        self.topics = FakeTopics(**counts)
        self.config = config or GroupConfig()
        self.checks = checks
        self.journal = Journal()
        self.now_ms = 1_000
        self.new_ids = 0
        self.leader_epoch = 0
        self.shadow, self.shadowed = OneGroup(self.config, self.topics), 0
        self.restart()

    def restart(self):
        self.runtime = Runtime(lambda _: OneGroup(self.config, self.topics), lambda answer, now_ms: None)
        self.leader_epoch += 1
        self.runtime.load(0, self.journal, self.leader_epoch, self.now_ms)
        while self.runtime.loading:
            self.runtime.on_tick(self.now_ms)
        self.check()

    @property
    def group(self):
        return self.runtime.shard(0).group

    @property
    def timers(self):
        return self.runtime.shards[0].timers.deadlines

    def pass_ms(self, ms):
        """Time goes by, from one timer to the next."""
        end = self.now_ms + ms
        while (due := self.runtime.next_ms) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.runtime.on_tick(self.now_ms)
            self.check()
        self.now_ms = end

    def run(self, operation):
        """The answer of an operation; None if it is yet to come."""
        answer = Answer()
        self.runtime.execute(0, self.now_ms, lambda shard, turn: operation(shard, turn, answer))
        self.check()
        return answer

    def check(self):
        """`shadow` is never asked anything: it knows only what was replayed."""
        for record, offset, timestamp_ms in self.journal.records[self.shadowed :]:
            self.shadow.replay(record, offset, timestamp_ms)
        self.shadowed = self.journal.end_offset
        if not self.checks or not isinstance(self.group, ConsumerGroup):
            return
        assert self.shadow.group == self.group
        owners = {}
        for member in self.group.members.values():
            for partitions in (member.assigned, member.pending):
                for topic, numbers in partitions.items():
                    for number in numbers:
                        assert owners.setdefault((topic, number), member.member_id) == member.member_id
        assert owners == {
            (topic, number): owner
            for topic, numbers in self.group.owners.items()
            for number, owner in numbers.items()
        }

    def caller(self, version):
        self.new_ids += 1
        return Caller("client", "/host", version, f"new-{self.new_ids}")

    def beat(self, member_id, epoch, owned=None, version=1, **fields):
        """A ConsumerGroupHeartbeat's reply. `owned`: partitions by topic name; a join owns nothing."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 60_000, **fields}
            owned = {} if owned is None else owned
        if "topics" in fields:
            fields["subscribed_topic_names"] = fields.pop("topics")
        if "regex" in fields:
            fields["subscribed_topic_regex"] = fields.pop("regex")
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", GROUP),
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None if owned is None else self.listed(owned),
            **fields,
        )
        caller = self.caller(version)
        return self.run(lambda shard, turn, answer: shard.beat(turn, answer, request, caller)).reply

    def refused(self, *args, **fields):
        """The code a heartbeat is refused with."""
        journal_end = self.journal.end_offset
        try:
            reply = self.beat(*args, **fields)
        except ApiError as error:
            assert self.journal.end_offset == journal_end
            return error.code
        raise AssertionError(f"not refused: {reply}")

    def listed(self, owned):
        return [
            TopicPartitions(topic_id=self.topics.id_of(name) or topic_id(name), partitions=sorted(numbers))
            for name, numbers in owned.items()
        ]

    def assigned(self, reply):
        """The assignment in a reply, by topic name; None if there is none."""
        if reply.assignment is None:
            return None
        return {
            self.topics.name_of(each.topic_id): set(each.partitions)
            for each in reply.assignment.topic_partitions
        }

    # The classic protocol

    def start_join(self, member_id="", *, metadata=b"", instance=None, version=9, **fields):
        fields = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 30_000, "names": ("range",), **fields}
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name in fields.pop("names")
            ],
            **fields,
        )
        caller = self.caller(version)
        return self.run(lambda shard, turn, answer: shard.join(turn, answer, request, caller))

    def join(self, *args, **fields):
        return self.start_join(*args, **fields).reply

    def start_sync(self, member_id, generation, *, instance=None, assignments=None, **fields):
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=assignment)
                for to, assignment in (assignments or {}).items()
            ],
            **fields,
        )
        return self.run(lambda shard, turn, answer: shard.sync(turn, answer, request))

    def sync(self, *args, **fields):
        return self.start_sync(*args, **fields).reply

    def classic_beat(self, member_id, generation, instance=None):
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.run(
            lambda shard, turn, answer: shard.classic_beat(turn, answer, request)
        ).reply.error_code

    def leave(self, *members, version=5):
        """Each member is an id, or (id, instance id)."""
        identities = [
            MemberIdentity(member_id=who)
            if isinstance(who, str)
            else MemberIdentity(member_id=who[0], group_instance_id=who[1])
            for who in members
        ]
        first = identities[0].member_id if identities else ""
        request = LeaveGroupRequest(group_id=GROUP, member_id=first, members=identities)
        return self.run(lambda shard, turn, answer: shard.leave(turn, answer, request, version)).reply


class Consumer:
    """A member as a client sees itself: its epoch and what it owns."""

    def __init__(self, cluster, member_id, topics=("t",), **fields):
        self.cluster, self.member_id, self.fields = cluster, member_id, fields
        self.topics = list(topics)
        self.epoch = 0
        self.owned = {}

    def join(self):
        """Join, or join again from scratch."""
        self.epoch, self.owned = 0, {}
        return self.take(self.full())

    def full(self):
        fields = {"rebalance_timeout_ms": 60_000, "topics": self.topics, **self.fields}
        return self.cluster.beat(self.member_id, self.epoch, owned=self.owned, **fields)

    def beat(self):
        """A heartbeat that says nothing new, and then takes what it is told at once."""
        fields = {name: value for name, value in self.fields.items() if name == "instance_id"}
        return self.take(self.cluster.beat(self.member_id, self.epoch, **fields))

    def confirm(self):
        """A heartbeat that says what it owns."""
        fields = {name: value for name, value in self.fields.items() if name == "instance_id"}
        return self.take(self.cluster.beat(self.member_id, self.epoch, owned=self.owned, **fields))

    def take(self, reply):
        self.epoch = reply.member_epoch
        assigned = self.cluster.assigned(reply)
        if assigned is not None:
            self.owned = assigned
        return self

    def leave(self, epoch=-1):
        fields = {name: value for name, value in self.fields.items() if name == "instance_id"}
        return self.cluster.beat(self.member_id, epoch, owned=None, **fields)


def settle(*consumers, rounds=6):
    """Heartbeats until nothing is left to do."""
    for _ in range(rounds):
        for consumer in consumers:
            consumer.confirm()


def test_a_lone_member_gets_everything():
    cluster = Cluster(t=3)
    one = Consumer(cluster, "one").join()
    assert (one.epoch, one.owned) == (1, {"t": {0, 1, 2}})
    assert cluster.group.state_name == "Stable"
