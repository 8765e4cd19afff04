"""One broker: what it knows, what it holds, and what happens to it.

Rules: one thread owns this object. Every input takes `now_ms`; nothing here reads a clock, opens a socket
or waits. Effects are left in `effects` in the order they arose, and whoever gave the input carries them
out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base.config import load, override
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Files
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker import adoption, moves
from ottla.broker.adoption import Adoption
from ottla.broker.config import BrokerConfig
from ottla.broker.config_copies import ConfigCopies
from ottla.broker.controlling import Controlling
from ottla.broker.effects import (
    CleanLog,
    ConfirmTree,
    Effect,
    Send,
    Sign,
    SyncFolder,
    SyncLog,
    TakeOffline,
    WriteNodes,
)
from ottla.broker.fetchers import Fetchers
from ottla.broker.identities import Identities
from ottla.broker.isr import IsrChanges
from ottla.broker.liveness import Liveness
from ottla.broker.making import Making
from ottla.broker.offline import Notice, assume_lost, take_offline
from ottla.broker.parked import ROUND, Waiting
from ottla.broker.partitions import open_partition
from ottla.broker.ports import OnAnswer, OnOutcome, Random
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.proofs import Proofs
from ottla.broker.replicas import Followers, Replicas
from ottla.broker.reports import OwnReport
from ottla.broker.slices import Slices
from ottla.broker.status import say_cleaned
from ottla.controller import image as images
from ottla.controller import znodes
from ottla.controller.image import Image, PartitionState, Topic
from ottla.controller.keeper import NodeChanged, Operation, Outcome
from ottla.group.config import GroupConfig
from ottla.log.cleaning import CleanOutcome
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.directories import LogDirectoryError
from ottla.log.durability import Sync
from ottla.log.log import Log
from ottla.log.moving import Move
from ottla.log.reading import READ_BYTES_PER_ROUND
from ottla.log.store import LogStore
from ottla.log.validate import ITEMS_FOR_SMALL, ITEMS_PER_ROUND
from ottla.replication.partition import HighWatermarks, Partition
from ottla.replication.sessions import Sessions
from ottla.replication.throttle import ReplicationThrottle

if TYPE_CHECKING:
    from ottla.broker.groups import Groups


@dataclass(slots=True)
class Broker:
    files: Files
    random: Random
    properties: dict[str, str]
    config: BrokerConfig = field(init=False)
    log_config: LogConfig = field(init=False)
    store: LogStore = field(init=False)
    sessions: Sessions = field(init=False)
    image: Image = field(default_factory=Image)
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    waiting: Waiting = field(default_factory=Waiting)
    slices: Slices = field(default_factory=Slices)
    controlling: Controlling = field(init=False)
    replicas: Replicas = field(init=False)
    followers: Followers = field(init=False)
    leader_throttle: ReplicationThrottle = field(init=False)
    isr: IsrChanges = field(init=False)
    making: Making = field(init=False)
    copies: ConfigCopies = field(init=False)
    adoption: Adoption = field(default_factory=Adoption)
    notice: Notice = field(init=False)
    liveness: Liveness = field(init=False)
    report: OwnReport = field(init=False)
    proofs: Proofs = field(init=False)
    identities: Identities = field(init=False)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    effects: list[Effect] = field(default_factory=list)
    outcomes: dict[int, OnOutcome] = field(default_factory=dict)
    asked: dict[int, OnAnswer] = field(default_factory=dict)
    answers: dict[tuple[int, int, bytes], bytes] = field(default_factory=dict)
    last_token: int = 0
    is_clean: bool = True
    opened_ms: int = 0
    items_left: int = ITEMS_PER_ROUND  # that may be checked in this round of the loop
    read_left: int = READ_BYTES_PER_ROUND  # that may be read for consumers and followers in this round
    unsent_bytes: int = 0  # answers that clients have not read yet, as the shell last said
    damage: set[str] = field(default_factory=set)  # what was said of logs that cannot be read
    _groups: "Groups | None" = None

    def __post_init__(self) -> None:
        directories = load(BrokerConfig, self.properties).log_dirs
        self.store = LogStore(
            self.files, directories, LogConfig(), StoreConfig(), on_failed=self.storage_error
        )
        self.controlling = Controlling(self)
        self.notice, self.making, self.copies = Notice(self), Making(self), ConfigCopies(self)
        self.report, self.identities = OwnReport(self), Identities(self)
        self._load_configs()
        self._replicate()
        self.liveness = Liveness(self.id)
        self.sessions = Sessions(
            self.config.fetch_session_slots, new_id=lambda: self.random.randrange(1, 2**31)
        )

    def _replicate(self) -> None:
        """What partitions need to lead and to follow."""
        self.followers = Followers(self.id, self.waiting)
        self.proofs = Proofs(
            self.waiting, lambda now_ms: self.effects.append(ConfirmTree(now_ms)), self.followers.hurry
        )
        self.leader_throttle = ReplicationThrottle(
            self.id,
            lambda config: config.leader_replication_throttled_replicas,
            lambda: self.config.leader_throttled_rate,
        )
        follower_throttle = ReplicationThrottle(
            self.id,
            lambda config: config.follower_replication_throttled_replicas,
            lambda: self.config.follower_throttled_rate,
        )
        self.isr = IsrChanges(
            self.id, self.image, self.send,
            lambda partition, proposal, now_ms: self.replicas.on_refused(partition, proposal, now_ms),
        )  # fmt: skip
        fetchers = Fetchers(
            self.id, self.image, lambda: self.config, self.send,
            lambda progress, now_ms: self.replicas.on_fetched(progress, now_ms), follower_throttle,
        )  # fmt: skip
        self.replicas = Replicas(
            image=self.image, waiting=self.waiting, followers=self.followers, fetchers=fetchers,
            isr=self.isr, proofs=self.proofs, coordinators=self, disks=self,
            lag_ms_max=lambda: self.config.replica_lag_time_ms_max,
        )  # fmt: skip

    @property
    def id(self) -> int:
        return self.config.node_id

    # -- start ------------------------------------------------------------------------------------

    def open(self, nodes: Iterable[NodeChanged], now_ms: int) -> list[str]:
        """Take up what the keeper and the disk hold. Answers what had to be repaired, a line each."""
        self.opened_ms = now_ms
        # Our own nodes would be those of an earlier incarnation.
        own = {f"{top}{self.id}" for top in (znodes.BROKERS, znodes.OFFLINE, znodes.REPORTS)}
        for node in nodes:
            if node.path not in own:
                self.image.apply(node)
        if not self.image.cluster_id:
            self.adoption = Adoption.look(self.store.disks, self.id)
        self._load_configs()
        report = self.store.open_all(now_ms, self._known_topic_config, self.image.topic_id)
        self.is_clean = all(report.clean.values())
        reports = [*report.lines(), *self.adoption.lines]
        if self.image.cluster_id:
            reports += adoption.remove_strays(self, now_ms)
        else:
            reports += adoption.adopted_line(self.store)
        reports += adoption.untouched_line({id.topic for id in self.store.logs}, self._known_topic_config)
        assume_lost(self)
        self.copies.note_brokers()
        for topic in self.image.topics:
            self._follow_topic(topic, now_ms)
        return reports

    # -- configuration ----------------------------------------------------------------------------

    def _load_configs(self) -> None:
        """The file, then what was set for all brokers, then for this one."""
        known = self.image if self.image.cluster_id else self.adoption
        merged = {**self.properties, **known.broker_config("")}
        static = load(BrokerConfig, self.properties)
        merged |= known.broker_config(str(static.node_id))
        self.config = load(BrokerConfig, merged)
        self.log_config = self.store.config = load(LogConfig, merged)
        self.store.store_config = load(StoreConfig, merged)

    def _known_topic_config(self, topic: str) -> dict[str, str]:
        return (self.image if self.image.cluster_id else self.adoption).topic_config(topic)

    def topic_log_config(self, topic: str) -> LogConfig:
        return override(self.log_config, self.image.topic_config(topic))

    # -- partitions -------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """The partition if this broker holds it, else the error that tells a client where it stands."""
        found = self.partitions.get(TopicPartition(topic, index))
        if found is not None:
            return found
        known = self.image.topics.get(topic)
        if known is None or index not in known.assignment:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if TopicPartition(topic, index) in self.store.lost:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def begin_round(self, now_ms: int) -> None:
        """What may be done at once is as much as ever, for who waits for it and then for who comes."""
        self.slices.spent_us, self.read_left = 0, READ_BYTES_PER_ROUND
        spared, self.items_left = ITEMS_PER_ROUND - ITEMS_FOR_SMALL, ITEMS_PER_ROUND
        self.waiting.wake_in_turn(ROUND, lambda: self.items_left - spared, now_ms)

    def start_syncs(self, now_ms: int) -> None:
        for log, sync in self.store.due_syncs(now_ms):
            self.effects.append(SyncLog(log, sync))

    def on_synced(self, log: Log, sync: Sync, now_ms: int) -> None:
        log.on_synced(sync, now_ms)
        partition = self.partitions.get(log.topic_partition)
        if partition is not None and partition.log is log:
            self.replicas.on_synced(partition, now_ms)
        self.start_syncs(now_ms)
        self.replicas.pump(now_ms)  # a follower asks for more once it has synced what it got

    # -- failed disks -----------------------------------------------------------------------------

    def storage_error(self, error: OSError) -> ErrorCode:
        """The disk refused something; the code that tells a client. What is the fault of a log directory
        takes that offline, as soon as the input at hand is done with."""
        if isinstance(error, LogDirectoryError) and error.directory not in self.store.offline:
            self.effects.append(TakeOffline(error.directory, str(error)))
        return ErrorCode.KAFKA_STORAGE_ERROR

    def on_directory_failed(self, directory: str, reason: str, now_ms: int) -> None:
        take_offline(self, directory, reason, now_ms)

    def on_sync_failed(self, log: Log, error: LogDirectoryError) -> None:
        """Never tried again: a failed sync may have thrown away what it could not write."""
        log.on_sync_failed()
        self.storage_error(error)

    # -- compaction -------------------------------------------------------------------------------

    def _start_cleanings(self, now_ms: int) -> None:
        for log, task in self.store.next_cleanings(self.last_stable_offset, now_ms):
            self.effects.append(CleanLog(log, task))

    def last_stable_offset(self, log: Log) -> int:
        partition = self.partitions.get(log.topic_partition)
        return log.log_start_offset if partition is None else partition.last_stable_offset

    def on_cleaned(self, log: Log, outcome: CleanOutcome, now_ms: int) -> None:
        """A worker wrote compacted segments: put them into place, with a sync of the folder at each step."""
        if self.store.on_cleaned(log, outcome, now_ms):
            self.effects.append(SyncFolder(log, log.files.syncable(log.directory)))
        say_cleaned(self, log, outcome, now_ms)

    def on_folder_synced(self, log: Log, now_ms: int) -> None:
        if self.store.on_folder_synced(log, now_ms):
            self.effects.append(SyncFolder(log, log.files.syncable(log.directory)))

    def on_copied(self, move: Move, error: BaseException | None, now_ms: int) -> None:
        moves.on_copied(self, move, error, now_ms)

    # -- coordinators ---------------------------------------------------------------------------------------

    @property
    def groups(self) -> "Groups":
        """The group coordinator, made when it is first needed: many brokers never are asked for a group."""
        if self._groups is None:
            from ottla.broker.groups import Groups

            config = load(GroupConfig, self.properties)
            self._groups = Groups(config, self.image, self.waiting.wake, self.wall_ms)
        return self._groups

    @property
    def is_loading(self) -> bool:
        """Is a coordinator being loaded?"""
        return self._groups is not None and bool(self._groups.runtime.loading)

    def on_role(self, partition: Partition, now_ms: int) -> None:
        """A partition of an internal topic is ours to lead, or no longer: so are the groups in it."""
        if partition.topic_partition.topic != OFFSETS_TOPIC:
            return
        if partition.is_leader:
            self.groups.on_elected(partition, self.replicas.append_internal, now_ms)
        else:
            self.groups.on_resigned(partition.topic_partition)
        self.waiting.wake(partition.topic_partition, now_ms)

    def on_committed(self, partition: Partition, now_ms: int) -> None:
        """What is stored in a partition of an internal topic is safe as far as its high watermark."""
        if self._groups is None:
            return
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self._groups.runtime.on_committed(index, partition.high_watermark, now_ms)

    # -- the keeper -------------------------------------------------------------------------------

    def write(self, operations: Iterable[Operation], on_outcome: OnOutcome) -> int:
        """Ask for a write to the keeper; `on_outcome` is called once, after its changes were applied."""
        self.last_token += 1
        self.outcomes[self.last_token] = on_outcome
        self.effects.append(WriteNodes(self.last_token, tuple(operations)))
        return self.last_token

    def on_written(self, token: int, outcome: Outcome, now_ms: int) -> None:
        self.outcomes.pop(token)(outcome, now_ms)

    # -- other brokers ----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """This broker's epoch; -1 while it is not registered."""
        known = self.image.brokers.get(self.id)
        return known.epoch if known else -1

    def send(self, peer: int, channel: str, request: Any, on_answer: OnAnswer) -> int:
        """Send a request to another broker; `on_answer` is called once."""
        self.last_token += 1
        self.asked[self.last_token] = on_answer
        self.effects.append(Send(peer, channel, self.last_token, request))
        return self.last_token

    def on_peer_reply(self, token: int, answer: Any, now_ms: int) -> None:
        self.asked.pop(token)(answer, now_ms)

    def on_probed(self, peer: int, epoch: int, sign: Sign, now_ms: int) -> None:
        if self.liveness.on_probed(peer, epoch, sign, now_ms):
            self.controlling.on_suspicion(now_ms)
        self.effects += self.liveness.pump(now_ms)

    def on_closed(self, connection: int) -> None:
        """A connection is over, and with it what waited for an answer on it."""
        self.waiting.drop(connection)
        self.slices.drop(connection)
        self.identities.forget(connection)

    def on_nodes(self, nodes: Iterable[NodeChanged], now_ms: int) -> None:
        """The tree changed: apply all of it, then open, close and configure what that touches."""
        changes = [change for node in nodes for change in self.image.apply(node)]
        self.answers = {}  # another: an answer that is being made out of what was known before is not kept
        self.making.begin()
        for change in reversed(dict.fromkeys(reversed(changes))):  # the last word on each
            match change:
                case images.TopicChanged(topic):
                    self._follow_topic(topic, now_ms)
                case images.TopicDeleted(topic):
                    self._drop_topic(topic, now_ms)
                case images.TopicConfigChanged(topic):
                    self._configure_logs(topic, now_ms)
                case images.GroupConfigChanged(group) if self._groups is not None:
                    self._groups.on_group_config(group)
                case images.BrokerConfigChanged():
                    self.copies.note_brokers()
                    self._load_configs()
                    self._configure_logs(None, now_ms)
                case images.BrokerChanged(broker) if broker == self.id:
                    for name in list(self.image.topics):
                        self._follow_topic(name, now_ms)
        self.replicas.on_brokers(now_ms)
        self.replicas.pump(now_ms)
        self.isr.pump(now_ms)
        self.notice.pump()
        self.liveness.on_brokers(self.image.brokers, now_ms)
        self.controlling.on_changes(changes, now_ms)

    def _follow_topic(self, name: str, now_ms: int) -> None:
        topic = self.image.topics.get(name)
        if topic is not None:
            for index in sorted(topic.states):
                self.follow(topic, index, now_ms)

    def follow(self, topic: Topic, index: int, now_ms: int) -> None:
        """Let a partition be here, or not, and lead or follow, as the image says."""
        id, replicas = TopicPartition(topic.name, index), topic.assignment.get(index)
        known = self.partitions.get(id)
        if known is not None and known.topic_id != topic.id:
            self._drop_partition(known, now_ms)  # of a deleted topic of this name
            known = None
        if replicas is None or self.id not in replicas:
            if replicas is not None:
                self.store.lost.pop(id, None)
                if known is not None:
                    self._drop_partition(known, now_ms)
            return
        seen = (topic.states[index], replicas, self.epoch)
        if known is not None and known.seen == seen:
            return  # of thousands in a node, few have changed
        if id in self.store.lost:
            return  # nor is it made anew elsewhere
        if not self.making.may_open(id, now_ms):
            return
        try:
            self._follow(id, topic.id, PartitionState(replicas, *topic.states[index]), seen, now_ms)
        except LogDirectoryError as error:
            self.storage_error(error)
            self.store.lost.setdefault(id, error.directory)

    def _follow(
        self, id: TopicPartition, topic_id: bytes, state: PartitionState, seen: object, now_ms: int
    ) -> None:
        partition = self.partitions.get(id) or open_partition(self, id, topic_id, now_ms)
        self.replicas.on_state(partition, state, self.epoch, now_ms)
        partition.seen = seen  # not before: it may have failed, and is repeated then

    def release(self, partition: Partition, now_ms: int) -> None:
        """It is not here any more: nobody leads or follows it on this broker."""
        del self.partitions[partition.topic_partition]
        self.replicas.on_removed(partition, now_ms)
        if partition.topic_partition.topic == OFFSETS_TOPIC:
            self.groups.on_resigned(partition.topic_partition)

    def _drop_partition(self, partition: Partition, now_ms: int) -> None:
        """It was deleted, or its replicas are elsewhere now: its log goes."""
        self.release(partition, now_ms)
        self.making.delete(partition.topic_partition, now_ms)
        self.waiting.wake(partition.topic_partition, now_ms)
        self.followers.wake(partition, now_ms)

    def _drop_topic(self, name: str, now_ms: int) -> None:
        unfit = self.store.unfit
        self.store.lost = {
            id: home for id, home in self.store.lost.items() if id.topic != name or id in unfit
        }
        for id in [id for id in self.partitions if id.topic == name]:
            self._drop_partition(self.partitions[id], now_ms)
        if self._groups is not None:
            self._groups.on_topic_deleted(name, now_ms)

    def _configure_logs(self, topic: str | None, now_ms: int) -> None:
        ids = list(self.partitions) if topic is None else self.image.partitions_of(topic)
        for partition in [self.partitions[id] for id in ids if id in self.partitions]:
            partition.log.on_config(self.topic_log_config(partition.topic_partition.topic), now_ms)
            if topic is not None:
                self.copies.note(partition.topic_partition)
            self.replicas.on_config(partition, now_ms)

    # -- time -------------------------------------------------------------------------------------

    def wall_ms(self, now_ms: int) -> int:
        """The time of day at `now_ms`, which itself never jumps (design note 002)."""
        return now_ms + self.store.wall_offset_ms

    def next_deadline_ms(self) -> int | None:
        """When `on_deadline` should be called, unless something happens before."""
        due = [
            self.waiting.next_deadline_ms(), self.slices.next_ms(), self.replicas.next_ms(),
            self.isr.next_ms(), self.making.next_ms(), self.copies.next_ms(), self.liveness.next_ms(),
            self.proofs.next_ms(), self._groups.runtime.next_ms if self._groups is not None else None,
        ]  # fmt: skip
        return min([due_ms for due_ms in due if due_ms is not None], default=None)

    def on_deadline(self, now_ms: int) -> None:
        """Answers and timers whose time is up."""
        self.waiting.on_tick(now_ms)
        self.slices.on_deadline(now_ms)
        if self._groups is not None:
            self._groups.runtime.on_tick(now_ms)
        self.replicas.pump(now_ms)
        self.isr.pump(now_ms)
        self.proofs.pump(now_ms)
        self.effects += self.liveness.pump(now_ms)
        self.copies.pump(now_ms)
        self.making.pump(now_ms)  # last: these two may fail for lack of descriptors

    def on_tick(self, now_ms: int, wall_offset_ms: int = 0) -> None:
        self.store.wall_offset_ms = wall_offset_ms
        self.replicas.on_tick(now_ms)
        self.on_deadline(now_ms)
        self.notice.pump()
        self.report.pump(now_ms)
        self.controlling.on_tick(now_ms)
        self.store.on_tick(now_ms, HighWatermarks(self.partitions))
        self._start_cleanings(now_ms)
        moves.start_copies(self, now_ms)
        self.start_syncs(now_ms)

    def close(self, now_ms: int, *, clean: bool = True) -> None:  # noqa: ARG002 - as every input
        """Not `clean`: close the files and write nothing: the next start looks at what the disk has."""
        if not clean or not self.controlling.may_stop_cleanly:
            for log in self.store.logs.values():
                log.abandon()
            return
        self.store.high_watermarks.update(HighWatermarks(self.partitions))
        self.store.close()
