"""W5: a consumer that was away catches up on 10 GB while a producer goes on.

One partition, records of 1 KiB in batches of 64 KiB, read from the beginning over a plain socket, with a
megabyte a request. Beside it a bystander sends a small record every few milliseconds to another topic.

quiet   nobody reads: what the bystander waits on this machine
hot     all of the log is in the page cache
cold    nothing of it is, at the beginning (`bench.page_cache` says how it is dropped)
again   once more after `cold`, in the same turn: the pages are in memory as reading has left them

A turn begins with the logs of all brokers out of the page cache, so that memory for two of them is not
needed. `in memory` is how much of the log was there when reading began: a machine with less memory than the
log has no hot case, and it shows there.
"""

import os
import time

from bench import page_cache
from bench.bystander import Bystander
from bench.common_loads import KEPT, fill, read_all
from bench.report import Column, Figures, Outcome, Row, ratio, with_ratio
from bench.servers import Peer, PeerError
from bench.targets import CATCH_UP_RATIO, Verdict
from bench.workload import Contender, Scale, take_turns, up

COLUMNS = (
    Column("in_memory", "in memory %", 0, 100),
    Column("mb_per_s", "MB/s"),
    Column("seconds", "s", 1),
    Column("cpu_s_per_gb", "CPU-s / GB", 2),
    Column("client_cpu_s", "client CPU-s", 1),
    Column("p50_us", "beside it: p50 ms", 2, 1e-3),
    Column("p99_us", "p99 ms", 2, 1e-3),
    Column("longest_us", "longest ms", 0, 1e-3),
    Column("spread", "spread %", 0, 100),
    Column("of_apache", "x Apache", 2),
)
OLD, SMALL = "old", "small"
RECORD_BYTES, BATCH_BYTES = 1024, 64 << 10
BYTES_PER_S_MIN = 5e6  # below that the machine is of no use for this
QUIET, HOT, COLD, AGAIN = "quiet", "hot", "cold", "again"


class _Stored:
    """A broker with its log."""

    def __init__(self, peer: Peer, size: int) -> None:
        self.peer = peer
        self._timeout_s = 60 + size / BYTES_PER_S_MIN
        for topic in (OLD, SMALL):
            peer.create_topic(topic, KEPT)
        self._end_offset = fill(peer, OLD, size // RECORD_BYTES, RECORD_BYTES, BATCH_BYTES, self._timeout_s)

    def files(self) -> list[str]:
        return page_cache.log_files(os.path.join(self.peer.folder, "data"), OLD)

    def forget(self) -> None:
        for path in self.files():
            page_cache.forget(path)

    def quiet(self, seconds: float) -> Figures:
        with Bystander(self.peer, SMALL) as bystander:
            time.sleep(seconds)
        return {key: bystander.figures[key] for key in ("p50_us", "p99_us", "longest_us")}

    def hot(self) -> Figures:
        for path in self.files():
            page_cache.bring_in(path)
        return self.read()

    def cold(self) -> Figures:
        """And once more, with another name for each figure."""
        cold, again = self.read(), self.read()
        return {**cold, **{f"{AGAIN}_{key}": figure for key, figure in again.items()}}

    def read(self) -> Figures:
        in_memory = page_cache.share_in_memory(self.files())
        with Bystander(self.peer, SMALL) as bystander:
            taken = read_all(self.peer, OLD, self._end_offset, timeout_s=self._timeout_s)
        megabytes = taken.pop("mb") or 0.0
        return {
            **bystander.figures,
            **taken,
            "in_memory": in_memory,
            "cpu_s_per_gb": ratio(taken["broker_cpu_s"], megabytes / 1e3),
        }


def _contender(stored: _Stored, everyone: list[_Stored], case: str, quiet_s: float) -> Contender:
    def measure() -> Figures:
        if case == QUIET:
            return stored.quiet(quiet_s)
        for each in everyone:
            each.forget()
        return stored.hot() if case == HOT else stored.cold()

    return Contender(stored.peer.name, measure)


def _split(outcome: Outcome) -> None:
    """What was read again has rows of its own."""
    for row in [row for row in outcome.rows if row.case == COLD]:
        prefix = f"{AGAIN}_"

        def again(figures: Figures, prefix: str = prefix) -> Figures:
            return {key.removeprefix(prefix): each for key, each in figures.items() if key.startswith(prefix)}

        rounds = tuple(again(figures) for figures in row.rounds)
        outcome.rows.append(Row(AGAIN, row.peer, again(row.figures), row.note, rounds))


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    size = f"{scale.catch_up_bytes / 1e9:g} GB"
    outcome = Outcome("W5", f"catching up on {size} while a producer goes on", COLUMNS)
    with up(brokers, outcome, scale) as running:
        everyone = []
        for peer in running:
            scale.say(f"W5: {peer.name}, writing {size}")
            try:
                everyone.append(_Stored(peer, scale.catch_up_bytes))
            except PeerError as error:
                outcome.rows.append(Row("writing", peer.name, {}, f"failed: {error}"))
        for case in (QUIET, HOT, COLD):
            contenders = [_contender(stored, everyone, case, scale.idle_s) for stored in everyone]
            take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)
    _split(outcome)
    with_ratio(outcome, "mb_per_s")
    for case in (HOT, COLD):
        figure = outcome.figure(case, "Ottla", "of_apache")
        outcome.verdicts.append(Verdict(CATCH_UP_RATIO, figure, case))
    return outcome
