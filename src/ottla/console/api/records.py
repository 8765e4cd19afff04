"""Records, out and in: a page of them, one of them, some that are sent."""

import json
import time
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from ottla.client.errors import ClientError
from ottla.client.formats import Decoders, Encoder, Encoders, FormatError, Message, Outgoing, json_lines
from ottla.client.formats.content import AUTO, FORMATS
from ottla.console.api.endpoints import PREFIX, Asked, naming
from ottla.console.api.shapes import Rule, ShapeError
from ottla.console.cluster.snapshot import Topic
from ottla.console.figures import part, plural
from ottla.console.pages.record_options import COUNTS, decoders_of, registry_of
from ottla.console.pages.records import record_place
from ottla.console.pages.topics import existing
from ottla.console.records import positions, record_source
from ottla.console.records.connection import connected, partitions_of
from ottla.console.records.page import RECORDS
from ottla.console.records.record_source import RecordSource
from ottla.console.records.send import send_all
from ottla.console.typed import time_of
from ottla.console.visit import Visit

SENT_MAX = 1000
DEEPER = 50
PARTITION_MAX = (1 << 31) - 1
TIMESTAMP_MAX = 253_402_300_799_999  # the end of the year 9999
PLACES = "[0-9]{1,9}:[0-9]{1,19}(?:,[0-9]{1,9}:[0-9]{1,19})*"
Format = Literal["auto", "text", "json", "hex", "base64", "avro", "protobuf", "json-schema"]
assert Format.__args__ == FORMATS  # type: ignore[attr-defined]


@dataclass(frozen=True)
class FormatQuery:
    key_format: Annotated[Format, Rule("How keys are read; those with a schema need a registry.")] = "auto"
    value_format: Annotated[Format, Rule("How values are read.")] = "auto"
    uncommitted: Annotated[bool, Rule("Records of open and aborted transactions as well.")] = False


@dataclass(frozen=True)
class RecordsQuery(FormatQuery):
    partition: Annotated[int | None, Rule("Only this one.", 0, PARTITION_MAX)] = None
    at: Annotated[
        str,
        Rule(
            "From this offset or time on, such as 120, 2026-01-31T12:00:00Z, or 2h for so long ago.", most=64
        ),
    ] = ""
    older: Annotated[str | None, Rule("Before these offsets, as links have them.", pattern=PLACES)] = None
    newer: Annotated[str | None, Rule("From these offsets on, as links have them.", pattern=PLACES)] = None
    count: Annotated[int, Rule("At most so many.", 1, COUNTS[-1])] = RECORDS


@dataclass(frozen=True)
class Record:
    """Text is text. What is no text is {"base64": "..."}, and what the chosen format or a schema explains is
    that value; `errors` says why it could not be read like that."""

    topic: str
    partition: int
    offset: int
    timestamp: Annotated[int, Rule("In milliseconds since 1970.")]
    key: Any
    value: Any
    headers: Annotated[list[list[Any]], Rule("Pairs of a name and a value; a name may come twice.")]
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordPage:
    """Newest first. The links stay what they are while records come."""

    records: list[Record]
    older: Annotated[str | None, Rule("The address of what comes before; null at the start.")]
    newer: Annotated[str | None, Rule("The address of what comes after; null at the end.")]
    whole: Annotated[bool, Rule("false: cut short, as it took too long or is too large.")]
    problems: list[str]


@dataclass(frozen=True)
class NewRecord:
    key: Annotated[Any, Rule('Text, {"base64": "..."} for bytes, null for none, or any JSON.')] = None
    value: Annotated[Any, Rule("The same; null is a tombstone.")] = None
    headers: Annotated[
        list[Annotated[list[Any], Rule("A name and a value.", 2, 2)]],
        Rule("Pairs of a name and a value.", most=1000),
    ] = field(default_factory=list)
    partition: Annotated[
        int | None,
        Rule(
            "null: the key decides, as for Java's clients; without a key it is the first.", 0, PARTITION_MAX
        ),
    ] = None
    timestamp: Annotated[int | None, Rule("In milliseconds since 1970; null is now.", 0, TIMESTAMP_MAX)] = (
        None
    )


@dataclass(frozen=True)
class NewRecords:
    """Those of one partition are one batch: all of them are stored, or none."""

    records: Annotated[list[NewRecord], Rule("To be sent, in this order.", 1, SENT_MAX)]
    key_format: Annotated[Format, Rule("What keys become.")] = "auto"
    value_format: Annotated[Format, Rule("What values become.")] = "auto"


