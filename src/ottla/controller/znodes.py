"""The layout of the tree: paths and the JSON in the nodes, as operators know them from ZooKeeper-era Kafka.

One difference, on purpose: the leader, epoch and ISR of all of a topic's partitions live in one node per
topic (`/brokers/topics/T/state`), so that a topic's state changes in one conditional write.
"""

import json
from typing import Any

from ottla.base.ids import uuid_text

CLUSTER_ID = "/cluster/id"
BROKERS = "/brokers/ids/"
TOPICS = "/brokers/topics/"
TOPIC_CONFIGS = "/config/topics/"
BROKER_CONFIGS = "/config/brokers/"
DEFAULT_BROKER = "<default>"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
STATE = "/state"


def topic_path(topic: str) -> str:
    return TOPICS + topic


def state_path(topic: str) -> str:
    return TOPICS + topic + STATE


def topic_config_path(topic: str) -> str:
    return TOPIC_CONFIGS + topic


def broker_config_path(broker: str) -> str:
    """`broker` is an id, or '' for the default of all brokers."""
    return BROKER_CONFIGS + (broker or DEFAULT_BROKER)


def topic_node(topic_id: bytes, assignment: dict[int, tuple[int, ...]]) -> bytes:
    return _json(
        version=3,
        topic_id=uuid_text(topic_id),
        partitions={str(p): list(replicas) for p, replicas in sorted(assignment.items())},
        adding_replicas={},
        removing_replicas={},
    )


def state_node(controller_epoch: int, states: dict[int, tuple[int, int, tuple[int, ...]]]) -> bytes:
    """`states`: partition to (leader, leader epoch, ISR)."""
    return _json(
        version=1,
        controller_epoch=controller_epoch,
        partitions={
            str(p): {"leader": leader, "leader_epoch": epoch, "isr": list(isr)}
            for p, (leader, epoch, isr) in sorted(states.items())
        },
    )


def config_node(configs: dict[str, str]) -> bytes:
    return _json(version=1, config=dict(sorted(configs.items())))


def broker_node(host: str, port: int, rack: str | None) -> bytes:
    return _json(
        version=5,
        host=host,
        port=port,
        endpoints=[f"PLAINTEXT://{host}:{port}"],
        listener_security_protocol_map={"PLAINTEXT": "PLAINTEXT"},
        rack=rack,
    )


def controller_node(broker_id: int) -> bytes:
    return _json(version=1, brokerid=broker_id)


def cluster_id_node(cluster_id: str) -> bytes:
    return _json(version="1", id=cluster_id)


def producer_id_block_node(broker_id: int, start: int, end: int) -> bytes:
    """Ids are strings, because JavaScript and ZooKeeper tools lose digits of large numbers."""
    return _json(version=1, broker=broker_id, block_start=str(start), block_end=str(end))


def parse(data: bytes) -> Any:
    return json.loads(data)


def _json(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
