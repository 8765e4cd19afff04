"""Writes src/ottla/wire/messages/ from kio's schemas: one file per API, one class for all versions.

To serve another API, add its row to `api/table.py` and run `make messages`. kio has a class per version; here
they are laid over each other, and where they differ the field gets a mark: since, until, tag, nullable. What
cannot be expressed by those is refused.

Names are Kafka's. kio drops the unit of times, which is put back: they are plain milliseconds with `_ms` at
the end. A field may be left out when building a message if Kafka's schema has a default for it, if it is an
array, an error code or a throttle time, or if some version lacks it.
"""

import datetime
import subprocess
import sys
import uuid
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

from ottla.api.table import TABLE

# The last version that is generated, where that is not the last that kio has.
LAST_VERSIONS = {
    22: 5,  # InitProducerId: version 6 is not stable yet (KIP-939)
}
# Sent from broker to broker, or about to be served: they have messages before they have a row.
UNSERVED: set[int] = set()
APIS: dict[int, int | None] = {key: LAST_VERSIONS.get(key) for key in sorted({*TABLE, *UNSERVED})}

TARGET = Path(__file__).parent.parent / "src" / "ottla" / "wire" / "messages"

PROVENANCE = (
    "Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`"
)

SCALARS = {
    "bool": "bool",
    "bytes": "bytes",
    "datetime_i64": "i64",
    "error_code": "i16",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "records": "Records",
    "string": "str",
    "timedelta_i32": "i32",
    "timedelta_i64": "i64",
    "uint16": "u16",
    "uint32": "u32",
    "uuid": "Uuid",
}
TIMES = ("datetime_i64", "timedelta_i32", "timedelta_i64")
IMPLICIT_DEFAULTS = {"bool": "False", "str": '""', "bytes": 'b""', "f64": "0.0", "Uuid": "ZERO_UUID"}


@dataclass(frozen=True)
class Column:
    """One field in one version."""

    name: str
    type: str
    is_array: bool
    is_struct: bool
    nullable: bool
    tag: int | None
    default: str | None


def file_name(key: int) -> str:
    return api_key_map[key] + ".py"


def versions_of(key: int, last: int | None) -> list[int]:
    known = sorted(schema_name_map[api_key_map[key]])
    versions = [version for version in known if last is None or version <= last]
    if versions != list(range(versions[0], versions[-1] + 1)):
        raise ValueError(f"the versions of {api_key_map[key]} have gaps: {versions}")
    return versions


def render_api(key: int, last: int | None = None) -> str:
    """The source of one file, formatted."""
    versions = versions_of(key, last)
    requests = {version: load_request_schema(key, version) for version in versions}
    responses = {version: load_response_schema(key, version) for version in versions}
    request_structs, response_structs = collect(requests), collect(responses)
    taken = set(request_structs) & set(response_structs)
    renamed = {name: name + "Response" for name in taken}
    body = "".join(
        [
            *render_side(key, request_structs, {}),
            *render_side(key, response_structs, renamed),
        ]
    )
    title = next(iter(requests.values())).__name__.removesuffix("Request")
    opening = f'"""{title} (key {key}), versions {versions[0]} to {versions[-1]}.\n\n'
    opening += f'{PROVENANCE}.\n"""\n\n'
    return formatted(opening + imports_for(body) + body)


def imports_for(body: str) -> str:
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in body).split())
    ours = ["Records", "Uuid", "f64", "i16", "i32", "i64", "i8", "message", "nullable", "since"]
    ours += ["struct", "tag", "u16", "u32", "until"]
    calls = {"nullable", "since", "tag", "until"}
    used = [name for name in ours if (f", {name}(" in body if name in calls else name in words)]
    lines = ["from dataclasses import field\n"] if "field(default_factory" in body else []
    lines += ["from typing import Annotated\n"] if "Annotated[" in body else []
    lines += ["\nfrom ottla.base.ids import ZERO_UUID"] if "ZERO_UUID" in words else []
    return "".join(lines) + "\nfrom ottla.wire.schema import " + ", ".join(sorted(used, key=isort_key)) + "\n"


def isort_key(name: str) -> tuple[int, str, int]:
    """Constants, then classes, then the rest with numbers in their natural order, as ruff sorts them."""
    natural = name.rstrip("0123456789")
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, natural, int(name[len(natural) :] or 0))


