"""The broker's own configuration keys, one row each; those of the log are in `log/config`."""

from dataclasses import dataclass

from ottla.base.config import INT_MAX, LONG_MAX, ConfigType, at_least, between, key, one_of

LONG = ConfigType.LONG
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

# What a broker that keeps its cluster itself has by default: there will never be a second one.
ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}

REPLICAS_MAX = 3
ISR_MIN = 2


def cluster_defaults(brokers: int) -> dict[str, str]:
    """What a cluster of so many brokers on one machine has by default."""
    replicas = str(min(REPLICAS_MAX, brokers))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(ISR_MIN, brokers)),
    }


def _protocol_map(value: tuple[str, ...]) -> str | None:
    are_known = all(pair.count(":") == 1 and pair.partition(":")[2].upper() in PROTOCOLS for pair in value)
    return None if are_known else f"must be NAME:PROTOCOL,... with the protocols {', '.join(PROTOCOLS)}"


def overrides_of(text: str) -> dict[str, int]:
    """How many connections each host may have. ValueError: they are not written so."""
    pairs = (part.strip().rpartition(":") for part in text.split(",") if part.strip())
    return {host.strip(" []"): int(count) for host, _, count in pairs}


def _overrides(value: str) -> str | None:
    try:
        counts = overrides_of(value)
    except ValueError:
        return "must be HOST:COUNT,..."
    return None if all(host and count >= 0 for host, count in counts.items()) else "must be HOST:COUNT,..."


