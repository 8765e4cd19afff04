"""The pytest plugin, used here as anybody would use it, and once in a pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ottla import Broker

SEEN: list[str] = []


def topics(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=20).topics)


def test_the_topic_is_there_and_takes_records(ottla_broker: Broker, ottla_topic: str) -> None:
    SEEN.append(ottla_topic)
    assert ottla_topic in topics(ottla_broker)
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    producer.produce(ottla_topic, b"hello")
    assert producer.flush(20) == 0


def test_another_test_gets_another_topic_and_the_first_is_gone(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    assert ottla_topic not in SEEN
    assert not set(SEEN) & topics(ottla_broker)


def test_a_test_may_delete_its_topic_itself(ottla_broker: Broker, ottla_topic: str) -> None:
    ottla_broker.delete_topic(ottla_topic)


EXAMPLE = """
import sys

def test_without_a_broker():
    assert not {"asyncio", "confluent_kafka", "rich", "typer", "ottla.shell"} & set(sys.modules)

def test_first(ottla_broker, ottla_topic):
    sys.modules["seen"] = ottla_broker

def test_second_gets_the_same_broker(ottla_broker):
    assert sys.modules["seen"] is ottla_broker
"""


def test_a_run_of_its_own_has_one_broker_and_pays_for_it_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(EXAMPLE)
    plain = ["-p", "no:cacheprovider", "-p", "ottla.testing.plugin", "-W", "error", "-q", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, "--rootdir", str(tmp_path)],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # what others load is not ours to pay for
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_fixtures_are_listed_with_what_they_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--fixtures", "-p", "no:cacheprovider", "-q", __file__],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "ottla_broker [session scope]" in done.stdout
    assert "ottla_topic" in done.stdout
