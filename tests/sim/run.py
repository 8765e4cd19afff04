"""One seed, from an empty keeper to a cluster that is whole again; and many of them.

python -m tests.sim.run [--seed N] [--count N] [--first N] [--jobs N]
"""

import argparse
import gc
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from tests.sim.client import Client
from tests.sim.cluster import Cluster
from tests.sim.copying import few_epochs
from tests.sim.faults import Faults
from tests.sim.limits import limits_of
from tests.sim.world import ViolationError, World

from ottla.base.ids import INTERNAL_TOPICS, TopicPartition
from ottla.broker import liveness
from ottla.records.batch import split
from ottla.records.record import read_records

FOUNDING_MS = 20_000
NOISE_MS = (3_000, 10_000)
COPYING_MS = (5_000, 12_000)  # of noise, where there are transactions
SETTLING_MS = 40_000
CHECK_MS = 100
STEP_MS = 250
FAILED_MAX = 20

Waiting = Callable[[], str | None]  # why there is still something to wait for


@dataclass(frozen=True)
class Outcome:
    seed: int
    problem: str | None
    digest: int
    events: int
    counts: dict[str, int] = field(default_factory=dict)
    tail: tuple[str, ...] = ()

    def report(self) -> str:
        return "\n".join(
            [*self.tail, f"seed {self.seed}: {self.problem}", f"again: make sim SEED={self.seed}"]
        )


