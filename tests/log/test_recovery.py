"""Opening a folder after every kind of accident."""

import pytest
from tests.log.helpers import FOLDER, NOW, append, batch, idempotent, open_log, put, run_syncs, values
from tests.log.simdisk import SimDisk, power_loss

from ottla.base.errors import ApiError
from ottla.log.recovery import Repair
from ottla.log.segment import file_name

ACTIVE = f"{FOLDER}/{0:020d}.log"


def path(offset: int, suffix: str) -> str:
    return f"{FOLDER}/{file_name(offset, suffix)}"


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def crashed(disk: SimDisk, count: int = 4, **config) -> list[str]:
    log = open_log(disk, **config)
    for number in range(count):
        put(log, f"{number:03}")
    run_syncs(log)
    disk.crash()
    return [f"{number:03}" for number in range(count)]


def test_a_new_folder_is_an_empty_log(disk):
    log = open_log(disk, start=7)
    assert (log.log_start_offset, log.log_end_offset, values(log)) == (7, 7, [])
    assert log.report.repairs == []


def test_everything_in_the_page_cache_survives_the_death_of_the_process(disk):
    expected = crashed(disk, 50, segment_bytes=500)
    log = open_log(disk, segment_bytes=500)
    assert values(log) == expected
    assert log.report.bytes_cut == 0
    assert log.report.segments_scanned == len(log.segments)


def test_a_tail_torn_at_any_byte_is_cut_off_and_the_rest_served(disk):
    expected = crashed(disk)
    whole = bytes(disk.nodes[ACTIVE].data)
    size = len(batch("000"))
    for cut in range(len(whole) - size, len(whole)):
        disk.nodes[ACTIVE].data[:] = whole[:cut]
        log = open_log(disk)
        assert values(log) == expected[:3]
        assert log.report.bytes_cut == cut - 3 * size
        assert put(log, "new").base_offset == 3
        assert values(log) == [*expected[:3], "new"]
        log.abandon()


@pytest.mark.parametrize("tail", [b"\x00" * 200, b"garbage" * 30, b"\xff" * 61, b"\x01"])
def test_what_is_behind_the_last_batch_is_cut_off(disk, tail):
    expected = crashed(disk)
    disk.nodes[ACTIVE].data += tail
    log = open_log(disk)
    assert values(log) == expected
    assert log.report.bytes_cut == len(tail)
    assert log.report.repairs[0].what == "cut off a tail"
    assert disk.nodes[ACTIVE].data.endswith(b"003\x00")


def test_every_flipped_byte_of_the_last_batch_is_noticed_or_harmless(disk):
    expected = crashed(disk)
    whole = bytes(disk.nodes[ACTIVE].data)
    size = len(batch("000"))
    for at in range(len(whole) - size, len(whole)):
        disk.nodes[ACTIVE].data[:] = whole
        disk.flip(ACTIVE, at)
        log = open_log(disk)
        assert values(log)[:3] == expected[:3]
        # Offset and leader epoch are outside of the checksum; a wrong offset may still be a possible one.
        outside = at - (len(whole) - size) in (*range(8), *range(12, 16))
        assert outside or values(log) == expected[:3]
        log.abandon()


def test_nothing_below_the_recovery_point_is_checked_or_cut(disk):
    crashed(disk, 10, segment_bytes=250)
    size = len(batch("000"))
    disk.flip(path(0, ".log"), size - 3)
    disk.flip(path(6, ".log"), size - 3)
    log = open_log(disk, recovery_point=8, segment_bytes=250)
    assert log.log_end_offset == 10
    assert log.report.bytes_cut == 0
    assert log.report.segments_scanned == 2
    log.abandon()
    log = open_log(disk, recovery_point=6, segment_bytes=250)
    assert log.log_end_offset == 6
    assert log.report.bytes_cut == 3 * size


def test_segments_behind_a_cut_are_removed(disk):
    expected = crashed(disk, 12, segment_bytes=250)
    disk.flip(path(3, ".log"), 2 * len(batch("000")) - 1)
    log = open_log(disk, segment_bytes=250)
    assert values(log) == expected[:4]
    assert log.report.segments_removed == 2
    assert not disk.exists(path(6, ".log"))
    assert not disk.exists(path(9, ".log"))


