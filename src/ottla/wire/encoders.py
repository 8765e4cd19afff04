"""Writes the encoder of one message in one version: straight-line code from an instance to a list of chunks.

Rules. Neighbouring values of fixed width are packed together, with the length that follows them and the
empty tag section. Record batches are passed on by reference; everything between two of them is joined to
one chunk. A field that the version lacks is not written. A tagged field is written only if it differs from
its default.

A large message can be encoded in slices: the same code as a generator of chunks, which yields None where it
only pauses. Its lists may be lazy (`lazy`): an item is then made when its turn comes, and forgotten; or it
is there as bytes, and is copied.

The error codes that a message carries can be counted on the way: `errors` is how often each was written, by
code, without those of 0. That is the one moment at which every item of a lazy list is there.

An instance that cannot be encoded is a bug of ours, hence a `ValueError` that names the field. It is looked
for only after packing has failed, so that the good case pays nothing for it.
"""

import dataclasses
import struct
from collections.abc import Mapping
from typing import Any

from ottla.wire import primitives
from ottla.wire.codegen import Source, pause
from ottla.wire.lazy import Encoded
from ottla.wire.schema import (
    Array,
    Blob,
    Field,
    Fixed,
    Kind,
    Nested,
    Text,
    is_flexible,
    plain_fields,
    tagged_fields,
)

ERROR_CODES = {"error_code", "partition_error_code"}  # as they are called in responses
CHUNK_PIECES = 4_096  # of sliced code: some 50 KB, joined so that they take little more than their bytes
CHUNK_BYTES = 1_024  # what is encoded and larger is a chunk of its own


def compile_encoder(cls: type, version: int, *, sliced: bool = False, within: type | None = None) -> Any:
    """The function `encode(message, errors)` for this class and version. It returns the chunks, never none.
    Sliced: a generator of chunks and pauses. `within`: the message that this class is a part of."""
    writer = _EncoderWriter(version, is_flexible(within or cls, version), sliced)
    source = writer.source
    with source.block("def encode(message, errors=None):"):
        with source.block("try:"):
            source.line("done = 0" if sliced else "chunks = []")
            source.line("out = []")
            source.line("put = out.append")
            writer.struct(cls, "message")
            writer.flush()
            if sliced:
                source.line("yield join(out)")
            else:
                with source.block("if out or not chunks:"):
                    source.line("chunks.append(join(out))")
                source.line("return chunks")
        with source.block("except (struct_error, AttributeError, TypeError) as error:"):
            source.line(f"raise ValueError(f'{{explain(message, {version})}}: {{error}}') from error")
    return source.function("encode")


def explain(message: Any, version: int) -> str:
    """Where in a message the first value stands that its version cannot carry."""
    return _first_fault(message, version) or f"{type(message).__name__} v{version} cannot be encoded"


def _first_fault(part: Any, version: int) -> str | None:
    for field in [*plain_fields(type(part), version), *tagged_fields(type(part), version)]:
        value = getattr(part, field.name)
        where = f"{field.label} in v{version}"
        if value is None:
            if not field.is_nullable_in(version):
                return f"{where} cannot be None"
            continue
        fault = _value_fault(field.kind, value, where, version)
        if fault:
            return fault
    return None


def _value_fault(kind: Kind, value: Any, where: str, version: int) -> str | None:
    match kind:
        case Array(item):
            if not isinstance(value, list | tuple):
                return f"{where} must be a list, not {value!r}"
            faults = (_value_fault(item, element, f"an item of {where}", version) for element in value)
            return next((fault for fault in faults if fault), None)
        case Nested(cls):
            if isinstance(value, cls):
                return _first_fault(value, version)
            return f"{where} must be a {cls.__name__}, not {value!r}"
        case Fixed(code):
            try:
                struct.pack(">" + code, value)
            except struct.error:
                return f"{where} cannot be {value!r}"
        case Text():
            if not isinstance(value, str) or len(value.encode()) > primitives.STRING_BYTES_MAX:
                return f"{where} must be a string of at most {primitives.STRING_BYTES_MAX} bytes"
        case Blob():
            if not isinstance(value, bytes | bytearray | memoryview):
                return f"{where} must be bytes, not {value!r}"
    return None


