"""`ottla cluster`: a whole cluster on this machine, from nothing to nothing."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.commands import Outcome, Run
from tests.cluster.zookeeper import skip_without_zookeeper
from tests.support.http import get
from tests.support.ports import free_ports

from ottla.base.command_error import CommandError
from ottla.cli.cluster import zookeeper_servers
from ottla.cli.cluster.local_cluster import LocalCluster, Process

WITHIN_S = 60.0
SESSION = "zookeeper.session.timeout.ms=4000"


def base_port() -> int:
    """Brokers take the ports from here on, their HTTP those ten above, ZooKeepers those a hundred, two and
    three hundred above."""
    while True:
        (port,) = free_ports(1)
        try:
            for near in (
                *range(port, port + 5),
                *range(port + 10, port + 13),
                *range(port + 100, port + 103),
            ):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", near))
        except (OSError, OverflowError):
            continue
        return port


def until(is_reached: Callable[[Outcome], bool], run: Run, *arguments: str) -> Outcome:
    """What `cluster status` says once it says that."""
    deadline = time.monotonic() + WITHIN_S
    while not is_reached(found := run("cluster", "status", *arguments)):
        assert time.monotonic() < deadline, found
    return found


def presence(status: Outcome) -> list[tuple[bool, bool]]:
    """Of each broker, whether it is in the cluster, and whether its process is there."""
    return [(one["is_there"], one["pid"] is not None) for one in json.loads(status.out)["brokers"]]


@pytest.mark.timeout(180)
def test_a_cluster_goes_up_is_looked_at_grows_and_goes_down(run: Run, tmp_path: Path) -> None:
    skip_without_zookeeper()
    folder, port = str(tmp_path / "made"), base_port()
    try:
        up = run(
            "cluster", "up", "--brokers", "2", "--dir", folder, "--base-port", str(port), "--set", SESSION,
            "--http", str(port + 10),
        )  # fmt: skip
        assert (up.code, up.out) == (0, f"127.0.0.1:{port},127.0.0.1:{port + 1}\n"), up.err
        assert "2 brokers on ZooKeeper at 127.0.0.1" in up.err
        assert f"export OTTLA_BOOTSTRAP={up.out}" in up.err
        assert f"metrics and health: http://127.0.0.1:{port + 10}, http://127.0.0.1:{port + 11}\n" in up.err
        assert get(f"127.0.0.1:{port + 11}", "/health/ready").json["ready"] is True
        assert run("topics", "create", "letters", "-p", "4", "-b", up.out.strip()).code == 0
        well = "under-replicated partitions: 0 of 4"  # not every broker knows of the topic at once
        status = until(lambda it: it.code == 0 and well in it.out, run, "--dir", folder)
        assert "standalone" in status.out
        until(lambda it: it.code == 0, run, "-b", up.out.strip())
        again = run("cluster", "up", "--dir", folder)
        assert (again.code, again.err.count("\n")) == (1, 1)
        assert "runs already" in again.err

        machine = LocalCluster.load(Path(folder))
        assert machine is not None
        os.kill(machine.brokers[1].pid, signal.SIGKILL)
        one_left = [(True, True), (False, False)]
        until(lambda it: it.code == 1 and presence(it) == one_left, run, "--dir", folder, "--json")

        grown = run("cluster", "up", "--brokers", "3", "--dir", folder)
        assert (grown.code, len(grown.out.split(","))) == (0, 3), grown.err
        assert get(f"127.0.0.1:{port + 12}", "/health/live").json == {"live": True}
        until(lambda it: it.code == 0, run, "--dir", folder)
    finally:
        down = run("cluster", "down", "--dir", folder, "--delete")
    assert (down.code, down.out) == (0, "")
    assert "zookeeper-1, broker-1, broker-2, broker-3 stopped" in down.err
    assert down.err.endswith(f"{folder} deleted\n")
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("status",), "there is no cluster in"),
        (("down",), "there is no cluster in"),
    ],
)
def test_where_there_is_no_cluster_one_line_says_so(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = run("cluster", *arguments, "--dir", str(tmp_path / "none"))
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_port_that_is_taken_is_named_before_anything_is_started(run: Run, tmp_path: Path) -> None:
    skip_without_zookeeper()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("cluster", "up", "--dir", str(tmp_path / "c"), "--base-port", str(port))
    assert done.code == 1
    assert f"port {port} for broker-1 is taken; choose another --base-port" in done.err
    assert not (tmp_path / "c" / "zookeeper-1").exists()


def test_a_port_for_metrics_that_is_taken_is_named_before_anything_is_started(
    run: Run, tmp_path: Path
) -> None:
    skip_without_zookeeper()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, ports = taken.getsockname()[1], ("--base-port", str(base_port()))
        done = run("cluster", "up", "--dir", str(tmp_path / "c"), *ports, "--http", str(port))
    assert done.code == 1
    assert f"port {port} for broker-1 is taken; choose another --http" in done.err
    assert not (tmp_path / "c" / "zookeeper-1").exists()


def test_without_java_and_without_zookeeper_one_sentence_says_what_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(zookeeper_servers.shutil, "which", lambda *_, **__: None)
    done = run("cluster", "up", "--dir", str(tmp_path / "c"), "--base-port", str(base_port()))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "ZooKeeper needs Java" in done.err
    monkeypatch.undo()
    skip_without_zookeeper()
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
    monkeypatch.setattr(zookeeper_servers.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(zookeeper_servers, "SYSTEM", str(tmp_path))
    done = run("cluster", "up", "--dir", str(tmp_path / "c"), "--base-port", str(base_port()))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "pip install pyspark" in done.err


def test_what_a_cluster_has_already_is_not_asked_for_twice(run: Run, tmp_path: Path) -> None:
    LocalCluster(
        tmp_path, "zk:2181", brokers=[Process("broker-1", 1, 9092), Process("broker-2", 2, 9093)]
    ).save()
    for arguments, said in (
        (("--brokers", "1"), "none is taken away"),
        (("--zookeepers", "3"), "has its ZooKeeper already"),
        (("--zookeeper", "other:2181"), "has its ZooKeeper already"),
        (("--set", "a=b"), "has its --set already"),
    ):
        done = run("cluster", "up", "--dir", str(tmp_path), *arguments)
        assert done.code == 2
        assert said in done.err


def test_a_file_that_is_not_ours_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    done = run("cluster", "status", "--dir", str(tmp_path))
    assert done.code == 1
    assert "is not what `ottla cluster up` writes" in done.err


def test_a_process_that_got_an_old_id_is_left_alone(tmp_path: Path) -> None:
    machine = LocalCluster(tmp_path, "zk:2181", brokers=[Process("broker-1", 1, 9092, os.getpid(), 1)])
    machine.save()
    assert machine.stop() == []
    loaded = LocalCluster.load(tmp_path)
    assert loaded is not None
    assert not loaded.brokers[0].is_running


def test_a_cluster_that_fails_is_not_in_the_way_of_the_next(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    for wrong in ("num.partitions=none", "num.partitions=many"):
        done = run(
            "cluster", "up", "--brokers", "1", "--zookeeper", "127.0.0.1:1", "--set", wrong,
            "--dir", str(folder), "--base-port", str(base_port()),
        )  # fmt: skip
        assert (done.code, done.out) == (1, "")
        assert "broker-1 ended: " in done.err
        assert wrong.partition("=")[2] in done.err
        assert not (folder / "cluster.json").exists()
        assert (folder / "broker-1" / "broker.log").exists(), "which says why"


def test_two_clusters_on_one_chroot_are_told_to_take_two(tmp_path: Path) -> None:
    machine = LocalCluster(tmp_path, "zk:2181", brokers=[Process("broker-1", 1, 9092)])
    machine.log_of(machine.brokers[0]).parent.mkdir()
    machine.log_of(machine.brokers[0]).write_text(
        "ottla: broker id 1 is registered already by x:9092; give this one another --id\n"
    )
    with pytest.raises(CommandError, match="by x:9092; give this cluster a chroot of its own: --zookeeper"):
        machine.wait_for_brokers(lambda: False)
