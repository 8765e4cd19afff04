"""Points in time as people write them: 10m ago, an ISO date, a number of milliseconds."""

import re
from datetime import UTC, datetime

_RELATIVE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
# A bare number below this would be a day in 1970: more likely a year or seconds, so it is not guessed at.
_MILLISECONDS_MIN = 10**11


def parse_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. A time without a zone is local time. ValueError says what is accepted."""
    given = text.strip()
    match = _RELATIVE.fullmatch(given)
    if match:
        return now_ms - round(float(match[1]) * _UNIT_MS[match[2]])
    if given.isdigit() and int(given) >= _MILLISECONDS_MIN:
        return int(given)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: write 10m or 2h for that long ago, 2030-01-31 or 2030-01-31T12:00:00Z, "
            "or milliseconds since 1970"
        ) from None
    return round(moment.timestamp() * 1000)


def show_ms(timestamp_ms: int) -> str:
    """In UTC, to the millisecond; a dash if there is none or it is beyond the calendar."""
    try:
        if timestamp_ms < 0:
            return "-"
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"