def _add_errors(errors: dict[int, int] | None, more: Mapping[int, int]) -> None:
    if errors is not None:
        for code, count in more.items():
            errors[code] = errors.get(code, 0) + count


class _EncoderWriter:
    def __init__(self, version: int, flexible: bool, sliced: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.sliced = sliced
        self.source = Source(
            Encoded=Encoded,
            add_errors=_add_errors,
            explain=explain,
            join=b"".join,
            long_string=primitives.encode_string_uvarint,
            long_uvarint=primitives.encode_uvarint,
            pack=struct.pack,
            short=primitives.ONE_BYTE_UVARINTS,
            struct_error=struct.error,
        )
        self._put = "put"
        self._codes = ""
        self._values: list[str] = []

    def give(self, code: str, value: str | None = None) -> None:
        """Write a fixed-width value together with its neighbours. Code x is a zero byte and has no value."""
        self._codes += code
        if value is not None:
            self._values.append(value)

    def flush(self) -> None:
        if self._codes.strip("x"):
            pack = self.source.packing(self._codes, "pack")
            self.source.line(f"{self._put}({pack}({', '.join(self._values)}))")
        elif self._codes:
            self.source.line(f"{self._put}({bytes(len(self._codes))!r})")
        self._codes = ""
        self._values = []

    def struct(self, cls: type, name: str) -> None:
        for field in plain_fields(cls, self.version):
            self.value(field.kind, field.is_nullable_in(self.version), f"{name}.{field.name}")
            if field.name in ERROR_CODES:
                self._count(f"{name}.{field.name}")
        if not self.flexible:
            return
        tagged = tagged_fields(cls, self.version)
        if tagged:
            self._tags(tagged, name)
        else:
            self.give("x")

    def _count(self, code: str) -> None:
        with self.source.block(f"if {code} and errors is not None:"):
            self.source.line(f"errors[{code}] = errors.get({code}, 0) + 1")

    def value(self, kind: Kind, nullable: bool, value: str) -> None:
        if isinstance(kind, Fixed):
            self.give(kind.code, value)
            return
        if not nullable:
            self._present(kind, value, nullable)
            return
        self.flush()
        local = self.source.fresh("v")
        self.source.line(f"{local} = {value}")
        with self.source.block(f"if {local} is None:"):
            self._null(kind)
            self.flush()
        with self.source.block("else:"):
            self._present(kind, local, nullable)
            self.flush()

    def _null(self, kind: Kind) -> None:
        if isinstance(kind, Nested):
            self.give("b", "-1")
        elif self.flexible:
            self.give("x")
        else:
            self.give("h" if isinstance(kind, Text) else "i", "-1")

    def _present(self, kind: Kind, value: str, nullable: bool) -> None:
        match kind:
            case Text():
                self._text(value)
            case Blob():
                self._blob(kind, value)
            case Array(item):
                self._array(item, value)
            case Nested(cls):
                if nullable:
                    self.give("b", "1")
                part = self.source.fresh("o")
                self.source.line(f"{part} = {value}")
                self.struct(cls, part)
            case Fixed():
                raise AssertionError("the protocol has no nullable value of fixed width")

    def _length(self, wide: str, of: str, long: str = "long_uvarint") -> None:
        if not self.flexible:
            self.give(wide, f"len({of})")
            self.flush()
            return
        self.flush()
        n = self.source.fresh("n")
        self.source.line(f"{n} = len({of}) + 1")
        self.source.line(f"{self._put}(short[{n}] if {n} < 128 else {long}({n}))")

    def _text(self, value: str) -> None:
        text = self.source.fresh("s")
        self.source.line(f"{text} = {value}.encode()")
        self._length("h", text, "long_string")
        self.source.line(f"{self._put}({text})")

    def _blob(self, kind: Blob, value: str) -> None:
        blob = self.source.fresh("b")
        self.source.line(f"{blob} = {value}")
        self._length("i", blob)
        if not kind.by_reference:
            self.source.line(f"{self._put}({blob})")
            return
        if self._put != "put":
            raise TypeError("records cannot stand in a tagged field")
        with self.source.block(f"if {blob}:"):
            self._chunk("join(out)")
            self.source.line("out.clear()")
            self._chunk(blob)

    def _chunk(self, chunk: str) -> None:
        self.source.line(f"yield {chunk}" if self.sliced else f"chunks.append({chunk})")

    def _array(self, item: Kind, array: str) -> None:
        items = self.source.fresh("items")
        self.source.line(f"{items} = {array}")
        self._length("i", items)
        if isinstance(item, Fixed) and len(item.code) == 1:
            self.source.line(f"{self._put}(pack(f'>{{len({items})}}{item.code}', *{items}))")
            return
        value = self.source.fresh("o")
        with self.source.block(f"for {value} in {items}:"):
            is_sliced = self.sliced and self._put == "put"
            if is_sliced and isinstance(item, Nested):
                self._encoded_or_pause(value)
                with self.source.block("else:"):
                    self._item(item, value)
            else:
                self._item(item, value)
            if is_sliced:
                pause(self.source)
                self._cut(f"len(out) > {CHUNK_PIECES}")

    def _item(self, item: Kind, value: str) -> None:
        if isinstance(item, Nested):
            self.struct(item.cls, value)
        else:
            self.value(item, False, value)
        self.flush()

    def _encoded_or_pause(self, value: str) -> None:
        with self.source.block(f"if {value} is None:"):
            self.source.line("yield")
        with self.source.block(f"elif {value}.__class__ is Encoded:"):
            self.source.line(f"add_errors(errors, {value}.errors)")
            with self.source.block(f"if len({value}.body) > {CHUNK_BYTES}:"):
                self._cut("out")
                self._chunk(f"{value}.body")
            with self.source.block("else:"):
                self.source.line(f"put({value}.body)")

    def _cut(self, condition: str) -> None:
        with self.source.block(f"if {condition}:"):
            self._chunk("join(out)")
            self.source.line("out.clear()")

    def _tags(self, tagged: list[Field], name: str) -> None:
        """Each tagged field is written to a list of its own, since its size comes before it."""
        self.flush()
        section, count = self.source.fresh("section"), self.source.fresh("count")
        self.source.line(f"{section} = b''")
        self.source.line(f"{count} = 0")
        outer = self._put
        for field in tagged:
            value = self.source.fresh("v")
            self.source.line(f"{value} = {name}.{field.name}")
            with self.source.block(f"if {self._differs(field, value)}:"):
                body = self.source.fresh("body")
                self._put = f"{body}.append"
                self.source.line(f"{body} = []")
                self.value(
                    field.kind,
                    field.is_nullable_in(self.version) and not isinstance(field.kind, Nested),
                    value,
                )
                self.flush()
                self.source.line(f"{body} = join({body})")
                tag = primitives.encode_uvarint(field.tag or 0)
                self.source.line(f"{section} += {tag!r} + long_uvarint(len({body})) + {body}")
                self.source.line(f"{count} += 1")
        self._put = outer
        self.source.line(f"{self._put}(short[{count}] + {section})")

    def _differs(self, field: Field, value: str) -> str:
        if field.factory is list:
            return value if not field.optional else f"{value} != []"
        if field.factory is not None or field.default is dataclasses.MISSING:
            raise TypeError(f"{field.label} is tagged and needs a plain default")
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {field.default!r}"
