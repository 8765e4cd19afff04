"""Does a change cost anything? `python -m bench.paired BEFORE` runs W1 and W2 against the tree at BEFORE and
against this one, in turns, and against BEFORE once more: what that differs from itself is what this machine
cannot tell apart.

BEFORE is a checkout, as `git worktree add ../before COMMIT` makes one; both run with this interpreter and
what is installed beside it. Figures are of the broker: processor time for a record, and how long it took.
Each is the median of the ratios within a round, with the middle half of them.
"""

import argparse
import itertools
import os
import statistics
import sys
from collections.abc import Callable
from typing import TypeAlias

from bench.load import drive
from bench.servers import ROOT, Ottla, PeerError, clean_environment, end_on_sigterm
from bench.workload import LOAD_TIMEOUT_S

Measured: TypeAlias = dict[str, float]
Case: TypeAlias = Callable[["Tree"], Measured]

TOPIC = "single"
_topics = itertools.count()


class Tree(Ottla):
    """A broker with the code of some checkout."""

    def __init__(self, name: str, root: str, settings: tuple[str, ...] = ()) -> None:
        super().__init__(settings)
        self.name = name
        self._root = root

    def environment(self) -> dict[str, str]:
        return clean_environment() | {"PYTHONPATH": os.path.join(self._root, "src")}


def _single(tree: Tree, producers: int, seconds: float) -> Measured:
    result = drive(
        "single-raw",
        {
            "bootstrap": tree.bootstrap, "topic": TOPIC, "record_bytes": 100, "producers": producers,
            "seconds": seconds,
        },
        tree,
        LOAD_TIMEOUT_S,
    )  # fmt: skip
    return {"CPU": result["broker_cpu_s"] / result["records"], "time": result["p50_us"]}


def _bulk(tree: Tree, record_bytes: int, batch_bytes: int, records: int) -> Measured:
    topic = f"bulk-{next(_topics)}"
    tree.create_topic(topic)
    try:
        result = drive(
            "replay",
            {
                "bootstrap": tree.bootstrap, "topic": topic, "record_bytes": record_bytes,
                "batch_bytes": batch_bytes, "records": records, "in_flight": 5,
            },
            tree,
            LOAD_TIMEOUT_S,
        )  # fmt: skip
    finally:
        tree.delete_topic(topic)
    return {"CPU": result["broker_cpu_s"] / result["records"], "time": result["seconds"]}


def _cases(seconds: float) -> dict[str, Case]:
    """`seconds`: how long a turn takes, roughly."""
    small, large = int(100_000 * seconds), int(2_000_000 * seconds)
    return {
        "W2, 1 producer": lambda tree: _single(tree, 1, seconds),
        "W2, 8 producers": lambda tree: _single(tree, 8, seconds),
        "W1, 16 KiB batches": lambda tree: _bulk(tree, 1024, 16 << 10, small),
        "W1, 1 MiB batches": lambda tree: _bulk(tree, 100, 1 << 20, large),
    }


def _compare(measured: dict[str, list[Measured]], figure: str, name: str) -> str:
    pairs = zip(measured[name], measured["before"], strict=True)
    ratios = sorted(mine[figure] / theirs[figure] for mine, theirs in pairs)
    quarter = len(ratios) // 4
    low, high = ratios[quarter], ratios[-1 - quarter]
    return (
        f"{100 * (statistics.median(ratios) - 1):+.1f} % ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser("bench.paired", description="W1 and W2 before and after a change.")
    parser.add_argument("before", help="a checkout of the commit to compare with")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a turn takes, roughly")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="setting of `after` alone"
    )
    arguments = parser.parse_args()
    end_on_sigterm()
    before = os.path.abspath(arguments.before)
    trees = [Tree("before", before), Tree("after", ROOT, tuple(arguments.set)), Tree("before again", before)]
    try:
        with trees[0], trees[1], trees[2]:
            for tree in trees:
                tree.create_topic(TOPIC)
            for case, measure in _cases(arguments.seconds).items():
                measured: dict[str, list[Measured]] = {tree.name: [] for tree in trees}
                for turn in range(arguments.rounds):
                    first = turn % len(trees)
                    for tree in (*trees[first:], *trees[:first]):
                        measured[tree.name].append(measure(tree))
                for figure in ("CPU", "time"):
                    after, again = (_compare(measured, figure, name) for name in ("after", "before again"))
                    print(f"{case:20} {figure:5} after {after:28} before again {again}", flush=True)
    except PeerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
