"""What a broker knows of the cluster: brokers, topics, partitions, configs, as the keeper's nodes say.

Rule: `apply` is the only mutator, and it takes one changed node. It answers what this means (`Change`), so
that the broker can open and close partitions; `revision` grows with every change, so that what is cached
can be dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.base.addresses import Address
from ottla.base.ids import TopicPartition, collision_key, uuid_from_text
from ottla.controller import acl_nodes, user_nodes, znodes
from ottla.controller.acl_nodes import AclKey, StoredAcls
from ottla.controller.feature_levels import (
    TRANSACTION_VERSION,
    UNSAID,
    WITHOUT_NODE,
    Levels,
    announced,
    beyond,
)
from ottla.controller.keeper import NodeChanged
from ottla.controller.user_nodes import Entity
from ottla.controller.znodes import NO_LEADER, UNKNOWN_EPOCH, Report, State

_REMEDIES = {
    znodes.PEER_SECRET: "delete it: the next broker that starts makes another",
    znodes.FEATURES: "delete it, and set the levels again with kafka-features.sh",
}
_TOO_OLD = "start a release that knows it, or lower the level first with one that does (docs/operations.md)"


class NodeError(Exception):
    """A node of the keeper's that is not as this release writes it, and what to do where that is known."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """A broker that is registered. Its epoch tells its incarnations apart (KIP-380); its logs hold what they
    held in every epoch from `clean_since` on."""

    id: int
    endpoints: Mapping[str, Address]  # by the names of its listeners
    rack: str | None
    epoch: int = 0
    is_clean: bool = True
    is_stopping: bool = False
    clean_since: int = 0
    incarnation: str = ""
    protocols: Mapping[str, str] = field(default_factory=dict)  # of its listeners
    features: Mapping[str, Levels] = field(default_factory=lambda: UNSAID)  # that it can follow


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's replicas and its `State`, laid flat for those who serve it."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int = 0
    isr_epochs: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_leader: int = NO_LEADER
    elr_epochs: tuple[int, ...] = ()


@dataclass(slots=True)
class Topic:
    name: str
    id: bytes
    assignment: dict[int, tuple[int, ...]]
    version: int
    states: dict[int, State] = field(default_factory=dict)
    state_version: int = -1
    adding: dict[int, tuple[int, ...]] = field(default_factory=dict)
    removing: dict[int, tuple[int, ...]] = field(default_factory=dict)
    revision: int = field(default=0, compare=False)  # of the image, when it last changed

    def partitions(self) -> dict[int, PartitionState]:
        """The partitions that have both an assignment and a state; a topic being created may have fewer."""
        return {
            p: PartitionState(self.assignment[p], *state)
            for p, state in sorted(self.states.items())
            if p in self.assignment
        }


@dataclass(frozen=True, slots=True)
class TopicChanged:
    """A topic appeared, or its partitions or their leaders changed."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic appeared; `TopicChanged` follows."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    topic: str


@dataclass(frozen=True, slots=True)
class TopicConfigChanged:
    topic: str


@dataclass(frozen=True, slots=True)
class GroupConfigChanged:
    group: str


@dataclass(frozen=True, slots=True)
class AclsChanged:
    key: AclKey


@dataclass(frozen=True, slots=True)
class EntityConfigChanged:
    """What is set for a user, a client id or an address: credentials, quotas."""

    entity: Entity


@dataclass(frozen=True, slots=True)
class BrokerConfigChanged:
    """Dynamic configuration of one broker, or of all ('')."""

    broker: str


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """A broker came, went, came back as another incarnation, is about to stop, or lost a directory."""

    broker: int


@dataclass(frozen=True, slots=True)
class BrokerReported:
    """A broker says something else of whom it cannot reach, or proposes by way of the keeper."""

    broker: int


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """The controller's seat was taken or is free."""


Change: TypeAlias = (
    TopicChanged
    | TopicCreated
    | TopicDeleted
    | TopicConfigChanged
    | BrokerConfigChanged
    | GroupConfigChanged
    | AclsChanged
    | EntityConfigChanged
    | BrokerChanged
    | BrokerReported
    | ControllerChanged
)


