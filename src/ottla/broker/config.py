"""The broker's own configuration keys, one row each; those of the log are in `log/config`."""

from dataclasses import dataclass

from ottla.base.config import ConfigType, at_least, between, key

LONG = ConfigType.LONG


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    node_id: int = key(
        "broker.id", 1, "The id of this broker in its cluster.", check=at_least(0), synonyms=(("node.id", 1),)
    )
    rack: str = key("broker.rack", "", "Where this broker stands; replicas are spread over racks.")
    listeners: str = key("listeners", "PLAINTEXT://127.0.0.1:9092", "The address to listen on.")
    advertised_listeners: str = key(
        "advertised.listeners", "", "The address clients are told to use; empty: the one listened on."
    )
    log_dirs: tuple[str, ...] = key(
        "log.dirs", ("data",), "The folders that hold the logs.", synonyms=(("log.dir", 1),)
    )

    auto_create_topics: bool = key(
        "auto.create.topics.enable", True, "Create a topic when a client first asks for it."
    )
    num_partitions: int = key(
        "num.partitions", 1, "Partitions of a topic that does not say.", check=at_least(1)
    )
    default_replication_factor: int = key(
        "default.replication.factor",
        1,
        "Replicas of a topic that does not say.",
        check=at_least(1),
    )
    delete_topic_enable: bool = key("delete.topic.enable", True, "Whether topics may be deleted.")
    socket_request_bytes_max: int = key(
        "socket.request.max.bytes", 104_857_600, "The largest request accepted.", check=at_least(1024)
    )
    socket_send_buffer_bytes: int = key(
        "socket.send.buffer.bytes", 102_400, "SO_SNDBUF of client sockets; -1 leaves it to the system."
    )
    socket_receive_buffer_bytes: int = key(
        "socket.receive.buffer.bytes", 102_400, "SO_RCVBUF of client sockets; -1 leaves it to the system."
    )
    connections_max: int = key(
        "max.connections",
        10_000,
        "Connections at a time; more are closed at once.",
        check=at_least(1),
        dynamic=True,
    )
    connections_per_ip_max: int = key(
        "max.connections.per.ip",
        1_000,
        "Connections at a time from one address.",
        check=at_least(1),
        dynamic=True,
    )
    connections_idle_ms_max: int = key(
        "connections.max.idle.ms",
        600_000,
        "Close a connection on which nothing happens.",
        type=LONG,
        check=at_least(1),
    )
    queued_request_bytes_max: int = key(
        "queued.max.request.bytes",
        512 * 1024 * 1024,
        "Memory for unfinished requests; above it the connection that holds most is closed. -1: no limit.",
        type=LONG,
    )

    unsent_bytes_max: int = key(
        "ottla.unsent.max.bytes",
        256 * 1024 * 1024,
        "Fetched bytes that clients have not read yet, over all connections; above it fetches give little.",
        type=LONG,
        check=at_least(1 << 20),
    )
    fetch_bytes_max: int = key(
        "fetch.max.bytes",
        57_671_680,
        "The most a fetch is answered with, whatever it asks.",
        check=at_least(1024),
    )
    fetch_session_slots: int = key(
        "max.incremental.fetch.session.cache.slots",
        1_000,
        "Incremental fetch sessions kept.",
        check=at_least(0),
    )
    request_partition_size_limit: int = key(
        "max.request.partition.size.limit",
        2_000,
        "Partitions that one DescribeTopicPartitions answer holds.",
        check=between(1, 100_000),
    )
