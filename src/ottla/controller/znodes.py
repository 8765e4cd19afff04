"""The layout of the tree: paths and the JSON in the nodes, as operators know them from ZooKeeper-era Kafka.

One difference, on purpose: the leader, epoch and ISR of all of a topic's partitions live in one node per
topic (`/brokers/topics/T/state`), so that a topic's state changes in one conditional write. And a few fields
more than Kafka's nodes have (design note 003): broker epochs of in-sync replicas, replicas that left a
too small ISR, whether a broker stopped cleanly before it came, and whether it is about to stop.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.base.addresses import Address
from ottla.base.ids import uuid_from_text, uuid_text
from ottla.controller.feature_levels import announcement

CLUSTER_ID = "/cluster/id"
PEER_SECRET = "/cluster/peer_secret"  # noqa: S105 - by which brokers know each other (design note 009)
BROKERS = "/brokers/ids/"
TOPICS = "/brokers/topics/"
TOPIC_CONFIGS = "/config/topics/"
BROKER_CONFIGS = "/config/brokers/"
GROUP_CONFIGS = "/config/groups/"
DEFAULT_BROKER = "<default>"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURES = "/feature"  # the levels that the cluster agreed on
DELETIONS = "/cluster/deletions"  # its version counts the deletions of topics
OFFLINE = "/brokers/offline/"
REPORTS = "/brokers/reports/"
STATE = "/state"
PLAINTEXT = "PLAINTEXT"  # the name of a listener, and of its protocol
NO_LEADER = -1
UNKNOWN_EPOCH = -1


class State(NamedTuple):
    """The state of one partition.

    partition_epoch   grows with every change of this state, so that a leader's proposal can name what it
                      was based on
    isr_epochs        for each of `isr`, the broker epoch in which it was found to be in sync; a member that
                      has another epoch now has restarted since
    elr               eligible leader replicas (KIP-966): they left an ISR that was smaller than
                      min.insync.replicas without them, and hold all that is committed
    last_leader       who led last, where nobody does now
    elr_epochs        for each of `elr`, as in `isr_epochs`; -1 in either: known to have lost what it held
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int = 0
    isr_epochs: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_leader: int = NO_LEADER
    elr_epochs: tuple[int, ...] = ()


def topic_path(topic: str) -> str:
    return TOPICS + topic


def state_path(topic: str) -> str:
    return TOPICS + topic + STATE


def topic_config_path(topic: str) -> str:
    return TOPIC_CONFIGS + topic


def broker_config_path(broker: str) -> str:
    """`broker` is an id, or '' for the default of all brokers."""
    return BROKER_CONFIGS + (broker or DEFAULT_BROKER)


def group_config_path(group: str) -> str:
    """A group may be called anything, also with slashes, or a single dot: whatever could be taken for more
    than a name is escaped."""
    from urllib.parse import quote  # few have configs of groups

    return GROUP_CONFIGS + quote(group, safe="").replace(".", "%2E")


def group_of_path(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path.removeprefix(GROUP_CONFIGS))


Replicas = Mapping[int, tuple[int, ...]]  # by partition


def topic_node(
    topic_id: bytes, assignment: Replicas, adding: Replicas | None = None, removing: Replicas | None = None
) -> bytes:
    """While a partition is reassigned, `assignment` has its old and new replicas, `adding` those that came
    and `removing` those that will go (KIP-455)."""
    return _json(
        version=3,
        topic_id=uuid_text(topic_id),
        partitions=_replicas(assignment),
        adding_replicas=_replicas(adding or {}),
        removing_replicas=_replicas(removing or {}),
    )


def _replicas(by_partition: Replicas) -> dict[str, list[int]]:
    return {str(p): list(replicas) for p, replicas in sorted(by_partition.items())}


