"""A folder whose topics no keeper knows: where their configs come from, and what happens without any."""

import errno

import pytest
from tests.api.asking import batch, create, fetch, produce, values
from tests.api.harness import Client, Machine, lone_tree
from tests.api.test_alter_configs import BROKER, TOPIC, set_configs
from tests.broker.test_moves import moved
from tests.controller.kraft_logs import Value, broker_config, config, topic, write_log
from tests.log.simdisk import Keep, page_cache, power_loss

from ottla.base.errors import ErrorCode
from ottla.base.ids import ADMIN_CLIENT_ID, KRAFT_TOPIC, OFFSETS_TOPIC, TopicPartition
from ottla.broker import config_copies
from ottla.broker.effects import CleanLog
from ottla.controller import znodes
from ottla.controller.keeper import Operation
from ottla.controller.topics import plan_configs
from ottla.log.config_copy import TOPIC_CONFIG, ConfigCopy, format_copy, parse_copy
from ottla.log.partition_metadata import PARTITION_METADATA, format_partition_metadata

PROPERTIES = {
    "log.retention.check.interval.ms": "1000",
    "log.retention.ms": "60000",
    "log.cleaner.backoff.ms": "0",
    "log.cleaner.threads": "2",
    "log.cleaner.min.cleanable.ratio": "0",
}
KRAFT_FOLDER = f"/data/{KRAFT_TOPIC}-0"
HOUR_MS = 3_600_000
KEY = b"\0\x63"  # in __consumer_offsets a type that is for later brokers


def machine_with(*topics: str, partitions: int = 1, **configs: str) -> Machine:
    """Topics with three old records of one key, each in a segment of its own."""
    machine = Machine(dict(PROPERTIES))
    for name in topics or ("t",):
        create(machine.client(), name, partitions, segment_bytes="100", **configs)
        fill(machine, name)
    return machine


def fill(machine: Machine, name: str) -> None:
    for value in "abc":
        one = batch(value, at=machine.now_ms, key=KEY)
        client = machine.client()
        client.client_id = ADMIN_CLIENT_ID  # the only one that may write to internal topics
        assert produce(client, name, one).error_code == ErrorCode.NONE


def lose_keeper(machine: Machine) -> None:
    machine.stop()
    machine.keeper = lone_tree()


def as_kafka_left_it(machine: Machine, *records: Value, name: str = "t") -> None:
    """The same logs, as if Apache Kafka had written them, with this in its metadata log."""
    lose_keeper(machine)
    metadata = format_partition_metadata(id_of(machine, name))
    for partition in machine.broker.image.topics[name].assignment:
        folder = f"/data/{name}-{partition}"
        machine.disk.write_atomic(f"{folder}/{PARTITION_METADATA}", metadata)
        if machine.disk.exists(f"{folder}/{TOPIC_CONFIG}"):
            machine.disk.remove(f"{folder}/{TOPIC_CONFIG}")
    if records:
        write_log(machine.disk, KRAFT_FOLDER, *records)


def id_of(machine: Machine, name: str = "t") -> bytes:
    return machine.broker.image.topics[name].id


def configs_of(machine: Machine, name: str = "t") -> dict[str, str]:
    return machine.broker.image.topic_config(name)


def copy_of(machine: Machine, partition: int = 0) -> ConfigCopy:
    copy = parse_copy(machine.disk.read(f"/data/t-{partition}/{TOPIC_CONFIG}"))
    assert copy is not None
    return copy


def cleanings(machine: Machine) -> set[TopicPartition]:
    """What is handed to the cleaner in an hour, after which retention has had its say too."""
    machine.hold(CleanLog)
    for _ in range(3):
        machine.pass_time(HOUR_MS)
    return {effect.log.topic_partition for effect in machine.held if isinstance(effect, CleanLog)}


def kept(client: Client, name: str = "t") -> list[str]:
    found: list[str] = []
    for offset in range(3):  # a segment each
        part = fetch(client, name, offset)
        found += [] if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE else values(part)[:1]
    return found


