"""Whatever happens to a log with transactions, a reader of what is committed sees just that.

Random producers write, commit and abort; segments are rolled, deleted and compacted; the log is cut, closed,
killed and loses power. The oracle is a list of what was written, cut where the log was cut.
"""

from dataclasses import dataclass, field
from random import Random

import pytest
from tests.log.cleaning_helpers import COMPACT, compact, keyed
from tests.log.helpers import FOLDER, NOW, TP, append, open_log, run_syncs
from tests.log.read_committed import read_committed
from tests.log.simdisk import SimDisk, page_cache, power_loss

from ottla.log.log import Log
from ottla.records.control import Marker

PRODUCERS = 5


@dataclass
class Written:
    """One batch: the records of one producer, or (`ends`) the marker of its transaction."""

    offset: int
    producer_id: int | None
    epoch: int = 0
    pairs: list[tuple[str, str]] = field(default_factory=list)
    ends: bool | None = None


@dataclass
class Oracle:
    written: list[Written] = field(default_factory=list)

    def cut(self, end: int) -> None:
        self.written = [batch for batch in self.written if batch.offset + max(len(batch.pairs), 1) <= end]

    def open_at(self, start: int = 0) -> dict[int, int]:
        """The producers whose transaction is open, and where it began, for all that is known from `start`."""
        begun: dict[int, int] = {}
        for batch in self.written:
            if batch.producer_id is not None and batch.ends is not None:
                begun.pop(batch.producer_id, None)
            elif batch.producer_id is not None and batch.offset >= start:
                begun.setdefault(batch.producer_id, batch.offset)
        return begun

    def epoch_of(self, producer_id: int) -> int:
        return max((batch.epoch for batch in self.written if batch.producer_id == producer_id), default=0)

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        return sum(
            len(batch.pairs)
            for batch in self.written
            if batch.producer_id == producer_id and batch.epoch == epoch
        )

    def committed(self, start: int, stable: int) -> list[tuple[int, str, str]]:
        """All that is below the last stable offset and counts."""
        waiting, seen = dict[int, list[tuple[int, str, str]]](), list[tuple[int, str, str]]()
        for batch in self.written:
            records = [(batch.offset + at, *pair) for at, pair in enumerate(batch.pairs)]
            if batch.producer_id is None:
                seen += records
            elif batch.ends is None:
                waiting.setdefault(batch.producer_id, []).extend(records)
            elif batch.ends:
                seen += waiting.pop(batch.producer_id, [])
            else:
                waiting.pop(batch.producer_id, None)
        return [record for record in sorted(seen) if start <= record[0] < stable]


