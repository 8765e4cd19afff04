"""Checking a data directory offline: silence about a sound one, and exactly what is wrong with any other."""

import copy
from random import Random

import pytest
from tests.log.helpers import NOW, append, batch, idempotent, put, records
from tests.log.simdisk import SimDisk, power_loss

from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.config_copy import ConfigCopy, format_copy
from ottla.log.store import LogStore
from ottla.log.transaction_index import ENTRY
from ottla.log.verify.directory import ALIKE_MAX, verify
from ottla.log.verify.findings import Finding, Severity, Work
from ottla.log.verify.segment import index_damage
from ottla.records.batch import set_crc

ERROR, WARNING, NOTE = Severity
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=120)
IDS = [bytes([number]) * 16 for number in range(3)]
LETTERS = "/data/letters-0"
FIRST = f"{LETTERS}/{0:020}.log"
COUNT = 40


def store_on(disk: SimDisk, *directories: str) -> LogStore:
    store = LogStore(disk, directories or ("/data",), CONFIG, StoreConfig())
    store.open_all(NOW, lambda _topic: {})
    return store


def fill(disk: SimDisk) -> LogStore:
    """Two partitions of one topic and one of another, with producers, epochs and several segments."""
    store = store_on(disk)
    disk.write_atomic("/data/meta.properties", b"version=0\nbroker.id=1\ncluster.id=Zm9v\n")
    for topic, partition, topic_id in (("letters", 0, IDS[0]), ("letters", 1, IDS[0]), ("orders", 0, IDS[1])):
        log = store.create(TopicPartition(topic, partition), topic_id, CONFIG, NOW)
        for number in range(COUNT):
            # An epoch begins at 0, 10, 20 and 30; timestamps go back now and then.
            at = NOW + number * 10 - number % 4 * 15
            if number % 3:
                append(log, batch(f"{number}-" + "x" * (number * 7 % 90), "y", at=at), epoch=number // 10)
            else:
                append(log, idempotent(number // 3, f"{number}", at=at), epoch=number // 10)
        store.high_watermarks[log.topic_partition] = log.log_end_offset
    return store


@pytest.fixture(scope="module")
def sound() -> SimDisk:
    disk = SimDisk()
    fill(disk).close()
    return disk


@pytest.fixture
def disk(sound: SimDisk) -> SimDisk:
    """A copy to be damaged, after a clean shutdown."""
    return copy.deepcopy(sound)


@pytest.fixture
def crashed() -> SimDisk:
    """The same after kill -9: nothing was synced, nothing is lost."""
    disk = SimDisk()
    store = fill(disk)
    store.checkpoints.write_high_watermarks()
    disk.crash()
    return disk


def check(disk: SimDisk, *directories: str, quick: bool = False) -> list[Finding]:
    before = {path: bytes(node.data) for path, node in disk.nodes.items()}
    found = list(verify(Work(files=disk, quick=quick), directories or ("/data",)))
    assert {path: bytes(node.data) for path, node in disk.nodes.items()} == before
    assert disk.open_files == []
    return found


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def logs(disk: SimDisk, folder: str = LETTERS, suffix: str = ".log") -> list[str]:
    return [f"{folder}/{name}" for name in disk.list(folder) if name.endswith(suffix)]


def write(disk: SimDisk, path: str, at: int, data: bytes) -> None:
    disk.nodes[path].data[at : at + len(data)] = data


def lines(disk: SimDisk, path: str, *given: str) -> None:
    disk.write_atomic(path, "\n".join(["0", str(len(given)), *given, ""]).encode())


def test_there_is_nothing_to_say_of_a_sound_directory(disk: SimDisk) -> None:
    work, seen = Work(files=disk), []
    work.on_read = seen.append
    assert list(verify(work, ["/data"])) == []
    assert work.totals.partitions == 3
    assert work.totals.batches == 3 * COUNT
    assert work.totals.segments == len(logs(disk)) * 3 > 12
    assert (
        sum(seen) == work.totals.bytes == sum(disk.size(path) for path in disk.nodes if path.endswith(".log"))
    )
    assert check(disk, quick=True) == []


def test_a_crash_is_a_note_and_what_it_left_unfinished_is_not_an_error(crashed: SimDisk) -> None:
    note = only(check(crashed))
    assert (note.severity, note.path) == (NOTE, "/data")
    last = logs(crashed)[-1]
    size = crashed.size(last)
    crashed.nodes[last].data += batch("torn")[:70]
    _, torn = check(crashed)
    assert (torn.severity, torn.path, torn.position) == (WARNING, last, size)
    assert torn.at_start == "the log is cut off here, which costs 70 bytes, as after any crash"


def test_an_acknowledged_tail_that_is_torn_is_an_error(crashed: SimDisk) -> None:
    last = logs(crashed)[-1]
    lines(crashed, "/data/replication-offset-checkpoint", "letters 0 66")
    crashed.nodes[last].data[-1] ^= 1
    _, torn, watermark = [one for one in check(crashed) if "not here" not in one.problem] + [None]
    assert torn is not None
    assert (torn.severity, torn.problem) == (ERROR, "the checksum of the batch is wrong")
    assert watermark is None


@pytest.mark.parametrize("quick", [False, True])
def test_damage_in_the_middle_is_found_and_the_rest_is_checked(disk: SimDisk, quick: bool) -> None:
    """A wrong size: the walk loses its way, and finds it again at the next batch."""
    write(disk, FIRST, 8, b"\x7f")
    disk.flip(logs(disk)[-1], disk.size(logs(disk)[-1]) - 1)
    found = check(disk, quick=quick)
    assert [(one.severity, one.path, one.position) for one in found][:1] == [(ERROR, FIRST, 0)]
    assert "the next sound one is " in found[0].problem
    assert "CORRUPT_MESSAGE" in found[0].at_start
    assert len(found) == (1 if quick else 2)


def test_a_wrong_checksum_is_one_finding_with_position_and_offset(disk: SimDisk) -> None:
    disk.flip(FIRST, disk.size(FIRST) - 1)
    found = only(check(disk))
    assert (found.severity, found.path) == (ERROR, FIRST)
    assert found.problem == "the checksum of the batch is wrong"
    assert found.at_start.endswith("consumers that check checksums refuse it")
    assert found.offset is not None
    assert found.position is not None
    assert 0 < found.position < disk.size(FIRST)
    assert check(disk, quick=True) == []


def test_a_size_that_is_wrong_but_possible_does_not_hide_the_batch_behind_it(disk: SimDisk) -> None:
    size = int.from_bytes(disk.nodes[FIRST].data[8:12], "big")
    write(disk, FIRST, 8, (size + 30).to_bytes(4, "big"))
    found = only(check(disk))
    assert (found.severity, found.position, found.offset) == (ERROR, 0, 0)
    assert f"the next sound one is {size + 12} bytes on" in found.problem


def test_records_that_do_not_fill_their_batch_are_an_error(disk: SimDisk) -> None:
    first = int.from_bytes(disk.nodes[FIRST].data[8:12], "big") + 12
    view = memoryview(disk.nodes[FIRST].data)[:first]
    view[57:61] = (9).to_bytes(4, "big")
    set_crc(view)
    view.release()
    found = only(check(disk))
    assert (found.severity, found.position, found.offset) == (ERROR, 0, 0)
    assert "consumers cannot read" in found.at_start


def test_offsets_that_go_back_and_segments_that_overlap_are_errors(disk: SimDisk) -> None:
    second = logs(disk)[1]
    write(disk, second, 0, (3).to_bytes(8, "big"))
    found = check(disk)
    assert (found[0].severity, found[0].path, found[0].position) == (ERROR, second, 0)
    assert "offsets 3 to" in found[0].problem


def test_a_segment_that_begins_before_the_last_one_ended_is_an_error(disk: SimDisk) -> None:
    """Somebody copied a file under another name."""
    disk.nodes[f"{LETTERS}/{1:020}.log"] = copy.deepcopy(disk.nodes[FIRST])
    assert any(one.severity is ERROR and "offsets " in one.problem for one in check(disk))


def test_a_segment_that_is_missing_is_a_gap(disk: SimDisk) -> None:
    second = logs(disk)[1]
    disk.remove(second)
    found = check(disk)
    gap = only([one for one in found if "missing" in one.problem])
    assert (gap.severity, gap.path) == (WARNING, logs(disk)[1])
    assert {one.problem for one in found if one is not gap} == {"an index without its log"}
    lines(disk, "/data/cleaner-offset-checkpoint", "letters 0 30")
    assert only([one for one in check(disk) if "missing" in one.problem]).severity is NOTE


@pytest.mark.parametrize(
    ("suffix", "at", "severity", "problem"),
    [
        (".index", 0, WARNING, "entries are out of order"),
        (".index", 7, WARNING, "it leads to byte "),
        (".timeindex", 0, WARNING, "entries are out of order"),
    ],
)
def test_an_index_that_lies_is_found(
    disk: SimDisk, suffix: str, at: int, severity: Severity, problem: str
) -> None:
    path = logs(disk, suffix=suffix)[0]
    write(disk, path, at, b"\x7f")
    found = check(disk)
    assert (found[0].severity, found[0].path) == (severity, path)
    assert found[0].problem.startswith(problem)
    assert found[0].position is not None


def test_an_index_entry_that_comes_too_late_leads_astray(disk: SimDisk) -> None:
    path = logs(disk, suffix=".index")[0]
    write(disk, path, 0, (1).to_bytes(4, "big"))
    found = only(check(disk))
    assert found.problem.endswith(f"but the batch there begins with {found.problem.rsplit(' ', 1)[1]}")


def test_a_timestamp_that_is_too_low_hides_records_and_too_high_does_not(disk: SimDisk) -> None:
    path = next(path for path in logs(disk, suffix=".timeindex") if disk.size(path) > 12)
    last = disk.size(path) - 12
    newest = int.from_bytes(disk.nodes[path].data[last : last + 8], "big")
    write(disk, path, last, (newest + 5).to_bytes(8, "big"))
    assert [(one.severity, one.position) for one in check(disk)] == [(WARNING, last)]
    del disk.nodes[path].data[last:]
    assert {one.severity for one in check(disk)} == {ERROR}
    assert "deleted too early" in check(disk)[0].at_start
    del disk.nodes[path].data[:]
    assert only(check(disk)).problem == "there is no entry in it"


def test_a_time_entry_behind_the_end_is_an_error(disk: SimDisk) -> None:
    path = logs(disk, suffix=".timeindex")[0]
    disk.nodes[path].data += (NOW * 2).to_bytes(8, "big") + (9999).to_bytes(4, "big")
    found = only(check(disk))
    assert found.severity is ERROR
    assert "behind the segment's end" in found.problem


def test_zeros_of_a_preallocated_index_are_no_entries(disk: SimDisk) -> None:
    """As Apache Kafka leaves them when it is killed: 10 MiB of which some bytes are used."""
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        path = logs(disk, suffix=suffix)[-1]
        disk.nodes[path].data += bytes(100_000 * size)
    assert check(disk) == []
    disk.nodes[path].data += b"\0"
    assert "not a whole number" in only(check(disk)).problem


def test_a_missing_index_is_a_note(disk: SimDisk) -> None:
    disk.remove(logs(disk, suffix=".index")[0])
    assert only(check(disk)).severity is NOTE


@pytest.mark.parametrize(
    ("data", "suffix", "log_size", "position"),
    [
        (b"\xff" * 8, ".index", 100, 0),
        (bytes(7) + b"\1" + bytes(8) + bytes(7) + b"\2", ".index", 100, 8),
        (b"\0\0\0\1\0\0\0\5\0\0\0\2\0\0\0\x70", ".index", 100, 8),
        (b"\0\0\0\1\0\0\0\5\0\0\0\2\0\0", ".index", 100, 8),
        (bytes(7) + b"\1\0\0\0\2" + bytes(7) + b"\2\0\0\0\1", ".timeindex", 0, 12),
    ],
)
def test_the_place_of_the_damage_in_an_index(data: bytes, suffix: str, log_size: int, position: int) -> None:
    assert index_damage(data, suffix, log_size) == position


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("0\n2\n3 0\n2 9\n", "line 4 does not come after the one before it: '2 9'"),
        ("0\n1\nx\n", "line 3 is no epoch and offset: 'x'"),
        ("0\n3\n0 0\n", "3 entries announced, 1 found"),
        ("0\n", "the file ends before its entries"),
    ],
)
def test_leader_epochs_that_cannot_be_are_built_anew(disk: SimDisk, content: str, problem: str) -> None:
    disk.write_atomic(f"{LETTERS}/leader-epoch-checkpoint", content.encode())
    found = only(check(disk))
    assert (found.severity, found.problem) == (WARNING, problem)


def test_leader_epochs_that_the_batches_contradict_are_errors(disk: SimDisk) -> None:
    lines(disk, f"{LETTERS}/leader-epoch-checkpoint", "0 0", "1 5", "3 50", "9 5000")
    found = check(disk)
    assert {one.severity for one in found} == {ERROR, WARNING}
    assert "says 1" in found[0].problem
    assert found[-1].problem.startswith("epoch 9 begins behind the log's end")


def test_a_leader_epoch_that_goes_back_is_an_error(disk: SimDisk) -> None:
    write(disk, logs(disk)[-1], 12, bytes(4))
    found = check(disk)
    assert found[0].problem == "leader epoch 0 comes after 3"


def test_many_findings_that_are_alike_are_counted(disk: SimDisk) -> None:
    lines(disk, f"{LETTERS}/leader-epoch-checkpoint", "0 0", "9 1")
    for path in logs(disk)[1:]:
        disk.remove(path)
    disk.nodes[FIRST].data += b"".join(batch("v", base_offset=at, leader_epoch=0) for at in range(100, 140))
    found = [one for one in check(disk) if one.path == FIRST and "says" in one.problem]
    assert len(found) == ALIKE_MAX + 1
    assert " more of these; the last: " in found[-1].problem


def test_snapshots_are_decoded_and_compared_with_the_log(disk: SimDisk) -> None:
    paths = logs(disk, suffix=".snapshot")
    disk.flip(paths[0], 12)
    assert only(check(disk)).problem == "the checksum is wrong"
    disk.nodes[paths[0]] = disk.nodes[paths[-1]]
    assert only(check(disk)).severity is ERROR
    disk.nodes[f"{LETTERS}/{9999:020}.snapshot"] = disk.nodes.pop(paths[0])
    assert only(check(disk)).at_start == "it is removed"


def test_partitions_of_a_topic_agree_on_its_id(disk: SimDisk) -> None:
    path = "/data/letters-1/partition.metadata"
    disk.write_atomic(path, disk.read("/data/orders-0/partition.metadata"))
    found = only(check(disk))
    assert (found.severity, found.path) == (ERROR, path)
    disk.write_atomic(path, b"version: 7\n")
    assert only(check(disk)).severity is WARNING
    disk.remove(path)
    assert only(check(disk)).severity is NOTE


def test_a_segment_that_lost_its_tail_costs_those_behind_it(crashed: SimDisk) -> None:
    """What is said is what then happens."""
    names = [name for name in crashed.list(LETTERS) if name.endswith(".log")]
    file = crashed.open(f"{LETTERS}/{names[1]}")
    file.truncate(0)
    file.close()
    begins, after = int(names[1][:20]), int(names[2][:20])
    found = next(one for one in check(crashed) if one.path == f"{LETTERS}/{names[2]}")
    assert found.problem == f"it begins at {after}, but the segment before it ends with {begins - 1}"
    assert found.at_start == "this segment and all behind it are removed, unless the topic is compacted"
    assert store_on(crashed).logs[TopicPartition("letters", 0)].log_end_offset == begins


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("recovery-point-offset-checkpoint", ERROR),
        ("replication-offset-checkpoint", ERROR),
        ("log-start-offset-checkpoint", ERROR),
        ("cleaner-offset-checkpoint", WARNING),
    ],
)
def test_checkpoints_are_read_and_compared_with_the_logs(
    disk: SimDisk, name: str, severity: Severity
) -> None:
    lines(disk, f"/data/{name}", "letters 0 9999", "gone 0 1")
    gone, high = check(disk)
    assert (gone.severity, high.severity) == (NOTE, severity)
    assert high.problem.startswith("letters-0 has 9999 here, but its log ends with ")
    disk.write_atomic(f"/data/{name}", b"0\n7\n")
    assert only(check(disk)).severity is WARNING
    disk.write_atomic(f"/data/{name}", b"")  # as Apache Kafka creates them
    assert check(disk) == []


