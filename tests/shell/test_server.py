"""A broker with real sockets: what can be wrong with a start, and what a failed start leaves behind."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest
from tests.support.ports import free_ports

from ottla.base.config import ConfigError
from ottla.shell.lock import DirectoryLock, StartError
from ottla.shell.server import Server


def server(data: Path, **properties: str) -> Server:
    given = {"listeners": "127.0.0.1:0", "log.dirs": str(data)}
    given |= {key.replace("_", "."): value for key, value in properties.items()}
    halted: list[str] = []
    return Server(given, on_halt=halted.append)


def refusal(one: Server) -> str:
    with pytest.raises(StartError) as refused:
        asyncio.run(one.start())
    return str(refused.value)


def run(one: Server) -> str:
    """Start and stop; where it listened."""

    async def live() -> str:
        await one.start()
        address = str(one.address)
        await one.stop()
        return address

    return asyncio.run(live())


def test_a_broker_starts_stops_and_starts_again_with_the_same_cluster(tmp_path: Path) -> None:
    first = server(tmp_path)
    host, _, port = run(first).rpartition(":")
    assert (host, int(port) > 0) == ("127.0.0.1", True)
    second = server(tmp_path)
    run(second)
    assert second.broker.image.cluster_id == first.broker.image.cluster_id
    assert (tmp_path / "meta.properties").read_text().splitlines()[1:] == [
        "broker.id=1",
        f"cluster.id={first.broker.image.cluster_id}",
    ]


def test_as_many_wait_to_be_taken_in_as_the_system_allows(tmp_path: Path) -> None:
    async def backlog() -> int:
        broker = server(tmp_path)
        await broker.start()
        listening = broker.clients._servers[0].sockets[0]
        state = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        await broker.stop()
        size: int = struct.unpack_from("=I", state, 28)[0]  # tcpi_sacked
        return size

    allowed = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert asyncio.run(backlog()) == min(4_096, allowed)


def test_a_port_in_use_is_said_and_the_data_stay_cleanly_closed(tmp_path: Path) -> None:
    run(server(tmp_path))
    marker = tmp_path / ".kafka_cleanshutdown"
    assert marker.exists()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reason = refusal(server(tmp_path, listeners=f"127.0.0.1:{port}"))
    assert reason.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert marker.exists(), "the next start need not recover anything"
    run(server(tmp_path))


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    assert "as a data directory" in refusal(server(tmp_path / "f"))


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    holder = DirectoryLock(str(tmp_path))
    holder.take()
    assert "is in use by another broker" in refusal(server(tmp_path))
    holder.release()
    run(server(tmp_path))


def test_the_second_of_two_directories_in_use_frees_the_first(tmp_path: Path) -> None:
    holder = DirectoryLock(str(tmp_path / "two"))
    holder.take()
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    assert "two is in use" in refusal(server(tmp_path, log_dirs=both))
    other = DirectoryLock(str(tmp_path / "one"))
    other.take()
    other.release()
    holder.release()


def test_a_directory_of_another_broker(tmp_path: Path) -> None:
    run(server(tmp_path))
    assert "belongs to broker 1, and this is broker 2" in refusal(server(tmp_path, broker_id="2"))


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [("nonsense", "is not HOST:PORT"), ("SASL_SSL://h:1", "GSSAPI"), ("SSL://h:1", "needs a private key")],
)
def test_a_listener_that_is_none_or_lacks_what_its_security_takes(
    tmp_path: Path, listeners: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        server(tmp_path, listeners=listeners)


def test_a_listener_that_cannot_be(tmp_path: Path) -> None:
    assert "cannot listen on host.invalid:0" in refusal(server(tmp_path, listeners="host.invalid:0"))


def test_an_address_clients_cannot_call_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a wildcard"):
        server(tmp_path, advertised_listeners="0.0.0.0:1")


def test_a_port_that_is_taken_frees_those_that_were_not(tmp_path: Path) -> None:
    port, other = free_ports(2)
    with socket.create_server(("127.0.0.1", other)):
        two = server(
            tmp_path,
            listeners=f"127.0.0.1:{port},OTHER://127.0.0.1:{other}",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        )
        assert refusal(two).startswith(f"cannot listen on 127.0.0.1:{other}: ")
    assert run(server(tmp_path, listeners=f"127.0.0.1:{port}")) == f"127.0.0.1:{port}"


def test_a_keeper_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "keeper.db").write_text("this is a letter, not a database" * 100)
    said = refusal(server(tmp_path))
    assert said.startswith(
        f"cannot read {tmp_path}/keeper.db: file is not a database; if it is damaged, move it"
    )


def test_a_log_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "orders-0").write_text("a file where a folder belongs")
    assert refusal(server(tmp_path)).startswith("cannot open the logs: ")
    (tmp_path / "orders-0").unlink()
    run(server(tmp_path))


def test_a_key_somebody_got_wrong_is_said_before_anything_is_touched(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"num.partitions: 'three' is not a valid int"):
        server(tmp_path / "new", num_partitions="three")
    assert not (tmp_path / "new").exists()


def test_directories_of_two_clusters(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for each in (one, two):
        run(server(each))
    both = f"{one},{two}"
    ids = [(each / "meta.properties").read_text().splitlines()[2].partition("=")[2] for each in (one, two)]
    assert refusal(server(tmp_path, log_dirs=both)) == (
        f"{one} belongs to cluster {ids[0]}, and {two} to cluster {ids[1]}; "
        "start with directories of one cluster only"
    )
    (two / "meta.properties").unlink()
    run(server(tmp_path, log_dirs=both))


def test_a_keeper_of_another_cluster(tmp_path: Path) -> None:
    run(server(tmp_path))
    (tmp_path / "meta.properties").write_text("broker.id=1\ncluster.id=other\n")
    assert f"{tmp_path} belongs to cluster other, and {tmp_path}/keeper.db to" in refusal(server(tmp_path))
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_connection_knows_its_listener_and_brokers_their_own(tmp_path: Path) -> None:
    two = server(
        tmp_path,
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    )

    async def live() -> tuple[str, dict[str, str]]:
        await two.start()
        names = {}
        for name, address in two.clients.endpoints.items():
            _, writer = await asyncio.open_connection(address.host, address.port)
            async with asyncio.timeout(30):
                while not two.clients.connections:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
            (number,) = two.clients.connections
            names[name] = two.broker.access.session(number).listener
            writer.close()
            async with asyncio.timeout(30):
                while two.clients.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert two.broker.access.session(number).listener == "PLAINTEXT", "it is forgotten"
        addresses = two.addresses
        await two.stop()
        return addresses, names

    addresses, names = asyncio.run(live())
    assert names == {"INSIDE": "INSIDE", "OUTSIDE": "OUTSIDE"}
    inside, outside = (f"{name}://{address}" for name, address in two.clients.endpoints.items())
    assert addresses == f"{inside}, {outside}"
    assert two.broker.image.brokers[1].endpoints == two.clients.endpoints