class Run:
    def __init__(self, seed: int, *, compacts: bool) -> None:
        self.random, self.disk, self.oracle = Random(seed), SimDisk(), Oracle()
        self.compacts, self.now_ms, self.count, self.deleted_to = compacts, NOW, 0, 0
        self.config = (
            COMPACT | {"delete_retention_ms": 50} if compacts else {"index_interval_bytes": 100}
        ) | {"segment_bytes": 900}
        self.log: Log = open_log(self.disk, **self.config)

    def step(self) -> None:
        random = self.random
        kinds = ["plain"] * 3 + ["transactional"] * 10 + ["end"] * 6 + ["roll", "sync", "close", "kill"]
        kinds += ["compact"] * 2 if self.compacts else ["cut", "power", "tear", "delete"]
        self.now_ms += random.choice((0, 1, 30))
        getattr(self, random.choice(kinds))()

    # Writing

    def pairs(self) -> list[tuple[str, str]]:
        self.count += 1
        return [
            (f"k{self.random.randrange(8)}", f"v{self.count}.{at}")
            for at in range(self.random.choice((1, 1, 3)))
        ]

    def plain(self) -> None:
        pairs = self.pairs()
        offset = append(self.log, keyed(*pairs), now_ms=self.now_ms).base_offset
        self.oracle.written.append(Written(offset, None, pairs=pairs))

    def transactional(self) -> None:
        producer_id, pairs, oracle = self.random.randrange(PRODUCERS), self.pairs(), self.oracle
        epoch = oracle.epoch_of(producer_id)
        sequence = oracle.next_sequence(producer_id, epoch)
        batch = keyed(
            *pairs, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )
        offset = append(self.log, batch, now_ms=self.now_ms).base_offset
        oracle.written.append(Written(offset, producer_id, epoch, pairs))

    def end(self) -> None:
        """Sometimes of a producer that has written nothing; and some markers come twice."""
        producer_id = self.random.randrange(PRODUCERS)
        epoch, committed = self.oracle.epoch_of(producer_id) + 1, self.random.random() < 0.5
        for _ in range(self.random.choice((1, 1, 2))):
            appended = self.log.append_marker(
                Marker(producer_id, epoch, committed, 0, 2), leader_epoch=0, now_ms=self.now_ms,
                wall_ms=self.now_ms,
            )  # fmt: skip
            if not appended.duplicate:
                self.oracle.written.append(Written(appended.base_offset, producer_id, epoch, ends=committed))

    # What happens to the log

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def sync(self) -> None:
        run_syncs(self.log)

    def cut(self) -> None:
        self.log.truncate_to(self.random.randint(self.log.log_start_offset, self.log.log_end_offset), NOW)
        self.oracle.cut(self.log.log_end_offset)

    def delete(self) -> None:
        self.log.advance_log_start(self.random.randint(self.log.log_start_offset, self.log.log_end_offset))
        self.deleted_to = max(self.deleted_to, self.log.log_start_offset)
        self.log.delete_old_segments(self.now_ms, self.log.log_end_offset)

    def compact(self) -> None:
        self.roll()
        self.sync()
        if len(self.log.segments) > 1:
            compact(
                self.log,
                stable=min([*self.oracle.open_at().values(), self.log.log_end_offset]),
                now_ms=self.now_ms,
            )

    def close(self) -> None:
        self.log.close()
        self._open(clean=True)

    def kill(self) -> None:
        self.disk.crash(keep=page_cache)
        self._open()

    def power(self) -> None:
        self.disk.crash(keep=power_loss)
        self._open()

    def tear(self) -> None:
        random = self.random
        self.disk.crash(keep=lambda _path, synced, size: random.randint(synced, size))
        self._open()

    def _open(self, *, clean: bool = False) -> None:
        before = self.log
        self.log = Log.open(
            self.disk, FOLDER, TP, before.config, recovery_point=before.recovery_point, clean=clean,
            log_start_offset=before.log_start_offset, dense_from=before.cleaned_to, now_ms=self.now_ms,
        )  # fmt: skip
        self.log.cleaned_to = before.cleaned_to
        self.oracle.cut(self.log.log_end_offset)

    # What is seen

    def check(self) -> None:
        log, random = self.log, self.random
        # What was deleted may come back if power is lost, and nobody knows whose it was.
        end = log.log_end_offset
        start = min(max(log.log_start_offset, self.deleted_to), end)
        stable = log.last_stable_offset(end)
        # Of a transaction whose first records were deleted, a restart finds those that are left.
        earliest = max(min([*self.oracle.open_at().values(), end]), log.log_start_offset)
        assert earliest <= stable <= min([*self.oracle.open_at(start).values(), end])
        for start in (start, random.randint(start, end)):  # noqa: B020
            max_bytes = random.choice((1, 100, 300, 1 << 20))
            records = [
                (record.offset, (record.key or b"").decode(), (record.value or b"").decode())
                for record in read_committed(log, start=start, max_bytes=max_bytes)
            ]
            expected = self.oracle.committed(start, stable)
            if not self.compacts:
                assert records == expected
                continue
            assert set(records) <= set(expected)
            assert records == sorted(records)
            assert {key: value for _, key, value in records} == {key: value for _, key, value in expected}


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("seed", [*range(20), 166, 218])  # the last two found snapshots that came back
def test_only_what_is_committed_is_seen_and_all_of_it(seed: int, compacts: bool) -> None:
    run = Run(seed, compacts=compacts)
    for _ in range(150):
        run.step()
        run.check()