# The copies that are kept with each partition


@pytest.mark.parametrize("how", [page_cache, power_loss])
def test_the_loss_of_the_keeper_loses_no_setting(how: Keep) -> None:
    machine = machine_with(cleanup_policy="compact")
    create(machine.client(), "plain")
    fill(machine, "plain")
    set_configs(machine.client(), TOPIC, "t", {"min.compaction.lag.ms": "5"})
    machine.pass_time(1)
    machine.keeper = lone_tree()
    machine.crash(how)
    assert machine.broker.image.topic_configs["plain"].values == {}
    assert configs_of(machine) == {
        "cleanup.policy": "compact",
        "segment.bytes": "100",
        "min.compaction.lag.ms": "5",
    }
    assert not any("cleanup.policy" in line for line in machine.reports)
    assert cleanings(machine) == {TopicPartition("t", 0)}
    assert kept(machine.client())[:2] == ["a", "b"], "which is all that was synced"
    assert kept(machine.client(), "plain") == [], "it has the broker's retention, as before"


def test_a_change_reaches_every_partition_a_portion_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_copies, "PORTION_MAX", 2)
    machine = Machine()
    create(machine.client(), "t", partitions=5)
    assert not machine.disk.exists(f"/data/t-0/{TOPIC_CONFIG}"), "where nothing is set there is no other file"
    set_configs(machine.client(), TOPIC, "t", {"cleanup.policy": "compact"})
    while machine.broker.next_deadline_ms() is not None:
        machine.broker.on_deadline(machine.now_ms)
    assert {copy_of(machine, p).configs["cleanup.policy"] for p in range(5)} == {"compact"}
    set_configs(machine.client(), TOPIC, "t", {"cleanup.policy": "delete"})
    machine.broker.on_deadline(machine.now_ms)
    policies = [copy_of(machine, p).configs["cleanup.policy"] for p in range(5)]
    assert policies == ["delete", "delete", "compact", "compact", "compact"]
    lose_keeper(machine)
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": "delete"}, "the newest copy counts"


def test_what_was_set_and_is_no_longer_is_not_set_again() -> None:
    machine = machine_with(cleanup_policy="compact")
    machine.write(*_set_nothing(machine))
    machine.pass_time(1)
    lose_keeper(machine)
    machine.start()
    assert machine.broker.image.topic_configs["t"].values == {}


def _set_nothing(machine: Machine) -> list[Operation]:
    return plan_configs(znodes.topic_config_path("t"), {}, machine.broker.image.topic_configs["t"].version)


def test_copies_that_contradict_each_other_are_not_believed() -> None:
    machine = machine_with(partitions=2)
    contradiction = copy_of(machine)._replace(configs={"cleanup.policy": "compact"})
    machine.disk.write_atomic(f"/data/t-1/{TOPIC_CONFIG}", format_copy(contradiction))
    lose_keeper(machine)
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": ""}


@pytest.mark.parametrize("how", ["of another topic", "cut off"])
def test_a_copy_that_cannot_be_believed_keeps_records(how: str) -> None:
    machine = machine_with()
    copy = format_copy(copy_of(machine)._replace(topic_id=b"o" * 16))
    machine.disk.write_atomic(f"/data/t-0/{TOPIC_CONFIG}", copy if how == "of another topic" else copy[:20])
    lose_keeper(machine)
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": ""}
    assert cleanings(machine) == set()
    assert kept(machine.client()) == ["a", "b", "c"]


def test_a_start_where_nothing_changed_writes_no_copy() -> None:
    machine = machine_with(partitions=3)
    machine.restart()
    written: list[str] = []
    write = machine.disk.write_atomic

    def watch(path: str, data: bytes, *, sync: bool = True) -> None:
        written.append(path)
        write(path, data, sync=sync)

    machine.disk.write_atomic = watch  # type: ignore[method-assign]
    machine.broker.on_deadline(machine.now_ms)
    assert not machine.broker.copies.todo
    assert written == []


