"""`ottla produce` and `ottla consume` against a real broker."""

import json
import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import consumer_settings, running

from ottla import Broker
from ottla.client import Client, TopicPartition
from ottla.client.librdkafka import cluster, connections
from ottla.client.librdkafka.messages import next_messages
from ottla.client.properties import ClientProperties
from ottla.records.batch import split
from ottla.records.builder import NewRecord, build_batch


def lines(outcome: Any) -> list[str]:
    assert outcome.code == 0, outcome.err
    return list(outcome.out.splitlines())


def test_lines_of_stdin_become_records_and_come_back(ottla: Any, ottla_topic: str) -> None:
    sent = ottla("produce", ottla_topic, stdin=b"one\ntwo\r\n\nfour")
    assert sent.code == 0
    assert sent.err.startswith(f"4 records, 10 bytes to {ottla_topic} in ")
    assert lines(ottla("consume", ottla_topic)) == ["one", "two", "", "four"]


def test_a_topic_that_is_created_on_the_way_is_told(ottla: Any) -> None:
    name = f"new-{uuid.uuid4().hex[:8]}"
    created, *_ = (first := ottla("produce", name, stdin=b"a\n")).err.splitlines()
    assert (first.code, created) == (0, f"topic {name} was not there, and was created")
    assert "was created" not in ottla("produce", name, stdin=b"b\n").err


def test_header_keys_that_are_not_utf8_cost_the_headers_and_not_the_command(
    ottla: Any, ottla_topic: str, ottla_broker: Broker
) -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    records = [NewRecord(None, b"odd", [("a", b"1"), (key, b"2"), (key, None)]), NewRecord(None, b"next")]
    with Client(ottla_broker.bootstrap_servers) as client:
        client.produce({TopicPartition(ottla_topic, 0): build_batch(records)})
    plain = ottla("consume", ottla_topic)
    assert (lines(plain), plain.err) == (["odd", "next"], "")
    own = [json.loads(line) for line in lines(ottla("consume", ottla_topic, "--json"))]
    assert own[0]["headers"] == [["a", "1"], [{"base64": "//4="}, "2"], [{"base64": "//4="}, None]]
    for arguments in (["-X", "fetch.min.bytes=1"], ["--group", f"{ottla_topic}-readers"]):
        shown = ottla("consume", ottla_topic, "--json", *arguments)
        assert [json.loads(line)["value"] for line in lines(shown)] == ["odd", "next"]
        where = f"topic {ottla_topic}, partition 0, offset 0"
        assert shown.err == f"{where}: its headers are left out, as a key is not UTF-8: b'\\xff\\xfe'\n"


def test_also_after_many_records_whose_keys_are_utf8(
    ottla: Any, ottla_topic: str, ottla_broker: Broker
) -> None:
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    records = [NewRecord(None, b"usual", [("a", b"1")])] * 40 + [NewRecord(None, b"odd", [(key, b"2")])]
    with Client(ottla_broker.bootstrap_servers) as client:
        client.produce({TopicPartition(ottla_topic, 0): build_batch(records)})
    shown = ottla("consume", ottla_topic, "--json", "-X", "fetch.min.bytes=1")
    assert [json.loads(line)["value"] for line in lines(shown)] == ["usual"] * 40 + ["odd"]
    assert "offset 40: its headers are left out, as a key is not UTF-8" in shown.err


