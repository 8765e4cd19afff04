"""`from ottla import Broker`: a real broker in the process."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from tests.support.ports import free_ports

from ottla import Broker
from ottla.base.config import ConfigError
from ottla.shell import embedded
from ottla.shell.lock import StartError

DEADLINE_S = 20.0


def produce(broker: Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def consume(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "any", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("ottla")}


def test_a_broker_serves_real_clients_and_leaves_nothing_behind() -> None:
    before = threads()
    with Broker() as broker:
        folder = broker.data
        assert os.path.isdir(folder)
        assert broker.is_running
        broker.create_topic("letters", partitions=2, config={"retention.ms": "1000000"})
        produce(broker, "greetings", b"hello", b"world")
        assert consume(broker, "greetings", 2) == [b"hello", b"world"]
    assert not os.path.exists(folder)
    assert not broker.is_running
    assert threads() <= before


def test_two_brokers_live_side_by_side() -> None:
    with Broker() as one, Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        produce(one, "letters", b"to one")
        produce(other, "letters", b"to the other")
        assert consume(one, "letters", 1) == [b"to one"]
        assert consume(other, "letters", 1) == [b"to the other"]


def test_start_and_stop_work_without_with_and_stop_twice_is_fine() -> None:
    broker = Broker()
    broker.stop()
    assert broker.start() is broker
    with pytest.raises(RuntimeError, match="already"):
        broker.start()
    broker.stop()
    broker.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers
    with broker:
        produce(broker, "letters", b"again")


def test_a_data_folder_keeps_the_records_over_restarts(tmp_path: Path) -> None:
    for number in range(3):
        with Broker(data=tmp_path) as broker:
            produce(broker, "letters", b"%d" % number)
            assert consume(broker, "letters", number + 1) == [b"%d" % one for one in range(number + 1)]
    assert (tmp_path / "letters-0" / "00000000000000000000.log").exists()


def test_a_data_folder_that_lost_its_keeper_has_all_configs(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("latest", partitions=2, config={"cleanup.policy": "compact"})
        produce(broker, "letters", b"0")
    for path in tmp_path.glob("keeper.db*"):
        path.unlink()
    with Broker(data=tmp_path) as broker:
        assert consume(broker, "letters", 1) == [b"0"]
        assert set_of(broker, "latest") == {"cleanup.policy": "compact"}
        assert set_of(broker, "letters") == {}


def set_of(broker: Broker, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    (done,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in done.result(30).items() if entry.source == 1}


def test_what_keeps_a_broker_from_starting_is_raised_to_the_caller(tmp_path: Path) -> None:
    before = threads()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Broker(port=taken.getsockname()[1])
        with pytest.raises(StartError, match="cannot listen on"):
            broker.start()
    assert broker.data == ""
    with Broker(data=tmp_path), pytest.raises(StartError, match="in use by another broker"):
        Broker(data=tmp_path).start()
    with pytest.raises(ConfigError, match=r"log\.segment\.bytes"):
        Broker(config={"log.segment.bytes": "many"}).start()
    assert threads() <= before


def test_a_broker_takes_the_config_it_is_given() -> None:
    with Broker(config={"num.partitions": "4"}) as broker:
        produce(broker, "letters", b"x")
        metadata = Producer({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=DEADLINE_S)
        assert len(metadata.topics["letters"].partitions) == 4


def test_a_config_may_have_pythons_numbers_and_booleans() -> None:
    given = {"num.partitions": 3, "auto.create.topics.enable": False, "log.cleaner.min.cleanable.ratio": 0.25}
    with Broker(config={**given, "log.retention.ms": 1e6}) as broker:
        assert broker.config == {
            "num.partitions": "3",
            "auto.create.topics.enable": "false",
            "log.cleaner.min.cleanable.ratio": "0.25",
            "log.retention.ms": "1000000",
        }
        broker.create_topic("letters", config={"retention.ms": 1000, "preallocate": True})
    with pytest.raises(TypeError, match=r"'num\.partitions' takes text, a number or a boolean, not None"):
        Broker(config={"num.partitions": None})  # type: ignore[dict-item]


def test_an_unknown_key_is_a_warning_with_the_nearest_names() -> None:
    with pytest.warns(
        UserWarning, match=r"'num\.partition' is not known .* did you mean num\.partitions"
    ) as seen:
        Broker(config={"num.partition": 3})
    assert seen[0].filename == __file__


def test_a_program_that_forgets_to_stop_its_broker_ends_all_the_same_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    program = "from ottla import Broker; broker = Broker().start(); print(broker.data)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, text=True, timeout=30, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_is_asked_for_security_does_not_start() -> None:
    with pytest.raises(ConfigError, match=r"^principal\.builder\.class: this kind of security is not there"):
        Broker(config={"principal.builder.class": "a.B"}).start()


def test_a_start_that_waits_for_zookeeper_too_long_is_given_up_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "START_S", 0.5)
    others = {thread.ident for thread in threading.enumerate()}  # brokers of other tests
    (port,) = free_ports(1)
    with pytest.raises(StartError, match="did not start within"):
        Broker(config={"zookeeper.connect": f"127.0.0.1:{port}"}).start()
    left = [thread.name for thread in threading.enumerate() if thread.ident not in others]
    assert not [name for name in left if name.startswith("ottla-broker")]


def test_a_broker_says_in_its_repr_where_it_is_and_in_its_errors_which_argument_to_change(
    tmp_path: Path,
) -> None:
    broker = Broker(data=tmp_path)
    assert repr(broker) == "<Broker, not running>"
    with broker:
        assert repr(broker) == f"<Broker at {broker.bootstrap_servers}, data in {tmp_path}>"
        with pytest.raises(StartError, match="with another folder, data="):
            Broker(data=tmp_path).start()
        with pytest.raises(StartError, match="choose another with port="):
            Broker(port=int(broker.bootstrap_servers.rpartition(":")[2])).start()


async def _in_a_program_that_waits() -> str:
    async with Broker() as broker:
        return broker.create_topic("letters")


def test_a_broker_may_be_used_by_async_with() -> None:
    assert asyncio.run(_in_a_program_that_waits()) == "letters"
