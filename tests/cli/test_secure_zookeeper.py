"""`ottla cluster secure-zookeeper`, on a ZooKeeper that knows who asks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from tests.cli.commands import Run
from tests.cluster.zookeeper import Ensemble
from tests.cluster.zookeeper_security import client_jaas, sasl_ensemble
from tests.support.processes import running

from ottla.broker.zookeeper_config import JAAS_FILE
from ottla.controller.keeper import Create
from ottla.controller.znodes import CLUSTER_ID, PEER_SECRET
from ottla.shell.keeper_visit import write_without_broker


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(sasl_ensemble(tmp_path_factory.mktemp("sasl"))) as servers:
        yield servers


def properties_file(folder: Path, properties: dict[str, str]) -> str:
    path = folder / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(path)


def test_nodes_that_were_open_are_kept_for_the_brokers_user_and_opened_again(
    run: Run, ensemble: Ensemble, tmp_path: Path
) -> None:
    properties = {"zookeeper.connect": f"{ensemble.hosts}/secured", JAAS_FILE: str(client_jaas(tmp_path))}
    config = properties_file(tmp_path, properties)
    write_without_broker(
        properties, lambda nodes: [] if nodes else [Create(CLUSTER_ID, b"{}"), Create(PEER_SECRET, b"{}")]
    )
    anybody = KazooClient(properties["zookeeper.connect"])
    anybody.start(30)
    try:
        anybody.set(PEER_SECRET, b"{1}")
        done = run("cluster", "secure-zookeeper", "--config", config)
        assert (done.code, done.out) == (0, "")
        assert done.err.endswith(
            " nodes of " + properties["zookeeper.connect"] + ": now for the brokers' user\n"
        )
        assert anybody.get(CLUSTER_ID)[0] == b"{}"
        for path in (CLUSTER_ID, "/brokers/topics", "/"):
            with pytest.raises(NoAuthError):
                anybody.create(path.rstrip("/") + "/mine", b"")
        with pytest.raises(NoAuthError):
            anybody.get(PEER_SECRET)
        assert PEER_SECRET in write_without_broker(properties, lambda _nodes: [])
        done = run("cluster", "secure-zookeeper", "--config", config, "--open")
        assert done.err.endswith(": now for everybody\n")
        assert anybody.get(PEER_SECRET)[0] == b"{1}"
        anybody.create("/mine", b"")
    finally:
        anybody.stop()
        anybody.close()


def test_another_user_cannot_change_acls_and_is_told_so(run: Run, ensemble: Ensemble, tmp_path: Path) -> None:
    where = f"{ensemble.hosts}/of-others"
    own = {"zookeeper.connect": where, JAAS_FILE: str(client_jaas(tmp_path)), "zookeeper.set.acl": "true"}
    write_without_broker(own, lambda nodes: [] if nodes else [Create(CLUSTER_ID, b"{}")])
    others = {"zookeeper.connect": where, JAAS_FILE: str(client_jaas(tmp_path, "other", "other"))}
    done = run("cluster", "secure-zookeeper", "--config", properties_file(tmp_path, others), "--open")
    assert done.code == 1
    assert f"ZooKeeper at {where} refuses to " in done.err
    assert "its ACL is for another user" in done.err


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "name the ZooKeeper"),
        ({"zookeeper.connect": "127.0.0.1:1"}, "nodes cannot be kept for nobody"),
        ({"zookeeper.connect": "127.0.0.1:1", JAAS_FILE: "/nowhere"}, f"{JAAS_FILE}: /nowhere: No such file"),
    ],
)
def test_what_is_missing_is_named(run: Run, tmp_path: Path, properties: dict[str, str], said: str) -> None:
    done = run("cluster", "secure-zookeeper", "--config", properties_file(tmp_path, properties))
    assert done.code != 0
    assert said in done.err


def test_nothing_named_at_all_is_a_usage_error(run: Run) -> None:
    assert run("cluster", "secure-zookeeper").code == 2
