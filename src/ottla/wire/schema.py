"""Declaring messages: one class per message for all of its versions.

A message is a slots dataclass whose annotations say what is on the wire, in the order of the wire:

    @message(key=12, versions=(0, 4), flexible=4)
    class HeartbeatRequest:
        group_id: str
        generation_id: i32
        group_instance_id: Annotated[str | None, since(3)] = None

`since` and `until` bound the versions that have a field, `tag` makes it a tagged field (KIP-482),
`nullable` says from which version a `| None` may be null. A field that some version lacks has a default,
which its instances then carry.

Rules. `Uuid` is 16 bytes. A `Records` field is decoded as a view of the frame, so it is valid only as long
as the frame. A tagged struct is None when it is absent, which stands for Kafka's "all defaults" and costs
nothing to build. This module only describes; `decoders` and `encoders` write the code, and
`codec` is what the rest of the broker calls.
"""

import dataclasses
import struct as packing
from collections.abc import Callable
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width, by its letter in the `struct` module."""

    code: str

    @property
    def size(self) -> int:
        return packing.calcsize(">" + self.code)


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A string."""


@dataclasses.dataclass(frozen=True, slots=True)
class Blob:
    """Bytes: copied out of the frame, or, for record batches, a view of it."""

    by_reference: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Array:
    item: "Kind"


@dataclasses.dataclass(frozen=True, slots=True)
class Nested:
    cls: type


Kind: TypeAlias = Fixed | Text | Blob | Array | Nested

i8 = Annotated[int, Fixed("b")]
i16 = Annotated[int, Fixed("h")]
u16 = Annotated[int, Fixed("H")]
i32 = Annotated[int, Fixed("i")]
u32 = Annotated[int, Fixed("I")]
i64 = Annotated[int, Fixed("q")]
f64 = Annotated[float, Fixed("d")]
Uuid: TypeAlias = Annotated[bytes, Fixed("16s")]
Records: TypeAlias = Annotated[bytes | bytearray | memoryview, Blob(by_reference=True)]


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """What an annotation adds to a type. Use `since`, `until`, `tag` and `nullable`."""

    since: int | None = None
    until: int | None = None
    tag: int | None = None
    nullable: int | None = None


def since(version: int) -> Mark:
    return Mark(since=version)


def until(version: int) -> Mark:
    """The last version that has the field."""
    return Mark(until=version)


def tag(number: int) -> Mark:
    return Mark(tag=number)


def nullable(version: int) -> Mark:
    """The first version in which null is allowed, where that is not the field's first."""
    return Mark(nullable=version)


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field as declared. A required field has neither a default nor a factory for one."""

    owner: str
    name: str
    kind: Kind
    optional: bool
    since: int
    until: int | None
    tag: int | None
    nullable_since: int
    default: Any
    factory: Callable[[], Any] | None

    @property
    def label(self) -> str:
        return f"{self.owner}.{self.name}"

    def is_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def is_nullable_in(self, version: int) -> bool:
        return self.optional and version >= self.nullable_since


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
def message(*, key: int, versions: tuple[int, int], flexible: int | None) -> Callable[[type[T]], type[T]]:
    """A request or response: its API key, first and last version, first flexible version if it has one."""

    def wrap(cls: type[T]) -> type[T]:
        made: Any = struct(cls)
        made.API_KEY, made.VERSIONS, made.FLEXIBLE = key, versions, flexible
        return made  # type: ignore[no-any-return]

    return wrap


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
def struct(cls: type[T]) -> type[T]:
    """A part of a message. Its versions are those of the message it stands in."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # or dataclass would spend half its time on making one up
    return dataclasses.dataclass(slots=True, kw_only=True, match_args=False)(cls)


def is_flexible(cls: type, version: int) -> bool:
    """Whether this message has compact lengths and tagged fields. Asking for a version it lacks is a bug."""
    first, last = cls.VERSIONS  # type: ignore[attr-defined]
    if not first <= version <= last:
        raise ValueError(f"{cls.__name__} has versions {first} to {last}, not {version}")
    flexible: int | None = cls.FLEXIBLE  # type: ignore[attr-defined]
    return flexible is not None and version >= flexible


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields in the order of the wire."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_field(cls.__name__, declared, hints[declared.name]) for declared in dataclasses.fields(cls))


def plain_fields(cls: type, version: int) -> list[Field]:
    return [field for field in fields_of(cls) if field.tag is None and field.is_in(version)]


def tagged_fields(cls: type, version: int) -> list[Field]:
    tagged = [field for field in fields_of(cls) if field.tag is not None and field.is_in(version)]
    return sorted(tagged, key=lambda field: field.tag or 0)


def absent_fields(cls: type, version: int) -> list[Field]:
    return [field for field in fields_of(cls) if not field.is_in(version)]


def _field(owner: str, declared: "dataclasses.Field[Any]", hint: Any) -> Field:
    kind, optional, marks = _read_hint(hint)
    first = next((mark.since for mark in marks if mark.since is not None), 0)
    made = Field(
        owner=owner,
        name=declared.name,
        kind=kind,
        optional=optional,
        since=first,
        until=next((mark.until for mark in marks if mark.until is not None), None),
        tag=next((mark.tag for mark in marks if mark.tag is not None), None),
        nullable_since=next((mark.nullable for mark in marks if mark.nullable is not None), first),
        default=declared.default,
        factory=None if declared.default_factory is dataclasses.MISSING else declared.default_factory,
    )
    sometimes = made.since > 0 or made.until is not None or made.tag is not None
    if sometimes and made.default is dataclasses.MISSING and made.factory is None:
        raise TypeError(f"{made.label} is not in every version, so it needs a default")
    return made


def _read_hint(hint: Any) -> tuple[Kind, bool, list[Mark]]:
    """Take `Annotated[X | None, marks]` apart: the kind, whether it may be None, the marks."""
    notes: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        notes = tuple(rest)
    marks = [note for note in notes if isinstance(note, Mark)]
    kinds = [note for note in notes if isinstance(note, Fixed | Blob)]
    if kinds:
        return kinds[0], False, marks
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        kind, _, _ = _read_hint(reduce(or_, (arg for arg in get_args(hint) if arg is not NoneType)))
        return kind, True, marks
    return _plain_kind(hint), False, marks


def _plain_kind(hint: Any) -> Kind:
    if hint is bool:
        return Fixed("?")
    if hint is str:
        return Text()
    if hint is bytes:
        return Blob(by_reference=False)
    if get_origin(hint) is list:
        item, optional, _ = _read_hint(get_args(hint)[0])
        if optional or isinstance(item, Array):
            raise TypeError(f"{hint} is not an array the protocol has")
        return Array(item)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return Nested(hint)
    raise TypeError(f"{hint} is not a type of the protocol")