def test_a_copy_that_is_missing_or_wrong_is_written_again() -> None:
    machine = machine_with(partitions=2)
    before = copy_of(machine)
    machine.stop()
    machine.disk.remove(f"/data/t-0/{TOPIC_CONFIG}")
    machine.disk.write_atomic(f"/data/t-1/{TOPIC_CONFIG}", b"rubbish")
    machine.start()
    machine.broker.on_deadline(machine.now_ms)
    assert [copy_of(machine, 0), copy_of(machine, 1)] == [before, before]


def test_a_partition_that_moves_takes_its_copy_along() -> None:
    machine = Machine({"log.dirs": "/a,/b"})
    client = machine.client()
    create(client, "t", cleanup_policy="compact")
    assert moved(client, "/b") == [ErrorCode.NONE]
    while machine.broker.store.directory_of(TopicPartition("t", 0)) != "/b":
        machine.pass_time(100)
    machine.pass_time(100)
    copy = parse_copy(machine.disk.read(f"/b/t-0/{TOPIC_CONFIG}"))
    assert copy is not None
    assert copy.configs == {"cleanup.policy": "compact"}


def test_a_disk_that_refuses_a_copy_is_offline_and_the_other_serves() -> None:
    machine = Machine({"log.dirs": "/a,/b"})
    create(machine.client(), "t", partitions=2)
    machine.disk.break_down("/b", errno.EIO)
    set_configs(machine.client(), TOPIC, "t", {"retention.ms": "5"})
    machine.pass_time(1)
    assert set(machine.broker.store.offline) == {"/b"}
    assert machine.broker.settings.topic_log_config("t").retention_ms == 5


def test_what_was_set_for_brokers_survives_the_keeper_too() -> None:
    machine = machine_with("t", retention_ms="1")
    assert not machine.disk.exists("/data/broker.config")
    set_configs(machine.client(), BROKER, "1", {"log.cleaner.threads": "3"})
    set_configs(machine.client(), BROKER, "", {"log.retention.ms": "12345"})
    machine.pass_time(1)
    lose_keeper(machine)
    machine.start()
    assert machine.broker.image.broker_config("") == {"log.retention.ms": "12345"}
    assert machine.broker.image.broker_config("1") == {"log.cleaner.threads": "3"}
    assert machine.broker.settings.log_config.retention_ms == 12345


# Apache Kafka's metadata log


def test_configs_come_from_apache_kafkas_metadata_log() -> None:
    machine = machine_with(partitions=2)
    as_kafka_left_it(
        machine,
        topic("t", id_of(machine)),
        config("t", "cleanup.policy", "compact"),
        config("t", "segment.bytes", "100"),
    )
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": "compact", "segment.bytes": "100"}
    begin = "topics whose configs are those in Apache Kafka's metadata log: 1; "
    assert [line.startswith(begin) for line in machine.reports if "Kafka" in line] == [True]
    assert cleanings(machine) == {TopicPartition("t", 0)}
    assert kept(machine.client()) == ["a", "b", "c"]
    machine.restart()
    assert configs_of(machine)["cleanup.policy"] == "compact"
    assert machine.reports == []


def test_a_topic_without_configs_in_the_metadata_log_has_the_brokers() -> None:
    machine = machine_with()
    as_kafka_left_it(machine, topic("t", id_of(machine)))
    machine.start()
    assert machine.broker.image.topic_configs["t"].values == {}
    cleanings(machine)
    assert kept(machine.client()) == []


def test_a_topic_of_the_same_name_and_another_id_lends_no_configs() -> None:
    machine = machine_with()
    as_kafka_left_it(machine, topic("t", b"o" * 16), config("t", "retention.ms", "1"))
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": ""}