def test_meta_properties_say_whose_directory_it_is(disk: SimDisk) -> None:
    disk.write_atomic("/data/meta.properties", b"# nothing\n")
    assert [one.severity for one in check(disk)] == [WARNING, WARNING]
    disk.remove("/data/meta.properties")
    assert only(check(disk)).severity is NOTE


def test_copies_of_settings_are_known_and_damage_in_them_is_said(disk: SimDisk) -> None:
    copy = ConfigCopy(IDS[0], 3, 0, {"cleanup.policy": "compact"})
    disk.write_atomic(f"{LETTERS}/topic.config", format_copy(copy))
    disk.write_atomic("/data/broker.config", format_copy(copy._replace(topic_id=None)))
    assert check(disk) == []
    for data in (b"{", format_copy(copy._replace(topic_id=IDS[1]))):
        disk.write_atomic(f"{LETTERS}/topic.config", data)
        found = only(check(disk))
        assert (found.severity, found.path) == (WARNING, f"{LETTERS}/topic.config")
        assert found.problem == "it does not say what is set for the topic"


def test_leftovers_and_files_of_others_are_notes(disk: SimDisk) -> None:
    for name in ("x.log.deleted", "x.log.cleaned", "x.log.swap", "x.tmp", "notes.txt"):
        disk.write_atomic(f"{LETTERS}/{name}", b"")
    for name in (f"t-0.{'0' * 32}-delete", f"t-0.{'0' * 32}-future", "x.tmp", "README"):
        disk.write_atomic(f"/data/{name}", b"")
    for name in ("keeper.db", "keeper.db-wal", ".lock", "bootstrap.checkpoint"):
        disk.write_atomic(f"/data/{name}", b"")
    found = check(disk)
    assert {one.severity for one in found} == {NOTE}
    assert len(found) == 9


