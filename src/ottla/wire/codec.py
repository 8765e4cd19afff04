"""Bytes to messages and back: what the rest of the broker calls.

The code for a message in a version is written and compiled the first time that it is asked for, then kept.
A hot path asks once for the bare function with `decoder` or `encoder`.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, TypeAlias, TypeVar

from ottla.wire.decoders import compile_decoder
from ottla.wire.encoders import compile_encoder
from ottla.wire.lazy import Encoded

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
M_contra = TypeVar("M_contra", contravariant=True)

Chunk: TypeAlias = bytes | bytearray | memoryview


class Decoder(Protocol[M_co]):
    def __call__(self, view: memoryview, at: int = 0, left: int = ...) -> M_co: ...


class Encoder(Protocol[M_contra]):
    def __call__(self, message: M_contra, errors: dict[int, int] | None = None) -> list[Chunk]: ...


_decoders: dict[tuple[type, int], Decoder[Any]] = {}
_encoders: dict[tuple[type, int], Encoder[Any]] = {}
_sliced: dict[tuple[Any, ...], Callable[..., Any]] = {}


def decoder(cls: type[M], version: int) -> Decoder[M]:
    """The function from a view to a message. ValueError if the message has no such version."""
    compiled = _decoders.get((cls, version))
    if compiled is None:
        compiled = _decoders[cls, version] = compile_decoder(cls, version)
    return compiled


def encoder(cls: type[M], version: int) -> Encoder[M]:
    """The function from a message to its chunks. It adds the error codes of the message to `errors`, by code.
    ValueError if the message has no such version."""
    compiled = _encoders.get((cls, version))
    if compiled is None:
        compiled = _encoders[cls, version] = compile_encoder(cls, version)
    return compiled


def decode_in_slices(
    cls: type[M], version: int, view: memoryview, at: int, left: int
) -> Generator[None, None, M]:
    """The same as the decoder, pausing every few items; it returns the message."""
    slices: Generator[None, None, M] = _sliced_code(compile_decoder, cls, version)(view, at, left)
    return slices


def encode_in_slices(
    message: Any, version: int, errors: dict[int, int] | None = None
) -> Iterator[Chunk | None]:
    """The chunks of a message, and None wherever it pauses: every few items."""
    slices: Iterator[Chunk | None] = _sliced_code(compile_encoder, type(message), version)(message, errors)
    return slices


def encode_part_in_slices(part: Any, within: type, version: int) -> Generator[None, None, Encoded]:
    """The same for a part of a message of the class `within`; it returns the part as it stands in that."""
    chunks: list[Chunk] = []
    errors: dict[int, int] = {}
    for chunk in _sliced_code(compile_encoder, type(part), version, within=within)(part, errors):
        if chunk is None:
            yield
        else:
            chunks.append(chunk)
    return Encoded(b"".join(chunks), errors)


def _sliced_code(compiler: Callable[..., Any], cls: type, version: int, **more: Any) -> Callable[..., Any]:
    key = (compiler, cls, version, *more.values())
    compiled = _sliced.get(key)
    if compiled is None:
        compiled = _sliced[key] = compiler(cls, version, sliced=True, **more)
    return compiled


def decode(cls: type[M], version: int, view: memoryview, at: int = 0) -> M:
    """The message that begins at `at`. Bytes after it are ignored. ProtocolError if it is malformed."""
    return decoder(cls, version)(view, at)


def encode(message: Any, version: int) -> bytes:
    """The message in one piece. This copies record batches: a reply that has them uses `encode_chunks`."""
    return b"".join(encoder(type(message), version)(message))


def encode_chunks(message: Any, version: int) -> list[Chunk]:
    """The message for `writelines`: record batches stand in the list as they are, uncopied."""
    return encoder(type(message), version)(message)
