"""The command line: which workloads, how large, and where the figures go.

Exit status: 0 when Ottla was measured in everything that was asked for, whatever the figures say; 1 when
it was not.
"""

import argparse
import os
import sys
from datetime import UTC, datetime

from rich.console import Console

from bench import (
    w1_bulk,
    w1_replicas,
    w2_single,
    w3_keyed,
    w4_latency,
    w5_catch_up,
    w6_fan_out,
    w7_connections,
    w8_partitions,
    w9_compaction,
    w10_failover,
    w10_recovery,
    w11_start,
    w12_delivery,
    w12_spark,
    wb_brokers,
    wc_commands,
    wg_groups,
    wl_stalls,
    wn_slopes,
    ws_security,
    wt_transactions,
)
from bench.apache import ApacheKafka
from bench.report import Outcome, machine, save, show, show_targets
from bench.servers import Ottla, Peer, PeerError, end_on_sigterm
from bench.workload import Scale

WORKLOADS = {
    "W1": w1_bulk.run,
    "W1R": w1_replicas.run,
    "W2": w2_single.run,
    "W3": w3_keyed.run,
    "W4": w4_latency.run,
    "W5": w5_catch_up.run,
    "W6": w6_fan_out.run,
    "W7": w7_connections.run,
    "W8": w8_partitions.run,
    "W9": w9_compaction.run,
    "W10": w10_recovery.run,
    "W10F": w10_failover.run,
    "W11": w11_start.run,
    "W12": w12_spark.run,
    "W12E": w12_delivery.run,
    "WB": wb_brokers.run,
    "WC": wc_commands.run,
    "WG": wg_groups.run,
    "WL": wl_stalls.run,
    "WN": wn_slopes.run,
    "WS": ws_security.run,
    "WT": wt_transactions.run,
}
RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "bench", description="Ottla beside Apache Kafka and librdkafka's mock cluster."
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"any of {', '.join(WORKLOADS)}; default all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round: a smoke test, not a measurement"
    )
    parser.add_argument("--rounds", type=int, help="rounds per case (default 3 in W1, 5 in W2)")
    parser.add_argument(
        "--recovery-gb", type=float, help="how much W10 leaves unsynced (default 10; 0.5 with --quick)"
    )
    parser.add_argument("--partitions", type=int, help="of W8 (default 10000; 1000 with --quick)")
    parser.add_argument("--cold-gb", type=float, help="old records of WL (default 3; 0.3 with --quick)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=wl_stalls.CASES,
        metavar="CASE",
        help=f"of WL, any of {', '.join(wl_stalls.CASES)} (repeatable; default all)",
    )
    parser.add_argument(
        "--busy", action="store_true", help="others use the machine: stalls of WL are processor time"
    )
    parser.add_argument("--catch-up-gb", type=float, help="log of W5 (default 10; 0.3 with --quick)")
    parser.add_argument("--json", default=RESULTS, metavar="DIR", help="folder of the result files")
    parser.add_argument("--no-apache", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--no-ottla", action="store_true", help="leave Ottla out")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="broker setting for Ottla (repeatable)",
    )
    arguments = parser.parse_args()
    arguments.workloads = [name.upper() for name in arguments.workloads] or list(WORKLOADS)
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {unknown[0]}; there are {', '.join(WORKLOADS)}")
    return arguments


def _scale(arguments: argparse.Namespace, console: Console) -> Scale:
    def say(line: str) -> None:
        console.print(f"[dim]{line}[/]", highlight=False)

    if arguments.quick:
        return Scale(
            bulk_rounds=arguments.rounds or 1,
            bulk_records={100: 1_000_000, 1024: 250_000},
            single_rounds=arguments.rounds or 1,
            warm_s=2.0,
            single_s=0.5,
            starts=5,
            idle_s=2.0,
            recovery_rounds=arguments.rounds or 1,
            recovery_bytes=int((arguments.recovery_gb or 0.5) * 1e9),
            partitions=arguments.partitions or 1_000,
            cold_bytes=int((arguments.cold_gb or 0.3) * 1e9),
            catch_up_bytes=int((arguments.catch_up_gb or 0.3) * 1e9),
            connections=1_000,
            only=tuple(arguments.only),
            is_busy=arguments.busy,
            say=say,
        )
    return Scale(
        bulk_rounds=arguments.rounds or 3,
        bulk_records={100: 4_000_000, 1024: 1_000_000},
        single_rounds=arguments.rounds or 5,
        warm_s=8.0,
        single_s=1.0,
        starts=7,
        idle_s=5.0,
        recovery_rounds=arguments.rounds or 1,
        recovery_bytes=int((arguments.recovery_gb or 10) * 1e9),
        partitions=arguments.partitions or 10_000,
        cold_bytes=int((arguments.cold_gb or 3) * 1e9),
        catch_up_bytes=int((arguments.catch_up_gb or 10) * 1e9),
        connections=10_000,
        only=tuple(arguments.only),
        is_busy=arguments.busy,
        say=say,
    )


def _brokers(arguments: argparse.Namespace, console: Console) -> list[Peer]:
    brokers: list[Peer] = [] if arguments.no_ottla else [Ottla(tuple(arguments.set))]
    if not arguments.no_apache:
        try:
            brokers.append(ApacheKafka())
        except PeerError as error:
            console.print(f"[yellow]Apache Kafka is left out: {error}[/]", highlight=False)
    return brokers


def _measured(outcome: Outcome) -> bool:
    ottla = [row for row in outcome.rows if row.peer.startswith("Ottla")]
    return bool(ottla) and all(any(each is not None for each in row.figures.values()) for row in ottla)


def main() -> int:
    arguments = _arguments()
    end_on_sigterm()
    console = Console()
    if not console.is_terminal:
        console = Console(width=170)
    facts = {**machine(), "quick": arguments.quick, "ottla_settings": arguments.set}
    console.print(", ".join(f"{key} {value}" for key, value in facts.items()), highlight=False)
    scale = _scale(arguments, console)
    brokers = _brokers(arguments, console)
    outcomes: list[Outcome] = []
    began, written = datetime.now(UTC), "nowhere"
    try:
        for name in arguments.workloads:
            outcomes.append(WORKLOADS[name](brokers, scale))
            show(console, outcomes[-1])
            written = os.path.relpath(save(arguments.json, began, facts, outcomes))
    finally:
        for peer in brokers:
            peer.close()
    show_targets(console, [verdict for outcome in outcomes for verdict in outcome.verdicts])
    console.print(f"written to {written}", highlight=False)
    return 0 if arguments.no_ottla or all(map(_measured, outcomes)) else 1


if __name__ == "__main__":
    sys.exit(main())