def test_a_partition_without_an_id_yet_gets_the_topics_from_the_metadata_log() -> None:
    machine = machine_with()
    as_kafka_left_it(machine, topic("t", b"k" * 16), config("t", "retention.ms", "777"))
    machine.disk.remove(f"/data/t-0/{PARTITION_METADATA}")
    machine.start()
    assert (id_of(machine), configs_of(machine)) == (b"k" * 16, {"retention.ms": "777"})


def test_a_topic_has_the_id_of_its_first_partition_that_has_one() -> None:
    """Kafka writes it down with a partition's first record: this one was empty when Kafka was killed."""
    machine = machine_with(partitions=2)
    topic_id = id_of(machine)
    as_kafka_left_it(machine)
    machine.disk.remove(f"/data/t-0/{PARTITION_METADATA}")
    machine.start()
    assert id_of(machine) == topic_id
    machine.restart()
    assert sorted(machine.broker.partitions) == [TopicPartition("t", 0), TopicPartition("t", 1)]


def test_the_copy_counts_until_kafka_has_been_at_work_again() -> None:
    machine = machine_with()
    known = [topic("t", id_of(machine)), config("t", "retention.ms", "777")]
    as_kafka_left_it(machine, *known)
    machine.start()
    set_configs(machine.client(), TOPIC, "t", {"retention.ms": "888"})
    machine.pass_time(1)
    lose_keeper(machine)
    machine.start()
    assert configs_of(machine) == {"retention.ms": "888"}
    lose_keeper(machine)
    write_log(machine.disk, KRAFT_FOLDER, *known, config("t", "retention.ms", "999"))
    machine.start()
    assert configs_of(machine) == {"retention.ms": "999"}


def test_what_kafka_had_set_for_brokers_and_decides_about_records_is_taken_over() -> None:
    machine = machine_with()
    as_kafka_left_it(
        machine,
        topic("t", id_of(machine)),
        broker_config("", "log.retention.ms", "-1"),
        broker_config("", "min.insync.replicas", "3"),
        broker_config("1", "log.cleanup.policy", "compact"),
        broker_config("2", "log.retention.bytes", "1"),
        broker_config("1", "log.retention.bytes", "many"),
    )
    machine.start()
    image = machine.broker.image
    assert image.broker_config("") == {"log.retention.ms": "-1"}
    assert image.broker_config("1") == {"log.cleanup.policy": "compact"}
    assert cleanings(machine) == {TopicPartition("t", 0)}
    assert kept(machine.client()) == ["a", "b", "c"]


def test_configs_that_are_not_known_here_are_left_out_and_said() -> None:
    machine = machine_with()
    as_kafka_left_it(
        machine,
        topic("t", id_of(machine)),
        config("t", "remote.storage.enable", "true"),
        config("t", "retention.ms", "777"),
    )
    machine.start()
    assert configs_of(machine) == {"retention.ms": "777"}
    assert "remote.storage.enable=true of topic t is not known here, and is left out" in machine.reports


@pytest.mark.parametrize("wrong", [("cleanup.policy", "shred"), ("retention.ms", "a while")])
def test_a_value_that_cannot_be_is_no_reason_to_delete_anything(wrong: tuple[str, str]) -> None:
    machine = machine_with()
    as_kafka_left_it(machine, topic("t", id_of(machine)), config("t", *wrong), config("t", "segment.ms", "5"))
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": "", "segment.ms": "5"}
    assert f"{wrong[0]}={wrong[1]} of topic t is not known here, and is left out" in machine.reports


def test_a_metadata_log_that_cannot_be_read_stops_no_start_and_nothing_is_lost() -> None:
    machine = machine_with()
    as_kafka_left_it(machine, topic("t", id_of(machine)), config("t", "retention.ms", "1"))
    machine.disk.flip(f"{KRAFT_FOLDER}/{0:020}.log", 120)
    machine.start()
    (line,) = [line for line in machine.reports if "metadata log" in line]
    assert "cannot be read, and no configs are taken from it" in line
    assert configs_of(machine) == {"cleanup.policy": ""}
    cleanings(machine)
    assert kept(machine.client()) == ["a", "b", "c"]


