"""`ottla users` where no broker runs, and what is wrong with its options; `tests/compat` has it with some."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.cli.commands import Run
from tests.cluster.zookeeper import Ensemble
from tests.cluster.zookeeper_security import client_jaas, sasl_ensemble
from tests.support.ports import free_ports
from tests.support.processes import OttlaProcess, running

from ottla.broker.zookeeper_config import JAAS_FILE

MECHANISM = "SCRAM-SHA-512"


class SaslBroker(OttlaProcess):
    """Lets in users with SCRAM alone."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        [port] = free_ports(1)
        super().__init__(folder, port, {"sasl.enabled.mechanisms": MECHANISM, **settings})

    def command(self) -> list[str]:
        at = super().command().index("--listen")
        listen = f"listeners=SASL_PLAINTEXT://{self.address}"
        inter_broker = "security.inter.broker.protocol=SASL_PLAINTEXT"
        own = ["--set", listen, "--set", inter_broker, "--data", str(self.folder / "data")]
        return [*super().command()[:at], *super().command()[at + 2 :], *own]

    def cluster_id(self, user: str, password: str) -> str:
        admin = AdminClient({
            "bootstrap.servers": self.address, "security.protocol": "SASL_PLAINTEXT", "log_level": 0,
            "sasl.mechanism": MECHANISM, "sasl.username": user, "sasl.password": password,
        })  # fmt: skip
        return str(admin.list_topics(timeout=30).cluster_id)


def inter_broker(user: str, password: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    line = f'{module} required username="{user}" password="{password}";'
    return {
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.sasl_plaintext.{MECHANISM.lower()}.sasl.jaas.config": line,
    }


# -- a folder --


def test_the_first_user_is_written_to_the_data_folder_and_then_gets_in(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    added = run("users", "add", "admin", "--generate", "--data", str(data))
    assert (added.code, added.err) == (0, "admin may log in with SCRAM-SHA-256 and SCRAM-SHA-512\n")
    password = added.out.strip()
    assert password.encode() not in b"".join(path.read_bytes() for path in data.iterdir())
    broker = SaslBroker(tmp_path, inter_broker("admin", password))
    with running(broker):
        assert broker.cluster_id("admin", password)
        busy = run("users", "add", "eve", "--generate", "--data", str(data))
        assert (busy.code, busy.out) == (1, "")
        assert busy.err == f"ottla: a broker runs on {data}: ask it, with --bootstrap HOST:PORT\n"


def test_users_in_a_folder_are_listed_and_removed(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={tmp_path / 'data'}\n")
    where = ("--config", str(config))
    for user in ("alice", "b/o b"):
        given = run(
            "users", "add", user, "--password-file", "-", "--iterations", "5000", *where, stdin=b"pw\n"
        )
        assert given.code == 0, given.err
    assert run("users", "remove", "alice", "--mechanism", "SCRAM-SHA-256", *where).code == 0
    both = [{"mechanism": f"SCRAM-SHA-{bits}", "iterations": 5000} for bits in (256, 512)]
    assert json.loads(run("users", "list", "--json", *where).out) == [
        {"user": "alice", "credentials": both[1:]},
        {"user": "b/o b", "credentials": both},
    ]
    assert run("users", "remove", "alice", *where).code == 0
    gone = run("users", "remove", "alice", *where)
    assert (gone.code, gone.err) == (1, "ottla: there is no user 'alice'\n")


def test_the_folder_of_a_cluster_on_zookeeper_is_not_written_to(run: Run, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\nottla.keeper=shared\n")
    refused = run("users", "add", "alice", "--generate", "--data", str(tmp_path))
    assert refused.code == 1
    assert refused.err.endswith("belongs to a cluster that ZooKeeper keeps: use --zookeeper, not --data\n")
    assert not (tmp_path / "keeper.db").exists()


# -- ZooKeeper --


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(sasl_ensemble(tmp_path_factory.mktemp("sasl"))) as servers:
        yield servers


def test_the_first_user_is_written_to_zookeeper_as_the_brokers_would_and_then_gets_in(
    run: Run, ensemble: Ensemble, tmp_path: Path
) -> None:
    settings = {
        "zookeeper.connect": f"{ensemble.hosts}/first", JAAS_FILE: str(client_jaas(tmp_path)),
        "zookeeper.set.acl": "true",
    }  # fmt: skip
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    added = run("users", "add", "admin", "--generate", "--config", str(config))
    assert added.code == 0, added.err
    password = added.out.strip()
    refused = run("users", "list", "--zookeeper", settings["zookeeper.connect"])
    assert refused.code == 1
    assert "NoAuthError: its ACL is for another user" in refused.err
    broker = SaslBroker(tmp_path, settings | inter_broker("admin", password))
    with running(broker):
        assert broker.cluster_id("admin", password)
        assert run("users", "add", "late", "--generate", "--config", str(config)).code == 0
    assert "admin" in run("users", "list", "--config", str(config)).out


def test_users_in_an_open_zookeeper_need_no_config(run: Run, ensemble: Ensemble) -> None:
    where = ("--zookeeper", f"{ensemble.hosts}/open")
    assert run("users", "add", "alice", "--generate", *where).code == 0
    assert [user["user"] for user in json.loads(run("users", "list", "--json", *where).out)] == ["alice"]


# -- what is wrong --


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "alice", "--mechanism", "PLAIN"], "--mechanism is SCRAM-SHA-256 or SCRAM-SHA-512"),
        (["add", "alice", "--generate", "--password-file", "x"], "use one of them"),
        (["add", "", "--generate"], "a user has a name"),
        (["add", "alice", "--iterations", "100"], "4096"),
        (["add", "alice", "--data", "x", "--zookeeper", "y:1"], "use one of them"),
        (
            ["add", "alice", "--password-file", "/nowhere", "--data", "x"],
            "/nowhere: No such file or directory",
        ),
        (["add", "alice", "--password-file", "-", "--data", "x"], "the password is empty"),
        (["add", "alice", "--data", "x"], "--password-file FILE"),
        (["add", "alice", "secret", "--data", "x"], "secret"),
    ],
)
def test_wrong_options_are_usage_errors(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run("users", *arguments)
    assert refused.code == 2
    assert said in refused.err
    assert not any(tmp_path.iterdir())


def test_no_broker_is_a_line(run: Run) -> None:
    refused = run("users", "list", "--bootstrap", f"127.0.0.1:{free_ports(1)[0]}")
    assert refused.code == 1
    assert "no broker answers at" in refused.err
