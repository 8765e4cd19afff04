"""`ottla.arrow` is for readers without Spark: it works where PySpark is not installed."""

import subprocess
import sys

PROGRAM = """
import sys

sys.modules["pyspark"] = None  # importing it fails, as where it is not installed

import pyarrow as pa

from ottla.arrow.batches import encode
from ottla.arrow.columns import decode
from ottla.records.compression import Codec

values, keys = pa.array([b"one", None, b"three"]), pa.array([b"a", b"b", None])
batches = encode(values, keys, None, 1_700_000_000_000, codec=Codec.ZSTD, producer_id=1, producer_epoch=0,
                 base_sequence=0, bytes_max=1_000_000)
(batch,) = batches
(columns,) = decode([bytes(batch.bytes)], "orders", 3, 0, 3)
assert columns.column("value").to_pylist() == [b"one", None, b"three"]
assert columns.column("key").to_pylist() == [b"a", b"b", None]
assert columns.column("offset").to_pylist() == [0, 1, 2]
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("ottla.")}
print("rooms:", *sorted(rooms))
"""


def test_batches_become_columns_and_back_without_pyspark() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "rooms: arrow base records\n", "")
