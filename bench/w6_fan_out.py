"""W6: fan-out. One topic, written once, is read from its beginning by 1, 5 and 20 readers at the same time,
each at its own pace, as so many groups would: one partition, records of 1 KiB in batches of 64 KiB."""

from typing import Any

from bench.load import drive
from bench.report import Column, Figures, Outcome, with_ratio
from bench.servers import Peer
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("mb_per_s", "MB/s"),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("mb_per_cpu_s", "MB / CPU-s"),
    Column("client_cpu_s", "client CPU-s", 2),
    Column("spread", "spread %", 0, 100),
    Column("of_apache", "x Apache", 2),
)
TOPIC = "fan-out"
RECORD_BYTES, BATCH_BYTES, FETCH_BYTES = 1024, 64 << 10, 1 << 20
READERS = (1, 5, 20)


def _fill(peer: Peer, records: int) -> int:
    peer.create_topic(TOPIC)
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": TOPIC,
        "record_bytes": RECORD_BYTES,
        "batch_bytes": BATCH_BYTES,
        "records": records,
        "in_flight": 5,
    }
    stored: int = drive("replay", spec, peer, LOAD_TIMEOUT_S)["records"]
    return stored


def _measure(peer: Peer, readers: int, end_offset: int) -> Figures:
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": TOPIC,
        "readers": readers,
        "end_offset": end_offset,
        "bytes_max": FETCH_BYTES,
    }
    result = drive("readers", spec, peer, LOAD_TIMEOUT_S)
    megabytes = result["bytes"] / 1e6
    return {
        "mb_per_s": megabytes / result["seconds"],
        "broker_cpu_s": result["broker_cpu_s"],
        "mb_per_cpu_s": megabytes / result["broker_cpu_s"] if result["broker_cpu_s"] else None,
        "client_cpu_s": result["client_cpu_s"],
    }


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W6", "fan-out: one partition read from its beginning by many at once", COLUMNS)
    with up(brokers, outcome, scale) as running:
        ends = {}
        for peer in running:
            scale.say(f"W6: filling {peer.name}")
            ends[peer.name] = _fill(peer, scale.bulk_records[RECORD_BYTES] // 4)
            _measure(peer, max(READERS), ends[peer.name])
        for readers in READERS:
            contenders = [
                Contender(
                    peer.name,
                    lambda peer=peer, readers=readers: _measure(peer, readers, ends[peer.name]),  # type: ignore[misc]
                )
                for peer in running
            ]
            case = f"{readers} reader{'s' * (readers > 1)}"
            take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)
    with_ratio(outcome, "mb_per_s")
    return outcome
