"""Leader epochs: what began where, and where it ended."""

import pytest
from tests.log.helpers import append, open_log
from tests.log.simdisk import SimDisk

from ottla.log.epochs import LeaderEpochs

PATH = "/data/leader-epoch-checkpoint"


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/data")
    return disk


def epochs(disk, *entries):
    cache = LeaderEpochs(disk, PATH)
    for entry in entries:
        cache.assign(*entry)
    return cache


def test_the_file_is_kafkas_and_is_read_again(disk):
    cache = epochs(disk, (0, 0), (3, 17))
    assert disk.read(PATH) == b"0\n2\n0 0\n3 17\n"
    again = LeaderEpochs(disk, PATH)
    assert again.load()
    assert again.entries == cache.entries
    assert again.latest == 3


def test_no_beginning_of_the_file_is_taken_for_the_whole(disk):
    """A power cut left "2 1" of "2 10": the leader then took the records of epoch 0 for those of epoch 2, and
    no follower could ever match its log (simulator, seed 1819)."""
    epochs(disk, (0, 0), (2, 10))
    whole = disk.read(PATH)
    for size in range(len(whole)):
        disk.write_atomic(PATH, whole[:size])
        assert not LeaderEpochs(disk, PATH).load()


def test_what_is_above_the_recovery_point_is_told_by_the_batches(disk):
    """A power cut brought back the file from before a truncation: epoch 5 had begun where epoch 4 goes on."""
    log = open_log(disk)
    append(log, epoch=4)
    append(log, epoch=4)
    log.flush()
    append(log, epoch=4)
    disk.write_atomic(log.epochs.path, b"0\n2\n4 0\n5 2\n")
    disk.crash()
    again = open_log(disk, recovery_point=2)
    assert again.epochs.entries == ((4, 0),)
    assert disk.read(again.epochs.path) == b"0\n1\n4 0\n"


def test_the_end_of_an_epoch_is_the_start_of_the_next_larger_one(disk):
    cache = epochs(disk, (2, 10), (3, 20), (6, 30))
    answers = {epoch: cache.end_offset_for(epoch, 99) for epoch in (-1, 1, 2, 3, 4, 5, 6, 7)}
    assert answers == {
        -1: (-1, -1),
        1: (1, 10),
        2: (2, 20),
        3: (3, 30),
        4: (3, 30),
        5: (3, 30),
        6: (6, 99),
        7: (-1, -1),
    }
    assert LeaderEpochs(disk, PATH).end_offset_for(0, 5) == (-1, -1)


def test_an_epoch_without_records_is_superseded_at_the_same_offset(disk):
    assert epochs(disk, (1, 0), (2, 5), (3, 5)).entries == ((1, 0), (3, 5))


def test_assigning_again_changes_nothing_and_writes_nothing(disk):
    cache = epochs(disk, (1, 0))
    written = []
    cache.watch(lambda: written.append(1))
    cache.assign(1, 9)
    assert (cache.entries, written) == (((1, 0),), [])
    cache.assign(2, 9)
    assert written == [1]


def test_a_contradiction_drops_what_stands_against_it(disk):
    assert epochs(disk, (1, 0), (2, 5), (5, 9)).entries == ((1, 0), (2, 5), (5, 9))
    assert epochs(disk, (1, 0), (5, 9), (4, 9)).entries == ((1, 0), (4, 9))


def test_truncation_at_both_ends(disk):
    cache = epochs(disk, (1, 0), (2, 10), (3, 20))
    cache.truncate_from_end(20)
    assert cache.entries == ((1, 0), (2, 10))
    cache.truncate_from_start(15)
    assert cache.entries == ((2, 15),)
    assert cache.latest == 2
    cache.truncate_from_start(5)
    assert cache.entries == ((2, 15),)
    cache.clear()
    assert (cache.entries, cache.latest) == ((), -1)
    assert disk.read(PATH) == b"0\n0\n"


def test_the_epoch_of_an_offset(disk):
    cache = epochs(disk, (1, 5), (2, 10))
    assert [cache.epoch_for(offset) for offset in (0, 5, 9, 10, 99)] == [-1, 1, 1, 2, 2]