class BugHandler(logging.Handler):
    """The core says `bug:` when it has found itself wrong."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.bugs: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.world.note("log:", record.getMessage())
        if record.levelno >= logging.ERROR and record.name != "ottla.broker.partitions":
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + "".join(traceback.format_exception(*record.exc_info))
            self.bugs.append(text)


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """The faults of a seed last for some seconds: nobody takes longer over a suspicion."""
    with (
        patch.object(liveness, "UNREACHABLE_MS", 1_200),
        patch.object(liveness, "DOUBT_MS", 2_500),
        patch.object(liveness, "AGAIN_MS", 5_000),
    ):
        yield


def run(seed: int, *, keep_all: bool = False) -> Outcome:
    limits = limits_of(seed)
    with in_a_hurry(), limits.applied(), few_epochs(seed):
        return _run(World(seed, keep_all=keep_all, limits=limits), keep_all=keep_all)


def _run(world: World, *, keep_all: bool) -> Outcome:
    logger, handler = logging.getLogger("ottla"), BugHandler(world)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if keep_all else logging.WARNING)
    logger.propagate = False
    gc.unfreeze()  # what the run before this one has left, and was frozen while something still held it
    gc.collect()
    gc.freeze()  # what was there before need not be looked at again when this run is thrown away
    gc.disable()
    cluster = None
    problem: str | None = None
    try:
        cluster = Cluster(world)
        _live(cluster, handler)
    except ViolationError as violation:
        problem = str(violation)
    except Exception:  # noqa: BLE001  (whatever the core lets out is what we look for)
        problem = traceback.format_exc()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
        gc.enable()
    return Outcome(
        world.seed,
        problem,
        world.digest,
        world.events_run,
        _counts(cluster),
        tuple(world.tail) if problem else (),
    )


def _counts(cluster: Cluster | None) -> dict[str, int]:
    if cluster is None:
        return {}
    ledger = cluster.ledger
    return {
        "acknowledged": ledger.acknowledged_count,
        "read": ledger.read_count,
        "committed": ledger.offsets_count,
        "elections": cluster.invariants.elections,
        "seats": cluster.invariants.seats,
        "starts": sum(machine.starts for machine in cluster.machines.values()),
        **({} if cluster.copying is None else cluster.copying.counts()),
        **cluster.world.reached,
    }


def _live(cluster: Cluster, handler: BugHandler) -> None:
    world = cluster.world
    cluster.founder.start()
    _wait(cluster, handler, FOUNDING_MS, lambda: None if cluster.founder.is_done else "no topics yet")
    if cluster.copying is not None:
        admin = cluster.copying.feature_admin()
        admin.start()
        _wait(cluster, handler, FOUNDING_MS, lambda: None if admin.is_done else "not at its level yet")
    cluster.add_clients()
    if cluster.scraper is not None:
        cluster.scraper.start()
    noise_ms = world.draw(*(NOISE_MS if cluster.copying is None else COPYING_MS))
    faults = Faults(cluster, world.now_ms + noise_ms)
    faults.start()
    advance(cluster, handler, noise_ms)
    faults.end()
    world.is_calm = True
    for client in cluster.clients:
        client.is_stopping = True
    _wait(cluster, handler, SETTLING_MS, lambda: _unsettled(cluster, cluster.expected))
    _check_end(cluster)
    last: list[Client] = [*cluster.auditors(), *cluster.latecomers()]
    if cluster.copying is not None:
        last.append(cluster.copying.auditor())
    for client in last:
        client.start()
    _wait(cluster, handler, SETTLING_MS, lambda: next((one.name for one in last if not one.is_done), None))
    _wait(cluster, handler, SETTLING_MS, lambda: _busy(cluster))


def advance(cluster: Cluster, handler: BugHandler, duration_ms: int) -> None:
    world, end_ms = cluster.world, cluster.world.now_ms + duration_ms
    while world.now_ms < end_ms:
        world.run_until(min(world.now_ms + CHECK_MS, end_ms))
        cluster.invariants.check()
        if handler.bugs:
            raise ViolationError(f"the broker says: {handler.bugs[0]}")


def _wait(cluster: Cluster, handler: BugHandler, longest_ms: int, waiting: Waiting) -> None:
    end_ms = cluster.world.now_ms + longest_ms
    while (reason := waiting()) is not None:
        if cluster.world.now_ms >= end_ms:
            raise ViolationError(f"after {longest_ms} ms without a fault: {reason}")
        advance(cluster, handler, STEP_MS)


def _unsettled(cluster: Cluster, expected: dict[str, int]) -> str | None:
    reason = cluster.invariants.unsettled(expected)
    if reason is not None:
        return reason
    busy: list[Client] = [client for client in cluster.clients if not client.is_done]
    if busy:
        return f"{busy[0].name} has not stopped"
    for consumer in cluster.consumers:
        end = cluster.invariants.end(consumer.topic, consumer.partition)
        if consumer.position < end:
            return f"{consumer.name} is at {consumer.position} of {end}"
    if cluster.copying is not None and (reason := cluster.copying.unsettled()) is not None:
        return reason
    return cluster.scraper.unsettled() if cluster.scraper is not None else None


def _busy(cluster: Cluster) -> str | None:
    """What is large, or was given to the worker, is done at some time."""
    for id, machine in cluster.machines.items():
        process = machine.running
        if process is None:
            continue
        if process.broker.slices.next_ms() is not None or len(process.worker):
            return f"broker {id} still has large requests to serve"
        if unsent := process.broker.allowance.unsent_bytes:
            return f"broker {id} counts {unsent} bytes of answers that nobody waits for"
    return None


def _check_end(cluster: Cluster) -> None:
    for topic, (topic_id, partitions) in cluster.invariants.topics.items():
        if topic in INTERNAL_TOPICS:
            continue
        for index in partitions:
            data = cluster.invariants.contents(TopicPartition(topic, index), topic_id)
            values = {
                record.offset: (record.value or b"").decode()
                for header, batch in split(memoryview(data))
                if not header.is_control
                for record in read_records(batch, header)
            }
            cluster.ledger.check_log((topic_id, index), values)
    if cluster.copying is not None:
        cluster.copying.check_end()


# Many seeds


def run_all(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    if jobs <= 1:
        yield from map(run, seeds)
        return
    pool = ProcessPoolExecutor(jobs)
    try:
        yield from pool.map(run, seeds, chunksize=8)
    finally:
        pool.shutdown(cancel_futures=True)  # whoever stops early wants no more


def main() -> None:
    parser = argparse.ArgumentParser(description="Run simulated clusters.")
    parser.add_argument("--seed", type=int, help="one seed, with its transcript")
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep-going", action="store_true")
    asked = parser.parse_args()
    if asked.seed is not None:
        outcome = run(asked.seed, keep_all=True)
        print(outcome.report() if outcome.problem else f"seed {asked.seed} is well: {outcome.counts}")
        sys.exit(outcome.problem is not None)
    began, done, failed = time.monotonic(), 0, []
    totals: dict[str, int] = {}
    for outcome in run_all(range(asked.first, asked.first + asked.count), asked.jobs):
        done += 1
        for name, count in (*outcome.counts.items(), ("events", outcome.events)):
            totals[name] = totals.get(name, 0) + count
        if outcome.problem:
            failed.append(outcome.seed)
            print(f"seed {outcome.seed}: {outcome.problem.strip().splitlines()[-1]}", flush=True)
            if not asked.keep_going or len(failed) >= FAILED_MAX:
                break
        if done % 500 == 0:
            print(f"{done} seeds in {time.monotonic() - began:.0f} s, {len(failed)} failed", flush=True)
    print(f"{done} seeds in {time.monotonic() - began:.0f} s: {totals}")
    if failed:
        print(f"failed: {failed}; the first again: make sim SEED={failed[0]}")
        sys.exit(1)


if __name__ == "__main__":
    main()
