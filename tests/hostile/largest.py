"""The nastiest legal request of every API: for each array in its schema one that has as many items as a
request may have, all the same or all different."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ottla.api.table import TABLE
from ottla.wire.schema import Array, Blob, Field, Fixed, Kind, Nested, Text, fields_of, plain_fields

MARGIN = 50  # for the arrays around the largest


def largest_requests(*names: str) -> Iterator[tuple[str, Any, int]]:
    """(what it is, the request, its version), in the newest version that has the array; of all APIs, or of
    those with these titles."""
    for api in TABLE.values():
        if names and api.title not in names:
            continue
        cls = getattr(import_module(f"ottla.wire.messages.{api.name}"), f"{api.title}Request")
        low, high = cls.VERSIONS
        seen = set()
        for version in range(high, low - 1, -1):
            for path in _array_paths(cls, version):
                if path in seen:
                    continue
                seen.add(path)
                items = (api.items_max - MARGIN) // (1 + _inner_arrays(cls, version, path))
                for is_distinct in (False, True):
                    kind = "distinct" if is_distinct else "the same"
                    request = _filled(cls, version, path, items, is_distinct=is_distinct, at=0)
                    yield f"{cls.__name__} v{version} {'.'.join(path)} {kind}", request, version


def _array_paths(cls: type, version: int) -> Iterator[tuple[str, ...]]:
    for field in plain_fields(cls, version):
        item = field.kind.item if isinstance(field.kind, Array) else None
        if item is not None:
            yield (field.name,)
        inner = item or field.kind
        if isinstance(inner, Nested):
            for path in _array_paths(inner.cls, version):
                yield (field.name, *path)


def _inner_arrays(cls: type, version: int, path: tuple[str, ...]) -> int:
    """How many arrays each item of an array has in it, that are not null."""
    return sum(
        len(inner) > len(path) and inner[: len(path)] == path and not _is_null(cls, version, inner)
        for inner in _array_paths(cls, version)
    )


def _is_null(cls: type, version: int, path: tuple[str, ...]) -> bool:
    field = next(field for field in fields_of(cls) if field.name == path[0])
    if len(path) == 1:
        return field.is_nullable_in(version)
    inner = field.kind.item if isinstance(field.kind, Array) else field.kind
    assert isinstance(inner, Nested), "an array within something"
    return _is_null(inner.cls, version, path[1:])


def _filled(cls: type, version: int, path: tuple[str, ...], items: int, *, is_distinct: bool, at: int) -> Any:
    values = {}
    for field in fields_of(cls):
        if field.tag is not None or not field.is_in(version):
            continue
        below = path[1:] if path and field.name == path[0] else ()
        is_last = path == (field.name,)
        values[field.name] = _value(field, field.kind, version, below, items, is_last, is_distinct, at)
    return cls(**values)


def _value(
    field: Field,
    kind: Kind,
    version: int,
    below: tuple[str, ...],
    items: int,
    is_last: bool,
    is_distinct: bool,
    at: int,
) -> Any:
    match kind:
        case Array(item):
            if field.is_nullable_in(version) and not is_last and not below:
                return None
            count = items if is_last else 1
            made = [
                _value(field, item, version, below, items, False, is_distinct, index if is_last else at)
                for index in range(count if is_distinct else 1)
            ]
            return made if is_distinct else made * count
        case Nested(cls):
            return _filled(cls, version, below, items, is_distinct=is_distinct, at=at)
        case Text():
            name = "g" if "group" in field.name else "t"
            return f"{name}{at}" if is_distinct and at else name
        case Blob():
            return b""
        case Fixed(code):
            return _number(field.name, code, at if is_distinct else 0)


def _number(name: str, code: str, at: int) -> Any:
    if code == "16s":
        return at.to_bytes(16, "big")
    if code in {"d", "?"}:
        return code == "?" and name.startswith("include")
    fixed = {"resource_type": 2, "replica_id": -1, "acks": 1, "timeout_ms": 1_000, "replication_factor": 1}
    if name in fixed:
        return fixed[name]
    return at if "partition" in name and code == "i" else 1 if name.startswith(("num", "count")) else 0
