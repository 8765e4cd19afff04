"""`ottla topics` and `ottla configs` against a real broker."""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import on_a_terminal

from ottla import Broker, Cluster


@pytest.fixture
def name(ottla: Any) -> Iterator[str]:
    """A name for a topic, which is deleted afterwards if the test created it."""
    chosen = f"orders-{uuid.uuid4().hex[:8]}"
    yield chosen
    ottla("topics", "delete", "--yes", "--if-exists", chosen)


def described(ottla: Any, name: str) -> dict[str, Any]:
    outcome = ottla("topics", "describe", name, "--json")
    assert outcome.code == 0, outcome.err
    (topic,) = json.loads(outcome.out)
    return dict(topic)


def test_a_topic_is_created_listed_described_altered_and_deleted(ottla: Any, name: str) -> None:
    created = ottla("topics", "create", name, "--partitions", "2", "-c", "retention.ms=1000")
    assert (created.code, created.err) == (0, f"created topic {name}\n")
    listed = json.loads(ottla("topics", "list", "--json").out)
    assert {"name": name, "partitions": 2, "replication": 1, "records": 0, "bytes": 0} in listed
    topic = described(ottla, name)
    assert topic["configs"] == {"retention.ms": "1000"}
    assert [one["partition"] for one in topic["partitions"]] == [0, 1]
    assert all(one["start"] == one["end"] == 0 for one in topic["partitions"])

    altered = ottla(
        "topics",
        "alter",
        name,
        "--partitions",
        "3",
        "-c",
        "max.message.bytes=2000",
        "--delete-config",
        "retention.ms",
    )
    assert altered.code == 0, altered.err
    topic = described(ottla, name)
    assert topic["configs"] == {"max.message.bytes": "2000"}
    assert len(topic["partitions"]) == 3

    refused = ottla("topics", "delete", name)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--yes" in refused.err
    assert name in ottla("topics", "list").out
    assert ottla("topics", "delete", name, "--yes").code == 0
    assert name not in ottla("topics", "list").out


def test_a_topic_that_is_there_already_is_an_error_unless_that_is_fine(ottla: Any, name: str) -> None:
    assert ottla("topics", "create", name).code == 0
    again = ottla("topics", "create", name)
    assert again.code == 1
    assert again.err == f"ottla: topic {name!r} already exists\n"
    assert ottla("topics", "create", name, "--if-not-exists").code == 0


def test_a_topic_of_the_broker_itself_is_not_deleted(ottla: Any, name: str) -> None:
    assert ottla("topics", "create", name).code == 0
    outcome = ottla("topics", "delete", name, "__consumer_offsets", "--yes")
    assert (outcome.code, outcome.err) == (
        1, "ottla: __consumer_offsets is the broker's own and is not deleted; nothing was deleted\n",
    )  # fmt: skip
    assert name in ottla("topics", "list").out


def test_a_topic_that_is_not_there_is_an_error_unless_that_is_fine(ottla: Any) -> None:
    assert ottla("topics", "delete", "no-such-topic", "--if-exists", "--yes").code == 0
    for arguments in (
        ("describe", "no-such-topic"),
        ("alter", "no-such-topic", "-p", "2"),
        ("delete", "no-such-topic", "--yes"),
    ):
        outcome = ottla("topics", *arguments)
        assert (outcome.code, outcome.err) == (1, "ottla: there is no topic 'no-such-topic'\n")


def test_a_misspelt_topic_is_answered_with_the_nearest_name(ottla: Any, name: str) -> None:
    ottla("topics", "create", name)
    outcome = ottla("topics", "describe", name + "s")
    assert f"did you mean {name!r}?" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("create", "not/a/name"), "topic not/a/name: "),
        (("create", "x", "-c", "retention.ms=soon"), "retention.ms"),
        (("create", "x", "-c", "no.such.key=1"), "no.such.key"),
        (("create", "x", "--replication", "5"), "eplication factor"),
        (("create", "x", "--replication-factor", "5"), "eplication factor"),
    ],
)
def test_what_the_broker_refuses_is_one_line(ottla: Any, arguments: tuple[str, ...], complaint: str) -> None:
    outcome = ottla("topics", *arguments)
    assert outcome.code == 1
    assert complaint in outcome.err
    assert outcome.err.count("\n") == 1


