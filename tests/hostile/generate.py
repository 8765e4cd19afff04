"""Requests made up from kio's schemas, which are not ours: legal on the wire, and mostly nonsense.

A request is a list of parts, each with what it means (a number, the length of a text, the count of an array),
so that `mutate` can lie about exactly one of them. All comes from a seed.
"""

import dataclasses
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema
from kio.serial._introspect import classify_field, get_field_tag, is_optional
from kio.static.protocol import Entity

from ottla.api.table import TABLE

# Every API that is served, in each of its versions.
PAIRS = [
    (api.key, version) for api in TABLE.values() for version in range(api.versions[0], api.versions[1] + 1)
]
CLIENT = b"fuzz"


class Kind(Enum):
    NUMBER = "a number of fixed size, a bool or a uuid"
    CONTENT = "the bytes of a text or a blob"
    LENGTH_16 = "the length of a text, in two bytes"
    LENGTH_32 = "the length of a blob, in four bytes"
    LENGTH_COMPACT = "a length plus one, as a varint"
    COUNT_32 = "how many items an array has, in four bytes"
    COUNT_COMPACT = "how many items an array has plus one, as a varint"
    TAG_COUNT = "how many tagged fields there are"
    TAG = "the number of a tagged field"
    TAG_SIZE = "the size of a tagged field"


class Part(NamedTuple):
    kind: Kind
    data: bytes


@dataclass(slots=True)
class Items:
    """Where the items of an array are, among the parts."""

    count_at: int
    begin: int
    end: int
    count: int


@dataclass(slots=True)
class Sample:
    api_key: int
    version: int
    parts: list[Part] = field(default_factory=list)
    arrays: list[Items] = field(default_factory=list)

    def add(self, kind: Kind, data: bytes) -> None:
        self.parts.append(Part(kind, data))

    def frame(self) -> bytes:
        return b"".join([part.data for part in self.parts])


@dataclass(slots=True)
class Pool:
    """What values are drawn from. Nothing in it names the topic of a healthy client, nor a setting that would
    cut it off."""

    topics: Sequence[str] = (
        "fuzz", "fuzz", "fuzz-2", "fuzz-2", "not-there", "", "..", "a/b", "x" * 250, "__consumer_offsets",
    )  # fmt: skip
    groups: Sequence[str] = ("group", "group-2", "", "x" * 300)
    members: Sequence[str] = ("", "member", "member-2")
    texts: Sequence[str] = (
        "",
        "range",
        "consumer",
        "uniform",
        "ünïcödé",
        "\x00",
        "-1",
        "fuzz.*",
        "(.?){40}b",
    )
    configs: Sequence[str] = ("retention.ms", "cleanup.policy", "max.message.bytes", "no.such.key", "")
    values: Sequence[str] = ("1", "-1", "delete", "compact", "10000000", "x", "")
    topic_ids: Sequence[bytes] = (bytes(16), b"\xff" * 16)
    records: Sequence[bytes] = (b"",)
    blobs: Sequence[bytes] = (b"", b"\x00", b"\x00\x01\x00\x00\x00\x01\x00\x04fuzz" + b"\xff" * 4, b"z" * 40)


NUMBERS = {
    "b": (0, 1, 2, 3, -1, -2, 4, 127, -128),
    "h": (0, 1, 2, -1, -2, 32767, -32768),
    "i": (0, 1, 2, 3, -1, -2, 100, 2**31 - 1, -(2**31)),
    "q": (0, 1, -1, -2, -3, -6, 1_700_000_000_000, 2**63 - 1, -(2**63)),
    "B": (0, 1, 255),
    "H": (0, 1, 65535),
    "I": (0, 1, 2**32 - 1),
    "Q": (0, 1, 2**64 - 1),
    "d": (0.0, -1.5, 1e300),
    "?": (False, True),
}
CODES = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float64": "d", "bool": "?", "error_code": "h", "timedelta_i32": "i", "timedelta_i64": "q",
    "datetime_i64": "q",
}  # fmt: skip
SMALL = (0, 1, 2, 3, -1, -2, 1, 1)


class Plan(NamedTuple):
    """A field as kio declares it."""

    name: str
    kafka_type: str
    owner: str
    tag: int | None
    is_optional: bool
    is_array: bool
    nested: "tuple[Plan, ...] | None"


