"""Who leads what, and connections that wait to be used again.

What is known here is a guess that was right once. Nobody invalidates it piece by piece: an attempt that
fails asks for fresh metadata of its topics before the next one.

A connection belongs to one user at a time: `borrow` it, and it comes back by itself, or is closed if
anything went wrong with it or an answer is still due. So a fetch that is one answer ahead never meets
another request.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ottla.base.addresses import Address
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import UNKNOWN_TOPIC, Again, ClientError, check, code_of
from ottla.client.retry import CONNECT_S, Deadline, until
from ottla.client.security.handshakes import Handshakes
from ottla.client.security.settings import NO_SECURITY, ClientSecurity
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.primitives import ProtocolError

IDLE_CONNECTIONS_MAX = 2  # per broker: one for requests, one for a fetch
COORDINATORS_IN_LISTS_SINCE = 4


GROUP, TRANSACTION = 0, 1  # what a coordinator is asked for by: a group's name, a transactional id
_KEY_NAMES = {GROUP: "group", TRANSACTION: "transactional id"}


class Leader(NamedTuple):
    node: int
    epoch: int


class Coordinator(NamedTuple):
    node: int
    address: Address


class Cluster:
    def __init__(self, bootstrap: str, client_id: str, security: ClientSecurity = NO_SECURITY) -> None:
        self._bootstrap = parse_bootstrap(bootstrap, security.protocol)
        self._client_id = client_id
        self._handshakes = Handshakes(security)
        self._idle: dict[Address, list[Connection]] = {}
        self._closed = False
        self.brokers: dict[int, Address] = {}
        self.controller = -1
        self.leaders: dict[TopicPartition, Leader] = {}
        self.unknown: set[str] = set()

    def close(self) -> None:
        self._closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    # -- connections -----------------------------------------------------------------------------------------

    def take(self, address: Address, deadline: Deadline) -> Connection:
        """A connection for the caller alone, until it is given back."""
        if self._closed:
            raise ClientError("this client is closed")
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_alive():
                return connection
            connection.close()
        try:
            return Connection(address, self._client_id, deadline, self._handshakes)
        except OSError as error:
            raise _located(error, address) from error

    def give_back(self, connection: Connection) -> None:
        idle = self._idle.setdefault(connection.address, [])
        if connection.in_flight or self._closed or len(idle) >= IDLE_CONNECTIONS_MAX:
            connection.close()
        else:
            idle.append(connection)

    @contextmanager
    def borrow(self, address: Address, deadline: Deadline) -> Iterator[Connection]:
        with self._lent(self.take(address, deadline)) as connection:
            yield connection

    @contextmanager
    def borrow_any(self, deadline: Deadline) -> Iterator[Connection]:
        """A connection to a broker, whichever can be reached."""
        with self._lent(self._take_any(deadline)) as connection:
            yield connection

    def _take_any(self, deadline: Deadline) -> Connection:
        failures: list[Exception] = []
        for address in dict.fromkeys([*self.brokers.values(), *self._bootstrap]):
            deadline.within(CONNECT_S)
            try:
                return self.take(address, deadline)
            except (OSError, ProtocolError) as error:
                failures.append(error)
        is_late = all(isinstance(failure, TimeoutError) for failure in failures)
        text = "no broker can be reached: " + "; ".join(map(str, failures))
        raise TimeoutError(text) if is_late else OSError(text)

    @contextmanager
    def _lent(self, connection: Connection) -> Iterator[Connection]:
        try:
            yield connection
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError):
                raise _located(error, connection.address) from error
            raise
        self.give_back(connection)

    def address_of(self, node: int) -> Address:
        try:
            return self.brokers[node]
        except KeyError:
            raise Again(f"broker {node} is not there", ErrorCode.BROKER_NOT_AVAILABLE) from None

    # -- who does what ---------------------------------------------------------------------------------------

    def refresh(
        self, topics: Iterable[str] | None, deadline: Deadline, *, may_create: bool = False
    ) -> MetadataResponse:
        """Ask for topics, or for all of them, and remember who leads their partitions. With `may_create` a
        broker that does so creates what is missing."""
        names = None if topics is None else sorted(set(topics))
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=may_create,
        )
        with self.borrow_any(deadline) as connection:
            response = connection.call(request, MetadataResponse, deadline)
        check(response.error_code, "asking for the brokers and topics")
        if not response.brokers:
            raise Again("the cluster has no brokers yet", ErrorCode.BROKER_NOT_AVAILABLE)
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        self.controller = response.controller_id
        for topic in response.topics:
            assert topic.name is not None, "we asked by name"
            if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                if code_of(topic.error_code) not in UNKNOWN_TOPIC:
                    check(topic.error_code, f"asking for topic {topic.name!r}")
                self.unknown.add(topic.name)
                self._forget(topic.name)
                continue
            self.unknown.discard(topic.name)
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                self.leaders[topic_partition] = Leader(partition.leader_id, partition.leader_epoch)
        return response

    def leader_of(self, topic_partition: TopicPartition) -> Leader:
        """As far as we know; `Again` if there is none at the moment."""
        leader = self.leaders.get(topic_partition)
        if leader is None:
            raise Again(
                f"{topic_partition}: no such topic or partition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if leader.node < 0:
            raise Again(f"{topic_partition}: no leader", ErrorCode.LEADER_NOT_AVAILABLE)
        return leader

    def coordinator_of(self, key: str, deadline: Deadline, key_type: int = GROUP) -> Coordinator:
        """The coordinator of a group, or of a transactional id."""
        name = f"{_KEY_NAMES[key_type]} {key!r}"
        return until(deadline, name, lambda: self.coordinators_of([key], deadline, key_type)[key])

    def coordinators_of(
        self, keys: Sequence[str], deadline: Deadline, key_type: int
    ) -> dict[str, Coordinator]:
        """Those of many, in one request where brokers have that; `Again` if they may be known later."""
        with self.borrow_any(deadline) as connection:
            api_key: int = FindCoordinatorRequest.API_KEY  # type: ignore[attr-defined]
            if connection.version_of(api_key, "FindCoordinator") < COORDINATORS_IN_LISTS_SINCE:
                return {key: _coordinator_of(connection, key, key_type, deadline) for key in keys}
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
            response = connection.call(request, FindCoordinatorResponse, deadline)
        coordinators = {}
        for answer in response.coordinators:
            check(answer.error_code, _asking(answer.key, key_type), answer.error_message)
            coordinators[answer.key] = Coordinator(answer.node_id, Address(answer.host, answer.port))
        if missing := [key for key in keys if key not in coordinators]:
            raise ProtocolError(f"{_asking(missing[0], key_type)}: the answer names none")
        return coordinators

    def _forget(self, topic: str) -> None:
        for topic_partition in [
            topic_partition for topic_partition in self.leaders if topic_partition.topic == topic
        ]:
            del self.leaders[topic_partition]


def parse_bootstrap(text: str, protocol: str = "PLAINTEXT") -> list[Address]:
    """`host:port`, several with commas between; an IPv6 address in brackets. A protocol before it is as
    librdkafka has it, and has to be that of the client."""
    addresses = []
    for server in filter(None, (part.strip() for part in text.split(","))):
        scheme, _, address = server.rpartition("://")
        if scheme and scheme.upper() != protocol:
            raise ClientError(
                f"{server!r} in the bootstrap servers, and security.protocol is {protocol}: set it to "
                f"{scheme.upper()}, or leave {scheme}:// out"
            )
        host, colon, port = address.rpartition(":")
        if not colon or not host.strip("[]") or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ClientError(f"{server!r} in the bootstrap servers is not host:port")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ClientError("no bootstrap server is given: it takes host:port, several with commas between")
    return addresses


def _coordinator_of(connection: Connection, key: str, key_type: int, deadline: Deadline) -> Coordinator:
    request = FindCoordinatorRequest(key=key, key_type=key_type)
    response = connection.call(request, FindCoordinatorResponse, deadline)
    check(response.error_code, _asking(key, key_type), response.error_message)
    return Coordinator(response.node_id, Address(response.host, response.port))


def _asking(key: str, key_type: int) -> str:
    return f"asking for the coordinator of {_KEY_NAMES[key_type]} {key!r}"


def _located(error: OSError, address: Address) -> OSError:
    """The same with the broker's address before it, once."""
    text = str(error.strerror or error)
    return error if text.startswith("broker ") else type(error)(f"broker {address}: {text}")
