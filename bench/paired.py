"""Does a change cost anything? `python -m bench.paired BEFORE` runs W1, W2, small fetches and commits of
offsets against the tree at BEFORE and against this one, in turns, and against BEFORE once more: what that
differs from itself is what this machine cannot tell apart.

BEFORE is a checkout, as `git worktree add ../before COMMIT` makes one; both run with this interpreter and
what is installed beside it. Figures are of the broker: processor time for a record, and how long it took.

A turn takes some hundredths of a second, so that all trees meet the same moods of the machine. What a process
happens to be given when it starts (addresses, hashes) stays with it, so there are several starts: each gives
one ratio, of the sums over its turns, and what is shown is their median, with the middle half of them.
"""

import argparse
import contextlib
import os
import random
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from bench import cpu_clock, wire
from bench import wire_groups as groups
from bench.load_raw import TIMEOUT_S, checked, replay
from bench.servers import HOST, ROOT, Ottla, PeerError, clean_environment, end_on_sigterm

TOPIC, GROUP = "paired", "pairs"
COORDINATOR_S = 30.0  # that a group's coordinator may take to be there
BEFORE, AFTER, AGAIN = "before", "after", "before again"
IN_FLIGHT = 5


class Turn(NamedTuple):
    cpu_ns: int
    wall_s: float


Load: TypeAlias = Callable[[], None]
Measured: TypeAlias = dict[str, list[Turn]]  # by tree


class Tree(Ottla):
    """A broker with the code of some checkout."""

    def __init__(self, name: str, root: str, settings: tuple[str, ...] = ()) -> None:
        super().__init__(settings)
        self.name = name
        self._root = root

    def environment(self) -> dict[str, str]:
        return clean_environment() | {"PYTHONPATH": os.path.join(self._root, "src")}

    def cpu_ns(self) -> int:
        """More finely than a hundredth of a second, as `cpu_seconds` has it."""
        assert self._process is not None
        return cpu_clock.cpu_ns(self._process.pid)


