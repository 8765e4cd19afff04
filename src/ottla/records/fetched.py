"""What a fetch brings: whole record batches, and which of the transactions in them were aborted."""

from typing import NamedTuple


class Aborted(NamedTuple):
    """An aborted transaction: what this producer wrote from here to its next marker does not count."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """Whole record batches as they are in the log; for read_committed, also which transactions to drop.

    Nobody else has the memory behind `records`: it stays what it is as long as it is referenced.
    """

    records: memoryview
    aborted: tuple[Aborted, ...] = ()
