"""W10, the half with replicas: how long writes stand still when the leader goes.

A steady idempotent producer with acks=all writes to a topic of 12 partitions with 3 replicas while one
broker is killed with -9 (one that leads only, then one that is the controller as well), or stopped cleanly.
`stands still` runs from the kill to the first acknowledgement after it, in the partition that waited longest;
`others` are partitions that the killed one only followed: they wait until the controller takes it out of
the ISR. Both sides give a broker up after the same session timeout. A record that was acknowledged and is
not there, or is there twice, fails the round.
"""

import itertools
import threading
import time
from typing import Any, Self

from bench.clusters import SESSION_S, Cluster, clusters_of
from bench.load import drive
from bench.report import Column, Figures, Outcome, Row
from bench.servers import Peer, PeerError
from bench.targets import FAILOVER, Verdict
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("still_s", "stands still s", 2),
    Column("still_s_max", "worst round", 2),
    Column("beyond_s", "worst beyond session", 2),
    Column("others_s", "others s", 2),
    Column("stop_s", "until it ended s", 2),
    Column("back_s", "back in sync s", 2),
    Column("acked", "records acked"),
)
KILL, KILL_CONTROLLER, STOP = "kill -9 a leader", "kill -9 leader and controller", "controlled stop"
PARTITIONS = 12
RECORD_BYTES = 100
RATE_PER_S = 2_000
BEFORE_S = 2.0
AFTER_S = 8.0
STOP_S = 60.0

_topics = itertools.count()


def _victim(cluster: Cluster, case: str, turn: int) -> int:
    controller = cluster.controller()
    if controller < 0:
        raise PeerError(f"{cluster.name} has no controller")
    if case == KILL_CONTROLLER:
        return controller
    others = [id for id in range(1, len(cluster.nodes) + 1) if id != controller]
    return others[turn % len(others)]


def _longest(silences: list[list[list[float]]], partitions: list[int], since: float) -> float:
    """The longest silence of these partitions that ended after `since`; only what is after it counts."""
    ends = [
        later - max(earlier, since)
        for partition in partitions
        for earlier, later in silences[partition]
        if later > since
    ]
    return max(ends, default=0.0)


def _checked(result: dict[str, Any], cluster: Cluster) -> None:
    sent, acked, stored = (result[key] for key in ("sent", "acked", "stored"))
    if result["failed"] or not sent == acked == stored:
        raise PeerError(f"{cluster.name}: {sent} records sent, {acked} acknowledged, {stored} stored")


def _end(node: Peer, case: str) -> tuple[float, float]:
    """When that began, by the clock of the load, and how long the process took to end."""
    began = time.monotonic()
    if case == STOP:
        node.end(STOP_S)
    else:
        node.kill()
    return began, time.monotonic() - began


class _Load:
    """The steady producer, beside which something is done."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._begun = threading.Event()
        self._result: dict[str, Any] = {}
        self._failure: PeerError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._result = drive("steady", self._spec, None, LOAD_TIMEOUT_S, self._begun.set)
        except PeerError as error:
            self._failure = error
            self._begun.set()

    def wait_begun(self) -> None:
        self._begun.wait()
        if self._failure:
            raise self._failure

    def result(self) -> dict[str, Any]:
        self._thread.join()
        if self._failure:
            raise self._failure
        return self._result

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def _measure(cluster: Cluster, case: str, turn: int) -> Figures:
    topic = f"steady-{next(_topics)}"
    cluster.create_topic(topic, partitions=PARTITIONS)
    leaders, victim = cluster.leaders(topic), _victim(cluster, case, turn)
    node = cluster.nodes[victim - 1]
    led = [partition for partition, leader in leaders.items() if leader == victim]
    if not led:
        raise PeerError(f"{cluster.name}: broker {victim} leads nothing")
    spec = {"bootstrap": cluster.bootstrap, "topic": topic, "partitions": PARTITIONS}
    spec |= {"record_bytes": RECORD_BYTES, "rate": RATE_PER_S}
    spec["seconds"] = BEFORE_S + AFTER_S + (0.0 if case == STOP else SESSION_S)
    with _Load(spec) as load:
        load.wait_begun()
        time.sleep(BEFORE_S)
        began, stop_s = _end(node, case)
        result = load.result()
    node.start()
    started = time.monotonic()
    cluster.wait_settled()
    back_s = time.monotonic() - started
    cluster.delete_topic(topic)
    _checked(result, cluster)
    silences = result["silences"]
    others = [partition for partition in leaders if partition not in led]
    return {
        "still_s": _longest(silences, led, began),
        "others_s": _longest(silences, others, began),
        "stop_s": stop_s,
        "back_s": back_s,
        "acked": result["acked"],
        "victim": victim,
    }


def _contender(cluster: Cluster, case: str) -> Contender:
    turns = itertools.count()
    return Contender(cluster.name, lambda: _measure(cluster, case, next(turns)))


def _with_worst(row: Row) -> Row:
    seen = [figure for one in row.rounds if (figure := one.get("still_s")) is not None]
    worst = max(seen, default=None)
    beyond = None if worst is None or row.case == STOP else worst - SESSION_S
    figures: Figures = {**row.figures, "still_s_max": worst, "beyond_s": beyond}
    return Row(row.case, row.peer, figures, row.note, row.rounds)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    title = f"failover, 3 replicas, acks=all, {RATE_PER_S:,} records/s, session timeout {SESSION_S:g} s"
    outcome = Outcome("W10F", title, COLUMNS)
    with clusters_of(brokers) as clusters, up(clusters, outcome, scale) as running:
        ready = [one for one in running if isinstance(one, Cluster)]
        for case in (KILL, KILL_CONTROLLER, STOP):
            contenders = [_contender(cluster, case) for cluster in ready]
            take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)
    outcome.rows = [_with_worst(row) for row in outcome.rows]
    for row in outcome.rows:
        rounds = ", ".join(f"{one['still_s']:.2f}" for one in row.rounds if one.get("still_s") is not None)
        outcome.notes.append(f"{row.case}, {row.peer}: {rounds or '-'} s, round by round")
    outcome.verdicts = [
        Verdict(FAILOVER, outcome.figure(case, "Ottla", "beyond_s"), case) for case in (KILL, KILL_CONTROLLER)
    ]
    return outcome