@dataclass(slots=True)
class Configs:
    """The dynamic configuration in one node."""

    values: dict[str, str]
    version: int


@dataclass(slots=True)
class Image:
    cluster_id: str = ""
    peer_secret: bytes = field(default=b"", repr=False)  # none where a broker is alone
    controller_id: int = -1
    controller_epoch: int = 0
    controller_epoch_version: int = -1
    seat_epoch: int = UNKNOWN_EPOCH  # the epoch in which the controller's seat was taken, as its node says
    brokers: dict[int, BrokerEndpoint] = field(default_factory=dict)
    seen: dict[int, BrokerEndpoint] = field(default_factory=dict)  # each broker as it last was there
    offline: dict[int, frozenset[tuple[str, int]]] = field(default_factory=dict)
    reports: dict[int, Report] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    topic_names: dict[bytes, str] = field(default_factory=dict)
    names_by_key: dict[str, str] = field(default_factory=dict)  # of topics, by what they must not share
    topic_configs: dict[str, Configs] = field(default_factory=dict)
    broker_configs: dict[str, Configs] = field(default_factory=dict)
    group_configs: dict[str, Configs] = field(default_factory=dict)
    acls: dict[AclKey, StoredAcls] = field(default_factory=dict)
    entity_configs: dict[Entity, Configs] = field(default_factory=dict, repr=False)  # keys are secrets
    producer_id_block_end: int = -1
    producer_id_block_version: int = -1
    features: dict[str, int] = field(default_factory=lambda: dict(WITHOUT_NODE))
    features_version: int = -1
    features_epoch: int = 0  # grows with every change of `features`, also when its node is made again
    deletions_version: int = -1
    revision: int = 0
    # When a broker or a directory of one last came, went or changed.
    brokers_revision: int = field(default=0, compare=False)
    _offline_since: dict[int, int] = field(default_factory=dict)  # when its node was made

    def topic_config(self, topic: str) -> dict[str, str]:
        configs = self.topic_configs.get(topic)
        return configs.values if configs else {}

    def topic_id(self, topic: str) -> bytes | None:
        topic_image = self.topics.get(topic)
        return topic_image.id if topic_image else None

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        topic_image = self.topics.get(topic)
        return [TopicPartition(topic, index) for index in topic_image.states] if topic_image else []

    def broker_config(self, broker: str) -> dict[str, str]:
        configs = self.broker_configs.get(broker)
        return configs.values if configs else {}

    def epoch_of(self, broker: int) -> int:
        """A broker's epoch; -1 while it is not registered."""
        endpoint = self.brokers.get(broker)
        return endpoint.epoch if endpoint else -1

    def report(self, broker: int) -> Report | None:
        """What a broker reports, if it is there as the incarnation that reported."""
        report, there = self.reports.get(broker), self.brokers.get(broker)
        return report if report and there and report.broker_epoch == there.epoch else None

    @property
    def transaction_version(self) -> int:
        """The level of transactions that the cluster agreed on (`controller/features`)."""
        return self.features.get(TRANSACTION_VERSION, 0)

    def group_config(self, group: str) -> dict[str, str]:
        configs = self.group_configs.get(group)
        return configs.values if configs else {}

    def apply(self, node: NodeChanged) -> list[Change]:
        """NodeError if it cannot be read or followed; then some of it may have been taken in."""
        self.revision += 1
        try:
            return self._apply(node)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise NodeError(
                f"node {node.path} cannot be read: {error!r}", _REMEDIES.get(node.path, "")
            ) from error

    def _apply(self, node: NodeChanged) -> list[Change]:
        path = node.path
        if path.startswith(znodes.TOPICS):
            name = path.removeprefix(znodes.TOPICS)
            if name.endswith(znodes.STATE):
                return self._apply_state(name.removesuffix(znodes.STATE), node)
            return self._apply_topic(name, node)
        if path.startswith(znodes.TOPIC_CONFIGS):
            name = path.removeprefix(znodes.TOPIC_CONFIGS)
            _apply_configs(self.topic_configs, name, node)
            return [TopicConfigChanged(name)]
        if path.startswith(znodes.BROKER_CONFIGS):
            name = path.removeprefix(znodes.BROKER_CONFIGS).replace(znodes.DEFAULT_BROKER, "")
            _apply_configs(self.broker_configs, name, node)
            return [BrokerConfigChanged(name)]
        if path.startswith(znodes.GROUP_CONFIGS):
            group = znodes.group_of_path(path)
            _apply_configs(self.group_configs, group, node)
            return [GroupConfigChanged(group)]
        if path.startswith(acl_nodes.FOLDERS):
            return self._apply_acls(node)
        if path.startswith(user_nodes.FOLDERS):
            return self._apply_entity(node)
        return self._apply_cluster(node)

    def _apply_entity(self, node: NodeChanged) -> list[Change]:
        entity = user_nodes.entity_of(node.path)
        if entity is None:
            return []
        if node.data is None:
            self.entity_configs.pop(entity, None)
        else:
            self.entity_configs[entity] = Configs(user_nodes.config_of(node.data), node.version)
        return [EntityConfigChanged(entity)]

    def _apply_topic(self, name: str, node: NodeChanged) -> list[Change]:
        if node.data is None:
            gone = self.topics.pop(name, None)
            if gone is not None:
                del self.topic_names[gone.id]
                self.names_by_key.pop(collision_key(name), None)
            return [TopicDeleted(name)]  # also the second time: what failed at the first is repeated
        fields = znodes.parse(node.data)
        topic_id = uuid_from_text(fields["topic_id"])
        assignment = {int(p): tuple(replicas) for p, replicas in fields["partitions"].items()}
        topic, changes = self.topics.get(name), list[Change]()
        if topic is not None and topic.id != topic_id:
            # It was deleted and made again faster than we could see.
            del self.topic_names[topic.id]
            topic, changes = None, [TopicDeleted(name)]
        if topic is None:
            topic = self.topics[name] = Topic(name, topic_id, assignment, node.version)
            self.topic_names[topic_id] = name
            self.names_by_key[collision_key(name)] = name
            changes.append(TopicCreated(name))
        topic.assignment, topic.version, topic.revision = assignment, node.version, self.revision
        topic.adding, topic.removing = (
            {int(p): tuple(replicas) for p, replicas in fields.get(key, {}).items()}
            for key in ("adding_replicas", "removing_replicas")
        )
        return [*changes, TopicChanged(name)]

    def _apply_state(self, name: str, node: NodeChanged) -> list[Change]:
        topic = self.topics.get(name)
        if topic is None or node.data is None:
            return []
        topic.state_version, topic.revision, before = node.version, self.revision, topic.states
        # Of many partitions few have changed. The others stay the objects that they were: little of a large
        # image is new at a time, and the garbage collector has no reason to go through all of it.
        topic.states = {
            partition: before[partition] if before.get(partition) == state else state
            for partition, state in znodes.parse_state_node(node.data).items()
        }
        return [TopicChanged(name)]

    def _apply_acls(self, node: NodeChanged) -> list[Change]:
        key = acl_nodes.acl_key(node.path)
        if key is None:
            return []
        if node.data is None:
            self.acls.pop(key, None)
        else:
            self.acls[key] = StoredAcls(acl_nodes.parse_acl_node(node.data), node.version)
        return [AclsChanged(key)]

    def _apply_cluster(self, node: NodeChanged) -> list[Change]:
        if node.path == znodes.PEER_SECRET:
            self._apply_secret(node.data)
            return []
        fields = znodes.parse(node.data) if node.data is not None else {}
        if node.path.startswith(znodes.BROKERS):
            return self._apply_broker(int(node.path.removeprefix(znodes.BROKERS)), node)
        if node.path.startswith(znodes.OFFLINE):
            return self._apply_offline(int(node.path.removeprefix(znodes.OFFLINE)), node)
        if node.path.startswith(znodes.REPORTS):
            return self._apply_report(int(node.path.removeprefix(znodes.REPORTS)), node)
        if node.path == znodes.CLUSTER_ID:
            self.cluster_id = fields["id"]
        elif node.path == znodes.CONTROLLER:
            self.controller_id = fields.get("brokerid", -1)
            self.seat_epoch = fields.get("epoch", UNKNOWN_EPOCH)
            return [ControllerChanged()]
        elif node.path == znodes.CONTROLLER_EPOCH:
            self.controller_epoch, self.controller_epoch_version = int(node.data or b"0"), node.version
        elif node.path == znodes.PRODUCER_ID_BLOCK:
            self.producer_id_block_end = int(fields["block_end"])
            self.producer_id_block_version = node.version
        elif node.path == znodes.FEATURES:
            self._apply_features(node)
        elif node.path == znodes.DELETIONS:
            self.deletions_version = node.version
        return []

    def _apply_features(self, node: NodeChanged) -> None:
        if node.data is None:
            self.features, self.features_version = dict(WITHOUT_NODE), -1
            return
        self.features, self.features_version = znodes.parse_features_node(node.data), node.version
        self.features_epoch = node.created + node.version + 1
        problem = beyond(self.features)
        if problem:
            raise NodeError(f"node {node.path}: {problem}", _TOO_OLD)

    def _apply_secret(self, data: bytes | None) -> None:
        """If it is deleted, or spoiled, the brokers that are there still know each other."""
        if data is not None:
            try:
                self.peer_secret = znodes.parse_peer_secret_node(data)
            except (ValueError, TypeError, LookupError):
                if not self.peer_secret:
                    raise

    def _apply_offline(self, broker_id: int, node: NodeChanged) -> list[Change]:
        """A broker never takes this node away: it goes with the session, as the broker's own node does. If it
        is seen to go first, what it said holds until the broker is gone, or there as another incarnation."""
        self.brokers_revision = self.revision
        if node.data is not None:
            topics = znodes.parse(node.data)["topics"]
            self.offline[broker_id] = frozenset(
                (topic, p) for topic, partitions in topics.items() for p in partitions
            )
            self._offline_since[broker_id] = node.created
        elif broker_id not in self.brokers or self._is_offline_before(
            self.brokers[broker_id].epoch, broker_id
        ):
            self._forget_offline(broker_id)
        return [BrokerChanged(broker_id)]

    def _apply_report(self, broker_id: int, node: NodeChanged) -> list[Change]:
        if node.data is None:
            self.reports.pop(broker_id, None)
        else:
            self.reports[broker_id] = znodes.parse_report_node(node.data)
        return [BrokerReported(broker_id)]

    def _is_offline_before(self, epoch: int, broker_id: int) -> bool:
        """Was it written by an incarnation before this one? A broker writes it with its registration, or
        after."""
        return self._offline_since.get(broker_id, epoch) < epoch

    def _forget_offline(self, broker_id: int) -> None:
        self.offline.pop(broker_id, None)
        self._offline_since.pop(broker_id, None)

    def _apply_broker(self, broker_id: int, node: NodeChanged) -> list[Change]:
        self.brokers_revision = self.revision
        if node.data is None:
            self.brokers.pop(broker_id, None)
            return [BrokerChanged(broker_id)]
        before = self.brokers.get(broker_id)
        is_new = before is None or before.epoch != node.created
        if is_new and self._is_offline_before(node.created, broker_id):
            self._forget_offline(broker_id)
        fields = znodes.parse(node.data)
        is_clean = fields.get("is_clean", True)
        self.brokers[broker_id] = self.seen[broker_id] = BrokerEndpoint(
            broker_id, znodes.parse_endpoints(fields), fields["rack"], node.created,
            is_clean, fields.get("is_stopping", False),
            fields.get("clean_since", 0) if is_clean else node.created, fields.get("incarnation", ""),
            fields.get("listener_security_protocol_map", {}), announced(fields),
        )  # fmt: skip
        return [BrokerChanged(broker_id)]


def _apply_configs(configs: dict[str, Configs], name: str, node: NodeChanged) -> None:
    if node.data is None:
        configs.pop(name, None)
    else:
        configs[name] = Configs(znodes.parse(node.data)["config"], node.version)
