"""Times as people write them: 10m ago, an ISO date, a number of milliseconds; and lengths of time."""

import re
from datetime import UTC, datetime

from ottla.base.command_error import USAGE, CommandError

_RELATIVE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHOWN = ((86_400, 1 << 40, "d"), (3_600, 24, "h"), (60, 60, "min"), (1, 60, "s"))
# A bare number below this would be a day in 1970: more likely a year or seconds, so it is not guessed at.
_MILLISECONDS_MIN = 10**11
_MILLISECONDS_DIGITS = 15  # the calendar ends with them


def parse_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, where all that was before begins. A time without a zone is local time.
    ValueError says what is accepted."""
    given = text.strip()
    match = _RELATIVE.fullmatch(given)
    if match:
        return max(0, now_ms - round(float(match[1]) * _UNIT_MS[match[2]]))
    if given.isdecimal() and len(given) <= _MILLISECONDS_DIGITS and int(given) >= _MILLISECONDS_MIN:
        return int(given)
    try:
        return max(0, round(datetime.fromisoformat(given).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r:.60} is no time: write 10m or 2h for that long ago, 2030-01-31 or "
            "2030-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None


def show_ms(timestamp_ms: int) -> str:
    """In UTC, to the millisecond; a dash if there is none or it is beyond the calendar."""
    try:
        if timestamp_ms < 0:
            return "-"
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def parse_duration_ms(text: str, option: str) -> int:
    """A length of time with its unit."""
    match = _RELATIVE.fullmatch(text.strip())
    if not match:
        raise CommandError(
            f"{option} takes a time with its unit, such as 30s, 15m or 2h, not {text!r}", USAGE
        )
    return round(float(match[1]) * _UNIT_MS[match[2]])


def show_duration(duration_ms: int) -> str:
    """In whole units, the two largest of them: 2 h 5 min, 41 s."""
    seconds = max(0, duration_ms) // 1000
    units = [(seconds // size % modulo, name) for size, modulo, name in _SHOWN]
    while len(units) > 1 and not units[0][0]:
        units.pop(0)
    return " ".join(f"{count} {name}" for count, name in units[:2] if count) or "0 s"
