"""Where a page of records begins or ends: an offset for each partition, as links carry it; or one offset,
as people write it.

`0:120,1:98`. A link stays what it is while records come: it names offsets, not "the second page".
"""

from collections.abc import Mapping

from ottla.base.command_error import USAGE, CommandError
from ottla.console.typed import whole_number

Positions = dict[int, int]
PARTITIONS_MAX = 10_000


def show(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def parse(text: str) -> Positions:
    positions: Positions = {}
    for part in text.split(","):
        partition, colon, offset = part.partition(":")
        number, at = whole_number(partition), whole_number(offset)
        if not colon or number is None or at is None:
            raise CommandError(f"{part!r:.40} is no place in a topic: it is PARTITION:OFFSET", USAGE)
        positions[number] = at
        if len(positions) > PARTITIONS_MAX:
            raise CommandError("those are too many partitions", USAGE)
    return positions


def is_offset(text: str) -> bool:
    """Whether a place is given by its offset: a time in milliseconds has more digits."""
    return whole_number(text) is not None and len(text) < 12


def offset_of(text: str) -> int:
    offset = whole_number(text)
    if offset is None:
        raise CommandError(f"{text!r:.40} is no offset", USAGE)
    return offset