def test_partitions_do_not_shrink(ottla: Any, name: str) -> None:
    ottla("topics", "create", name, "-p", "3")
    outcome = ottla("topics", "alter", name, "-p", "2")
    assert outcome.code == 1
    assert outcome.err.startswith(f"ottla: topic {name}: ")


def test_tables_are_plain_in_a_pipe(ottla: Any, name: str) -> None:
    ottla("topics", "create", name, "-p", "2", "-c", "retention.ms=1000")
    lines = ottla("topics", "list").out.splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICATION", "RECORDS", "SIZE"]
    assert [name, "2", "1", "0", "0", "B"] in [line.split() for line in lines[1:]]
    shown = ottla("topics", "describe", name).out
    assert shown.startswith(f"topic {name} · id ")
    assert "retention.ms" in shown


def test_tables_are_drawn_on_a_terminal(ottla_broker: Broker, ottla_topic: str) -> None:
    shown = on_a_terminal("topics", "list", "--bootstrap", ottla_broker.bootstrap_servers)
    assert "─" in shown
    assert ottla_topic in shown


def test_configs_of_a_topic_are_set_shown_and_deleted(ottla: Any, ottla_topic: str) -> None:
    nothing = ottla("configs", "describe", "--topic", ottla_topic)
    assert (nothing.code, nothing.out) == (0, "")
    assert (
        ottla("configs", "set", "--topic", ottla_topic, "retention.ms=5", "cleanup.policy=compact").code == 0
    )
    own = json.loads(ottla("configs", "describe", "--topic", ottla_topic, "--json").out)
    assert {one["name"]: (one["value"], one["source"]) for one in own} == {
        "retention.ms": ("5", "topic"),
        "cleanup.policy": ("compact", "topic"),
    }
    everything = json.loads(ottla("configs", "describe", "--topic", ottla_topic, "--all", "--json").out)
    assert {"segment.bytes", "max.message.bytes", "retention.ms"} <= {one["name"] for one in everything}
    assert ottla("configs", "delete", "--topic", ottla_topic, "retention.ms", "cleanup.policy").code == 0
    assert json.loads(ottla("configs", "describe", "--topic", ottla_topic, "--json").out) == []


def test_configs_of_a_broker_are_shown_and_changed_while_it_runs(ottla: Any) -> None:
    everything = json.loads(ottla("configs", "describe", "--broker", "1", "--all", "--json").out)
    assert {"broker.id", "log.retention.ms", "listeners"} <= {one["name"] for one in everything}
    try:
        assert ottla("configs", "set", "--broker", "1", "log.retention.ms=77777").code == 0
        shown = ottla("configs", "describe", "--broker", "1").out
        assert "77777" in shown
    finally:
        assert ottla("configs", "delete", "--broker", "1", "log.retention.ms").code == 0
    assert "77777" not in ottla("configs", "describe", "--broker", "1").out


def test_a_key_that_no_broker_knows_is_kept_with_a_warning_and_not_shown(ottla: Any) -> None:
    try:
        outcome = ottla("configs", "set", "--broker", "1", "log.retention.mss=77777")
        assert outcome.code == 0
        assert "'log.retention.mss' is not known and is ignored; did you mean log.retention.ms" in outcome.err
        shown = json.loads(ottla("configs", "describe", "--broker", "1", "--json").out)
        values = {one["name"]: one["value"] for one in shown}
        assert values["log.retention.mss"] is None
    finally:
        assert ottla("configs", "delete", "--broker", "1", "log.retention.mss").code == 0


def test_a_broker_or_topic_that_is_not_there_has_no_configs(ottla: Any) -> None:
    outcome = ottla("configs", "describe", "--broker", "9")
    assert (outcome.code, outcome.err) == (1, "ottla: there is no broker 9, only 1\n")
    outcome = ottla("configs", "describe", "--topic", "no-such-topic")
    assert outcome.code == 1
    assert "no-such-topic" in outcome.err