def collect(messages: dict[int, type]) -> dict[str, dict[int, type]]:
    """All classes of a message, innermost first, the message last: name -> version -> kio's class."""
    found: dict[str, dict[int, type]] = {}

    def visit(cls: type, version: int) -> None:
        for field in fields(cls):
            inner = item_type(field)
            if is_dataclass(inner):
                visit(inner, version)
        found.setdefault(cls.__name__, {})[version] = cls

    for version in sorted(messages, reverse=True):
        visit(messages[version], version)
    return innermost_first(found)


def innermost_first(found: dict[str, dict[int, type]]) -> dict[str, dict[int, type]]:
    ordered: dict[str, dict[int, type]] = {}

    def place(name: str) -> None:
        if name in ordered:
            return
        for cls in found[name].values():
            for field in fields(cls):
                inner = item_type(field)
                if is_dataclass(inner):
                    place(inner.__name__)
        ordered[name] = dict(sorted(found[name].items()))

    for name in found:
        place(name)
    return ordered


def item_type(field: "Field[Any]") -> Any:
    """The type inside `tuple[X, ...]` and `X | None`."""
    kind = field.type
    while get_args(kind):
        kind = next(arg for arg in get_args(kind) if arg not in (NoneType, ...))
    return kind


def render_side(key: int, structs: dict[str, dict[int, type]], renamed: dict[str, str]) -> list[str]:
    top = list(structs)[-1]
    parts = []
    for name, by_version in structs.items():
        decorator = "@struct"
        if name == top:
            flexible = next((v for v, cls in by_version.items() if cls.__flexible__), None)
            first, last = min(by_version), max(by_version)
            decorator = f"@message(key={key}, versions=({first}, {last}), flexible={flexible})"
        lines = render_fields(name, by_version, renamed) or ["    pass\n"]
        parts.append(f"\n\n{decorator}\nclass {renamed.get(name, name)}:\n" + "".join(lines))
    return parts


def render_fields(owner: str, by_version: dict[int, type], renamed: dict[str, str]) -> list[str]:
    columns = {
        version: {column.name: column for column in (read_column(f, renamed) for f in fields(cls))}
        for version, cls in by_version.items()
    }
    order = merged_order(owner, {version: list(names) for version, names in columns.items()})
    return [
        render_field(
            owner, {v: names[name] for v, names in columns.items() if name in names}, list(by_version)
        )
        for name in order
    ]


def merged_order(owner: str, orders: dict[int, list[str]]) -> list[str]:
    """One order of which every version's order is a part: the order on the wire."""
    merged: list[str] = []
    for version in sorted(orders, reverse=True):
        at = 0
        for name in orders[version]:
            if name in merged:
                at = merged.index(name) + 1
            else:
                merged.insert(at, name)
                at += 1
    for version, order in orders.items():
        if [name for name in merged if name in order] != order:
            raise ValueError(f"the fields of {owner} v{version} come in another order")
    return merged


def read_column(field: "Field[Any]", renamed: dict[str, str]) -> Column:
    kafka_type = field.metadata.get("kafka_type")
    inner = item_type(field)
    nullable = get_origin(field.type) is not tuple and NoneType in get_args(field.type)
    return Column(
        name=field_name(field.name, kafka_type),
        type=SCALARS[kafka_type] if kafka_type else renamed.get(inner.__name__, inner.__name__),
        is_array=is_array(field.type),
        is_struct=kafka_type is None,
        # For these two kio spells a value of the wire as None: the zero id, and the time -1.
        nullable=nullable and (is_array(field.type) or kafka_type not in ("uuid", "datetime_i64")),
        tag=field.metadata.get("tag"),
        default=default_of(field, kafka_type, nullable),
    )


def is_array(kind: Any) -> bool:
    return get_origin(kind) is tuple or any(get_origin(arg) is tuple for arg in get_args(kind))


def field_name(name: str, kafka_type: str | None) -> str:
    return name + "_ms" if kafka_type in TIMES and not name.endswith("_ms") else name


