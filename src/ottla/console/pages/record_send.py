"""A record that a person writes and sends, or takes from a topic and sends again, also to another topic.

What was taken from a record and not changed is sent byte for byte: a form changes the ends of lines, and not
every format says everything. So the form names the record that it was filled from.
"""

import time
from typing import Any, NamedTuple

from starlette.responses import Response

from ottla.base.command_error import USAGE, CommandError
from ottla.client.errors import ClientError
from ottla.client.formats import Encoder, FormatError, Message, Outgoing, SchemaChoice
from ottla.client.formats.content import AUTO, HEX, JSON, NULL, TEXT, compact_json, parse_json
from ottla.client.formats.json_lines import headers_of, headers_to_json
from ottla.console.cluster.snapshot import Topic
from ottla.console.figures import part
from ottla.console.pages.record_options import Options, options_of
from ottla.console.pages.topics import existing
from ottla.console.records import positions, rows
from ottla.console.records.connection import connected, explained, partitions_of
from ottla.console.records.record_source import read_one
from ottla.console.records.send import send
from ottla.console.typed import whole_number
from ottla.console.visit import Visit, status_of

EDITED_BYTES_MAX = 256 << 10  # a larger value is sent again as it is


class FormField(NamedTuple):
    """A key or a value in the form."""

    form: str
    text: str
    is_null: bool
    is_kept: bool  # too large to be shown: goes as it is


def ask(visit: Visit) -> Response:
    topic, options = _asked(visit)
    return _form(visit, topic, options, _origin(visit, options, visit.query("from")))


def send_one(visit: Visit) -> Response:
    topic, options = _asked(visit)
    origin = _origin(visit, options, visit.form("from"))
    target = visit.form("topic") or topic.name
    try:
        with connected(visit.cluster.where) as client:
            record = _record(visit, target, options, origin)
            doing = f"sends a record to topic {target}"
            if origin is not None:
                doing += f", that of {topic.name}-{origin.partition} at offset {origin.offset}"
            with visit.change(doing), explained():
                sent = send(client, target, partitions_of(client, target), record, int(time.time() * 1000))
    except CommandError as error:
        return _form(visit, topic, options, origin, str(error), status_of(error))
    notice = f"Sent to partition {sent.partition} of {sent.topic}, at offset {sent.offset}."
    return visit.to(f"/topics/{part(sent.topic)}/records/{sent.partition}/{sent.offset}", notice)


def _asked(visit: Visit) -> tuple[Topic, Options]:
    topic, _ = existing(visit)
    return topic, options_of(visit, topic.name, tuple(other.number for other in topic.partitions))


def _origin(visit: Visit, options: Options, text: str) -> Message | None:
    """The record that the form is filled from."""
    if not text:
        return None
    ((partition, offset),) = list(positions.parse(text).items())[:1]
    with connected(visit.cluster.where) as client:
        return read_one(client, options.source, partition, offset)[0]


# -- the form ------------------------------------------------------------------------------------------------


def _form(
    visit: Visit, topic: Topic, options: Options, origin: Message | None, problem: str = "", status: int = 200
) -> Response:
    is_again = bool(visit.fields)
    own = dict(_filled(options, origin))
    if is_again:
        own = {name: _typed(visit, name, own[name]) for name in ("key", "value")}
    headers = compact_json(headers_to_json(origin.headers)) if origin and origin.headers else ""
    return visit.page(
        "record_send.html",
        status,
        topic=topic,
        options=options,
        origin=origin,
        problem=problem,
        fields=own,
        headers=_raw(visit, "headers") if is_again else headers,
        target=visit.form("topic") or topic.name,
        partition=visit.form("partition"),
        origin_text=positions.show({origin.partition: origin.offset}) if origin else "",
        formats=[form for form in options.formats if form != AUTO],
    )


def _filled(options: Options, origin: Message | None) -> dict[str, FormField]:
    return {
        "key": _field(options.decoders.key, origin, origin.key if origin else None),
        "value": _field(options.decoders.value, origin, origin.value if origin else b""),
    }


def _field(decoder: Any, origin: Message | None, content: bytes | None) -> FormField:
    if origin is None:
        return FormField(TEXT, "", is_null=content is None, is_kept=False)
    shown = decoder(origin.topic, content, origin.headers)
    is_kept = content is not None and len(content) > EDITED_BYTES_MAX
    if shown.format == NULL:
        return FormField(TEXT, "", is_null=True, is_kept=False)
    if shown.format in (TEXT, JSON) and content is not None:
        text = content.decode()  # as it is: what is escaped to be shown would be sent
        if not text.isprintable() and any(ord(letter) < 32 and letter not in "\t\n" for letter in text):
            return FormField(HEX, content.hex(), is_null=False, is_kept=is_kept)
        return FormField(shown.format, "" if is_kept else text, is_null=False, is_kept=is_kept)
    text = rows.pretty(shown) if shown.data is not None else shown.text
    return FormField(shown.format, "" if is_kept else text, is_null=False, is_kept=is_kept)


def _typed(visit: Visit, name: str, before: FormField) -> FormField:
    return FormField(
        visit.form(f"{name}_form", TEXT),
        _raw(visit, name),
        visit.form(f"{name}_null") == "1",
        before.is_kept,
    )


def _raw(visit: Visit, name: str) -> str:
    """What is in a field, to the letter, but for the ends of lines, which browsers send as CR LF."""
    values = visit.fields.get(name)
    return values[-1].replace("\r\n", "\n") if values else ""


# -- the record ----------------------------------------------------------------------------------------------


def _record(visit: Visit, target: str, options: Options, origin: Message | None) -> Outgoing:
    before = _filled(options, origin)
    headers = _raw(visit, "headers").strip()
    try:
        pairs = headers_of(parse_json(headers)) if headers else []
        return Outgoing(
            _content(visit, "key", target, options, before["key"], origin and origin.key),
            _content(visit, "value", target, options, before["value"], origin and origin.value),
            pairs,
            _partition(visit.form("partition")),
        )
    except (FormatError, ClientError) as error:
        raise CommandError(str(error), USAGE) from None


def _content(
    visit: Visit, name: str, target: str, options: Options, before: FormField, original: bytes | None
) -> bytes | None:
    typed = _typed(visit, name, before)
    is_typed = bool(typed.text) and typed.text != before.text
    if typed.is_null and not (is_typed and before.is_null):  # the box was ticked when the form came
        if is_typed:
            raise FormatError(f"the {name} has text, and is marked as none: which of the two shall it be?")
        return None
    is_same = typed.form == before.form and typed.text == before.text.replace("\r\n", "\n")
    if original is not None and not before.is_null and (before.is_kept or is_same):
        return original
    registry = getattr(options.decoders, name).registry
    subject = visit.form(f"{name}_subject") or None
    try:
        encode = Encoder(name, typed.form, registry, SchemaChoice(subject=subject))
        return encode(target, typed.text)
    except FormatError as error:
        raise FormatError(f"the {name}: {error}") from None


def _partition(text: str) -> int | None:
    if not text:
        return None
    number = whole_number(text)
    if number is None:
        raise CommandError(f"{text!r:.20} is no partition", USAGE)
    return number
