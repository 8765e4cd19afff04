"""Where a page of records begins or ends: an offset for each partition, as links carry it.

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