def test_keys_headers_and_nulls_make_the_whole_way(ottla: Any, ottla_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "letters.tsv"
    path.write_bytes(b"a\tfirst\nb\tNULL\nNULL\t\xff\n")
    sent = ottla(
        "produce", ottla_topic, str(path), "-K", "\\t", "--null", "NULL", "-H", "from=Ottla", "--quiet"
    )
    assert (sent.code, sent.err) == (0, "")
    found = [json.loads(line) for line in lines(ottla("consume", ottla_topic, "--format", "json"))]
    assert [(one["key"], one["value"]) for one in found] == [
        ("a", "first"),
        ("b", None),
        (None, {"base64": "/w=="}),
    ]
    assert all(one["headers"] == [["from", "Ottla"]] for one in found)
    assert [one["offset"] for one in found] == [0, 1, 2]
    assert ottla("consume", ottla_topic, "--format", "key-value").raw == b"a\tfirst\nb\tnull\nnull\t\xff\n"
    assert ottla("consume", ottla_topic, "--format", "%o:%k=%v;%h", "--null", "-").raw == (
        b"0:a=first;from=Ottla\n1:b=-;from=Ottla\n2:-=\xff;from=Ottla\n"
    )


def test_how_large_a_record_may_be_is_for_the_broker_to_say(
    ottla: Any, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 3_000_000)
    refused = ottla("produce", ottla_topic, str(path))
    assert refused.code == 1
    first, *_ = refused.err.splitlines()
    assert re.fullmatch(
        rf"ottla: line 1: the record takes 30000\d\d bytes, and topic {ottla_topic} takes 1048588 at most "
        r"\(max.message.bytes\)",
        first,
    )
    roomy = ottla_broker.create_topic(f"{ottla_topic}-roomy", config={"max.message.bytes": 4_000_000})
    try:
        sent = ottla("produce", roomy, str(path))
        assert (sent.code, sent.err[:24]) == (0, "1 record, 3000000 bytes ")
        assert ottla("consume", roomy).raw == b"x" * 3_000_000 + b"\n"
    finally:
        ottla_broker.delete_topic(roomy)


def test_what_librdkafka_refuses_is_one_line_with_its_number(ottla: Any, ottla_topic: str) -> None:
    large = b"ok\n" + b"x" * 5000 + b"\n"
    outcome = ottla("produce", ottla_topic, "--set", "message.max.bytes=1000", stdin=large)
    assert outcome.code == 1
    assert outcome.err == (
        "ottla: line 2: the record takes 5000 bytes, more than message.max.bytes (1000) "
        "(1 record before it was sent)\n"
    )
    late = ottla("produce", ottla_topic, "--json", stdin=b'{"value": "v", "timestamp": 1%s}' % (b"0" * 30))
    assert late.code == 2
    assert late.err.startswith("ottla: line 1: ")
    assert late.err.count("\n") == 1


def test_a_name_that_no_record_has_is_an_error_with_its_line(ottla: Any, ottla_topic: str) -> None:
    given = b'{"topic": "t", "offset": 3, "value": "v"}\n{"value": "v", "header": {"a": "b"}}\n'
    outcome = ottla("produce", ottla_topic, "--json", stdin=given)
    assert outcome.code == 2
    assert outcome.err.startswith("ottla: line 2: 'header' is no part of a record; there are topic, ")
    assert lines(ottla("consume", ottla_topic)) == ["v"]


def test_consume_has_checksums_checked_unless_told_otherwise(
    ottla: Any, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = consumer_settings(monkeypatch)
    for arguments, expected in (((), "true"), (("--set", "check.crcs=false"), "false")):
        assert ottla("consume", ottla_topic, "--follow", *arguments).code == 1
        assert given["check.crcs"] == expected


def test_consume_reads_what_is_committed_unless_told_otherwise(
    ottla: Any, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = consumer_settings(monkeypatch)
    for arguments, expected in (
        ((), "read_committed"),
        (("--isolation", "read_uncommitted"), "read_uncommitted"),
        (("--set", "isolation.level=read_uncommitted"), "read_uncommitted"),
    ):
        assert ottla("consume", ottla_topic, "--follow", *arguments).code == 1
        assert given["isolation.level"] == expected


def test_an_interrupt_that_comes_as_a_system_error_is_an_interrupt() -> None:
    class Client:
        def poll(self, _timeout: float) -> None:
            raise SystemError("<method 'poll'> returned a result with an exception set") from cause

    cause: BaseException = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        next_messages(Client(), None)  # type: ignore[arg-type]
    cause = TimeoutError()
    with pytest.raises(SystemError):
        next_messages(Client(), None)  # type: ignore[arg-type]


def test_also_while_something_is_asked_for(ottla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_client: object) -> None:
        raise SystemError(
            "<method 'list_topics'> returned a result with an exception set"
        ) from KeyboardInterrupt()

    monkeypatch.setattr(cluster, "metadata", interrupted)
    outcome = ottla("topics", "describe", "t")
    assert (outcome.code, outcome.err) == (130, "")


def test_json_lines_copy_a_topic_with_all_that_is_in_it(
    ottla: Any, ottla_topic: str, ottla_broker: Broker
) -> None:
    given = b"""{"key": "k", "value": "v", "headers": [["h", "1"], ["h", null]], "timestamp": 1700000000123}
{"value": {"base64": "/wA="}, "headers": {"x": "y"}, "timestamp": 1700000000124}
"""
    assert ottla("produce", ottla_topic, "--json", stdin=given).code == 0
    original = ottla("consume", ottla_topic, "--format", "json")
    copy = ottla_broker.create_topic(f"{ottla_topic}-copy")
    try:
        assert ottla("produce", copy, "--json", stdin=original.raw).code == 0
        assert ottla("consume", copy, "--format", "json").out.replace(copy, ottla_topic) == original.out
    finally:
        ottla_broker.delete_topic(copy)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_every_codec_comes_back(ottla: Any, ottla_topic: str, codec: str, acks: str) -> None:
    text = "".join(f"line {number}\n" for number in range(2000))
    sent = ottla("produce", ottla_topic, "--compression", codec, "--acks", acks, stdin=text.encode())
    assert sent.code == 0, sent.err
    assert ottla("consume", ottla_topic).out == text


def test_batches_of_ours_have_a_producer_unless_told_otherwise(
    ottla: Any, ottla_topic: str, ottla_broker: Broker
) -> None:
    ways = ([], ["--acks", "1"], ["-X", "acks=1"], ["--acks", "0"])
    for arguments in ways:
        assert ottla("produce", ottla_topic, *arguments, stdin=b"a\nb\n").code == 0
    with Client(ottla_broker.bootstrap_servers) as client:
        fetched = b"".join(f.records for f in client.fetch(TopicPartition(ottla_topic, 0), 0, 8))
    headers = [header for header, _ in split(fetched)]
    assert [header.producer_id >= 0 for header in headers] == [True, False, False, False]
    assert [header.base_sequence for header in headers] == [0, -1, -1, -1]


@pytest.mark.parametrize(
    ("arguments", "is_idempotent"),
    [
        (["-X", "linger.ms=0"], True),
        (["-X", "linger.ms=0", "--acks", "1"], None),
        (["-X", "linger.ms=0", "-X", "acks=1"], None),
        (["-X", "enable.idempotence=false"], "false"),
    ],
)
def test_what_is_sent_again_is_stored_once_unless_told_otherwise(
    ottla: Any, ottla_topic: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_idempotent: object
) -> None:
    given: list[dict[str, object]] = []
    make = connections.producer

    def spy(where: ClientProperties, defaults: dict[str, object], settings: dict[str, object]) -> object:
        given.append(defaults | where.others | settings)
        return make(where, defaults, settings)

    monkeypatch.setattr(connections, "producer", spy)
    assert ottla("produce", ottla_topic, *arguments, stdin=b"a\n").code == 0
    assert given[0].get("enable.idempotence") == is_idempotent


def test_the_start_may_be_an_offset_counted_from_either_end(ottla: Any, ottla_topic: str) -> None:
    ottla("produce", ottla_topic, stdin=b"a\nb\nc\nd\n")
    assert lines(ottla("consume", ottla_topic, "--offset", "2")) == ["c", "d"]
    assert lines(ottla("consume", ottla_topic, "--offset", "-1")) == ["d"]
    assert lines(ottla("consume", ottla_topic, "--offset", "-99")) == ["a", "b", "c", "d"]
    assert lines(ottla("consume", ottla_topic, "--offset", "earliest", "--max", "2")) == ["a", "b"]
    assert lines(ottla("consume", ottla_topic, "--offset", "latest")) == []
    assert lines(ottla("consume", ottla_topic, "--offset", "4")) == []
    beyond = ottla("consume", ottla_topic, "--offset", "5")
    assert (beyond.code, beyond.err) == (
        1,
        "ottla: offset 5 is not there: partition 0 begins at 0 and ends before 4; see --partition\n",
    )


def test_the_start_may_be_a_time(ottla: Any, ottla_topic: str) -> None:
    now_ms = int(time.time() * 1000)
    records = [
        {"value": name, "timestamp": now_ms - age} for name, age in (("old", 7_200_000), ("new", 60_000))
    ]
    ottla("produce", ottla_topic, "--json", stdin="\n".join(map(json.dumps, records)).encode())
    assert lines(ottla("consume", ottla_topic, "--since", "1h")) == ["new"]
    assert lines(ottla("consume", ottla_topic, "--since", "1d")) == ["old", "new"]
    assert lines(ottla("consume", ottla_topic, "--since", "1s")) == []


def test_partitions_are_chosen_on_both_sides(ottla: Any, ottla_broker: Broker, ottla_topic: str) -> None:
    name = ottla_broker.create_topic(f"{ottla_topic}-3", partitions=3)
    try:
        for number in ("0", "2"):
            assert ottla("produce", name, "-p", number, stdin=f"in {number}\n".encode()).code == 0
        assert lines(ottla("consume", name, "-p", "2")) == ["in 2"]
        assert sorted(lines(ottla("consume", name))) == ["in 0", "in 2"]
        assert lines(ottla("consume", name, "-p", "1")) == []
        missing = ottla("consume", name, "-p", "3")
        assert (missing.code, missing.err) == (1, f"ottla: topic {name} has no partition 3, only 0 to 2\n")
    finally:
        ottla_broker.delete_topic(name)


def test_reading_a_topic_that_is_not_there_is_an_error_and_does_not_create_it(ottla: Any) -> None:
    outcome = ottla("consume", "no-such-topic")
    assert (outcome.code, outcome.err) == (1, "ottla: there is no topic 'no-such-topic'\n")
    assert "no-such-topic" not in ottla("topics", "list").out


def test_a_record_that_is_not_accepted_makes_the_command_fail(ottla: Any, ottla_topic: str) -> None:
    assert ottla("configs", "set", "--topic", ottla_topic, "max.message.bytes=200").code == 0
    outcome = ottla("produce", ottla_topic, stdin=b"x" * 1000 + b"\n")
    assert outcome.code == 1
    assert outcome.err.startswith("ottla: line 1: the record takes 10")
    assert outcome.err.endswith("ottla: records that were not acknowledged: 1\n")


def test_a_partition_that_is_not_there_makes_the_command_fail(ottla: Any, ottla_topic: str) -> None:
    outcome = ottla("produce", ottla_topic, "--partition", "9", stdin=b"x\n")
    assert outcome.code == 1
    assert "partition" in outcome.err


def test_a_line_that_cannot_be_read_names_its_number(ottla: Any, ottla_topic: str) -> None:
    outcome = ottla("produce", ottla_topic, "-K", ":", stdin=b"a:b\nnothing\n")
    assert outcome.code == 2
    assert outcome.err == (
        "ottla: line 2: there is no ':' between key and value (1 record before it was sent)\n"
    )
    assert ottla("produce", ottla_topic, "--json", stdin=b"nonsense").code == 2


def test_a_property_that_librdkafka_does_not_know_is_one_line(ottla: Any, ottla_topic: str) -> None:
    for name in ("produce", "consume"):
        outcome = ottla(name, ottla_topic, "-X", "no.such.thing=1")
        assert outcome.code == 2
        assert "no.such.thing" in outcome.err
        assert outcome.err.count("\n") == 1


def test_a_large_file_shows_its_progress(ottla: Any, ottla_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_text("a line of some length\n" * 20_000)
    outcome = ottla("produce", ottla_topic, str(path), "--progress", "--compression", "lz4")
    assert outcome.code == 0, outcome.err
    assert "20000 records" in outcome.err


def test_following_shows_what_comes_until_interrupted(
    ottla_broker: Broker, ottla_topic: str, ottla: Any
) -> None:
    ottla("produce", ottla_topic, stdin=b"before\n")
    arguments = ["consume", ottla_topic, "--follow", "--bootstrap", ottla_broker.bootstrap_servers]
    with running(*arguments, "--offset", "-1") as command:
        assert command.line() == "before\n"
        ottla("produce", ottla_topic, stdin=b"after\n")
        assert command.line() == "after\n"
        assert command.interrupt() == (0, "", "")


def test_an_interrupt_before_the_end_leaves_with_130(ottla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.client.client.Client.partitions", interrupted)
    assert ottla("consume", "letters").code == 130
    monkeypatch.setattr("ottla.client.librdkafka.cluster.partitions", interrupted)
    assert ottla("consume", "letters", "--follow").code == 0
