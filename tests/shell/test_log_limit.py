"""What repeats is written so often and then counted, and the last of it is never lost."""

import io
import logging
from typing import Any

import pytest

from ottla.base.log_fields import UNLIMITED, fields
from ottla.shell.log_limit import LATE_S, LINES_MAX, TEMPLATES_MAX, WINDOW_S, LimitedHandler, Repeats
from ottla.shell.log_lines import TextLines


def record(
    at_s: float, message: str, *args: Any, logger: str = "ottla.limited", level: int = logging.WARNING
) -> logging.LogRecord:
    made = logging.getLogger(logger).makeRecord(
        logger, level, "", 0, message, args, None, extra=fields(peer=2)
    )
    made.created = at_s
    return made


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def handler(stream: io.StringIO) -> LimitedHandler:
    handler = LimitedHandler(stream)
    handler.setFormatter(TextLines(is_terminal=False))
    return handler


def said(stream: io.StringIO) -> list[str]:
    return [line.partition(": ")[2] for line in stream.getvalue().splitlines()]


def test_lines_of_a_template_beyond_the_limit_are_counted_in_the_last_of_them() -> None:
    repeats = Repeats()
    admitted = [repeats.admits(record(number, "lost %d", number)) for number in range(LINES_MAX + 3)]
    assert admitted == [True] * LINES_MAX + [False] * 3
    assert not list(repeats.ended(WINDOW_S - 1))
    (last,) = repeats.ended(WINDOW_S)
    assert last.getMessage() == f"lost {LINES_MAX + 2}"
    assert vars(last)["fields"] == {"peer": 2, "suppressed": 3}
    assert repeats.admits(record(WINDOW_S, "lost %d", 0))


def test_other_templates_loggers_and_levels_have_limits_of_their_own() -> None:
    repeats = Repeats()
    for _ in range(LINES_MAX + 1):
        repeats.admits(record(0, "lost %d", 1))
    assert repeats.admits(record(0, "back %d", 1))
    assert repeats.admits(record(0, "lost %d", 1, logger="ottla.other"))
    assert repeats.admits(record(0, "lost %d", 1, level=logging.ERROR))
    assert not repeats.admits(record(0, "lost %d", 2))


def test_a_sentence_that_is_passed_on_counts_by_itself() -> None:
    repeats = Repeats()
    for _ in range(LINES_MAX):
        repeats.admits(record(0, "%s", "a"))
    assert repeats.admits(record(0, "%s", "b"))
    assert not repeats.admits(record(0, "%s", "a"))


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    repeats = Repeats()
    for _ in range(LINES_MAX + 1):
        repeats.admits(record(10_000, "lost"))
    (last,) = repeats.ended(5_000)
    assert last.getMessage() == "lost"
    assert repeats.admits(record(5_000, "lost"))


def test_templates_are_remembered_up_to_a_number() -> None:
    repeats = Repeats()
    for number in range(TEMPLATES_MAX + 5):
        repeats.admits(record(0, "%s", f"sentence {number}"))
    for _ in range(LINES_MAX):
        repeats.admits(record(0, "%s", "sentence 0"))
    summaries = list(repeats.ended(1))
    assert len(repeats) == TEMPLATES_MAX
    assert [line.getMessage() for line in summaries] == ["sentence 0"]


def test_what_was_left_out_is_said_before_the_next_line(handler: LimitedHandler, stream: io.StringIO) -> None:
    for number in range(LINES_MAX + 2):
        handler.handle(record(1_000, "lost %d", number))
    assert len(said(stream)) == LINES_MAX
    handler.handle(record(1_000 + WINDOW_S, "something else"))
    assert said(stream)[LINES_MAX:] == [
        f"lost {LINES_MAX + 1} (the last of 2 more such lines)",
        "something else",
    ]
    handler.close()


def test_what_was_left_out_is_said_at_the_end(handler: LimitedHandler, stream: io.StringIO) -> None:
    for number in range(LINES_MAX + 2):
        handler.handle(record(1_000, "lost %d", number))
    handler.close()
    assert said(stream)[-1] == f"lost {LINES_MAX + 1} (the last of 2 more such lines)"


def test_what_was_left_out_is_said_by_a_timer_if_nobody_speaks(
    handler: LimitedHandler, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[tuple[float, Any]] = []

    class Timer:
        def __init__(self, delay_s: float, call: Any) -> None:
            self._call = (delay_s, call)

        def start(self) -> None:
            timers.append(self._call)

        def cancel(self) -> None:
            pass

    clock_s = 1_010.0
    monkeypatch.setattr("ottla.shell.log_limit.threading.Timer", Timer)
    monkeypatch.setattr("ottla.shell.log_limit.time.time", lambda: clock_s)
    for _ in range(LINES_MAX + 2):
        handler.handle(record(1_000, "lost"))
    ((delay_s, call),) = timers
    assert delay_s == pytest.approx(WINDOW_S - 10 + LATE_S)
    clock_s += delay_s
    call()
    assert said(stream)[-1] == "lost (the last of 2 more such lines)"
    assert len(timers) == 1
    handler.close()


@pytest.mark.parametrize("kind", ["unlimited", "critical", "at debug"])
def test_unlimited_lines_critical_ones_and_a_logger_at_debug_have_no_limit(
    handler: LimitedHandler, stream: io.StringIO, kind: str
) -> None:
    logging.getLogger("ottla.seen").setLevel(logging.DEBUG)
    for _ in range(LINES_MAX * 2):
        level = logging.CRITICAL if kind == "critical" else logging.INFO
        line = record(1_000, "x", logger="ottla.seen" if kind == "at debug" else "ottla.limited", level=level)
        vars(line).update(UNLIMITED if kind == "unlimited" else {})
        handler.handle(line)
    handler.close()
    assert said(stream) == ["x"] * LINES_MAX * 2


def test_a_line_whose_arguments_do_not_fit_is_a_bug_in_one_line_and_no_error_of_the_caller(
    handler: LimitedHandler, stream: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(LINES_MAX + 2):
        handler.handle(record(1_000, "%d bytes", "many"))
    handler.close()
    assert said(stream)[0].startswith("bug: the line '%d bytes' could not be written: %d format")
    assert len(said(stream)) == LINES_MAX + 1
    assert capsys.readouterr().err == ""