def test_the_log_of_kraft_may_hold_files_of_its_own(disk: SimDisk) -> None:
    disk.rename("/data/orders-0", "/data/__cluster_metadata-0")
    for name in ("quorum-state", "00000000000000000009-0000000001.checkpoint"):
        disk.write_atomic(f"/data/__cluster_metadata-0/{name}", b"")
    assert {one.problem.split(" ", 1)[1] for one in check(disk)} == {
        "entries are for partitions that are not here, the first for orders-0"
    }


def test_a_file_in_the_place_of_a_folder_is_an_error(disk: SimDisk) -> None:
    disk.write_atomic("/data/lost-0", b"")
    assert only(check(disk)).severity is ERROR


def test_a_damaged_index_of_aborted_transactions_is_built_anew(disk: SimDisk) -> None:
    path = FIRST.replace(".log", ".txnindex")
    disk.write_atomic(path, ENTRY.pack(0, 7, 9, 3, 3) + b"x")
    wrong, half = check(disk)
    assert (wrong.position, half.position) == (0, ENTRY.size)
    assert {wrong.severity, half.severity} == {WARNING}


def test_a_file_that_cannot_be_read_is_an_error_and_others_are_checked(disk: SimDisk) -> None:
    disk.flip("/data/orders-0/" + FIRST.rsplit("/", 1)[1], 100)
    disk.fail("read", 5, FIRST)
    unread, flipped = list(verify(Work(files=disk), ["/data"]))
    assert (unread.severity, unread.path) == (ERROR, FIRST)
    assert unread.problem == "it cannot be read: Input/output error"
    assert flipped.path.startswith("/data/orders-0/")