@cache
def plans(entity: type[Entity]) -> tuple[Plan, ...]:
    made = []
    for declared in dataclasses.fields(entity):
        found = classify_field(declared)
        nested = plans(found.type_) if dataclasses.is_dataclass(found.type_) else None
        kafka_type = declared.metadata.get("kafka_type", "")
        may_be_none = is_optional(declared) and kafka_type not in ("uuid", "datetime_i64")
        tag = get_field_tag(declared)
        made.append(
            Plan(declared.name, kafka_type, entity.__name__, tag, may_be_none, found.is_array, nested)
        )
    return tuple(made)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Generator:
    def __init__(self, chance: random.Random, pool: Pool) -> None:
        self.chance, self.pool = chance, pool

    def sample(self, api_key: int, version: int) -> Sample:
        entity = load_request_schema(api_key, version)
        is_flexible = entity.__flexible__
        sample = Sample(api_key, version)
        sample.add(Kind.NUMBER, struct.pack(">h", api_key))
        sample.add(Kind.NUMBER, struct.pack(">h", version))
        sample.add(Kind.NUMBER, struct.pack(">i", self.chance.getrandbits(30)))
        sample.add(Kind.LENGTH_16, struct.pack(">h", len(CLIENT)))
        sample.add(Kind.CONTENT, CLIENT)
        if entity.__header_schema__.__flexible__:
            sample.add(Kind.TAG_COUNT, b"\0")
        self._fields(sample, plans(entity), is_flexible)
        return sample

    def _fields(self, sample: Sample, fields: tuple[Plan, ...], is_flexible: bool) -> None:
        tagged = []
        for plan in fields:
            if plan.tag is None:
                self._field(sample, plan, is_flexible)
            elif self.chance.random() < 0.3:
                tagged.append(plan)
        if not is_flexible:
            return
        sample.add(Kind.TAG_COUNT, uvarint(len(tagged)))
        for plan in sorted(tagged, key=lambda plan: plan.tag or 0):
            inner = Sample(0, 0)
            self._field(inner, plan._replace(is_optional=False), is_flexible)
            sample.add(Kind.TAG, uvarint(plan.tag or 0))
            sample.add(Kind.TAG_SIZE, uvarint(len(inner.frame())))
            sample.parts += inner.parts

    def _field(self, sample: Sample, plan: Plan, is_flexible: bool) -> None:
        if plan.is_array:
            self._array(sample, plan, is_flexible)
        elif plan.nested is not None:
            if plan.is_optional:
                is_there = self.chance.random() < 0.8
                sample.add(Kind.NUMBER, b"\1" if is_there else b"\xff")
                if not is_there:
                    return
            self._fields(sample, plan.nested, is_flexible)
        else:
            self._scalar(sample, plan, is_flexible, self._is_none(plan))

    def _is_none(self, plan: Plan) -> bool:
        return plan.is_optional and self.chance.random() < 0.15

    def _array(self, sample: Sample, plan: Plan, is_flexible: bool) -> None:
        count = -1 if self._is_none(plan) else self.chance.choice((0, 1, 1, 1, 2, 3))
        at = len(sample.parts)
        if is_flexible:
            sample.add(Kind.COUNT_COMPACT, uvarint(count + 1))
        else:
            sample.add(Kind.COUNT_32, struct.pack(">i", count))
        for _ in range(count):
            if plan.nested is not None:
                self._fields(sample, plan.nested, is_flexible)
            else:
                self._scalar(sample, plan, is_flexible, False)
        if count > 0:
            sample.arrays.append(Items(at, at + 1, len(sample.parts), count))

    def _scalar(self, sample: Sample, plan: Plan, is_flexible: bool, is_none: bool) -> None:
        if plan.kafka_type == "uuid":
            sample.add(Kind.NUMBER, self.chance.choice(self.pool.topic_ids))
        elif plan.kafka_type in CODES:
            code = CODES[plan.kafka_type]
            sample.add(Kind.NUMBER, struct.pack(">" + code, self._number(plan, code)))
        else:
            content = b"" if is_none else self._content(plan)
            is_text = plan.kafka_type == "string"
            length = -1 if is_none else len(content)
            if is_flexible:
                sample.add(Kind.LENGTH_COMPACT, uvarint(length + 1))
            elif is_text:
                sample.add(Kind.LENGTH_16, struct.pack(">h", length))
            else:
                sample.add(Kind.LENGTH_32, struct.pack(">i", length))
            sample.add(Kind.CONTENT, content)

    def _number(self, plan: Plan, code: str) -> Any:
        """Not every one is drawn from all: nobody waits here, and few partitions are enough."""
        name = plan.name
        if plan.kafka_type.startswith("timedelta") or "timeout" in name or "wait" in name:
            return self.chance.choice((0, 1, 20, -1, 6_000))
        if name in ("num_partitions", "count") or "partition" in name:
            return self.chance.choice(SMALL)
        return self.chance.choice(NUMBERS[code])

    def _content(self, plan: Plan) -> bytes:
        pool, name, choose = self.pool, plan.name, self.chance.choice
        if plan.kafka_type == "records":
            return choose(pool.records)
        if plan.kafka_type == "bytes":
            return choose(pool.blobs)
        if "group" in name and "instance" not in name:
            return choose(pool.groups).encode()
        if "member_id" in name:
            return choose(pool.members).encode()
        if "config" in name.lower() or ("Config" in plan.owner and name == "name"):
            return choose(pool.configs).encode()
        if name == "value":
            return choose(pool.values).encode()
        if "topic" in name or name in ("name", "resource_name"):
            return choose(pool.topics).encode()
        return choose(pool.texts).encode()
