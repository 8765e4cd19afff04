"""WT: transactions of 1, 100 and 10,000 records of 100 B, each committed before the next begins.

Beside them the same records from an idempotent producer without transactions, which waits just as often until
all is acknowledged: `of idempotent` is the rate of transactions against that, on the same broker in the same
round. One partition, one replica, acks=all, librdkafka.
"""

import itertools
from typing import Any

from bench.load import drive
from bench.report import Column, Figures, Outcome, Row, paired_ratio, spread
from bench.servers import Peer, PeerError
from bench.targets import TRANSACTION_RATIO, Verdict
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("commits_per_s", "commits/s", 1),
    Column("records_per_s", "k rec/s", 2, 1e-3),
    Column("p50_us", "p50 ms", 2, 1e-3),
    Column("p99_us", "p99 ms", 2, 1e-3),
    Column("cpu_us_per_commit", "CPU us / commit", 0),
    Column("client_cpu_s", "client CPU-s", 2),
    Column("rate_spread", "spread %", 0, 100),
    Column("of_idempotent", "of idempotent", 2),
    Column("of_apache", "of Apache", 2),
)
RECORD_BYTES = 100
RECORDS = (1, 100, 10_000)
PLAIN = ", idempotent"
_numbers = itertools.count(1)


def name_of(records: int) -> str:
    return f"{records:,} record{'s' * (records > 1)} each"


def _topic(records: int) -> str:
    return f"transactions-{records}"


def _measure(peer: Peer, records: int, is_transactional: bool, seconds: float) -> Figures:
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": _topic(records),
        "record_bytes": RECORD_BYTES,
        "records": records,
        "seconds": seconds,
        "transactional_id": f"bench-{next(_numbers)}" if is_transactional else "",
    }
    result = drive("transactions", spec, peer, LOAD_TIMEOUT_S)
    rate = result["records"] / result["seconds"]
    return {
        "commits_per_s": rate,
        "records_per_s": rate * records,
        "p50_us": result["p50_us"],
        "p99_us": result["p99_us"],
        "broker_cpu_s": result["broker_cpu_s"],
        "cpu_us_per_commit": 1e6 * result["broker_cpu_s"] / result["records"],
        "client_cpu_s": result["client_cpu_s"],
    }


def _contenders(running: list[Peer], records: int, seconds: float) -> list[Contender]:
    def contender(peer: Peer, is_transactional: bool) -> Contender:
        name = peer.name if is_transactional else peer.name + PLAIN
        return Contender(name, lambda: _measure(peer, records, is_transactional, seconds))

    return [contender(peer, is_transactional) for peer in running for is_transactional in (True, False)]


def _compare(outcome: Outcome) -> None:
    rows = {(row.case, row.peer): row for row in outcome.rows}
    apache = next((row.peer for row in outcome.rows if row.peer.startswith("Apache")), "")
    for at, row in enumerate(outcome.rows):
        is_plain = row.peer.endswith(PLAIN)
        peer = apache.removesuffix(PLAIN) + (PLAIN if is_plain else "")
        figures = {
            **row.figures,
            "rate_spread": spread(row, "commits_per_s"),
            "of_apache": paired_ratio(row, rows.get((row.case, peer)), "commits_per_s"),
        }
        if not is_plain:
            plain = rows.get((row.case, row.peer + PLAIN))
            figures["of_idempotent"] = paired_ratio(row, plain, "commits_per_s")
        outcome.rows[at] = Row(row.case, row.peer, figures, row.note, row.rounds)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("WT", f"transactions, {RECORD_BYTES} B, acks=all, 1 partition, 1 replica", COLUMNS)
    with up(brokers, outcome, scale) as running:
        for peer in running:
            for records in RECORDS:
                peer.create_topic(_topic(records))
            scale.say(f"WT: warming up {peer.name}")
            for contender in _contenders([peer], RECORDS[1], scale.warm_s):
                try:
                    contender.measure()
                except PeerError as error:  # it will show again when it counts
                    scale.say(f"WT: {contender.peer}: {error}")
        for records in RECORDS:
            contenders = _contenders(running, records, scale.single_s)
            take_turns(name_of(records), contenders, outcome, scale.single_rounds, scale.say)
    _compare(outcome)
    for records in RECORDS:
        case = name_of(records)
        outcome.verdicts.append(Verdict(TRANSACTION_RATIO, outcome.figure(case, "Ottla", "of_apache"), case))
    return outcome