def test_a_partition_in_two_directories_of_a_broker_is_an_error(disk: SimDisk) -> None:
    for path, node in list(disk.nodes.items()):
        if not path.startswith("/data/letters-1"):
            disk.make_directory("/other" + path.removeprefix("/data").rpartition("/")[0])
            disk.nodes["/other" + path.removeprefix("/data")] = copy.deepcopy(node)
    found = [one for one in check(disk, "/data", "/other") if one.severity is ERROR]
    assert [one.path for one in found] == ["/other/letters-0", "/other/orders-0"]
    disk.write_atomic("/other/meta.properties", b"node.id=2\ncluster.id=Zm9v\n")  # a replica then
    assert [one for one in check(disk, "/data", "/other") if one.severity is ERROR] == []


def test_a_log_whose_unsynced_end_was_lost_is_told_by_its_checkpoints() -> None:
    disk = SimDisk()
    store = fill(disk)
    store.checkpoints.write_high_watermarks(sync=True)
    for log in store.logs.values():
        log.flush()
    store.checkpoints.write_recovery_points()
    log = store.logs[TopicPartition("letters", 0)]
    put(log, "lost")
    disk.crash(power_loss)
    assert {one.severity for one in check(disk)} <= {NOTE}
    disk.nodes[logs(disk)[-1]].data.clear()
    errors = [one for one in check(disk) if one.severity is ERROR]
    assert "what was on disk behind that is lost" in only(errors).at_start


