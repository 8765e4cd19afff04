"""The commands that `ottla shims` writes, beside Apache Kafka's own tools, at the same broker."""

import re
from collections.abc import Callable

import pytest
from tests.cli.commands import Run, ottla, run
from tests.compat.tools_jvm import ToolsJvm

from ottla import Broker

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
Both = Callable[..., tuple[str, str]]

__all__ = ["ottla", "run"]  # fixtures


@pytest.fixture
def both(ottla: Run, kafka_tools: ToolsJvm, ottla_broker: Broker) -> Both:
    """What Kafka's tool says, and what ours does."""

    def both(tool: str, *arguments: str) -> tuple[str, str]:
        there = ("--bootstrap-server", ottla_broker.bootstrap_servers)
        theirs, ours = (
            kafka_tools.run(TOOLS[tool], *there, *arguments),
            ottla("__kafka", tool, *there, *arguments),
        )
        assert (theirs.code, ours.code) == (0, 0), theirs.said + ours.err
        return without_noise(theirs.said), ours.out + ours.err

    return both


def without_noise(said: str) -> str:
    """Without what the JVM says of its logger, and of the tool that wants to end it."""
    own, _, _ = said.partition("ended\n")
    return "".join(line for line in own.splitlines(keepends=True) if not line.startswith("SLF4J: "))


def rows(said: str) -> list[list[str]]:
    """Tables without their widths."""
    return [line.split() for line in said.splitlines() if line.strip()]


def test_topics_are_listed_and_described_as_kafka_does(both: Both, ottla: Run, ottla_topic: str) -> None:
    ottla("configs", "set", "--topic", ottla_topic, "retention.ms=1000000")
    theirs, ours = both("kafka-topics", "--list")
    assert ours == theirs
    theirs, ours = both("kafka-topics", "--describe", "--topic", ottla_topic)
    assert [set(re.split(r"[\s,]+", line)) for line in ours.splitlines()] == [
        set(re.split(r"[\s,]+", line)) for line in theirs.splitlines()
    ]
    assert re.search(r"TopicId: \S{22}\t", ours)


def test_groups_are_listed_and_described_as_kafka_does(both: Both, ottla: Run, ottla_topic: str) -> None:
    group = f"{ottla_topic}-g"
    ottla("produce", ottla_topic, stdin=b"a\nb\n")
    ottla("consume", ottla_topic, "--group", group, "--max", "1")
    theirs, ours = both("kafka-consumer-groups", "--list")
    assert sorted(ours.split()) == sorted(theirs.split())
    theirs, ours = both("kafka-consumer-groups", "--describe", "--group", group)
    assert sorted(rows(ours)) == sorted(rows(theirs))
