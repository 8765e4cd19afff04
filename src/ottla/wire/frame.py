"""Cuts a stream of bytes into frames, without IO and nearly without copies.

All connections of a server read into one scratch buffer: get_buffer, recv and buffer_updated follow each
other without a turn of the event loop between them. What is complete in it is handed out where it lies.
What is left when the loop gets to run again goes to a buffer of the connection's own (`keep`), and the rest
of a frame that is not small is then received in that one.

Rules:
- `next` gives a frame's payload as a writable view. It is void as soon as `buffer` is called or the event
  loop runs again, because the scratch then belongs to another connection.
- The own buffer grows with what was received, at most to its double, and never beyond what the frame needs:
  an announced length alone allocates nothing.
- No buffer is ever resized, since one that has views cannot be: a bigger one is made and the bytes are
  copied.
- The own buffer is given back when it is empty, except that one which held a big frame stays, up to 2 MiB,
  because such frames come in rows; `idle` gives that back, too.
"""

import struct
from typing import Final

from ottla.wire.primitives import ProtocolError

RETAINED_BYTES_MAX: Final = 2 << 20

# Copied again with every read until the frame is complete, so that it must be little.
_JOINED_BYTES_MAX: Final = 4096

LENGTH: Final = struct.Struct(">i")


class Splitter:
    """The frames of one connection. `limit` is the longest payload; it may be changed between frames."""

    def __init__(self, limit: int, scratch: bytearray) -> None:
        self.limit = limit
        self._scratch = memoryview(scratch)
        self._own: memoryview | None = None
        # Received and not handed out yet: _source[_at:_end]. The source is the scratch or the own buffer.
        self._source = self._scratch
        self._at = 0
        self._end = 0
        # Where the next bytes go, decided by buffer(). Until they are received everything stays as it was.
        self._target = self._scratch
        self._target_end = 0

    @property
    def held(self) -> int:
        """The bytes of memory that this connection holds for itself."""
        return len(self._own) if self._own is not None else 0

    @property
    def is_empty(self) -> bool:
        """Has all that was received been handed out?"""
        return self._at == self._end

    def buffer(self, hint: int = -1) -> memoryview:  # noqa: ARG002  (asyncio passes it; we know better)
        """Room to receive into: never empty. Frames handed out before are void."""
        if self._at == self._end:
            if self._end:
                self._empty()
            self._target, self._target_end = self._scratch, 0
            return self._scratch
        self.keep()
        have = self._end - self._at
        need = self._need()
        if have <= _JOINED_BYTES_MAX and max(2 * have, need) <= len(self._scratch):
            # A frame's beginning is joined with what comes, so that one read still brings many frames.
            self._scratch[:have] = self._source[self._at : self._end]
            self._target, self._target_end = self._scratch, have
        else:
            self._make_room(have, need)
            self._target, self._target_end = self._source, self._end
            if need > have:
                return self._target[self._end : min(self._at + need, len(self._target))]
        return self._target[self._target_end :]

    def received(self, count: int) -> None:
        """So many bytes now stand at the beginning of the last `buffer`."""
        if self._target is self._scratch:
            self._source, self._at = self._target, 0
            if self._own is not None:
                self._release(self._own)
        self._end = self._target_end = self._target_end + count

    def next(self) -> memoryview | None:
        """The payload of the next frame, or None until more is received."""
        at = self._at
        have = self._end - at
        if have < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._source, at)
        if not 0 <= length <= self.limit:
            raise ProtocolError(f"a frame of {length} bytes, where 0 to {self.limit} are allowed")
        need = LENGTH.size + length
        if have < need:
            return None
        self._at = at + need
        return self._source[at + LENGTH.size : at + need]

    def put_back(self, frame: memoryview) -> None:
        """The frame that `next` has just handed out is not wanted yet."""
        self._at -= LENGTH.size + len(frame)

    def keep(self) -> None:
        """Move what is left out of the scratch. Call this before the event loop runs again."""
        have = self._end - self._at
        if have == 0:
            self._empty()
        elif self._source is self._scratch:
            left = self._source[self._at : self._end]
            if self._own is None or len(self._own) < have:
                self._own = memoryview(bytearray(max(have, min(self._need(), 2 * have))))
            self._own[:have] = left
            self._source, self._at, self._end = self._own, 0, have

    def idle(self) -> None:
        """Give back the buffer that was retained for the next big frame."""
        if self._source is self._scratch:
            self._own = None

    def _need(self) -> int:
        """The bytes of the next frame with its length, or 0 while that is not known or not allowed."""
        if self._end - self._at < LENGTH.size:
            return 0
        length: int = LENGTH.unpack_from(self._source, self._at)[0]
        return LENGTH.size + length if 0 <= length <= self.limit else 0

    def _make_room(self, have: int, need: int) -> None:
        """See to it that the own buffer, which is the source here, has room after its last byte."""
        fits = need <= have or self._at + need <= len(self._source)
        if self._end < len(self._source) and (fits or self._at == 0):
            return
        grown = 2 * have if need <= have else min(need, 2 * have)
        bigger = memoryview(bytearray(grown))
        bigger[:have] = self._source[self._at : self._end]
        self._own = self._source = bigger
        self._at, self._end = 0, have

    def _empty(self) -> None:
        """All that was received is handed out."""
        self._source, self._at, self._end = self._scratch, 0, 0
        if self._own is not None:
            self._release(self._own)

    def _release(self, own: memoryview) -> None:
        """The own buffer is empty: keep it only if it is worth it."""
        if not len(self._scratch) <= len(own) <= RETAINED_BYTES_MAX:
            self._own = None