@pytest.mark.parametrize("seed", range(60))
def test_any_one_byte_of_damage_to_a_log_is_found(disk: SimDisk, seed: int) -> None:
    """Whatever a reader could stumble over has been reported with its place before."""
    random = Random(seed)
    path = random.choice(logs(disk))
    at = random.randrange(disk.size(path))
    disk.nodes[path].data[at] ^= 1 << random.randrange(8)
    found = [one for one in check(disk) if one.severity is not NOTE]
    assert found, f"byte {at} of {path}"
    assert found[0].path == path
    assert found[0].position is not None
    assert found[0].position <= at


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_at_a_start_that_verify_has_not_announced(crashed: SimDisk, seed: int) -> None:
    """Damage of any kind to any file after a crash: if no error is found, every record is still served."""
    random = Random(seed)
    path = random.choice([path for path in sorted(crashed.nodes) if "/letters-0/" in path])
    node = crashed.nodes[path]
    if random.random() < 0.5 and node.data:
        node.data[random.randrange(len(node.data))] ^= 1 << random.randrange(8)
    else:
        del node.data[random.randrange(len(node.data) + 1) :]
    found = check(crashed)
    if any(one.severity is ERROR for one in found) or "cut off" in str(found):
        return
    log = store_on(crashed).logs[TopicPartition("letters", 0)]
    try:
        assert len(records(log)) >= COUNT
    except ApiError as error:
        pytest.fail(f"not announced: {error}; {path}")