# Neither


def test_without_any_configs_nothing_is_deleted_or_compacted_until_somebody_says_so() -> None:
    machine = machine_with()
    as_kafka_left_it(machine)
    machine.start()
    release = "`ottla configs set --topic t cleanup.policy=delete`"
    assert [release in line for line in machine.reports] == [False, True]
    assert "the keeper is new (there was no keeper.db): topics taken over" in machine.reports[0]
    for _ in range(2):
        assert cleanings(machine) == set()
        assert kept(machine.client()) == ["a", "b", "c"]
        machine.restart()
        assert [release in line for line in machine.reports] == [True], "it is said at every start"
    lose_keeper(machine)
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": ""}, "nor is the mark lost with the keeper"
    set_configs(machine.client(), TOPIC, "t", {"retention.ms": "1"})
    assert cleanings(machine) == set()
    assert kept(machine.client()) == ["a", "b", "c"], "that is not what was asked"
    set_configs(machine.client(), TOPIC, "t", {"cleanup.policy": "delete"})
    cleanings(machine)
    assert kept(machine.client()) == []
    machine.restart()
    assert machine.reports == []


def test_what_lies_before_the_start_of_the_log_goes_under_an_empty_policy_too() -> None:
    """It was deleted before: nobody can read it."""
    machine = machine_with(cleanup_policy="")
    machine.broker.partitions[TopicPartition("t", 0)].log.advance_log_start(1)
    cleanings(machine)
    log = machine.broker.store.logs[TopicPartition("t", 0)]
    assert [segment.base_offset for segment in log.segments] == [1, 2]


def test_internal_topics_are_compacted_even_if_nobody_says_so() -> None:
    machine = machine_with(OFFSETS_TOPIC, "__transaction_state")
    for name in (OFFSETS_TOPIC, "__transaction_state"):
        as_kafka_left_it(machine, name=name)
        machine.start()
    for name in (OFFSETS_TOPIC, "__transaction_state"):
        assert configs_of(machine, name) == {"cleanup.policy": "compact", "segment.bytes": "104857600"}
    taken_over = "the keeper is new (there was no keeper.db): topics taken over from their folders: 2, with 2"
    assert [line.startswith(taken_over) for line in machine.reports] == [True]
    assert cleanings(machine) == {TopicPartition(name, 0) for name in (OFFSETS_TOPIC, "__transaction_state")}


def test_a_compacted_log_with_gaps_between_segments_is_opened_whole() -> None:
    """Nobody knows that it was compacted, there are no checkpoints, and the machine crashed."""
    machine = machine_with(cleanup_policy="compact")
    as_kafka_left_it(machine)
    for path in [path for path in machine.disk.nodes if path.startswith(f"/data/t-0/{1:020}.")]:
        machine.disk.remove(path)
    for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        machine.disk.remove(f"/data/{name}")
    machine.start()
    assert kept(machine.client()) == ["a", "c", "c"], "offset 1 is gone, and the next record is given for it"


def test_of_many_topics_without_configs_some_are_named() -> None:
    machine = machine_with(*(f"t{number:02}" for number in range(12)))
    for number in range(12):
        name = f"t{number:02}"
        if number:
            machine.start()
        as_kafka_left_it(machine, name=name)
    machine.start()
    _, line = machine.reports
    assert "t00, t01, " in line
    assert "t09 and 2 more: the cleanup.policy is empty" in line


def test_a_folder_that_cannot_be_read_yet_is_no_reason_to_delete_anything() -> None:
    machine = machine_with("other", "t")
    lose_keeper(machine)
    machine.disk.fail("read", errno.EIO, f"t-0/{TOPIC_CONFIG}")
    machine.start()
    assert configs_of(machine) == {"cleanup.policy": ""}
    assert configs_of(machine, "other") == {"segment.bytes": "100"}
