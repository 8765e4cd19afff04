"""WG: consumer groups. How soon a large one is stable, how fast offsets are committed, what a thousand cost.

stable   50 members over 1,000 partitions. From the first join sent until every member has its assignment,
         each partition one owner, and the broker lists the group as Stable. No initial delay, and heartbeats
         every 100 ms on all sides: with the defaults (3 s and 5 s) they would be all that is measured.
commits  OffsetCommit of one partition to one group without members, one request in flight per connection.
memory   1,000 groups, each with one live classic member and offsets in 10 partitions: how the broker's RSS
         grows. A JVM's says little: its heap grows by what was not collected yet, up to -Xmx.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator

from bench import load_groups, load_raw, wire, wire_groups
from bench.apache import ApacheKafka
from bench.report import Column, Figures, Outcome
from bench.servers import HOST, Ottla, Peer, PeerError
from bench.workload import Contender, Scale, take_turns, up

COLUMNS = (
    Column("stable_ms", "stable ms"),
    Column("requests", "requests"),
    Column("commits_per_s", "commits/s"),
    Column("p50_us", "p50 us"),
    Column("p99_us", "p99 us"),
    Column("rss_mb", "RSS growth MB", 1),
    Column("kb_per_group", "KB / group", 1),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("cpu_us_per_commit", "CPU us / commit", 1),
)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}
MEMBERS, PARTITIONS = 50, 1000
GROUPS, OFFSETS_PER_GROUP, WAVE = 1000, 10, 50
CONNECTIONS = (1, 8)
WIDE, NARROW = "wide", "narrow"
_numbers = itertools.count(1)


class _ApacheKafka(ApacheKafka):
    def _write_properties(self, folder: str) -> str:
        path = super()._write_properties(folder)
        with open(path, "a") as out:
            out.writelines(f"{key}={value}\n" for key, value in SETTINGS.items())
        return path


@contextlib.contextmanager
def _with_settings(brokers: list[Peer]) -> Iterator[list[Peer]]:
    """The same peers, with the settings of this workload."""
    peers: list[Peer] = []
    for broker in brokers:
        if isinstance(broker, Ottla):
            peers.append(Ottla((*(f"{key}={value}" for key, value in SETTINGS.items()), *broker.settings)))
        elif isinstance(broker, ApacheKafka):
            peers.append(_ApacheKafka())
    try:
        yield peers
    finally:
        for peer in peers:
            peer.close()


def _stable(peer: Peer, kind: str) -> Figures:
    before = peer.cpu_seconds()
    taken_s, requests = load_groups.time_to_stable(
        peer.port, kind, f"{kind}-{next(_numbers)}", WIDE, MEMBERS, PARTITIONS
    )
    return {"stable_ms": taken_s * 1e3, "requests": requests, "broker_cpu_s": peer.cpu_seconds() - before}


def _commits(peer: Peer, connections: int, seconds: float) -> Figures:
    request = wire_groups.commit("commits", "", -1, NARROW, range(1), 1)
    at = wire_groups.commit_error_offset(NARROW)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(wire.connect(HOST, peer.port, 30.0)) for _ in range(connections)]
        before, started = peer.cpu_seconds(), time.perf_counter()
        if connections == 1:
            latencies_s = load_raw._one(sockets[0], request, at, started + seconds)
        else:
            latencies_s = load_raw._many(sockets, request, at, started + seconds)
        found = load_raw.summary(latencies_s, time.perf_counter() - started)
        cpu_s = peer.cpu_seconds() - before
    return {
        "commits_per_s": found["records"] / found["seconds"],
        "p50_us": found["p50_us"],
        "p99_us": found["p99_us"],
        "broker_cpu_s": cpu_s,
        "cpu_us_per_commit": 1e6 * cpu_s / found["records"],
    }


def _memory(peer: Peer) -> Figures:
    before_rss, _ = peer.memory_bytes()
    before = peer.cpu_seconds()
    for first in range(0, GROUPS, WAVE):
        names = [f"one-of-many-{number}" for number in range(first, first + WAVE)]
        load_groups.make_live(peer.port, names, NARROW, OFFSETS_PER_GROUP)
    grown = peer.memory_bytes()[0] - before_rss
    return {
        "rss_mb": grown / 1e6,
        "kb_per_group": grown / 1e3 / GROUPS,
        "broker_cpu_s": peer.cpu_seconds() - before,
    }


def _contender(peer: Peer, measure: Callable[[Peer], Figures]) -> Contender:
    def run() -> Figures:
        try:
            return measure(peer)
        except (OSError, RuntimeError) as error:
            peer.check_alive()
            raise PeerError(f"{type(error).__name__}: {error}") from error

    return Contender(peer.name, run)


def _prepare(peer: Peer) -> None:
    """Topics, and the coordinator."""
    peer.create_topic(WIDE, partitions=PARTITIONS)
    peer.create_topic(NARROW, partitions=OFFSETS_PER_GROUP)
    load_groups.until_coordinated(peer, "commits")


def _warm(running: list[Peer], scale: Scale) -> None:
    """Work enough for a JVM to compile."""
    for peer in running:
        scale.say(f"WG: warming up {peer.name}")
        _commits(peer, max(CONNECTIONS), scale.warm_s)
        for kind in load_groups.KINDS:
            _stable(peer, kind)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("WG", f"groups: {MEMBERS} members, commits, {GROUPS:,} groups", COLUMNS)
    cases: dict[str, tuple[int, Callable[[Peer], Figures]]] = {}
    for kind in load_groups.KINDS:
        name = f"{MEMBERS} members, {PARTITIONS:,} partitions, {kind}"
        cases[name] = (scale.bulk_rounds, lambda peer, kind=kind: _stable(peer, kind))  # type: ignore[misc]
    for many in CONNECTIONS:
        name = f"commits, {many} connection{'s' * (many > 1)}"
        cases[name] = (scale.single_rounds, lambda peer, many=many: _commits(peer, many, scale.single_s))  # type: ignore[misc]
    with _with_settings(brokers) as peers, up(peers, outcome, scale) as running:
        for peer in running:
            _prepare(peer)
        # First of all: what the other cases leave behind would be used again, and hide the growth.
        case = f"{GROUPS:,} groups, {OFFSETS_PER_GROUP} offsets and a member each"
        take_turns(case, [_contender(peer, _memory) for peer in running], outcome, 1, scale.say)
        _warm(running, scale)
        for case, (rounds, measure) in cases.items():
            contenders = [_contender(peer, measure) for peer in running]
            take_turns(case, contenders, outcome, rounds, scale.say)
    outcome.notes.append("stable: first join sent to every member assigned and the group listed as Stable")
    outcome.notes.append("heartbeats every 100 ms and no initial delay, on every peer")
    return outcome
