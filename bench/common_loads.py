"""What more than one workload asks of a load generator, with the figures that they show of it."""

from typing import Any

from bench.load import drive
from bench.report import Figures, ratio
from bench.servers import Peer
from bench.workload import LOAD_TIMEOUT_S

IN_FLIGHT = 5
FETCH_BYTES = 1 << 20
KEPT = {"retention.ms": "-1"}  # the records of `fill` were made in 2023


def fill(
    peer: Peer,
    topic: str,
    records: int,
    record_bytes: int,
    batch_bytes: int,
    timeout_s: float = LOAD_TIMEOUT_S,
) -> int:
    """Write to partition 0 over a plain socket; returns how many records there are, as batches are full."""
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": topic,
        "record_bytes": record_bytes,
        "batch_bytes": batch_bytes,
        "records": records,
        "in_flight": IN_FLIGHT,
    }
    stored: int = drive("replay", spec, peer, timeout_s)["records"]
    return stored


def read_all(
    peer: Peer, topic: str, end_offset: int, readers: int = 1, timeout_s: float = LOAD_TIMEOUT_S
) -> Figures:
    """All of partition 0, by so many at once, over plain sockets."""
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": topic,
        "readers": readers,
        "end_offset": end_offset,
        "bytes_max": FETCH_BYTES,
    }
    result = drive("readers", spec, peer, timeout_s)
    megabytes = result["bytes"] / 1e6
    return {
        "mb": megabytes,
        "seconds": result["seconds"],
        "mb_per_s": megabytes / result["seconds"],
        "broker_cpu_s": result["broker_cpu_s"],
        "mb_per_cpu_s": ratio(megabytes, result["broker_cpu_s"]),
        "client_cpu_s": result["client_cpu_s"],
    }


def send_singly(
    kind: str, peer: Peer, topic: str, record_bytes: int, producers: int, seconds: float
) -> Figures:
    """One message under way for each producer; `kind` is single-raw or single-rdkafka."""
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": topic,
        "record_bytes": record_bytes,
        "producers": producers,
        "seconds": seconds,
    }
    result = drive(kind, spec, peer, LOAD_TIMEOUT_S)
    return {
        "messages_per_s": result["records"] / result["seconds"],
        "p50_us": result["p50_us"],
        "p99_us": result["p99_us"],
        "p999_us": result["p999_us"],
        "broker_cpu_s": result["broker_cpu_s"],
        "cpu_us_per_message": 1e6 * result["broker_cpu_s"] / result["records"],
    }