def test_a_segment_that_goes_back_is_removed(disk):
    crashed(disk, 6, segment_bytes=250)
    disk.rename(path(3, ".log"), path(2, ".log"))
    log = open_log(disk, segment_bytes=250)
    assert log.log_end_offset == 3
    assert ("removed a segment", path(2, ".log"), "offset 2 comes after 2") in log.report.repairs


def test_power_loss_leaves_what_was_synced(disk):
    log = open_log(disk, flush_messages=2)
    for number in range(5):
        put(log, str(number))
    run_syncs(log)
    safe = log.safe_end
    put(log, "lost")
    disk.crash(power_loss)
    log = open_log(disk, recovery_point=log.recovery_point)
    assert safe == 5
    assert values(log) == ["0", "1", "2", "3", "4"]


def test_after_a_clean_close_nothing_is_scanned(disk):
    log = open_log(disk, segment_bytes=500)
    for number in range(20):
        put(log, f"{number:03}")
    log.close()
    assert disk.open_files == []
    disk.crash(power_loss)
    log = open_log(disk, clean=True, recovery_point=20, segment_bytes=500)
    assert log.report.segments_scanned == 0
    assert log.recovery_point == 20
    assert values(log) == [f"{number:03}" for number in range(20)]
    assert put(log, "next").base_offset == 20


