"""Any damage to any files of a partition: it opens, it answers, and what it cannot read is an error code."""

import copy
from random import Random

import pytest
from tests.log.helpers import NOW, append, idempotent, newest, open_log, put, records, run_syncs
from tests.log.simdisk import SimDisk

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.log import Log

CONFIG = {"segment_bytes": 700, "index_interval_bytes": 120}
COUNT = 40


def sound_disk() -> SimDisk:
    disk = SimDisk()
    log = open_log(disk, **CONFIG)
    for number in range(COUNT):
        if number % 3:
            put(log, f"{number}-" + "x" * (number * 7 % 90), at=NOW + number)
        else:
            append(log, idempotent(number // 3, f"{number}", at=NOW + number), epoch=number // 10)
    log.close()
    return disk


def damage(disk: SimDisk, random: Random) -> None:
    name = random.choice(sorted(disk.nodes))
    data = disk.nodes[name].data
    kind = random.random()
    if kind < 0.1:
        del disk.nodes[name]
    elif kind < 0.3:
        del data[random.randint(0, len(data)) :]
    elif kind < 0.4:
        data += random.randbytes(random.randint(1, 100))
    elif kind < 0.5:
        data += bytes(random.randint(1, 100))
    elif data:
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def attempt(action, *arguments, **more) -> None:
    try:
        action(*arguments, **more)
    except ApiError as error:
        code = error.code
    else:
        return
    assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def use(log: Log, random: Random) -> None:
    """Everything that reads, and then what a leader and a follower do with a log."""
    attempt(records, log)
    attempt(records, log, max_bytes=200)
    attempt(log.offset_for_timestamp, NOW + random.randint(0, COUNT))
    attempt(lambda: newest(log))
    attempt(log.bytes_between, 0, COUNT)
    end = put(log, "new").base_offset
    assert [record.value for record in records(log, end)] == [b"new"]
    attempt(log.truncate_to, random.randint(0, COUNT), NOW)
    log.roll(NOW)
    put(log, "after")
    run_syncs(log)
    log.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_partition_opens_and_answers(seed):
    random = Random(seed)
    sound = sound_disk()
    for _ in range(40):
        disk = copy.deepcopy(sound)
        disk.crash()
        for _ in range(random.randint(1, 4)):
            damage(disk, random)
        point, clean = random.randint(0, COUNT), random.random() < 0.5
        use(open_log(disk, recovery_point=point, clean=clean, **CONFIG), random)
