"""A limit for log lines that repeat, for a whole process.

Of lines with the same logger, level and template LINES_MAX are written in WINDOW_S. Of those beyond only the
last one is, once the window is over, with how many there were: what was true in the end is never left out.

There is no limit for what is critical, for lines that are UNLIMITED (as the audit log's, which has its own),
and for a logger at DEBUG: that is how one sees them all.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from ottla.base.log_fields import UNLIMITED
from ottla.shell.log_stream import LogStream

LINES_MAX: Final = 20
WINDOW_S: Final = 60.0
LATE_S: Final = 0.1  # threads do not log in order of time, and a timer looks a little late
TEMPLATES_MAX: Final = 1_000
UNREAD: Final = "lines of this log were left out or cut, as nobody read them: %d"
UNWRITTEN: Final = "bug: the line %r could not be written: %s"


@dataclass(slots=True)
class Window:
    """Lines of one template since the first of them."""

    began_s: float
    written: int = 0
    suppressed: int = 0
    last: logging.LogRecord | None = None

    def is_over(self, now_s: float) -> bool:
        return not -LATE_S < now_s - self.began_s < WINDOW_S  # a clock may be set back


class Repeats:
    """Which lines are written. Time is that of the records."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, int, str], Window] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def admits(self, record: logging.LogRecord) -> bool:
        """Whether the line is written; if not, it counts."""
        template = _message(record) if record.msg == "%s" else str(record.msg)
        window = self._windows.setdefault((record.name, record.levelno, template), Window(record.created))
        if window.written < LINES_MAX:
            window.written += 1
            return True
        window.suppressed += 1
        window.last = _kept(record)
        return False

    def ended(self, now_s: float) -> Iterator[logging.LogRecord]:
        """The last line of each window that is over and had too many, now with the number of them."""
        for key, window in list(self._windows.items()):
            if window.is_over(now_s) and self._windows.pop(key, None) is not None:
                yield from _summary(window)  # (a stall may be logged while this is written)
        while len(self._windows) > TEMPLATES_MAX:
            yield from _summary(self._windows.pop(next(iter(self._windows))))

    def due_s(self) -> float | None:
        """When the next window is over that had too many."""
        return min(
            (window.began_s + WINDOW_S for window in self._windows.values() if window.last), default=None
        )

    def all(self) -> Iterator[logging.LogRecord]:
        """The same of all windows; nothing is left."""
        while self._windows:
            yield from _summary(self._windows.popitem()[1])


def _kept(record: logging.LogRecord) -> logging.LogRecord:
    """A line for later: what it names may change by then, and a traceback would hold on to memory."""
    changed = {"msg": _message(record), "args": None, "exc_info": None}
    return logging.makeLogRecord(record.__dict__ | changed)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # the arguments do not fit; whoever writes the line complains
        return str(record.msg)


def _summary(window: Window) -> Iterator[logging.LogRecord]:
    if window.last is not None:
        named = getattr(window.last, "fields", {}) | {"suppressed": window.suppressed}
        yield logging.makeLogRecord(window.last.__dict__ | {"fields": named})


class LimitedHandler(logging.StreamHandler[TextIO | LogStream]):
    """Writes what the limit admits. A timer runs only while there is something left to say."""

    def __init__(self, stream: TextIO | LogStream) -> None:
        super().__init__(stream)
        self._repeats = Repeats()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self._write(self._repeats.ended(record.created))
        if _has_no_limit(record) or self._repeats.admits(record):
            self._write([record])
        else:
            self._wind()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """A line could not be written. Without a stream there is nobody to tell; else it is a bug, and that
        is one line, too."""
        if not isinstance(sys.exc_info()[1], OSError) and record.msg != UNWRITTEN:
            named = {"name": record.name, "levelno": logging.ERROR, "levelname": "ERROR"}
            line = {"msg": UNWRITTEN, "args": (str(record.msg), sys.exc_info()[1])}
            super().emit(logging.makeLogRecord(named | line))

    def close(self) -> None:
        self.acquire()
        try:
            if self._timer is not None:
                self._timer.cancel()
            self._write(self._repeats.all())
        finally:
            self.release()
        super().close()

    def _write(self, records: Iterable[logging.LogRecord]) -> None:
        for record in records:
            stream = self.stream
            if isinstance(stream, LogStream) and stream.unread and stream.has_room():
                unread, stream.unread = stream.unread, 0
                named = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING"}
                super().emit(logging.makeLogRecord(named | {"msg": UNREAD, "args": (unread,)}))
            super().emit(record)

    def _wind(self) -> None:
        due_s = self._repeats.due_s()
        if due_s is None or self._timer is not None:
            return
        timer = threading.Timer(max(due_s - time.time(), 0) + LATE_S, self._on_timer)
        timer.daemon, timer.name = True, "ottla-log"
        try:
            timer.start()
        except RuntimeError:  # no thread can be had: the next line will say it
            return
        self._timer = timer

    def _on_timer(self) -> None:
        self.acquire()
        try:
            self._timer = None
            self._write(self._repeats.ended(time.time()))
            self._wind()
        finally:
            self.release()


def _has_no_limit(record: logging.LogRecord) -> bool:
    return (
        record.levelno >= logging.CRITICAL
        or UNLIMITED.keys() <= record.__dict__.keys()
        or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
    )
