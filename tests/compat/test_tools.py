"""Apache Kafka's own command-line tools against a running Ottla."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import apache
from bench.servers import clean_environment
from tests.api.asking import to
from tests.compat.apache import QUICK_JVM, complaints, dump
from tests.compat.tools_jvm import ToolsJvm
from tests.compat.traffic import send
from tests.kafka_clients.harness import BrokerProcess, serving
from tests.kafka_clients.wire_client import Wire
from tests.support.transactions import transactional

from ottla.base.errors import ErrorCode
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

TOOL_S = 120.0


@pytest.fixture(scope="module")
def broker(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("tools"))
    running.start()
    yield running
    running.kill()
    assert running.bugs() == []


def tool(broker: BrokerProcess, name: str, *arguments: str) -> str:
    command = apache.java(name, "--bootstrap-server", broker.bootstrap, *arguments)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_S, env=clean_environment() | QUICK_JVM
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


def configs(broker: BrokerProcess, kind: str, name: str, *arguments: str) -> str:
    return tool(broker, "kafka.admin.ConfigCommand", "--entity-type", kind, "--entity-name", name, *arguments)


def test_the_quorum_is_one_controller(broker: BrokerProcess) -> None:
    said = tool(broker, "org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    shown = {key: value.strip() for key, _, value in (line.partition(":") for line in said.splitlines())}
    assert (shown["LeaderId"], shown["MaxFollowerLag"], shown["CurrentObservers"]) == ("1", "0", "[]")
    assert broker.bootstrap in shown["CurrentVoters"]


def test_a_group_has_timeouts_of_its_own(broker: BrokerProcess) -> None:
    configs(broker, "groups", "g", "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    said = configs(broker, "groups", "g", "--describe")
    assert "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000" in said


def test_log_levels_change_while_the_broker_runs(broker: BrokerProcess) -> None:
    configs(broker, "broker-loggers", "1", "--alter", "--add-config", "ottla.log=DEBUG")
    said = configs(broker, "broker-loggers", "1", "--describe")
    assert "ottla.log=DEBUG" in said
    assert "ottla.broker=INFO" in said


def test_a_brokers_unknown_config_is_kept_and_not_shown(broker: BrokerProcess) -> None:
    configs(broker, "brokers", "1", "--alter", "--add-config", "my.plugin.password=secret")
    said = configs(broker, "brokers", "1", "--describe")
    assert "my.plugin.password=null sensitive=true" in said
    assert "secret" not in said


def test_the_segment_that_is_being_written_can_be_dumped_with_its_indexes(broker: BrokerProcess) -> None:
    broker.create_topic("dumped")
    send(broker.bootstrap, "dumped", range(500))
    (segment,) = broker.segments("dumped")
    files = [segment, segment.with_suffix(".index"), segment.with_suffix(".timeindex")]
    dumped = list(dump(files))
    assert complaints(dumped) == []
    assert sum(int(batch["count"]) for batch in dumped[0].batches) == 500


def test_the_level_of_transactions_is_described_lowered_and_raised(broker: BrokerProcess) -> None:
    features = "org.apache.kafka.tools.FeatureCommand"

    def described() -> dict[str, str]:
        said = tool(broker, features, "describe")
        (line,) = [line for line in said.splitlines() if "transaction.version" in line]
        return dict(re.findall(r"(\w+): (\S+)", line))

    shown = described()
    assert (shown["SupportedMinVersion"], shown["SupportedMaxVersion"]) == ("0", "2")
    assert shown["FinalizedVersionLevel"] == "2"
    said = tool(broker, features, "downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was downgraded to 1." in said
    assert described()["FinalizedVersionLevel"] == "1"
    said = tool(broker, features, "upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in said
    assert described()["FinalizedVersionLevel"] == "2"


def test_a_transaction_that_hangs_is_described_and_aborted(kafka_jars: str, tmp_path: Path) -> None:
    """An operator has switched verification off, and a batch opens a transaction that no coordinator knows of
    (KIP-664)."""
    hanging = to("t", transactional(0, "a", producer_id=77))
    hanging.transactional_id = "gone"
    with serving(tmp_path, {"transaction.partition.verification.enable": "false"}) as broker:
        broker.create_topic("t")
        with Wire(broker.port) as wire:
            assert wire.call(hanging, 9).responses[0].partition_responses[0].error_code == ErrorCode.NONE
        transactions, where = (
            "org.apache.kafka.tools.TransactionsCommand",
            ("--topic", "t", "--partition", "0"),
        )
        said = tool(broker, transactions, "describe-producers", *where)
        assert re.search(r"^77\s+0\s.*\s0\s*$", said, re.MULTILINE), said
        tool(broker, transactions, "abort", *where, "--start-offset", "0")
        said = tool(broker, transactions, "describe-producers", *where)
        assert re.search(r"^77\s+0\s.*\sNone\s*$", said, re.MULTILINE), said


def test_quotas_of_users_clients_and_addresses_are_set_removed_and_described(
    broker: BrokerProcess, kafka_tools: ToolsJvm
) -> None:
    def quotas(*arguments: str) -> str:
        at = ("--bootstrap-server", broker.bootstrap)
        outcome = kafka_tools.run("kafka.admin.ConfigCommand", *at, *arguments)
        assert outcome.code == 0, outcome.said
        return outcome.said

    alice = ("--entity-type", "users", "--entity-name", "alice")
    default = (*alice, "--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "10.1.2.3")
    rates = "producer_byte_rate=1024,consumer_byte_rate=2048"
    quotas("--alter", "--add-config", rates, *alice)
    quotas("--alter", "--delete-config", "producer_byte_rate", *alice)
    quotas("--alter", "--add-config", "request_percentage=25.5,controller_mutation_rate=3", *default)
    quotas("--alter", "--add-config", "connection_creation_rate=7", *address)
    said = quotas("--describe", *alice)
    assert re.search(r"user-principal 'alice' are consumer_byte_rate=2048\.0$", said, re.MULTILINE), said
    said = quotas("--describe", *default)
    assert re.search(r"'alice', .*default.* are .*request_percentage=25\.5", said), said
    with Wire(broker.port) as wire:
        of_addresses = ComponentData(entity_type="ip", match_type=2, match=None)
        request = DescribeClientQuotasRequest(components=[of_addresses], strict=True)
        (shown,) = wire.call(request, 1).entries
    assert [(value.key, value.value) for value in shown.values] == [("connection_creation_rate", 7.0)]