def _single(tree: Tree, producers: int, requests: int) -> Iterator[Load]:
    """So many producers with one message under way each."""
    request, at = wire.produce_request(TOPIC, wire.record_batch(bytes(100), 0)[0]), wire.error_offset(TOPIC)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(wire.connect(HOST, tree.port, TIMEOUT_S)) for _ in range(producers)]

        def load() -> None:
            for _ in range(requests // producers):
                for sock in sockets:
                    sock.sendall(request)
                for sock in sockets:
                    checked(wire.read_frame(sock), at)

        yield load


def _bulk(tree: Tree, record_bytes: int, batch_bytes: int, requests: int) -> Iterator[Load]:
    batch, _ = wire.record_batch(os.urandom(record_bytes), batch_bytes)
    request, at = wire.produce_request(TOPIC, batch), wire.error_offset(TOPIC)
    with wire.connect(HOST, tree.port, TIMEOUT_S) as sock:
        yield lambda: replay(sock, request, requests, IN_FLIGHT, at)


def _fetch(tree: Tree, requests: int) -> Iterator[Load]:
    """The first record, again and again."""
    request = wire.fetch_request(TOPIC, 0, 1)
    with wire.connect(HOST, tree.port, TIMEOUT_S) as sock:
        _send_one(sock)

        def load() -> None:
            for _ in range(requests):
                sock.sendall(request)
                if wire.fetch_error(wire.read_frame(sock), TOPIC):
                    raise PeerError("a fetch was refused")

        yield load


def _long_poll(tree: Tree, requests: int) -> Iterator[Load]:
    """A consumer waits at the end of the log for each record that a producer sends."""
    record, at = wire.produce_request(TOPIC, wire.record_batch(bytes(100), 0)[0]), wire.error_offset(TOPIC)
    with (
        wire.connect(HOST, tree.port, TIMEOUT_S) as producer,
        wire.connect(HOST, tree.port, TIMEOUT_S) as consumer,
    ):

        def load() -> None:
            end = _send_one(producer) + 1
            for offset in range(end, end + requests):
                consumer.sendall(wire.fetch_request(TOPIC, offset, 1 << 20, wait_ms=10_000))
                producer.sendall(record)
                checked(wire.read_frame(producer), at)
                if wire.fetch_error(wire.read_frame(consumer), TOPIC):
                    raise PeerError("a fetch was refused")

        yield load


def _send_one(sock: socket.socket) -> int:
    """The offset of a new record."""
    at = wire.error_offset(TOPIC)
    sock.sendall(wire.produce_request(TOPIC, wire.record_batch(bytes(100), 0)[0]))
    frame = wire.read_frame(sock)
    checked(frame, at)
    return int.from_bytes(frame[at + 2 : at + 10], "big")


def _commit(tree: Tree, connections: int, requests: int) -> Iterator[Load]:
    """So many clients, each of which commits an offset of a group, without being a member."""
    request = groups.commit(GROUP, "", -1, TOPIC, range(1), 1)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(wire.connect(HOST, tree.port, TIMEOUT_S)) for _ in range(connections)]
        deadline_s = time.perf_counter() + COORDINATOR_S
        sockets[0].sendall(groups.find_coordinator(GROUP))  # which makes its topic
        wire.read_frame(sockets[0])
        while not _is_committed(sockets[0], request):
            if time.perf_counter() > deadline_s:
                raise PeerError("there is no coordinator")
            time.sleep(0.05)

        def load() -> None:
            for _ in range(requests // connections):
                for sock in sockets:
                    sock.sendall(request)
                for sock in sockets:
                    if not wire.read_frame(sock).endswith(b"\0\0"):
                        raise PeerError("a commit was refused")

        yield load


def _is_committed(sock: socket.socket, request: bytes) -> bool:
    """The error of the only partition comes last."""
    sock.sendall(request)
    return wire.read_frame(sock).endswith(b"\0\0")


CASES: dict[str, Callable[[Tree], Iterator[Load]]] = {
    "W2, 1 producer": lambda tree: _single(tree, 1, 160),
    "W2, 8 producers": lambda tree: _single(tree, 8, 160),
    "W2, 64 producers": lambda tree: _single(tree, 64, 192),
    "fetch of one record": lambda tree: _fetch(tree, 160),
    "long poll, one record": lambda tree: _long_poll(tree, 80),
    "commits, 8 clients": lambda tree: _commit(tree, 8, 160),
    "W1, 16 KiB batches": lambda tree: _bulk(tree, 1024, 16 << 10, 64),
    "W1, 1 MiB batches": lambda tree: _bulk(tree, 100, 1 << 20, 8),
}


def _measure(case: Callable[[Tree], Iterator[Load]], trees: list[Tree], rounds: int) -> Measured:
    measured: Measured = {tree.name: [] for tree in trees}
    with contextlib.ExitStack() as stack:
        open_load = contextlib.contextmanager(case)
        loads = {tree: stack.enter_context(open_load(tree)) for tree in trees}
        for load in (*loads.values(), *loads.values()):
            load()  # not counted: the first time takes longer
        for _ in range(rounds):
            for tree in random.sample(trees, len(trees)):
                cpu_ns, begun_s = tree.cpu_ns(), time.perf_counter()
                loads[tree]()
                wall_s = time.perf_counter() - begun_s
                measured[tree.name].append(Turn(tree.cpu_ns() - cpu_ns, wall_s))
    return measured


def _ratio(measured: Measured, name: str, figure: int) -> float:
    return sum(turn[figure] for turn in measured[name]) / sum(turn[figure] for turn in measured[BEFORE])


def _summary(ratios: list[float]) -> str:
    ratios, quarter = sorted(ratios), len(ratios) // 4
    shown = (statistics.median(ratios), ratios[quarter], ratios[-1 - quarter])
    median, low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in shown)
    return f"{median} % ({low} to {high})"


def main() -> None:
    parser = argparse.ArgumentParser("bench.paired", description="Requests before and after a change.")
    parser.add_argument("before", help="a checkout of the commit to compare with")
    parser.add_argument("--starts", type=int, default=10, help="how often all brokers are started anew")
    parser.add_argument("--rounds", type=int, default=40, help="turns of each broker, case and start")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases with this in them")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="setting of `after` alone"
    )
    arguments = parser.parse_args()
    end_on_sigterm()
    before = os.path.abspath(arguments.before)
    chosen = [case for case in CASES if not arguments.only or any(text in case for text in arguments.only)]
    measured: dict[str, list[Measured]] = {case: [] for case in chosen}
    try:
        for _ in range(arguments.starts):
            after = Tree(AFTER, ROOT, tuple(arguments.set))
            trees = [Tree(BEFORE, before), after, Tree(AGAIN, before)]
            with trees[0], trees[1], trees[2]:
                for tree in trees:
                    tree.create_topic(TOPIC)
                for name in chosen:
                    measured[name].append(_measure(CASES[name], trees, arguments.rounds))
    except PeerError as error:
        sys.exit(str(error))
    for case_name, starts in measured.items():
        for at, figure in enumerate(("CPU", "time")):
            after_text, again = (
                _summary([_ratio(start, name, at) for start in starts]) for name in (AFTER, AGAIN)
            )
            print(f"{case_name:22} {figure:5} after {after_text:26} before again {again}")


if __name__ == "__main__":
    main()
