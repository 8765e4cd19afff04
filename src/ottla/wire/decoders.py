"""Writes the decoder of one message in one version: straight-line code from a view to an instance.

Rules. Neighbouring values of fixed width, with the length that follows them, are read by one `unpack_from`.
Every length and every count is compared with the bytes that remain before anything is allocated for it: an
array of n items needs n times the least an item can take. All arrays of a message together, nested ones
and unknown tagged fields included, may have `ITEMS_MAX` items: what fits the frame may not fit the memory.
Objects are filled slot by slot, which takes a third of the time of calling their constructor.

A large message can be decoded in slices: the same code as a generator, which pauses every `PACE` items and
returns the instance in the end.

Reading past the end shows as `struct.error` or `IndexError`, bad UTF-8 as `UnicodeDecodeError`; they become
`ProtocolError` in one place, around the whole function.
"""

import struct
from typing import Any

from ottla.wire import primitives
from ottla.wire.codegen import Source, pause
from ottla.wire.schema import (
    Array,
    Blob,
    Field,
    Fixed,
    Kind,
    Nested,
    Text,
    absent_fields,
    is_flexible,
    plain_fields,
    tagged_fields,
)

# An item becomes an object of some 200 bytes in about a microsecond (design note 011). The largest request
# of a real client is a fetch of some 50,000 partitions. Answers come from a broker that was asked for them.
ITEMS_MAX = 100_000
ANSWER_ITEMS_MAX = 10_000_000


def compile_decoder(cls: type, version: int, *, sliced: bool = False) -> Any:
    """The function `decode(view, at=0, left=...)` for this message and version, which may have so many items;
    bytes after the message are ignored. Sliced: a generator that returns the message."""
    writer = _DecoderWriter(version, is_flexible(cls, version), sliced)
    source = writer.source
    items_max = ITEMS_MAX if cls.__name__.endswith("Request") else ANSWER_ITEMS_MAX
    with source.block(f"def decode(view, at=0, left={items_max}):"):
        with source.block("try:"):
            source.line("end = len(view)")
            if sliced:
                source.line("done = 0")
                source.line("yield")  # a message without arrays would not be a generator
            message = writer.begin_struct(cls)
            writer.struct(cls, message)
            writer.flush()
            source.line(f"return {message}")
        with source.block("except (struct_error, IndexError, UnicodeDecodeError) as error:"):
            source.line(f'raise ProtocolError(f"{cls.__name__} v{version}: {{error}}") from error')
    return source.function("decode")


def least_size(kind: Kind, nullable: bool, version: int, flexible: bool) -> int:
    """The fewest bytes a value of this kind can take on the wire."""
    match kind:
        case Fixed():
            return kind.size
        case Text():
            return 1 if flexible else 2
        case Nested(cls):
            if nullable:
                return 1
            fields = plain_fields(cls, version)
            inner = (least_size(f.kind, f.is_nullable_in(version), version, flexible) for f in fields)
            return sum(inner) + flexible
        case Blob() | Array():
            return 1 if flexible else 4


