"""What the records of all internal topics have in common.

A key begins with two bytes for the type of the record, a value with two bytes for its version.
"""

from collections.abc import Callable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.coordinator.turn import StoredRecord
from ottla.records.check import Budget
from ottla.records.record import walk

BODY_BYTES_MAX: Final = 1 << 20  # which is what coordinators write at once by default (max.message.bytes)
ITEMS_PER_RECORD: Final = 16  # what it costs to parse one, in records of which only the lengths are checked
BYTES_PER_ITEM: Final = 8


class CorruptRecordError(ValueError):
    """A record that says it is of a type we know, and is not."""


def prefix(encoded: bytes) -> int:
    """The type of a key, or the version of a value."""
    if len(encoded) < 2:
        raise CorruptRecordError(f"a key or value of {len(encoded)} bytes has no type or version")
    return int.from_bytes(encoded[:2], "big", signed=True)


def check_records(parse: Callable[[StoredRecord], object], body: Buffer, count: int, budget: Budget) -> None:
    """INVALID_RECORD, if the body of a batch that somebody else made holds what `parse` cannot read. A
    tombstone always can be: it deletes nothing if its key makes no sense."""
    if len(body) > BODY_BYTES_MAX:
        raise _refused(f"{len(body)} bytes of records at once are more than {BODY_BYTES_MAX}")
    for start, stop, _, _, key, value, _ in walk(body, count):
        budget.spend(ITEMS_PER_RECORD + (stop - start) // BYTES_PER_ITEM)
        if key is None:
            raise _refused("a record of an internal topic needs a key")
        if value is not None:
            try:
                parse(StoredRecord(key, value))
            except CorruptRecordError as error:
                raise _refused(str(error)) from None


def _refused(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"The batch is refused: {why}.")
