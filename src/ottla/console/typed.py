"""Numbers and times as people type them, or as links carry them: what is out of bounds is refused here, not
somewhere below. A time without a zone is UTC, as pages show them."""

import time
from datetime import UTC, datetime

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_ms

DIGITS_MAX = 18  # fewer than any 64-bit number can have


def whole_number(text: str) -> int | None:
    """None: it is none, or larger than anything that a cluster counts."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None


def time_of(text: str) -> int | None:
    """Milliseconds since 1970, or None for no text. CommandError: it is no time."""
    text = text.strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and not text.isdigit():
            return max(0, round(moment.replace(tzinfo=UTC).timestamp() * 1000))
    except ValueError:
        pass
    try:
        return parse_ms(text, int(time.time() * 1000))
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None
