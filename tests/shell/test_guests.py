"""Connections over a limit, over real sockets, as they are from elsewhere: brokers come in, others do not."""

import struct
from collections.abc import Iterator

import pytest
from tests.kafka_clients.wire_client import Closed, Wire
from tests.support.waiting import wait_for

from ottla import Cluster
from ottla.shell.admission import GUESTS_MAX
from ottla.shell.connection import GUEST_BYTES_MAX
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

WITHIN_S = 30.0


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three brokers that take one client each, and take nobody for a process of their machine."""
    monkeypatch.setattr("ottla.shell.connection.is_local", lambda _peer, _own: False)
    with Cluster(brokers=3, config={"max.connections": 1}) as cluster:
        yield cluster


def connect(cluster: Cluster, id: int) -> Wire:
    return Wire(int(cluster.brokers[id].bootstrap_servers.rpartition(":")[2]))


def is_served(wire: Wire) -> bool:
    try:
        return bool(wire.call(ApiVersionsRequest(), 0).api_keys)
    except Closed:
        return False


def hold(cluster: Cluster, id: int) -> Wire:
    """The one connection for clients, once no broker is about to prove itself on it."""
    held: list[Wire] = []

    def is_held() -> bool:
        held.append(connect(cluster, id))
        if is_served(held[-1]):
            return True
        held.pop().close()
        return False

    wait_for(is_held, WITHIN_S, "a client is served")
    return held[0]


def in_sync(wire: Wire) -> set[int]:
    answer = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    return set(answer.topics[0].partitions[0].isr_nodes)


def test_brokers_come_in_while_clients_hold_every_connection(limited: Cluster) -> None:
    with hold(limited, 1) as first, hold(limited, 2):
        wanted = CreatableTopic(name="t", num_partitions=1, replication_factor=3)
        assert first.call(CreateTopicsRequest(topics=[wanted]), 5).topics[0].error_code == 0
        wait_for(lambda: in_sync(first) == {1, 2, 3}, WITHIN_S, "all are in sync")
        limited.kill(3)
        wait_for(lambda: in_sync(first) == {1, 2}, WITHIN_S, "one is missed")
        limited.start(3)
        wait_for(lambda: in_sync(first) == {1, 2, 3}, WITHIN_S, "it is back in sync")
        with connect(limited, 1) as late:
            assert not is_served(late)
        assert is_served(first)


def test_guests_that_prove_nothing_make_room(limited: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay a moment, and are closed by whoever comes after them, or by the next sweep."""
    monkeypatch.setattr("ottla.shell.clients.SWEEP_MS", 100)
    with hold(limited, 1) as first:
        guests = [connect(limited, 1) for _ in range(3 * GUESTS_MAX)]
        try:
            assert all(guest.is_closed_by_peer(WITHIN_S) for guest in guests)
        finally:
            for guest in guests:
                guest.close()
        assert is_served(first)


def test_a_guest_may_not_announce_a_large_frame(limited: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.shell.clients.SWEEP_MS", 10**9)  # nothing else closes it
    with hold(limited, 1) as first, connect(limited, 1) as guest:
        guest.send_bytes(struct.pack(">i", GUEST_BYTES_MAX + 1))
        assert guest.is_closed_by_peer(WITHIN_S)
        first.send_bytes(struct.pack(">i", GUEST_BYTES_MAX + 1))
        assert not first.is_closed_by_peer(0.2)
