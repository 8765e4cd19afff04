"""Where a page of records begins or ends: an offset for each partition, as links carry it; or an offset or a
time, as people write it.

`0:120,1:98`. A link stays what it is while records come: it names offsets, not "the second page".
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_ms

Positions = dict[int, int]
PARTITIONS_MAX = 10_000


def show(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def parse(text: str) -> Positions:
    positions: Positions = {}
    for part in text.split(","):
        partition, colon, offset = part.partition(":")
        if not colon or not partition.isdecimal() or not offset.isdecimal() or len(part) > 29:
            raise CommandError(f"{part!r:.40} is no place in a topic: it is PARTITION:OFFSET", USAGE)
        positions[int(partition)] = int(offset)
        if len(positions) > PARTITIONS_MAX:
            raise CommandError("those are too many partitions", USAGE)
    return positions


def time_of(text: str) -> int | None:
    """Milliseconds since 1970, or None for no text. A time without a zone is UTC, as pages show them."""
    text = text.strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and not text.isdigit():
            return round(moment.replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        pass
    try:
        return parse_ms(text, int(time.time() * 1000))
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None


def is_offset(text: str) -> bool:
    """Whether a place is given by its offset: a time in milliseconds has more digits."""
    return text.isdecimal() and len(text) < 12


def offset_of(text: str) -> int:
    if not text.isdecimal() or len(text) > 19:
        raise CommandError(f"{text!r:.40} is no offset", USAGE)
    return int(text)