def state_node(controller_epoch: int, states: Mapping[int, tuple[Any, ...]]) -> bytes:
    """`states`: partition to `State`, or to a tuple of its first fields.

    A topic of 10,000 partitions must fit into the 1 MiB that ZooKeeper takes: what is as usual is left out,
    and the epochs of the brokers are written once, and again only where a member was recorded with another.
    """
    epochs: dict[int, int] = {}
    partitions = {}
    for p, fields in sorted(states.items()):
        state = fields if isinstance(fields, State) else State(*fields)
        isr, isr_epochs = state.isr, state.isr_epochs
        entry: dict[str, Any] = {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": isr}
        if state.partition_epoch:
            entry["partition_epoch"] = state.partition_epoch
        if len(isr_epochs) != len(isr):
            entry["isr_epochs"] = isr_epochs
        else:
            for member, epoch in zip(isr, isr_epochs, strict=True):
                if epochs.setdefault(member, epoch) != epoch:
                    entry["isr_epochs"] = isr_epochs
        if state.elr or state.elr_epochs:
            entry |= {"elr": state.elr, "elr_epochs": state.elr_epochs}
        if state.last_leader != NO_LEADER:
            entry["last_leader"] = state.last_leader
        partitions[str(p)] = entry
    return _json(version=1, controller_epoch=controller_epoch, broker_epochs=epochs, partitions=partitions)


def parse_state_node(data: bytes) -> dict[int, State]:
    node = parse(data)
    epochs = {int(broker): epoch for broker, epoch in node.get("broker_epochs", {}).items()}
    states = {}
    for p, fields in node["partitions"].items():
        get, isr = fields.get, tuple(fields["isr"])
        members = get("isr_epochs")
        if members is None:
            members = [epochs[member] for member in isr] if epochs else []
        states[int(p)] = State(
            fields["leader"], fields["leader_epoch"], isr, get("partition_epoch", 0), tuple(members),
            tuple(get("elr", ())), get("last_leader", NO_LEADER), tuple(get("elr_epochs", ())),
        )  # fmt: skip
    return states


def offline_node(partitions: Iterable[tuple[str, int]]) -> bytes:
    """The replicas that a broker cannot serve, because their directory failed."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return _json(version=1, topics=topics)


class Proposed(NamedTuple):
    """An ISR that a leader proposes, each member with its broker epoch."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class Report(NamedTuple):
    """What a broker says in its node below /brokers/reports (design note 008).

    broker_epoch   the incarnation that says it
    unreachable    brokers that have not answered it for a while, each with its broker epoch
    proposals      what it proposed to a controller that does not answer
    """

    broker_epoch: int
    unreachable: dict[int, int] = {}  # noqa: RUF012 - nobody changes it
    proposals: tuple[Proposed, ...] = ()


def report_node(report: Report) -> bytes:
    return _json(
        version=1,
        broker_epoch=report.broker_epoch,
        unreachable={str(broker): epoch for broker, epoch in sorted(report.unreachable.items())},
        proposals=[[uuid_text(proposal.topic_id), *proposal[1:]] for proposal in report.proposals],
    )


def parse_report_node(data: bytes) -> Report:
    node = parse(data)
    return Report(
        node["broker_epoch"],
        {int(broker): epoch for broker, epoch in node["unreachable"].items()},
        tuple(
            Proposed(
                uuid_from_text(topic_id), partition, leader_epoch, partition_epoch,
                tuple((member, epoch) for member, epoch in isr),
            )
            for topic_id, partition, leader_epoch, partition_epoch, isr in node["proposals"]
        ),
    )  # fmt: skip


def config_node(configs: dict[str, str]) -> bytes:
    return _json(version=1, config=dict(sorted(configs.items())))


def broker_node(
    endpoints: Mapping[str, Address],
    rack: str | None,
    *,
    protocols: Mapping[str, str] | None = None,
    is_clean: bool = True,
    is_stopping: bool = False,
    clean_since: int = 0,
    incarnation: str = "",
) -> bytes:
    """Kafka's version 5. `endpoints` and `protocols` are by the names of listeners; without protocols all are
    in plain text. The node's own host and port, for those who know of no listeners, are those of one that is.

    `is_clean`: this broker stopped cleanly before it started, so its logs end where they ended. Whoever
    knows that a start before this one was not clean says with `clean_since` in which broker epoch that was.
    `incarnation` is a word of this process, by which its successor on the same disk knows that it is gone.
    """
    protocols = protocols or dict.fromkeys(endpoints, PLAINTEXT)
    plain = [address for name, address in endpoints.items() if protocols[name] == PLAINTEXT]
    host, port = plain[0] if plain else (None, -1)
    return _json(
        version=5,
        host=host,
        port=port,
        endpoints=[f"{name}://{address}" for name, address in endpoints.items()],
        listener_security_protocol_map=protocols,
        rack=rack,
        is_clean=is_clean,
        is_stopping=is_stopping,
        clean_since=clean_since,
        incarnation=incarnation,
        features=announcement(),
    )


def parse_endpoints(fields: Mapping[str, Any]) -> dict[str, Address]:
    """Where a broker is reached, by the names of its listeners."""
    endpoints = {}
    for endpoint in fields.get("endpoints") or [f"{PLAINTEXT}://{fields['host']}:{fields['port']}"]:
        name, _, address = endpoint.partition("://")
        host, _, port = address.rpartition(":")
        endpoints[name] = Address(host.removeprefix("[").removesuffix("]"), int(port))
    return endpoints


def deletions_node() -> bytes:
    return _json(version=1)


def controller_node(broker_id: int, epoch: int = UNKNOWN_EPOCH) -> bytes:
    """With the controller's epoch, so that whoever reads it knows whether /controller_epoch is as old."""
    return _json(version=1, brokerid=broker_id, epoch=epoch)


def cluster_id_node(cluster_id: str) -> bytes:
    return _json(version="1", id=cluster_id)


def peer_secret_node(secret: bytes) -> bytes:
    return _json(version=1, secret=secret.hex())


def parse_peer_secret_node(data: bytes) -> bytes:
    secret = bytes.fromhex(parse(data)["secret"])
    if not secret:
        raise ValueError("the secret is empty")
    return secret


def producer_id_block_node(broker_id: int, start: int, end: int) -> bytes:
    """Ids are strings, because JavaScript and ZooKeeper tools lose digits of large numbers."""
    return _json(version=1, broker=broker_id, block_start=str(start), block_end=str(end))


def features_node(levels: Mapping[str, int]) -> bytes:
    """Kafka's version 2 of it; a status of 1 says that the levels hold."""
    features = {name: {"max_version_level": level} for name, level in sorted(levels.items())}
    return _json(version=2, status=1, features=features)


def parse_features_node(data: bytes) -> dict[str, int]:
    features = parse(data)["features"]
    return {name: int(levels["max_version_level"]) for name, levels in features.items()}


def parse(data: bytes) -> Any:
    return json.loads(data)


def _json(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