class _DecoderWriter:
    def __init__(self, version: int, flexible: bool, sliced: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.sliced = sliced
        self.source = Source(
            OverLimitError=primitives.OverLimitError,
            ProtocolError=primitives.ProtocolError,
            check_tag=primitives.check_tag,
            new=object.__new__,
            skip_tags=primitives.skip_tags,
            string_uvarint=primitives.string_uvarint,
            struct_error=struct.error,
            unpack_from=struct.unpack_from,
            uvarint=primitives.uvarint,
        )
        self._codes = ""
        self._targets: list[str] = []

    def take(self, code: str, target: str) -> None:
        """Read a value of fixed width into `target`, together with its neighbours."""
        self._codes += code
        self._targets.append(target)

    def flush(self) -> None:
        """End the run of fixed-width values: from here on every target is set and `at` is right."""
        if not self._codes:
            return
        if self._codes == "B":  # without a call, and a tuple for what that returns
            self.source.line(f"{self._targets.pop()} = view[at]")
            self.source.line("at += 1")
            self._codes = ""
            return
        unpack = self.source.packing(self._codes, "unpack_from")
        self.source.line(f"{', '.join(self._targets)}, = {unpack}(view, at)")
        self.source.line(f"at += {struct.calcsize('>' + self._codes)}")
        self._codes = ""
        self._targets = []

    def begin_struct(self, cls: type) -> str:
        name = self.source.fresh("o")
        self.source.line(f"{name} = new({self.source.bind(cls, cls.__name__ + '_')})")
        return name

    def struct(self, cls: type, target: str) -> None:
        tagged = tagged_fields(cls, self.version)
        for field in [*absent_fields(cls, self.version), *tagged]:
            self.source.line(f"{target}.{field.name} = {self._default(field)}")
        for field in plain_fields(cls, self.version):
            nullable = field.is_nullable_in(self.version)
            self.value(field.kind, nullable, f"{target}.{field.name}", field.label)
        if self.flexible:
            self._tags(tagged, target)

    def value(self, kind: Kind, nullable: bool, target: str, label: str) -> None:
        match kind:
            case Fixed(code):
                self.take(code, target)
            case Text():
                self._text(nullable, target, label)
            case Blob():
                self._blob(kind, nullable, target, label)
            case Array(item):
                self._array(item, nullable, target, label)
            case Nested(cls):
                self._nested(cls, nullable, target)

    def _default(self, field: Field) -> str:
        if field.factory is list:
            return "[]"
        if field.factory is not None:
            return self.source.bind(field.factory, "factory") + "()"
        return self.source.bind(field.default, "default")

    def _length(self, wide: str, long: str) -> tuple[str, str, str]:
        """Read a length or count into n. Returns the test for "not null", and n as a number, and its name."""
        n = self.source.fresh("n")
        self.take("B" if self.flexible else wide, n)
        self.flush()
        if not self.flexible:
            return f"{n} >= 0", n, n
        with self.source.block(f"if {n} > 127:"):
            with self.source.block("if view[at] < 128:"):  # most varints have one byte or two
                self.source.line(f"{n} += (view[at] << 7) - 128")
                self.source.line("at += 1")
            with self.source.block("else:"):
                self.source.line(f"{n}, at = {long}(view, at - 1)")
        return n, f"{n} - 1", n

    def _null(self, nullable: bool, target: str, label: str) -> None:
        with self.source.block("else:"):
            if nullable:
                self.source.line(f"{target} = None")
            else:
                self.source.line(f'raise ProtocolError("{label} is null")')

    def _bounded(self, size: str, label: str) -> None:
        self.source.line(f"to = at + {size}")
        with self.source.block("if to > end:"):
            self.source.line(f'raise ProtocolError("{label} runs past the end")')

    def _text(self, nullable: bool, target: str, label: str) -> None:
        not_null, size, _ = self._length("h", "string_uvarint")
        with self.source.block(f"if {not_null}:"):
            self._bounded(size, label)
            self.source.line(f"{target} = str(view[at:to], 'utf-8')")
            self.source.line("at = to")
        self._null(nullable, target, label)

    def _blob(self, kind: Blob, nullable: bool, target: str, label: str) -> None:
        not_null, size, _ = self._length("i", "uvarint")
        with self.source.block(f"if {not_null}:"):
            self._bounded(size, label)
            view = "view[at:to]"
            self.source.line(f"{target} = {view if kind.by_reference else f'bytes({view})'}")
            self.source.line("at = to")
        self._null(nullable, target, label)

    def _array(self, item: Kind, nullable: bool, target: str, label: str) -> None:
        not_null, count, n = self._length("i", "uvarint")
        with self.source.block(f"if {not_null}:"):
            if count != n:
                self.source.line(f"{n} = {count}")
            least = max(1, least_size(item, False, self.version, self.flexible))
            self.source.line(f"left -= {n}")
            with self.source.block(f"if {n} * {least} > end - at:"):
                self.source.line(f'raise ProtocolError(f"{label} cannot have {{{n}}} items")')
            self._within_limit(f"{label} has {{{n}}} items", n)
            if isinstance(item, Fixed) and len(item.code) == 1:
                self.source.line(f"{target} = list(unpack_from(f'>{{{n}}}{item.code}', view, at))")
                self.source.line(f"at += {n} * {item.size}")
            else:
                self._items(item, n, target, label)
        self._null(nullable, target, label)

    def _within_limit(self, what: str, n: str) -> None:
        """The message may have so many more items."""
        with self.source.block("if left < 0:"):
            self.source.line(
                f'raise OverLimitError(f"{what}, where this message may have {{left + {n}}} more")'
            )

    def _items(self, item: Kind, n: str, target: str, label: str) -> None:
        items = self.source.fresh("items")
        self.source.line(f"{target} = {items} = []")
        with self.source.block(f"for _ in range({n}):"):
            if isinstance(item, Nested):
                value = self.begin_struct(item.cls)
                self.struct(item.cls, value)
            else:
                value = self.source.fresh("item")
                self.value(item, False, value, label)
            self.flush()
            self.source.line(f"{items}.append({value})")
            if self.sliced:
                pause(self.source)

    def _nested(self, cls: type, nullable: bool, target: str) -> None:
        if not nullable:
            self._filled(cls, target)
            return
        present = self.source.fresh("present")
        self.take("b", present)
        self.flush()
        with self.source.block(f"if {present} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self._filled(cls, target)
            self.flush()

    def _filled(self, cls: type, target: str) -> None:
        name = self.begin_struct(cls)
        self.source.line(f"{target} = {name}")
        self.struct(cls, name)

    def _tags(self, tagged: list[Field], target: str) -> None:
        if not tagged and not self._codes:
            with self.source.block("if view[at]:"):
                self.source.line("at, left = skip_tags(view, at, end, left)")
            with self.source.block("else:"):
                self.source.line("at += 1")
            return
        count = self.source.fresh("tags")
        self.take("B", count)
        self.flush()
        with self.source.block(f"if {count}:"):
            if not tagged:
                self.source.line("at, left = skip_tags(view, at - 1, end, left)")
                return
            tag, last, to = (self.source.fresh(prefix) for prefix in ("tag", "last", "to"))
            self.source.line(f"{count}, at = uvarint(view, at - 1)")
            with self.source.block(f"if 2 * {count} > end - at:"):
                self.source.line(f'raise ProtocolError(f"{target} cannot have {{{count}}} tagged fields")')
            self.source.line(f"left -= {count}")
            self._within_limit(f"{target} has {{{count}}} tagged fields", count)
            self.source.line(f"{last} = -1")
            with self.source.block(f"for _ in range({count}):"):
                self.source.line(f"{tag}, at = uvarint(view, at)")
                self.source.line(f"{to}, at = uvarint(view, at)")
                self.source.line(f"{to} += at")
                self.source.line(f"check_tag({tag}, {last}, {to}, end)")
                self.source.line(f"{last} = {tag}")
                for field in tagged:
                    self._tagged(field, f"{target}.{field.name}", tag, to)
                self.source.line(f"at = {to}")

    def _tagged(self, field: Field, target: str, tag: str, to: str) -> None:
        with self.source.block(f"if {tag} == {field.tag}:"):
            optional = field.is_nullable_in(self.version) and not isinstance(field.kind, Nested)
            self.value(field.kind, optional, target, field.label)
            self.flush()
            with self.source.block(f"if at != {to}:"):
                self.source.line(f'raise ProtocolError("{field.label} does not fill its tagged field")')
