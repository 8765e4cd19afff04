"""Rows per second between record batches and Arrow columns, on one core: `python -m bench.arrow`.

This measures our library and no broker, so it imports `ottla`, which nothing else here does. A workload
runs it as a process and reads the JSON that it prints, or calls `figures`. Times are CPU time, the best of
several rounds.
"""

import json
import random
import time
from collections.abc import Callable

import pyarrow as pa

from ottla.arrow.batches import EncodedBatch, encode
from ottla.arrow.columns import decode
from ottla.records.compression import Codec

VALUE_BYTES = 100
ROUNDS = 7


def figures(rows: int = 200_000, value_bytes: int = VALUE_BYTES, rounds: int = ROUNDS) -> dict[str, float]:
    """Rows/s by case: batches as large and as small as producers make them, plain and compressed."""
    made = random.Random(1)
    keys = pa.array([b"%08d" % number for number in range(rows)])
    text = pa.array(
        [_text(made, made.randrange(value_bytes // 2, value_bytes * 3 // 2)) for _ in range(rows)]
    )
    fixed = pa.array([_text(made, value_bytes) for _ in range(rows)])
    cases = {
        "1 MB batches": (text, 1_000_000, Codec.NONE),
        "1 MB batches, equal sizes": (fixed, 1_000_000, Codec.NONE),
        "16 KB batches": (text, 16_384, Codec.NONE),
        "1 MB batches, lz4": (text, 1_000_000, Codec.LZ4),
        "1 MB batches, zstd": (text, 1_000_000, Codec.ZSTD),
    }
    found = {}
    for name, (values, bytes_max, codec) in cases.items():
        batches = _encode(values, keys, bytes_max, codec)
        log = _as_a_log(batches)
        found[f"encode, {name}"] = rows / _best_s(lambda: _encode(values, keys, bytes_max, codec), rounds)  # noqa: B023
        found[f"decode, {name}"] = rows / _best_s(lambda: _decode(log, rows), rounds)  # noqa: B023
    return found


def _text(made: random.Random, size: int) -> bytes:
    return made.randbytes(size // 2 + 1).hex().encode()[:size]


def _encode(values: pa.Array, keys: pa.Array, bytes_max: int, codec: Codec) -> list[EncodedBatch]:
    now_ms = 1_700_000_000_000
    return list(encode(
        values, keys, None, now_ms,
        codec=codec, producer_id=1, producer_epoch=0, base_sequence=0, bytes_max=bytes_max,
    ))  # fmt: skip


def _as_a_log(batches: list[EncodedBatch]) -> bytes:
    """With the base offsets that a broker would have given them."""
    parts, base = [], 0
    for one in batches:
        parts.append(base.to_bytes(8, "big") + one.bytes[8:])
        base += one.records
    return b"".join(parts)


def _decode(log: bytes, rows: int) -> None:
    seen = sum(batch.num_rows for batch in decode([log], "topic", 0, 0, rows))
    assert seen == rows, f"{seen} of {rows} rows"


def _best_s(work: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    print(json.dumps({name: round(rate) for name, rate in figures().items()}, indent=2))
