"""Keys and values of records as people read and write them: for the command line and for the console.

    content         `Shown`; text, JSON, hex and base64, and which of them bytes most likely are
    registry        a schema registry: what its schemas make of bytes, and bytes of what people type
    avro · protobuf · json_schema     the three kinds of schema; loaded when a record needs them
    schemas                           what the three have in common
    codecs          `Decoder` and `Encoder`: one field of a topic's records in a format that somebody chose
    rows            `Message` and `Outgoing`: records that came, records to be sent
    json_lines · csv_rows · parquet   many records, as a file has them

To show records:

    registry = Registry.of("http://localhost:8081", properties)     # or None
    decoders = Decoders(Decoder("key", "auto", registry), Decoder("value", "auto", registry))
    shown = decoders.value(topic, record.value, record.headers)     # a Shown: format, text, schema, problem
    for chunk in json_lines.lines(messages, decoders): out.write(chunk)      # or csv_rows, or parquet

To send some:

    encode = Encoder("value", "avro", registry, SchemaChoice())     # text, json, hex, base64, avro, ...
    content = encode(topic, '{"id": 7}')                            # or any JSON value
    outgoing = json_lines.outgoing(line, topic, encoders)           # or csv_rows.outgoing(file, ...)

Rules: showing never fails and loses nothing. What cannot be read in the format that was asked for is shown
as hex, and `problem` says why. `text` is safe for a terminal and a page: control characters in it are
escaped. Making bytes of what somebody typed fails with a `FormatError`, a sentence for that person.
A registry is asked once for a schema, and a registry that is down is not asked again for ten seconds.
"""

from ottla.client.formats.codecs import PLAIN, Decoder, Decoders, Encoder, Encoders
from ottla.client.formats.content import FORMATS, FormatError, Shown, show
from ottla.client.formats.registry import Registry, SchemaChoice
from ottla.client.formats.rows import Message, Outgoing

__all__ = [
    "FORMATS",
    "PLAIN",
    "Decoder",
    "Decoders",
    "Encoder",
    "Encoders",
    "FormatError",
    "Message",
    "Outgoing",
    "Registry",
    "SchemaChoice",
    "Shown",
    "show",
]
