"""How much a broker does before others get their turn: so little that a few records and names exceed it.

In life these limits are met by requests of thousands of items (design notes 010 and 011), which no simulated
client has the time to send. Every fourth seed has them as they are; in the others each is small in every
second, so that one meets the next in all combinations. All of them come out of the seed alone.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from ottla.api import dispatch, partition_reads, produce
from ottla.broker import allowance, controller_writes, long_work
from ottla.controller import plan
from ottla.log import cold, sequential_readers, validation

SLOW_DISKS_FROM = 4_000_000  # from this seed on disks are slow, and forget
ORDINARY_SEEDS = 0.25
SMALL = 0.5
NO_ITEMS_PER_BYTE = 1 << 20
SLICED_OF, SLICED_AT = 9, 3  # in these seeds, none of seeds.txt, the controller does little in one go

Patch = tuple[Any, str, int]


@dataclass(frozen=True)
class Limits:
    patches: tuple[Patch, ...] = ()
    slice_ms: int = 0  # the longest time from one slice of long work to the next
    round_ms: int = 0  # the longest time that a round of the loop goes on after its budget was touched
    slow_jobs: float = 0.0  # how many of the worker's jobs take long
    hang_ups: float = 0.0  # how many requests are given up by their client while they are served
    names: int = 0  # the most that a request names besides what it is about

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module, name, value in self.patches:
                stack.enter_context(patch.object(module, name, value))
            yield


ORDINARY = Limits()


def limits_of(seed: int) -> Limits:
    sliced = _controller(seed)
    random = Random(f"limits of {seed}")
    if random.random() < ORDINARY_SEEDS:
        return Limits(patches=sliced) if sliced else ORDINARY
    patches = [one for one in (*_slices(random), *_sizes(random)) if random.random() < SMALL]
    if random.random() < SMALL:
        patches += _items(random)
    if seed >= SLOW_DISKS_FROM:
        patches += _pieces(random)
    patches.append((produce, "TURN_MS_MAX", random.choice([100, 400, 1_000])))
    return Limits(
        patches=(*patches, *sliced),
        slice_ms=random.choice([0, 1, 5, 20]),
        round_ms=random.choice([0, 0, 2, 10]),
        slow_jobs=random.choice([0.0, 0.1, 0.4]),
        hang_ups=random.choice([0.0, 0.01, 0.05]),
        names=random.choice([0, 4, 40]),
    )


def _controller(seed: int) -> tuple[Patch, ...]:
    if seed % SLICED_OF != SLICED_AT:
        return ()
    return (
        (controller_writes, "LOOKED_MAX", 1 + seed // SLICED_OF % 4),
        (controller_writes, "BALANCED_MAX", 1),
        (plan, "COUNTED_MAX", 1),
    )


def _pieces(random: Random) -> list[Patch]:
    """What is brought in from the disk at once: not all of such a small file."""
    return [
        (cold, "PIECE_BYTES_MIN", random.choice([1, 200])),
        (sequential_readers, "AHEAD_BYTES", random.choice([0, 300])),
    ]


def _slices(random: Random) -> list[Patch]:
    """A look at the meter takes a step: a slice of one would have no time for anything."""
    return [
        (long_work, "FIRST_US", long_work.STEP_US * random.choice([1, 2, 4])),
        (long_work, "SLICE_US", long_work.STEP_US * random.choice([3, 6, 12])),
    ]


def _sizes(random: Random) -> list[Patch]:
    return [
        (dispatch, "LARGE_REQUEST_BYTES", random.choice([40, 100, 250])),
        (dispatch, "LARGE_ANSWER_BYTES", random.choice([40, 100, 250])),
        (partition_reads, "LONG", random.choice([0, 1])),
    ]


def _items(random: Random) -> list[Patch]:
    """A request has as much as a batch costs by itself, at the least, or its turn would never come."""
    at_once = random.choice([2, 4, 8])
    return [
        (validation, "ITEMS_MIN", 1),
        (validation, "ITEMS_FREE", random.choice([1, 2, 4])),
        (validation, "ITEM_BYTES", NO_ITEMS_PER_BYTE),
        (validation, "ITEMS_AT_ONCE", at_once),
        (validation, "BYTES_FREE", random.choice([0, 60, 1_000])),
        (validation, "BYTES_RATIO", 1),
        (allowance, "ITEMS_PER_ROUND", at_once * random.choice([1, 2])),
        (allowance, "ITEMS_FOR_SMALL", max(at_once // 2, 1)),
        (produce, "ITEMS_PER_BATCH", 1),
    ]
