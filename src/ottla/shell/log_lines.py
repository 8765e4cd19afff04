"""The log of a broker's process: one line an event, as text or as JSON.

Text is for people: the time with its zone, the level, the logger, the sentence. On a terminal a traceback
keeps its lines; elsewhere it is part of the one line. Characters that could end a line, or that a terminal
obeys, are escaped: a client may have chosen them.

JSON is for machines: `time` (RFC 3339, UTC), `level`, `logger`, `message`, `broker`, the fields of the line
(`base/log_fields`) and `exception`. Whatever else Python would write to stderr becomes such a line as well.

What repeats is limited by `log_limit`.

An embedded broker sets up nothing: its log belongs to the program around it.
"""

import json
import logging
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any, Final, TextIO

from ottla.shell.log_limit import LimitedHandler
from ottla.shell.log_stream import LogStream

FORMATS: Final = ("text", "json")
RESERVED: Final = ("time", "level", "logger", "message", "broker", "exception")


def set_up(level: str, style: str, stream: TextIO) -> "LineFormatter":
    """Everything that this process logs goes to the stream from now on."""
    handler = LimitedHandler(_unblocked(stream))
    formatter = JsonLines() if style == "json" else TextLines(is_terminal=stream.isatty())
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level.upper())
    if style == "json":
        _capture_stderr()
    return formatter


def _unblocked(stream: TextIO) -> TextIO | LogStream:
    """What is not a file does not keep anybody waiting."""
    try:
        return LogStream(stream)
    except OSError:
        return stream


def _capture_stderr() -> None:
    """What Python says by itself: warnings, and exceptions that nobody caught."""
    logging.captureWarnings(True)

    def on_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        logging.getLogger(__name__).critical("bug: %r", error, exc_info=(kind, error, trace))

    sys.excepthook = on_uncaught
    threading.excepthook = lambda args: on_uncaught(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )


# -- formats --


class LineFormatter(logging.Formatter):
    """`broker_id` is told once it is known."""

    broker_id: int | None = None


class TextLines(LineFormatter):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def format(self, record: logging.LogRecord) -> str:
        sentence = escaped(record.getMessage()) + _more(record)
        line = f"{local_time(record.created)} {record.levelname:<8} {record.name}: {sentence}"
        for part in _traceback(record):
            line += f"\n    {escaped(part)}" if self._is_terminal else f" | {escaped(part.strip())}"
        return line


class JsonLines(LineFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": utc_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": getattr(record, "sentence", None) or record.getMessage(),
        }
        if self.broker_id is not None:
            line["broker"] = self.broker_id
        named = getattr(record, "fields", {})
        line |= {name: value for name, value in named.items() if value is not None and name not in RESERVED}
        trace = "\n".join(_traceback(record))
        if trace:
            line["exception"] = trace
        return json.dumps(line, default=str)


def escaped(text: str) -> str:
    """As it is, if it can be printed; control characters, separators of lines and what turns the direction of
    writing as Python writes them in a literal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def utc_time(seconds: float) -> str:
    whole, milliseconds = divmod(int(seconds * 1_000), 1_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03d}Z"


def local_time(seconds: float) -> str:
    whole, milliseconds = divmod(int(seconds * 1_000), 1_000)
    here = time.localtime(whole)
    zone = time.strftime("%z", here)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', here)}.{milliseconds:03d}{zone[:3]}:{zone[3:5]}"


def _traceback(record: logging.LogRecord) -> list[str]:
    if not record.exc_info or record.exc_info[1] is None:
        return []
    return "".join(traceback.format_exception(*record.exc_info)).splitlines()


def _more(record: logging.LogRecord) -> str:
    suppressed = getattr(record, "fields", {}).get("suppressed")
    return f" (the last of {suppressed} more such lines)" if suppressed else ""