@dataclass(frozen=True)
class SentRecord:
    partition: int
    offset: int


@dataclass(frozen=True)
class SentRecords:
    records: Annotated[list[SentRecord], Rule("Where each of them is now, in the order given.")]


def show_page(asked: Asked) -> RecordPage:
    topic, _ = existing(asked.visit)
    query: RecordsQuery = asked.query
    source = _source(topic, query, query.partition)
    decoders = _decoders(asked.visit, query)
    with naming("at"):
        time_of("" if positions.is_offset(query.at) else query.at)
    with connected(asked.visit.cluster.where) as client:
        shown = record_source.page_of(
            client, source, query.count, query.older or "", query.newer or "", query.at
        )
    return RecordPage(
        [_record(message, decoders) for message in shown.messages],
        None if shown.older is None else _link(topic, query, older=positions.show(shown.older)),
        None if shown.newer is None else _link(topic, query, newer=positions.show(shown.newer)),
        shown.is_whole,
        list(shown.problems),
    )


def show(asked: Asked) -> Record:
    topic, _ = existing(asked.visit)
    partition, offset = record_place(asked.visit, topic)
    decoders = _decoders(asked.visit, asked.query)
    with connected(asked.visit.cluster.where) as client:
        message, _ = record_source.read_one(client, _source(topic, asked.query), partition, offset)
    return _record(message, decoders)


def send(asked: Asked) -> SentRecords:
    topic, _ = existing(asked.visit)
    records = _outgoing(asked.visit, topic.name, asked.body)
    with (
        asked.visit.change(f"sends {plural(len(records), 'record')} to topic {topic.name}"),
        connected(asked.visit.cluster.where) as client,
    ):
        sent = send_all(
            client, topic.name, partitions_of(client, topic.name), records, int(time.time() * 1000)
        )
    return SentRecords([SentRecord(spot.partition, spot.offset) for spot in sent])


# -- out -----------------------------------------------------------------------------------------------------


def _source(topic: Topic, query: FormatQuery, partition: int | None = None) -> RecordSource:
    there = [other.number for other in topic.partitions]
    if partition is not None and partition not in there:
        raise ShapeError("partition", f"{topic.name} has no partition {partition}")
    return RecordSource(topic.name, there if partition is None else [partition], not query.uncommitted)


def _decoders(visit: Visit, query: FormatQuery) -> Decoders:
    with naming("key_format, value_format"):
        return decoders_of(query.key_format, query.value_format, registry_of(visit))


def _record(message: Message, decoders: Decoders) -> Record:
    shown = json_lines.to_json(message, decoders)
    plain = json_lines.to_json(message)
    errors = dict(shown.pop("errors", {}))
    for name in ("key", "value"):
        try:
            check_json(shown[name])
        except (ValueError, RecursionError):
            shown[name], errors[name] = plain[name], "JSON has no such numbers, or it is nested too deeply"
    return Record(**shown, errors=errors)


def check_json(value: Any) -> None:
    """ValueError, RecursionError: it cannot be written as JSON, a little deeper than here."""
    for _ in range(DEEPER):
        value = [value]
    json.dumps(value, allow_nan=False)


def _link(topic: Topic, query: RecordsQuery, **start: str) -> str:
    kept = {
        "partition": query.partition,
        "count": query.count if query.count != RECORDS else None,
        "key_format": query.key_format if query.key_format != AUTO else None,
        "value_format": query.value_format if query.value_format != AUTO else None,
        "uncommitted": "true" if query.uncommitted else None,
    }
    given = {name: value for name, value in kept.items() if value is not None}
    return f"{PREFIX}/topics/{part(topic.name)}/records?{urlencode(given | start)}"


# -- in ------------------------------------------------------------------------------------------------------


def _outgoing(visit: Visit, topic: str, given: NewRecords) -> list[Outgoing]:
    registry = registry_of(visit)
    records = []
    try:
        at = "key_format, value_format"
        encoders = Encoders(
            Encoder("key", given.key_format, registry), Encoder("value", given.value_format, registry)
        )
        for number, record in enumerate(given.records):
            at = f"records[{number}]"
            records.append(json_lines.outgoing_of(vars(record), topic, encoders))
    except (FormatError, ClientError, UnicodeEncodeError) as error:
        raise ShapeError(at, str(error)) from None
    except RecursionError:
        raise ShapeError(at, "it is nested too deeply") from None
    return records
