"""Apache Kafka's dump tool, and its broker, over what Ottla wrote."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.compat.apache import Dumped, complaints, dump
from tests.compat.conftest import ADOPTED, GROUPS, Written
from tests.compat.traffic import CODECS, TIME_MS

from ottla.group.records import CurrentMemberAssignment, CurrentMemberAssignmentValue, store
from ottla.records.builder import NewRecord, build_batch

PRODUCERS_MAX = 2


@pytest.fixture(scope="module")
def dumped(by_ottla: Written) -> dict[str, list[Dumped]]:
    """All segments, by topic, down to the last record."""
    files = [path for codec in CODECS for path in segments(by_ottla.data, codec)]
    found: dict[str, list[Dumped]] = {codec: [] for codec in CODECS}
    for one in dump(files, "--deep-iteration", "--print-data-log"):
        found[Path(one.path).parent.name.removesuffix("-0")].append(one)
    return found


def segments(data: Path, topic: str, suffix: str = ".log") -> list[Path]:
    return sorted((data / f"{topic}-0").glob(f"*{suffix}"))


@pytest.mark.parametrize("codec", CODECS)
def test_every_batch_is_valid_and_none_is_missing(
    by_ottla: Written, dumped: dict[str, list[Dumped]], codec: str
) -> None:
    files = dumped[codec]
    assert len(files) > 2
    assert complaints(files) == []
    batches = [batch for one in files for batch in one.batches]
    assert {batch["isvalid"] for batch in batches} == {"true"}
    assert {batch["magic"] for batch in batches} == {"2"}
    assert codec in {batch["compresscodec"].lower() for batch in batches}
    expected = 0
    for batch in batches:
        assert int(batch["baseOffset"]) == expected
        expected = int(batch["lastOffset"]) + 1
    assert expected == sum(int(batch["count"]) for batch in batches) == len(by_ottla.sent[codec])
    for one in files:
        assert int(one.batches[0]["baseOffset"]) == int(Path(one.path).stem)
        positions = [int(batch["position"]) for batch in one.batches]
        sizes = [int(batch["size"]) for batch in one.batches]
        assert positions == [sum(sizes[:at]) for at in range(len(sizes))]
        assert sum(sizes) == Path(one.path).stat().st_size


@pytest.mark.parametrize("codec", CODECS)
def test_every_record_is_the_one_that_was_produced(
    by_ottla: Written, dumped: dict[str, list[Dumped]], codec: str
) -> None:
    records = [record for one in dumped[codec] for record in one.records]
    assert [record.offset for record in records] == list(range(len(by_ottla.sent[codec])))
    shown = [(record.timestamp, record.key, record.payload, record.header_keys) for record in records]
    assert shown == [
        (
            sent.timestamp,
            sent.key and sent.key.decode(),
            sent.value and sent.value.decode(),
            [*dict_keys(sent)],
        )
        for sent in by_ottla.sent[codec]
    ]


def dict_keys(sent: Any) -> list[str]:
    return [name for name, _ in sent.headers]


@pytest.mark.parametrize("codec", CODECS)
def test_producers_and_leader_epochs_go_on_where_they_should(
    dumped: dict[str, list[Dumped]], codec: str
) -> None:
    """Two idempotent producers, the second after a crash, which began a new epoch."""
    batches = [batch for one in dumped[codec] for batch in one.batches]
    sequences: dict[str, int] = {}
    for batch in batches:
        producer = batch["producerId"]
        assert int(producer) >= 0
        assert int(batch["baseSequence"]) == sequences.get(producer, 0)
        sequences[producer] = int(batch["lastSequence"]) + 1
    assert sorted(sequences.values()) == [400, 600]
    epochs = [int(batch["partitionLeaderEpoch"]) for batch in batches]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 2


def test_indexes_pass_kafkas_checks_and_agree_with_the_log(by_ottla: Written) -> None:
    files = [
        path
        for codec in CODECS
        for suffix in (".index", ".timeindex")
        for path in segments(by_ottla.data, codec, suffix)
    ]
    checked = list(dump(files, "--index-sanity-check"))
    assert [one.lines for one in checked] == [[f"{path} passed sanity check."] for path in files]
    entries = list(dump(files))
    assert complaints(entries) == []
    offset_entries = [entry for one in entries if one.path.endswith(".index") for entry in one.entries]
    time_entries = [entry for one in entries if one.path.endswith(".timeindex") for entry in one.entries]
    assert len(offset_entries) > 5 * len(CODECS)
    assert len(time_entries) > len(CODECS)
    assert all(int(entry["timestamp"]) >= TIME_MS for entry in time_entries)


def test_producer_snapshots_name_the_producers_and_their_last_batches(by_ottla: Written) -> None:
    files = [path for codec in CODECS for path in segments(by_ottla.data, codec, ".snapshot")]
    snapshots = list(dump(files))
    assert complaints(snapshots) == []
    for one in snapshots:
        end = int(Path(one.path).stem)
        assert 1 <= len(one.entries) <= PRODUCERS_MAX
        newest = max(one.entries, key=lambda entry: int(entry["lastOffset"]))
        assert int(newest["lastOffset"]) == end - 1
        assert int(newest["lastSequence"]) == (end - 1 if end <= 600 else end - 601)


def test_the_offsets_decoder_reads_both_kinds_of_groups(by_ottla: Written) -> None:
    files = [path for path in sorted(by_ottla.data.glob("__consumer_offsets-*/*.log")) if path.stat().st_size]
    found = list(dump(files, "--offsets-decoder"))
    assert complaints(found) == []
    records = [record for one in found for record in one.records]
    decoded = [
        (json.loads(record.key or "null"), None if record.payload == "<DELETE>" else record.payload)
        for record in records
    ]
    commits = {
        key["data"]["group"]: json.loads(value)["data"]
        for key, value in decoded
        if key["type"] == "1" and value is not None
    }
    assert {group: one["offset"] for group, one in commits.items()} == {
        group: offset for group, (_, offset) in GROUPS.items()
    }
    assert all(one["metadata"].rstrip("\0") == "place" for one in commits.values())
    kinds = {key["type"] for key, _ in decoded}
    assert {"1", "2", "3", "5", "6", "7", "8"} <= kinds
    generations = [json.loads(value)["data"] for key, value in decoded if key["type"] == "2" and value]
    assert generations[0]["protocolType"] == "consumer"
    assert generations[0]["members"][0]["assignment"]["assignedPartitions"][0]["topic"] == CODECS[0]


def test_the_offsets_decoder_passes_over_the_silence_of_a_member(by_ottla: Written, tmp_path: Path) -> None:
    """`by_ottla` is here for its Kafka: where that cannot be had, the test skips."""
    value = CurrentMemberAssignmentValue(member_epoch=3, previous_member_epoch=2, state=0, silent_ms=11_250)
    stored = store(CurrentMemberAssignment("group", "member", value))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([NewRecord(stored.key, stored.value, timestamp=TIME_MS)]))
    found = list(dump([path], "--offsets-decoder"))
    assert complaints(found) == []
    (record,) = found[0].records
    assert json.loads(record.payload or "null")["data"]["memberEpoch"] == 3


def test_kafkas_tool_would_have_told_us(by_ottla: Written, tmp_path: Path) -> None:
    """The checks above can fail: one bit in a record, one in each index."""
    folder = shutil.copytree(by_ottla.data / "none-0", tmp_path / "none-0")
    log = min(folder.glob("*.log"))
    flip(log, 100)
    (damaged,) = dump([log], "--deep-iteration")
    assert damaged.batches[0]["isvalid"] == "false"
    shutil.copy(by_ottla.data / "none-0" / log.name, log)
    for suffix, at in ((".index", 3), (".timeindex", 7)):
        index = log.with_suffix(suffix)
        flip(index, at)
        assert complaints(list(dump([index]))), suffix


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x01
    path.write_bytes(content)


def test_apache_kafka_serves_our_segments_and_goes_on_writing_behind_them(
    by_ottla: Written, by_kafka: tuple[Written, Written]
) -> None:
    seen = by_kafka[1].seen[ADOPTED]
    ours = by_ottla.sent["zstd"]
    assert [one.sent for one in seen[: len(ours)]] == ours
    assert [one.offset for one in seen] == list(range(len(ours) + 200))
    assert re.match(r"v5000-", (seen[len(ours)].sent.value or b"").decode())