def test_a_config_the_broker_does_not_take_is_one_line(ottla: Any, ottla_topic: str) -> None:
    for arguments in (
        ("--topic", ottla_topic, "no.such.key=1"),
        ("--topic", ottla_topic, "retention.ms=soon"),
        ("--broker", "1", "listeners=PLAINTEXT://:1"),
    ):
        outcome = ottla("configs", "set", *arguments)
        assert outcome.code == 1, arguments
        assert outcome.err.startswith("ottla: ")
        assert outcome.err.count("\n") == 1


def _trouble(partition: Any) -> tuple[str, int | None, list[int], list[int]]:
    return partition["topic"], partition["leader"], sorted(partition["replicas"]), partition["offline"]


def test_partitions_in_trouble_are_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = time.monotonic() + 60
    with Cluster(brokers=2) as cluster:
        monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap_servers)
        cluster.create_topic("pair", config={"min.insync.replicas": "2"})
        cluster.create_topic("alone", 2, replicas=1, config={"min.insync.replicas": "2"})
        for command in ("--under-min-isr", "--under-replicated", "--unavailable"):
            listed = run("topics", "list", command)
            assert (listed.code, listed.out) == (0, ""), "of one replica, one in sync is enough"
            assert "no partition is" in run("topics", "describe", "pair", command).err
        cluster.stop(2)
        wanted = [("alone", None, [2], [2]), ("pair", 1, [1, 2], [2])]
        found: list[Any] = []
        while sorted(_trouble(one) for one in found) != wanted:
            assert time.monotonic() < deadline, found
            found = json.loads(run("topics", "describe", "--under-min-isr", "--json").out or "[]")
        offline = [one for one in found if one["topic"] == "alone"]
        (pair,) = (one for one in found if one["topic"] == "pair")
        assert (pair["isr"], pair["elr"]) == ([1], [2])
        assert "PARTITION" in run("topics", "describe", "--under-min-isr").out
        assert json.loads(run("topics", "describe", "--unavailable", "--json").out) == offline


def test_describe_wants_a_topic_or_a_trouble(ottla: Any) -> None:
    outcome = ottla("topics", "describe")
    assert outcome.code == 2
    assert "name a topic" in outcome.err


def test_a_dump_leaves_out_the_files_of_deleted_topics_unless_only_they_are_named(
    run: Any, tmp_path: Path
) -> None:
    there, deleted = tmp_path / "x-0" / "0.log", tmp_path / f"x-0.{'0' * 32}-delete" / "0.log"
    for path in (there, deleted):
        path.parent.mkdir()
        path.touch()
    both = run("dump", str(deleted), str(there))
    assert (both.code, both.out) == (0, "0 batches, 0 records, 0 bytes\n")
    assert both.err.startswith("1 file of deleted partitions left out")
    alone = run("dump", str(deleted))
    assert (alone.code, alone.out, alone.err) == (0, both.out, "")


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("retention.ms=1d", "retention.ms=86400000"),
        ("segment.ms=1.5h", "segment.ms=5400000"),
        ("segment.bytes=1G", "segment.bytes=1073741824"),
        ("max.message.bytes=512 KiB", "max.message.bytes=524288"),
        ("log.retention.hours=7d", "log.retention.hours=168"),
    ],
)
def test_a_config_with_a_unit_is_refused_with_the_number_to_write(
    ottla: Any, ottla_topic: str, setting: str, hint: str
) -> None:
    for command in (["topics", "alter", ottla_topic, "-c"], ["configs", "set", "--topic", ottla_topic]):
        refused = ottla(*command, setting)
        assert refused.code == 2
        assert refused.err.endswith(f"takes a number without a unit: {hint}\n")


def test_a_config_that_is_no_number_with_a_unit_is_for_the_broker_to_judge(
    ottla: Any, ottla_topic: str
) -> None:
    for setting in ("retention.ms=soon", "retention.ms=-1d", "cleanup.policy=1d"):
        refused = ottla("configs", "set", "--topic", ottla_topic, setting)
        assert refused.code == 1
        assert "without a unit" not in refused.err