def test_a_clean_shutdown_that_was_none_is_recovered(disk):
    log = open_log(disk)
    for number in range(4):
        put(log, f"{number:03}")
    log.close()
    del disk.nodes[ACTIVE].data[-1:]
    log = open_log(disk, clean=True, recovery_point=4)
    assert values(log) == ["000", "001", "002"]
    whats = [repair.what for repair in log.report.repairs]
    assert whats[:2] == ["did not trust the clean shutdown", "cut off a tail"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("damage", ["removed", "cut", "random", "zeros behind", "plausible"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_or_snapshot_changes_no_answer(disk, suffix, damage, clean):
    config = {"segment_bytes": 2000, "index_interval_bytes": 100}
    log = open_log(disk, **config)
    for number in range(50):
        append(log, idempotent(number, f"{number:03}", at=NOW + number))
    log.close()
    for name in [name for name in disk.nodes if name.endswith(suffix)]:
        data = disk.nodes[name].data
        if damage == "removed":
            del disk.nodes[name]
        elif damage == "cut":
            del data[-5:]
        elif damage == "random":
            data[:] = bytes(range(7, 7 + len(data) % 240)) + b"\x42"
        elif damage == "zeros behind":
            data += bytes(1200)
        elif damage == "plausible" and suffix != ".snapshot":
            data[7] += 3
    log = open_log(disk, clean=clean, recovery_point=50, **config)
    for start in range(0, 50, 7):
        assert values(log, start) == [f"{number:03}" for number in range(start, 50)]
    for number in (0, 10, 25, 49):
        assert log.offset_for_timestamp(NOW + number) == (number, NOW + number, 0)
    assert append(log, idempotent(49, "049", at=NOW + 49)).duplicate
    assert append(log, idempotent(50, "050")).base_offset == 50


@pytest.mark.parametrize(
    "content", [None, b"", b"garbage", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n2\n5 0\n3 10\n"]
)
@pytest.mark.parametrize("clean", [True, False])
def test_lost_leader_epochs_are_found_in_the_batches(disk, content, clean):
    log = open_log(disk, segment_bytes=200)
    for number in range(9):
        append(log, batch(str(number)), epoch=number // 3)
    log.close()
    name = f"{FOLDER}/leader-epoch-checkpoint"
    if content is None:
        del disk.nodes[name]
    else:
        disk.nodes[name].data[:] = content
    log = open_log(disk, clean=clean, recovery_point=9, segment_bytes=200)
    assert log.epochs.entries == ((0, 0), (1, 3), (2, 6))
    assert Repair("rebuilt the leader epochs", name) in log.report.repairs


def test_epochs_that_could_not_be_read_from_damage_are_reported(disk):
    crashed(disk, 10, segment_bytes=250)
    disk.flip(path(0, ".log"), 16)
    del disk.nodes[f"{FOLDER}/leader-epoch-checkpoint"]
    del disk.nodes[path(9, ".snapshot")]
    log = open_log(disk, recovery_point=10, segment_bytes=250)
    whats = [repair.what for repair in log.report.repairs]
    assert "could not read all leader epochs" in whats
    assert log.log_end_offset == 10


def test_producers_that_cannot_be_restored_do_not_keep_a_log_from_opening(disk):
    log = open_log(disk, segment_bytes=250)
    for number in range(10):
        append(log, idempotent(number, f"{number:03}"))
    disk.crash()
    for offset in (3, 6, 9):
        del disk.nodes[path(offset, ".snapshot")]
    disk.flip(path(0, ".log"), 16)
    log = open_log(disk, recovery_point=9, segment_bytes=250)
    assert "could not restore all producers" in [repair.what for repair in log.report.repairs]
    assert log.log_end_offset == 10


def test_epochs_beyond_the_recovered_end_are_forgotten(disk):
    log = open_log(disk)
    append(log, batch("a"), epoch=1)
    append(log, batch("b"), epoch=2)
    disk.crash()
    del disk.nodes[ACTIVE].data[-1:]
    log = open_log(disk)
    assert log.epochs.entries == ((1, 0),)


def test_epochs_missing_in_a_stale_file_are_learnt_from_the_scan(disk):
    log = open_log(disk)
    append(log, batch("a"), epoch=1)
    stale = bytes(disk.nodes[f"{FOLDER}/leader-epoch-checkpoint"].data)
    append(log, batch("b"), epoch=2)
    disk.crash()
    disk.nodes[f"{FOLDER}/leader-epoch-checkpoint"].data[:] = stale
    assert open_log(disk).epochs.entries == ((1, 0), (2, 1))


def test_leftovers_are_removed(disk):
    crashed(disk)
    leftovers = [
        "00000000000000000000.log.deleted",
        "5.index.cleaned",
        "x.tmp",
        "00000000000000000009.timeindex",
    ]
    for name in leftovers:
        disk.write_atomic(f"{FOLDER}/{name}", b"x")
    disk.write_atomic(f"{FOLDER}/notes.txt", b"not ours")
    log = open_log(disk)
    assert {repair.path.removeprefix(FOLDER + "/") for repair in log.report.repairs} == set(leftovers)
    assert not any(disk.exists(f"{FOLDER}/{name}") for name in leftovers)
    assert disk.exists(f"{FOLDER}/notes.txt")


def test_a_compaction_that_was_nearly_done_is_finished(disk):
    log = open_log(disk, segment_bytes=250)
    for number in range(9):
        put(log, f"{number:03}")
    log.close()
    compacted = bytes(disk.nodes[path(0, ".log")].data[:80]) + bytes(disk.nodes[path(3, ".log")].data[-80:])
    size = len(batch("000"))
    compacted = bytes(disk.nodes[path(0, ".log")].data[:size]) + bytes(
        disk.nodes[path(3, ".log")].data[-size:]
    )
    disk.write_atomic(path(0, ".log.swap"), compacted)
    disk.write_atomic(path(0, ".index.swap"), b"")
    log = open_log(disk, clean=True, recovery_point=9, segment_bytes=250)
    assert values(log) == ["000", "005", "006", "007", "008"]
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert not any(name.endswith(".swap") for name in disk.nodes)


def test_a_log_start_beyond_the_records_of_a_log_is_not_believed(disk):
    expected = crashed(disk)
    log = open_log(disk, start=10)
    assert (log.log_start_offset, log.log_end_offset) == (0, 4)
    assert values(log) == expected
    assert log.report.repairs == [Repair("ignored a log start", FOLDER, "10 is after 4")]


@pytest.mark.parametrize("segment_bytes", [250, 1 << 20])
def test_a_recovery_point_beyond_the_end_of_a_log_proves_nothing(disk, segment_bytes):
    crashed(disk, 8, segment_bytes=segment_bytes)
    disk.flip(path(0, ".log"), 2 * len(batch("000")) - 2)
    log = open_log(disk, recovery_point=90, segment_bytes=segment_bytes)
    assert values(log) == ["000"]
    assert log.recovery_point == 0
    assert log.report.repairs[0] == Repair("ignored a recovery point", FOLDER, "90 is after 8")


def test_an_empty_log_begins_at_its_start_offset(disk):
    crashed(disk, 0)
    log = open_log(disk, start=10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert [segment.base_offset for segment in log.segments] == [10]
    assert put(log, "x").base_offset == 10


def test_a_crash_right_after_a_roll_loses_nothing(disk):
    log = open_log(disk, segment_bytes=100)
    put(log, "a")
    log.roll(NOW)
    disk.crash()
    log = open_log(disk, segment_bytes=100)
    assert values(log) == ["a"]
    assert log.log_end_offset == 1


def test_closed_segments_above_the_recovery_point_are_synced_after_a_crash(disk):
    log = open_log(disk, segment_bytes=100)
    for value in "abc":
        put(log, value)
    disk.crash()
    log = open_log(disk, segment_bytes=100)
    assert log.recovery_point == 0
    run_syncs(log)
    assert log.recovery_point == 2


def test_batches_larger_than_what_is_read_at_once_are_checked_whole(disk):
    log = open_log(disk, max_message_bytes=1 << 23)
    put(log, "a")
    put(log, "x" * (3 << 20))
    put(log, "y" * (3 << 20))
    put(log, "b")
    disk.crash()
    log = open_log(disk)
    assert log.log_end_offset == 4
    log.abandon()
    disk.flip(ACTIVE, len(batch("a")) + (2 << 20))
    log = open_log(disk)
    assert log.log_end_offset == 1


def test_a_log_that_starts_anew_leaves_no_snapshot_behind(disk):
    log = open_log(disk)
    append(log, idempotent(0, "a"))
    log.close()
    log = open_log(disk, clean=True, recovery_point=1)
    append(log, idempotent(1, "b"))
    log.truncate_fully_and_start_at(1, NOW)
    assert not any(name.endswith(".snapshot") for name in disk.nodes)
    assert log.producers.by_id == {}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("interval", [0, 1 << 20])
def test_damage_to_what_was_synced_costs_itself_and_not_what_comes_after_it(disk, clean, interval):
    log = open_log(disk, index_interval_bytes=interval)
    for number in range(9):
        put(log, f"{number:03}", f"{number:03}")
    log.close()
    size = len(batch("000", "000"))
    disk.flip(ACTIVE, 3 * size + 16)
    disk.flip(ACTIVE, 5 * size + 16)
    disk.crash()
    for suffix in (".index", ".timeindex"):
        disk.remove(path(0, suffix))
    log = open_log(disk, clean=clean, recovery_point=18, index_interval_bytes=interval)
    assert log.log_end_offset == 18
    assert log.report.bytes_cut == 0
    left = [repair for repair in log.report.repairs if repair.what == "left damage in"]
    if not clean or left:
        assert [repair.detail.split(":")[0] for repair in left] == [
            f"{size} bytes at {3 * size}",
            f"{size} bytes at {5 * size}",
        ]
    for offset in range(18):
        if offset // 2 in (3, 5):
            with pytest.raises(ApiError):
                log.read(offset, size, end=18)
        else:
            assert log.read(offset, size, end=18).next_offset == offset // 2 * 2 + 2
    assert put(log, "next").base_offset == 18


def test_damage_to_what_was_not_synced_is_cut_as_any_torn_tail(disk):
    crashed(disk, 9)
    size = len(batch("000"))
    disk.flip(ACTIVE, 3 * size + 16)
    log = open_log(disk, recovery_point=3)
    assert log.log_end_offset == 3
    assert log.report.bytes_cut == 6 * size