def default_of(field: "Field[Any]", kafka_type: str | None, nullable: bool) -> str | None:
    default = field.default
    if default is MISSING:
        if kafka_type == "error_code" or field.name == "throttle_time":
            return "0"
        if is_array(field.type):
            return "field(default_factory=list)"
        if kafka_type == "datetime_i64" and nullable:
            return "-1"
        return None
    if is_array(field.type):
        return "None" if default is None else "field(default_factory=list)"
    if kafka_type is None:
        return "None"
    if kafka_type == "datetime_i64":
        return "-1" if default is None else repr(round(default.timestamp() * 1000))
    if isinstance(default, datetime.timedelta):
        return repr(default // datetime.timedelta(milliseconds=1))
    if kafka_type == "uuid":
        return "ZERO_UUID" if default is None else repr(uuid.UUID(str(default)).bytes)
    if kafka_type == "error_code":
        return repr(int(default.value))
    return repr(default)


def render_field(owner: str, by_version: dict[int, Column], all_versions: list[int]) -> str:
    versions = list(by_version)
    newest = by_version[versions[-1]]
    where = f"{owner}.{newest.name}"
    if versions != list(range(versions[0], versions[-1] + 1)):
        raise ValueError(f"the versions of {where} have gaps: {versions}")
    if len({(c.type, c.is_array, c.tag, c.default) for c in by_version.values()}) != 1:
        raise ValueError(f"{where} changes between versions")
    null_versions = [version for version, column in by_version.items() if column.nullable]
    if null_versions and null_versions != list(range(null_versions[0], versions[-1] + 1)):
        raise ValueError(f"{where} is nullable in versions {null_versions}")

    marks = []
    if versions[0] > all_versions[0]:
        marks.append(f"since({versions[0]})")
    if versions[-1] < all_versions[-1]:
        marks.append(f"until({versions[-1]})")
    if newest.tag is not None:
        marks.append(f"tag({newest.tag})")
    if null_versions and null_versions[0] > versions[0]:
        marks.append(f"nullable({null_versions[0]})")

    tagged_struct = newest.is_struct and not newest.is_array and newest.tag is not None
    hint = f"list[{newest.type}]" if newest.is_array else newest.type
    if null_versions or tagged_struct:
        hint += " | None"
    default = newest.default
    if default is None and null_versions == versions:
        default = "None"
    if default is None and (tagged_struct or versions != all_versions or newest.tag is not None):
        default = "None" if tagged_struct else implicit_default(where, newest)
    hint = f"Annotated[{', '.join([hint, *marks])}]" if marks else hint
    return f"    {newest.name}: {hint}" + (f" = {default}\n" if default is not None else "\n")


def implicit_default(where: str, column: Column) -> str:
    if column.is_struct:
        raise ValueError(f"{where} is a struct that some version lacks: it has no plain default")
    return IMPLICIT_DEFAULTS.get(column.type, "0")


def render_index(apis: dict[int, int | None]) -> str:
    """The package's opening, with what a header parser must know before any message is loaded."""
    rows, ranges = [], []
    for key, last in sorted(apis.items()):
        versions = versions_of(key, last)
        ranges.append(f"    {key}: ({versions[0]}, {versions[-1]}),  # {api_key_map[key]}\n")
        flexible = next((v for v in versions if load_request_schema(key, v).__flexible__), None)
        rows.append(f"    {key}: {flexible},  # {api_key_map[key]}\n")
    return formatted(
        '"""One file per API: its request and its response, one class each for all versions.\n\n'
        f"{PROVENANCE}.\n"
        "The classes are declared with `ottla.wire.schema`, which explains the marks. Import the file of\n"
        "the API that you handle: this package imports none of them, so a start pays for what it uses.\n"
        '"""\n\n'
        "from typing import Final\n\n"
        "FLEXIBLE_SINCE: Final[dict[int, int | None]] = {\n" + "".join(rows) + "}\n"
        '"""API key -> first version with compact lengths and tags; decides the header version."""\n\n'
        "VERSIONS: Final[dict[int, tuple[int, int]]] = {\n" + "".join(ranges) + "}\n"
        '"""API key -> first and last version."""\n'
    )


def formatted(source: str) -> str:
    ruff = Path(sys.executable).parent / "ruff"
    command = [str(ruff), "format", "--quiet", "--stdin-filename", str(TARGET / "message.py"), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def render(apis: dict[int, int | None]) -> dict[str, str]:
    """File name -> source, for the whole package."""
    sources = {file_name(key): render_api(key, last) for key, last in apis.items()}
    return {"__init__.py": render_index(apis), **sources}


def main() -> None:
    sources = render(APIS)
    TARGET.mkdir(exist_ok=True)
    for stale in TARGET.glob("*.py"):
        if stale.name not in sources:
            stale.unlink()
    for name, source in sources.items():
        (TARGET / name).write_text(source)
    print(f"{len(sources) - 1} APIs in {TARGET}")


if __name__ == "__main__":
    main()
