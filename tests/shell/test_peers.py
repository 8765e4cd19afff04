"""Requests to other brokers: answered once and in order, or with None as soon as that is certain."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.ports import free_ports

from ottla import Broker, Cluster
from ottla.broker.effects import Probe, Send, Sign
from ottla.controller import znodes
from ottla.security.peer_handshake import Initiator
from ottla.shell import peer_versions, peers
from ottla.shell.keeper_shared import SharedTree
from ottla.shell.peers import PeerEndpoint, Peers
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

WITHIN_S = 30.0
METADATA = MetadataRequest(topics=[])


class Host:
    """Stands in for a server: knows where peers are, and keeps what they answered."""

    def __init__(self) -> None:
        self.scratch = bytearray(64 * 1024)
        self.endpoints: dict[int, PeerEndpoint] = {}
        self.answers: list[tuple[int, Any]] = []
        self.signs: list[tuple[int, int, Sign]] = []
        self.patience_s = 60.0
        self.secret = bytes(32)
        self._answered = asyncio.Event()

    def at(self, peer: int, address: str, epoch: int = 1) -> None:
        host, _, port = address.rpartition(":")
        self.endpoints[peer] = PeerEndpoint(peer, host, int(port), epoch)

    def client_id(self) -> str:
        return "broker-9"

    def tls(self) -> None:
        return None

    def endpoint(self, peer: int) -> PeerEndpoint | None:
        return self.endpoints.get(peer)

    def handshake(self, peer: int) -> Initiator:
        return Initiator(self.secret, 9, peer, os.urandom(32))

    def timeout_s(self) -> float:
        return self.patience_s

    def on_peer_reply(self, token: int, answer: Any) -> None:
        self.answers.append((token, answer))
        self._answered.set()

    def on_probed(self, peer: int, epoch: int, sign: Sign) -> None:
        self.signs.append((peer, epoch, sign))
        self._answered.set()

    def carry_out(self) -> None:
        pass

    async def until_probed(self, count: int) -> list[tuple[int, int, Sign]]:
        async with asyncio.timeout(WITHIN_S):
            while len(self.signs) < count:
                self._answered.clear()
                await self._answered.wait()
        return self.signs

    async def until(self, count: int) -> list[tuple[int, Any]]:
        async with asyncio.timeout(WITHIN_S):
            while len(self.answers) < count:
                self._answered.clear()
                await self._answered.wait()
        return self.answers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Of one broker, which is peer 1."""
    with Cluster(brokers=1) as running:
        yield running


def secret_of(cluster: Cluster) -> bytes:
    tree: SharedTree = cluster._tree
    return znodes.parse_peer_secret_node(tree._tree.nodes[znodes.PEER_SECRET].data)


def run(story: Callable[[Host, Peers], Awaitable[None]], cluster: Cluster | None = None) -> None:
    async def live() -> None:
        host = Host()
        if cluster is not None:
            host.secret = secret_of(cluster)
        made = Peers(asyncio.get_running_loop(), host)
        try:
            await story(host, made)
        finally:
            await made.close()
            await asyncio.sleep(0)

    asyncio.run(live())


class Stranger(asyncio.Protocol):
    """Takes a connection, and answers the first bytes with its own, or hangs up."""

    def __init__(self, said: bytes | None, connections: list[asyncio.Transport]) -> None:
        self._said, self._connections = said, connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.append(transport)

    def data_received(self, data: bytes) -> None:
        if self._said is None:
            self._transport.abort()
        else:
            self._transport.write(self._said)


@contextlib.asynccontextmanager
async def stranger(said: bytes | None = b"") -> AsyncIterator[str]:
    """The address of one; it says nothing at all unless told what, and hangs up if that is None."""
    connections: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(
        lambda: Stranger(said, connections), "127.0.0.1", 0
    )
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for one in connections:
            one.abort()
        server.close()
        await server.wait_closed()


def test_requests_are_answered_in_the_order_of_their_channel(cluster: Cluster) -> None:
    async def story(host: Host, made: Peers) -> None:
        host.at(1, cluster.bootstrap_servers)
        requests = [METADATA, ListGroupsRequest()] * 20
        for token, request in enumerate(requests):
            made.send(Send(1, "control", token, request))
        answers = await host.until(len(requests))
        assert [token for token, _ in answers] == list(range(len(requests)))
        kinds = [MetadataResponse, ListGroupsResponse] * 20
        assert [type(answer) for _, answer in answers] == kinds
        assert answers[0][1].brokers[0].port == int(cluster.bootstrap_servers.rpartition(":")[2])

    run(story, cluster)


