"""The splitter, driven as an event loop drives it: get a buffer, fill it, take frames, keep the rest."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.frame import RETAINED_BYTES_MAX, Splitter
from ottla.wire.primitives import ProtocolError

LIMIT = 1 << 24


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


class Wire:
    """A connection, and the other connections, which spoil the scratch whenever the loop runs."""

    def __init__(self, scratch_bytes: int = 64, limit: int = LIMIT) -> None:
        self.scratch = bytearray(scratch_bytes)
        self.splitter = Splitter(limit, self.scratch)
        self.received = 0

    def receive(self, data: bytes) -> bytes:
        """One read; returns what did not fit."""
        buffer = self.splitter.buffer(-1)
        assert len(buffer) > 0
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        self.splitter.received(count)
        self.received += count
        return data[count:]

    def take(self, most: int = 1 << 30) -> list[bytes]:
        frames = []
        while len(frames) < most and (frame := self.splitter.next()) is not None:
            frames.append(bytes(frame))
        return frames

    def turn(self) -> None:
        """The loop gets to run."""
        self.splitter.keep()
        self.scratch[:] = b"\xee" * len(self.scratch)

    def feed(self, data: bytes, most: int = 1 << 30) -> list[bytes]:
        frames = []
        while data:
            data = self.receive(data)
            frames += self.take(most)
            self.turn()
        return frames


PAYLOADS = st.lists(
    st.binary(max_size=12) | st.integers(0, 300).map(lambda n: bytes(i % 251 for i in range(n))), max_size=8
)


@settings(max_examples=200)
@given(PAYLOADS, st.lists(st.integers(1, 90), min_size=1), st.integers(1, 200), st.integers(0, 3), st.data())
def test_any_split_of_any_frames_yields_the_same_frames(
    payloads: list[bytes], sizes: list[int], scratch_bytes: int, most: int, data: st.DataObject
) -> None:
    wire = Wire(scratch_bytes)
    stream = framed(*payloads)
    frames: list[bytes] = []
    step = 0
    while stream:
        size = sizes[step % len(sizes)]
        step += 1
        part, stream = stream[:size], stream[size:]
        while part:
            if data.draw(st.booleans()):
                wire.splitter.buffer(-1)  # a read that brings nothing
                wire.turn()
            part = wire.receive(part)
            frames += wire.take(most or 1 << 30)
            wire.turn()
            assert wire.splitter.held <= 2 * wire.received + len(wire.scratch)
    frames += wire.take()
    wire.turn()
    assert frames == payloads
    wire.splitter.idle()
    assert wire.splitter.held == 0


def test_frames_in_the_scratch_are_handed_out_where_they_lie_and_are_writable() -> None:
    wire = Wire()
    wire.receive(framed(b"one", b"two"))
    first = wire.splitter.next()
    assert first is not None
    assert first.obj is wire.scratch
    first[0:1] = b"O"
    assert wire.scratch[4:7] == b"One"
    assert wire.splitter.held == 0


def test_a_frame_whose_views_are_still_held_hinders_nothing() -> None:
    wire = Wire(64)
    views = []
    for _ in range(5):
        data = framed(bytes(1000), b"small", bytes(70))
        while data:
            data = wire.receive(data)
            while (frame := wire.splitter.next()) is not None:
                views.append(frame[1:])
            wire.turn()
    assert len(views) == 15


def test_an_announced_length_allocates_nothing() -> None:
    wire = Wire(4096, limit=100 << 20)
    wire.feed(struct.pack(">i", 100 << 20) + b"only this")
    assert wire.splitter.held <= 32


def test_the_own_buffer_doubles_and_is_never_longer_than_the_frame() -> None:
    wire = Wire(1024)
    stream = framed(bytes(10_000))
    seen = []
    for at in range(0, len(stream), 500):
        wire.feed(stream[at : at + 500])
        seen.append(wire.splitter.held)
    assert max(seen) == len(stream)
    assert all(held <= 2 * 500 * (step + 1) for step, held in enumerate(seen))


def test_the_rest_of_a_big_frame_is_received_in_place_and_no_further() -> None:
    wire = Wire(64)
    stream = framed(bytes(200))
    wire.feed(stream[:150])
    assert len(wire.splitter.buffer(-1)) == len(stream) - 150


def test_the_buffer_of_a_big_frame_is_retained_until_the_connection_is_idle() -> None:
    wire = Wire(1024)
    assert wire.feed(framed(bytes(5000))) == [bytes(5000)]
    assert wire.splitter.held == 5004
    assert wire.feed(framed(b"small")) == [b"small"]
    assert wire.splitter.held == 5004
    assert wire.feed(framed(b"x" * 4000)) == [b"x" * 4000]
    assert wire.splitter.held == 5004
    wire.splitter.idle()
    assert wire.splitter.held == 0


def test_a_buffer_beyond_the_bound_is_not_retained() -> None:
    wire = Wire(1 << 16)
    assert len(wire.feed(framed(bytes(RETAINED_BYTES_MAX)))) == 1
    assert wire.splitter.held == 0


def test_a_connection_with_half_a_frame_stays_as_it_is_when_idle() -> None:
    wire = Wire()
    stream = framed(b"payload")
    wire.feed(stream[:6])
    wire.splitter.idle()
    assert wire.splitter.held > 0
    assert wire.feed(stream[6:]) == [b"payload"]
    assert wire.splitter.held == 0


def test_an_empty_frame_is_a_frame() -> None:
    assert Wire().feed(framed(b"", b"x", b"")) == [b"", b"x", b""]


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_length_below_zero_or_above_the_limit_is_refused(length: int) -> None:
    wire = Wire(limit=1000)
    with pytest.raises(ProtocolError, match=f"a frame of {length} bytes"):
        wire.feed(struct.pack(">i", length))


def test_a_bad_length_behind_a_good_frame_is_refused_only_when_it_is_its_turn() -> None:
    wire = Wire(limit=1000)
    wire.receive(framed(b"good") + struct.pack(">i", -1))
    assert wire.take(1) == [b"good"]
    wire.turn()
    wire.splitter.buffer(-1)
    with pytest.raises(ProtocolError):
        wire.splitter.next()


def test_the_limit_can_be_raised_between_frames() -> None:
    wire = Wire(limit=3)
    assert wire.feed(framed(b"abc")) == [b"abc"]
    wire.splitter.limit = 4
    assert wire.feed(framed(b"abcd")) == [b"abcd"]
