"""`make fuzz`: hostile frames by the hundred thousand, from one seed, on every processor.

    make fuzz                  a few minutes
    make fuzz N=1000000        as many cases as that
    make fuzz SEED=7           others
    make fuzz CASE=FILE        a case that was found, again

Five lanes. Requests of every API and version, made from kio's schemas and lied about (`mutate`), and record
batches changed in every byte, go through a whole broker in this process (`arena`). A part of the requests
goes to a real broker, which must serve and start again afterwards (`fuzz_broker`). Strangers lie to another
about SASL and TLS (`fuzz_handshakes`). The decoders alone are searched by coverage, if there is an atheris
(`fuzz_decoders`).

The first two are cut into chunks, each with a seed and a broker of its own. What is found is written to a
file, with no more frames than it takes to see it again.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path

from tests.hostile.arena import TOPICS, Arena, Found, Report
from tests.hostile.generate import PAIRS, Generator
from tests.hostile.mutate import GIANTS_EVERY, Case, batches, giants, mutants
from tests.kafka_clients.wire_client import frame_of, produce_request

from ottla.api.table import TABLE
from ottla.base.ids import OFFSETS_TOPIC

FOLDER = Path(".fuzz")
CHUNK = 5_000
SHARES = {"requests": 0.76, "batches": 0.2, "broker": 0.02, "handshakes": 0.02}
REAL = ("broker", "handshakes")  # lanes with a real broker
SEED = 11
PRODUCE_VERSION = 9
FOUND_MAX = 5  # of one chunk: more are most often the same


# What is sent


def requests(chance: random.Random, arena: Arena, *, with_giants: bool = True) -> Iterator[Case]:
    """Every API and version in turn, in an order of the seed's."""
    records = [b"", chance.randbytes(80), *(case.frame for case in islice(batches(chance), 0, 400, 40))]
    while True:
        for key, version in chance.sample(PAIRS, len(PAIRS)):
            sample = Generator(chance, arena.pool(records)).sample(key, version)
            large = giants(sample) if with_giants and chance.randrange(GIANTS_EVERY) == 0 else ()
            for case in chain(mutants(sample, chance), large):
                yield Case(f"{TABLE[key].title} v{version}: {case.what}", case.frame)


def produced_batches(chance: random.Random, _arena: Arena) -> Iterator[Case]:
    while True:
        for case in batches(chance):
            topic = chance.choice((*TOPICS, *TOPICS, OFFSETS_TOPIC))
            request = produce_request(topic, case.frame, chance.randrange(2 if topic == OFFSETS_TOPIC else 3))
            yield Case(f"batch, {case.what}", frame_of(request, PRODUCE_VERSION)[4:])


LANES = {
    "requests": requests,
    "small requests": partial(requests, with_giants=False),
    "batches": produced_batches,
}


# Chunks


def run_chunk(task: tuple[str, int, int]) -> Report:
    lane, seed, count = task
    if lane == "broker":
        from tests.hostile.fuzz_broker import run

        return run(seed, count)
    if lane == "handshakes":
        from tests.hostile import fuzz_handshakes

        return fuzz_handshakes.run(seed, count)
    report, chance, arena = Report(lane), random.Random(f"{lane} {seed}"), Arena()
    sent: list[bytes] = []
    name = f"{lane}-{seed}".replace(" ", "-")
    for case in islice(LANES[lane](chance, arena), count):
        sent.append(case.frame)
        report.cases += 1
        try:
            outcome = arena.take(case.frame)
            if lane == "batches" and outcome == "answered":
                arena.check_readable()
        except Found as found:
            note(report, name, case.what, str(found), sent)
            report.add(arena)
            if len(report.found) >= FOUND_MAX:
                return report
            arena, sent = Arena(), []
    try:
        arena.end()
    except Found as found:
        note(report, name, "the end", str(found), sent)
    report.add(arena)
    return report


def note(report: Report, name: str, what: str, why: str, sent: list[bytes]) -> None:
    path = save(name, what, why, sent)
    if path is not None:
        report.found.append(f"{what}: {why.splitlines()[-1]} ({path})")


# What was found


def save(name: str, what: str, why: str, sent: list[bytes]) -> Path | None:
    """The fewest of the last frames that show it again; None if it took long only once."""
    frames, is_seen = sent, False
    for last in (1, 10, 100, 1_000, len(sent)):
        if last <= len(sent) and replay(sent[-last:]) is not None:
            frames, is_seen = sent[-last:], True
            break
    if not is_seen and "processor time" in why:
        return None
    FOLDER.mkdir(exist_ok=True)
    digest = hashlib.sha256(b"".join(frames)).hexdigest()[:12]
    path = FOLDER / f"{name}-{digest}.json"
    case = {"what": what, "why": why, "frames": [frame.hex() for frame in frames]}
    path.write_text(json.dumps(case, indent=1))
    return path


def replay(frames: list[bytes]) -> str | None:
    """What is wrong, if something is."""
    arena = Arena()
    try:
        for frame in frames:
            arena.take(frame)
            arena.check_readable()
        arena.end()
    except Found as found:
        return str(found)
    finally:
        arena.close()
    return None


# The command


def tasks(count: int, seed: int) -> list[tuple[str, int, int]]:
    made = []
    for lane, share in SHARES.items():
        left, number = round(count * share), 0
        size = left if lane in REAL else CHUNK
        while left > 0:
            made.append((lane, seed * 1_000_000 + number, min(left, size)))
            left, number = left - size, number + 1
    return sorted(made, key=lambda task: task[0] not in REAL)  # real brokers take longest, and begin


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--case", type=Path)
    given = parser.parse_args()
    if given.case is not None:
        sys.exit(run_case(given.case))
    sys.exit(run(given.count, given.seed, given.jobs))


def run_case(path: Path) -> str | None:
    """What is wrong with a case that was found, if it still is."""
    if path.suffix != ".json":
        from tests.hostile.fuzz_decoders import main as decode

        decode(str(path))
        return None
    frames = [bytes.fromhex(frame) for frame in json.loads(path.read_text())["frames"]]
    found = replay(frames)
    print(f"{len(frames)} frames, and {'something' if found else 'nothing'} is wrong")
    return found


def run(count: int, seed: int, jobs: int) -> str | None:
    began = time.monotonic()
    print(f"fuzz: {count} cases, seed {seed}, {jobs} processes", flush=True)
    totals = {lane: Report(lane) for lane in SHARES}
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for report in pool.imap_unordered(run_chunk, tasks(count, seed)):
            total = totals[report.lane]
            total.cases += report.cases
            total.outcomes += report.outcomes
            total.slowest_s = max(total.slowest_s, report.slowest_s)
            total.found += report.found
            for line in report.found:
                print(f"found: {line}", flush=True)
    for total in totals.values():
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(total.outcomes.items()))
        print(f"{total.lane}: {total.cases} cases ({counts}), the slowest {total.slowest_s * 1000:.0f} ms")
    from tests.hostile.fuzz_decoders import search

    found = [line for total in totals.values() for line in total.found] + search(count // 2, seed, jobs)
    cases = sum(total.cases for total in totals.values())
    print(f"{cases} cases in {time.monotonic() - began:.0f} s, seed {seed}, {len(found)} found")
    return f"{len(found)} found; again with: make fuzz CASE=FILE" if found else None


if __name__ == "__main__":
    main()
