"""A log that nobody reads keeps nobody waiting."""

import logging
import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from ottla.shell.log_limit import UNREAD, LimitedHandler
from ottla.shell.log_stream import PIECE, LogStream

PIPE_BYTES = 64 * 1024


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield reader, stream
    os.close(reader)


def record(message: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelno": logging.CRITICAL, "levelname": "CRITICAL"})


def test_lines_that_nobody_reads_are_left_out_and_counted(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    handler, line = LimitedHandler(LogStream(stream)), "x" * 1023
    for _ in range(100):
        handler.handle(record(line))
    written = os.read(reader, 2 * PIPE_BYTES).decode().splitlines()
    assert set(written) == {line}
    assert PIPE_BYTES - PIECE <= len(written) * 1024 <= PIPE_BYTES
    handler.handle(record("there is room again"))
    left_out = UNREAD % (100 - len(written))
    assert os.read(reader, PIPE_BYTES).decode().splitlines() == [left_out, "there is room again"]
    handler.handle(record("next"))
    assert os.read(reader, PIPE_BYTES) == b"next\n", "it is said once"


def test_a_line_that_is_longer_than_the_room_there_is_is_cut(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    lines = LogStream(stream)
    lines.write("ž" * PIPE_BYTES + "\n")
    assert lines.unread == 1
    assert os.read(reader, 2 * PIPE_BYTES) == ("ž" * PIPE_BYTES).encode()[:PIPE_BYTES]
    lines.write("y" * 3 * PIECE + "\n")
    assert os.read(reader, PIPE_BYTES) == b"\n" + b"y" * 3 * PIECE + b"\n", (
        "the next one is a line of its own"
    )


def test_a_pipe_without_a_reader_is_an_error_that_the_handler_keeps_to_itself(
    capfd: pytest.CaptureFixture[str],
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        LimitedHandler(LogStream(stream)).handle(record("x"))
    assert capfd.readouterr().err == ""
