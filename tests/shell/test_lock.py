"""A data directory belongs to one broker; the address it listens on; its clock."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.base.files import OsFiles
from ottla.broker.config import BrokerConfig
from ottla.shell import listener
from ottla.shell.clock import Clock
from ottla.shell.listener import Address, advertised_address, listen_address
from ottla.shell.lock import DirectoryLock, StartError, read_cluster_id, write_meta

FILES = OsFiles()


def test_a_second_taker_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    first, second = DirectoryLock(str(tmp_path / "new")), DirectoryLock(str(tmp_path / "new"))
    first.take()
    with pytest.raises(
        StartError, match=rf"in use by another broker \(process {os.getpid()}\); stop that one"
    ):
        second.take()
    first.release()
    second.take()
    second.release()
    second.release()


def test_another_process_is_refused_too_and_its_end_frees_the_directory(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom ottla.shell.lock import DirectoryLock\n"
        f"DirectoryLock({str(tmp_path)!r}).take()\nprint('taken', flush=True)\nsys.stdin.read()\n"
    )
    mine = DirectoryLock(str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "taken\n"
        with pytest.raises(StartError, match=rf"process {other.pid}\)"):
            mine.take()
        other.kill()
        other.wait()
    mine.take()
    mine.release()


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    for path in (tmp_path / "f", tmp_path / "f" / "below"):
        with pytest.raises(
            StartError, match=r"cannot use .* as a data directory: (File exists|Not a directory)"
        ):
            DirectoryLock(str(path)).take()


def test_a_directory_says_whose_it_is(tmp_path: Path) -> None:
    directory = str(tmp_path)
    assert read_cluster_id(FILES, directory, 1) is None
    write_meta(FILES, directory, 1, "abc")
    write_meta(FILES, directory, 1, "not written over")
    assert read_cluster_id(FILES, directory, 1) == "abc"
    with pytest.raises(StartError, match="belongs to broker 1, and this is broker 2"):
        read_cluster_id(FILES, directory, 2)


@pytest.mark.parametrize(
    ("text", "cluster_id"),
    [
        ("#\n#Mon Jan 01\nnode.id=1\nversion=1\ncluster.id=kafkas\ndirectory.id=x\n", "kafkas"),
        ("broker.id=1\n", None),
        ("cluster.id=a=b\n", "a=b"),
        ("", None),
    ],
)
def test_kafkas_own_files_are_understood(tmp_path: Path, text: str, cluster_id: str | None) -> None:
    (tmp_path / "meta.properties").write_text(text)
    assert read_cluster_id(FILES, str(tmp_path), 1) == cluster_id


# Addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("PLAINTEXT://127.0.0.1:0", Address("127.0.0.1", 0)),
        ("plaintext://host:65535", Address("host", 65535)),
        (" :9092 ", Address("", 9092)),
        ("PLAINTEXT://[::1]:9092", Address("::1", 9092)),
        ("[fe80::1]:1", Address("fe80::1", 1)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert listen_address(BrokerConfig(listeners=text)) == address


@pytest.mark.parametrize(
    "text", ["host", "host:", "host:port", "host:65536", "::1:9092", "a/b:1", "PLAINTEXT:9092:1"]
)
def test_what_is_no_address_is_refused_with_its_key(text: str) -> None:
    with pytest.raises(StartError, match=r"listeners: .* is not HOST:PORT"):
        listen_address(BrokerConfig(listeners=text))


@pytest.mark.parametrize("listeners", ["a:1,b:2", "", "A://a:1"])
def test_one_listener_is_served(listeners: str) -> None:
    with pytest.raises(StartError, match="one listener"):
        listen_address(BrokerConfig(listeners=listeners, controller_listener_names=("A",)))
    assert listen_address(BrokerConfig()) == Address("127.0.0.1", 9092)


def test_clients_are_told_where_to_call() -> None:
    bound = Address("127.0.0.1", 5555)
    assert advertised_address(BrokerConfig(), bound) == bound
    assert advertised_address(BrokerConfig(advertised_listeners="kafka:9092"), bound) == Address(
        "kafka", 9092
    )
    assert advertised_address(BrokerConfig(advertised_listeners="kafka:0"), bound) == Address("kafka", 5555)
    with pytest.raises(StartError, match="not a wildcard"):
        advertised_address(BrokerConfig(advertised_listeners="0.0.0.0:9092"), bound)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_a_wildcard_is_advertised_as_this_machines_name(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener.socket, "gethostname", lambda: "my-machine")
    monkeypatch.setattr(listener.socket, "getaddrinfo", lambda *_: [])
    assert advertised_address(BrokerConfig(), Address(host, 1)) == Address("my-machine", 1)

    def unknown(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(listener.socket, "getaddrinfo", unknown)
    assert advertised_address(BrokerConfig(), Address(host, 1)) == Address("127.0.0.1", 1)


def test_addresses_are_written_as_clients_take_them() -> None:
    assert (str(Address("h", 1)), str(Address("::1", 1))) == ("h:1", "[::1]:1")


# The clock


def test_the_clock_goes_on_steadily_when_somebody_sets_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, steady = 1_000_000_000_000, 50_000_000
    monkeypatch.setattr(time, "time_ns", lambda: wall)
    monkeypatch.setattr(time, "monotonic_ns", lambda: steady)
    clock = Clock()
    assert (clock.now_ms(), clock.wall_offset_ms()) == (1_000_000, 0)
    steady += 7_000_000
    wall -= 3_000_000_000
    assert clock.now_ms() == 1_000_007
    assert clock.wall_offset_ms() == -3_007