def _roles(value: tuple[str, ...]) -> str | None:
    problem = one_of("broker", "controller")(value) if value else None
    if problem is None and value == ("controller",):
        return "must have broker among them (there are no controller processes: brokers elect one of them)"
    return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    node_id: int = key(
        "broker.id", 1, "The id of this broker in its cluster.", check=at_least(0), synonyms=(("node.id", 1),)
    )
    rack: str = key("broker.rack", "", "Where this broker stands; replicas are spread over racks.")
    listeners: str = key(
        "listeners", "PLAINTEXT://127.0.0.1:9092", "The addresses to listen on, NAME://HOST:PORT,..."
    )
    advertised_listeners: str = key(
        "advertised.listeners",
        "",
        "The addresses that those who came in by a listener are told to use; empty: those listened on.",
    )
    listener_protocols: tuple[str, ...] = key(
        "listener.security.protocol.map",
        tuple(f"{protocol}:{protocol}" for protocol in PROTOCOLS),
        "The protocol that a listener's name stands for.",
        check=_protocol_map,
    )
    inter_broker_listener_name: str = key(
        "inter.broker.listener.name", "", "The listener over which brokers talk to each other."
    )
    inter_broker_protocol: str = key(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "The listener over which brokers talk to each other, if it is called like its protocol. If neither "
        "is given and there is one listener, it is that.",
        check=lambda value: one_of(*PROTOCOLS)(value.upper()),
    )
    controller_listener_names: tuple[str, ...] = key(
        "controller.listener.names",
        (),
        "Listeners of KRaft's controllers, which there are none of here: they are passed over.",
    )
    roles: tuple[str, ...] = key(
        "process.roles", (), "Of KRaft; every process is a broker here.", check=_roles
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
        INT_MAX,
        "Connections at a time, of all listeners together, or of one (listener.name.X.); more are closed at "
        "once. Other brokers do not count, nor does the listener that is only for them, and a few more are "
        "kept for this machine itself. The limit of open files (ulimit -n) holds, too.",
        check=at_least(1),
        dynamic=True,
    )
    connections_per_ip_max: int = key(
        "max.connections.per.ip",
        INT_MAX,
        "Connections at a time from one address; with the same exceptions.",
        check=at_least(1),
        dynamic=True,
    )
    connections_per_ip_overrides: str = key(
        "max.connections.per.ip.overrides",
        "",
        "Addresses or hosts with another limit than max.connections.per.ip, as HOST:COUNT,...",
        check=_overrides,
        dynamic=True,
    )
    connection_creation_rate_max: int = key(
        "max.connection.creation.rate",
        INT_MAX,
        "Connections a second, of all listeners together, or of one (listener.name.X.). More wait for their "
        "turn.",
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
        128 * 1024 * 1024,
        "Memory for unfinished requests; above it who has held most for longest is closed. -1: no limit.",
        type=LONG,
    )

    unsent_bytes_max: int = key(
        "ottla.unsent.max.bytes",
        128 * 1024 * 1024,
        "Answers not read yet by clients, over all connections; above it the slowest readers are closed.",
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

    zookeeper_connect: str = key(
        "zookeeper.connect",
        "",
        "The ZooKeeper ensemble that holds the cluster, host:port,.../chroot; empty: a broker of its own.",
    )
    zookeeper_session_timeout_ms: int = key(
        "zookeeper.session.timeout.ms",
        18_000,
        "Without a word from a broker for this long, ZooKeeper gives it up, and others lead.",
        check=at_least(1),
    )
    controlled_shutdown_enable: bool = key(
        "controlled.shutdown.enable", True, "Hand over leadership before stopping."
    )
    controlled_shutdown_retries_max: int = key(
        "controlled.shutdown.max.retries",
        3,
        "How many more waits of controlled.shutdown.retry.backoff.ms a stop gives leaders to move.",
        check=at_least(0),
    )
    controlled_shutdown_retry_backoff_ms: int = key(
        "controlled.shutdown.retry.backoff.ms",
        5_000,
        "One wait of a stop for leaders to move.",
        type=LONG,
        check=at_least(1),
    )
    auto_leader_rebalance_enable: bool = key(
        "auto.leader.rebalance.enable", True, "Give leadership back to the first replica when it is in sync."
    )
    leader_imbalance_check_interval_s: int = key(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller looks whether leaders are where they belong.",
        type=LONG,
        check=at_least(1),
    )
    leader_imbalance_percentage: int = key(
        "leader.imbalance.per.broker.percentage",
        10,
        "The share of a broker's partitions that others may lead before leadership is given back.",
        check=at_least(0),
    )

    replica_lag_time_ms_max: int = key(
        "replica.lag.time.max.ms",
        30_000,
        "A follower that has not caught up for this long leaves the ISR.",
        type=LONG,
        check=at_least(1),
    )
    replica_fetch_bytes_max: int = key(
        "replica.fetch.max.bytes",
        1 << 20,
        "What a follower asks for per partition; a larger batch comes whole.",
        check=at_least(0),
    )
    replica_fetch_response_bytes_max: int = key(
        "replica.fetch.response.max.bytes",
        10 << 20,
        "What a follower asks for in one fetch, over all partitions.",
        check=at_least(0),
    )
    replica_fetch_bytes_min: int = key(
        "replica.fetch.min.bytes", 1, "A follower's fetch waits for this many bytes.", check=at_least(0)
    )
    replica_fetch_wait_ms_max: int = key(
        "replica.fetch.wait.max.ms", 500, "A follower's fetch waits for this long.", check=at_least(0)
    )
    replica_fetch_backoff_ms: int = key(
        "replica.fetch.backoff.ms",
        1_000,
        "A follower waits this long after a fetch that failed.",
        check=at_least(0),
    )
    replica_socket_timeout_ms: int = key(
        "replica.socket.timeout.ms",
        30_000,
        "A request to another broker that is not answered for this long has failed.",
        check=at_least(1),
    )
    replica_selector_class: str = key(
        "replica.selector.class",
        "",
        "RackAwareReplicaSelector lets consumers read from a replica in their own rack (KIP-392).",
        type=ConfigType.CLASS,
        check=one_of("", LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    )
    quota_samples: int = key(
        "quota.window.num", 11, "Samples that the rates of clients are measured over.", check=at_least(1)
    )
    quota_sample_s: int = key(
        "quota.window.size.seconds", 1, "The length of such a sample, in seconds.", check=at_least(1)
    )
    mutation_samples: int = key(
        "controller.quota.window.num",
        11,
        "As many samples as a client without use saves of controller_mutation_rate.",
        check=at_least(1),
    )
    mutation_sample_s: int = key(
        "controller.quota.window.size.seconds",
        1,
        "The length of such a sample, in seconds.",
        check=at_least(1),
    )
    leader_throttled_rate: int = key(
        "leader.replication.throttled.rate",
        LONG_MAX,
        "Bytes a second that this broker gives to followers which are throttled and not in sync.",
        type=LONG,
        check=at_least(0),
        dynamic=True,
    )
    follower_throttled_rate: int = key(
        "follower.replication.throttled.rate",
        LONG_MAX,
        "Bytes a second that this broker fetches for replicas which are throttled and not in sync.",
        type=LONG,
        check=at_least(0),
        dynamic=True,
    )
