"""Where log lines go, without waiting for whoever reads them.

A broker is one loop. If its log is a pipe that nobody reads, or a terminal that was stopped, a line must not
keep it waiting: it is left out and counted, and when there is room again a line says how many were.
"""

import os
import select
from typing import Final, TextIO

PIECE: Final = select.PIPE_BUF  # bytes that a pipe or a terminal takes at once, if it takes any


class LogStream:
    """A stream for a handler. `unread`: so many lines were left out or cut since this was last 0."""

    def __init__(self, stream: TextIO) -> None:
        self.unread = 0
        self._stream = stream
        self._descriptor = stream.fileno()
        self._room = select.poll()
        self._room.register(self._descriptor, select.POLLOUT)
        self._is_torn = False  # there was no room for the end of the last line

    def has_room(self) -> bool:
        return bool(self._room.poll(0))

    def write(self, line: str) -> None:
        left = memoryview(line.encode(self._stream.encoding, "backslashreplace"))
        if not self.has_room():
            self.unread += 1
            return
        if self._is_torn:
            os.write(self._descriptor, b"\n")
        while left and self.has_room():
            left = left[os.write(self._descriptor, left[:PIECE]) :]
        self._is_torn = bool(left)
        self.unread += self._is_torn

    def flush(self) -> None:
        """Nothing is kept."""