def test_a_request_is_sent_in_a_version_that_both_know(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ListGroups there is none: it is answered with None, as if nobody were there."""
    own = SimpleNamespace(versions=(0, 9))
    monkeypatch.setattr(peer_versions, "TABLE", {METADATA.API_KEY: own})

    async def story(host: Host, made: Peers) -> None:
        host.at(1, cluster.bootstrap_servers)
        made.send(Send(1, "control", 1, METADATA))
        ((_, answer),) = await host.until(1)
        assert isinstance(answer, MetadataResponse)
        assert answer.brokers[0].port == int(cluster.bootstrap_servers.rpartition(":")[2])
        assert [frame.version for frame in seen] == [9]
        made.send(Send(1, "control", 2, ListGroupsRequest()))
        assert (await host.until(2))[1:] == [(2, None)]

    seen: list[peers.Asked] = []
    remembered = peers.Asked

    def asked(token: int, number: int, key: int, version: int, answer: type[Any]) -> peers.Asked:
        made = remembered(token, number, key, version, answer)
        if key == METADATA.API_KEY:
            seen.append(made)
        return made

    monkeypatch.setattr(peers, "Asked", asked)
    run(story, cluster)


def test_a_peer_that_nobody_knows_or_that_does_not_listen_answers_none() -> None:
    async def story(host: Host, made: Peers) -> None:
        host.at(2, f"127.0.0.1:{free_ports(1)[0]}")
        made.send(Send(1, "fetch", 1, METADATA))
        assert host.answers == [], "not before the effect is carried out"
        made.send(Send(2, "fetch", 2, METADATA))
        made.send(Send(2, "fetch", 3, METADATA))
        assert await host.until(3) == [(1, None), (2, None), (3, None)]

    run(story)


def test_a_peer_that_closes_the_connection_answers_none_and_is_asked_anew(cluster: Cluster) -> None:
    async def story(host: Host, made: Peers) -> None:
        async with stranger(None) as address:
            host.at(1, address)
            made.send(Send(1, "fetch", 1, METADATA))
            made.send(Send(1, "fetch", 2, METADATA))
            assert await host.until(2) == [(1, None), (2, None)]
        host.at(1, cluster.bootstrap_servers)
        made.send(Send(1, "fetch", 3, METADATA))
        assert isinstance((await host.until(3))[2][1], MetadataResponse)

    run(story, cluster)


def test_a_peer_that_does_not_answer_in_time_answers_none() -> None:
    async def story(host: Host, made: Peers) -> None:
        host.patience_s = 0.1
        async with stranger() as address:
            host.at(1, address)
            made.send(Send(1, "fetch", 1, METADATA))
            assert await host.until(1) == [(1, None)]

    run(story)


def test_one_channel_does_not_wait_for_another(cluster: Cluster) -> None:
    async def story(host: Host, made: Peers) -> None:
        async with stranger() as address:
            host.at(2, address)
            made.send(Send(2, "fetch", 1, METADATA))
            host.at(1, cluster.bootstrap_servers)
            made.send(Send(1, "fetch", 2, METADATA))
            made.send(Send(1, "control", 3, METADATA))
            assert {token for token, _ in await host.until(2)} == {2, 3}

    run(story, cluster)


@pytest.mark.parametrize(
    "said",
    [b"\x00\x00\x00\x05" + b"\xff" * 5, b"\x00\x00\x00\x01\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"],
    ids=["another request's answer", "no header", "a negative length", "an endless answer"],
)
def test_what_is_no_answer_ends_the_connection(said: bytes) -> None:
    async def story(host: Host, made: Peers) -> None:
        async with stranger(said) as address:
            host.at(1, address)
            made.send(Send(1, "fetch", 1, METADATA))
            assert await host.until(1) == [(1, None)]

    run(story)


def test_another_incarnation_of_a_peer_is_another_connection(cluster: Cluster) -> None:
    async def story(host: Host, made: Peers) -> None:
        async with stranger() as address:
            host.at(1, address, epoch=1)
            made.send(Send(1, "fetch", 1, METADATA))
            host.at(1, address, epoch=1)
            made.check()
            assert host.answers == [], "it is the same one"
            host.at(1, cluster.bootstrap_servers, epoch=2)
            made.check()
            assert await host.until(1) == [(1, None)]
            made.send(Send(1, "fetch", 2, METADATA))
            assert isinstance((await host.until(2))[1][1], MetadataResponse)
            del host.endpoints[1]
            made.send(Send(1, "fetch", 3, METADATA))
            assert (await host.until(3))[2] == (3, None)

    run(story, cluster)


def test_what_is_unanswered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "UNANSWERED_MAX", 3)

    async def story(host: Host, made: Peers) -> None:
        async with stranger() as address:
            host.at(1, address)
            for token in range(4):
                made.send(Send(1, "fetch", token, METADATA))
            assert await host.until(4) == [(token, None) for token in range(4)]

    run(story)


def test_a_probe_is_answered_and_the_end_of_its_connection_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PROBE_S", 60.0)
    alone = Cluster(brokers=1).start()

    async def story(host: Host, made: Peers) -> None:
        host.at(1, alone.bootstrap_servers, epoch=7)
        for count in (1, 2):
            made.probe(Probe(1, 7))
            await host.until_probed(count)
        await asyncio.to_thread(alone.stop)
        await host.until_probed(3)
        made.probe(Probe(1, 7))
        signs = await host.until_probed(4)
        assert signs == [
            (1, 7, Sign.ANSWERED), (1, 7, Sign.ANSWERED), (1, 7, Sign.LOST), (1, 7, Sign.REFUSED),
        ]  # fmt: skip

    try:
        run(story, alone)
    finally:
        alone.stop()


def test_a_probe_of_a_name_with_several_addresses_is_refused_if_all_of_them_refuse() -> None:
    async def story(host: Host, made: Peers) -> None:
        host.at(1, f"localhost:{free_ports(1)[0]}")
        made.probe(Probe(1, 1))
        assert await host.until_probed(1) == [(1, 1, Sign.REFUSED)]

    run(story)


def test_whoever_listens_and_does_not_answer_a_probe_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(host: Host, made: Peers) -> None:
        async with stranger() as mute, stranger(b"\0\0\0\1?") as babbler, stranger(None) as rude:
            for id, (address, sign) in enumerate(
                [(mute, Sign.SILENT), (babbler, Sign.SILENT), (rude, Sign.LOST)]
            ):
                monkeypatch.setattr(peers, "PROBE_S", 0.05 if address == mute else 60.0)
                host.at(id, address)
                made.probe(Probe(id, 1))
                assert (await host.until_probed(id + 1))[-1] == (id, 1, sign)

    run(story)


def test_a_probe_of_another_incarnation_is_for_nobody(cluster: Cluster) -> None:
    async def story(host: Host, made: Peers) -> None:
        host.at(1, cluster.bootstrap_servers, epoch=8)
        made.probe(Probe(1, 7))
        made.probe(Probe(2, 1))
        assert await host.until_probed(2) == [(1, 7, Sign.SILENT), (2, 1, Sign.SILENT)]

    run(story, cluster)


def test_nothing_is_asked_of_who_does_not_prove_to_be_the_peer(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Another broker of the same cluster, and one of a cluster with another secret."""

    async def story(host: Host, made: Peers) -> None:
        host.at(2, cluster.bootstrap_servers)
        made.send(Send(2, "fetch", 1, METADATA))
        made.probe(Probe(2, 1))
        assert await host.until(1) == [(1, None)]
        assert await host.until_probed(1) == [(2, 1, Sign.SILENT)]
        host.secret = bytes(32)
        host.at(1, cluster.bootstrap_servers)
        made.send(Send(1, "fetch", 2, METADATA))
        made.send(Send(1, "fetch", 2, METADATA))
        made.send(Send(1, "control", 3, METADATA))
        assert {answer for _, answer in await host.until(4)} == {None}

    run(story, cluster)
    assert caplog.text.count("broker 1 is not at 127.0.0.1:") == 1, "said once in a while"


def test_a_broker_that_is_alone_is_nobodys_peer(ottla_broker: Broker) -> None:
    async def story(host: Host, made: Peers) -> None:
        host.at(0, ottla_broker.bootstrap_servers)
        made.send(Send(0, "fetch", 1, METADATA))
        made.send(Send(0, "fetch", 2, METADATA))
        assert await host.until(2) == [(1, None), (2, None)]

    run(story)
