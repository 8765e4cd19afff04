"""kafka-console-producer and kafka-console-consumer, as scripts call them."""

import sys

from ottla.base.command_error import CommandError
from ottla.cli.records import input_lines
from ottla.cli.records.consume import Reading
from ottla.cli.records.formats import Format, unescape
from ottla.cli.records.input_records import Layout, parsed
from ottla.cli.records.ranges import wanted
from ottla.cli.records.ways import Way
from ottla.cli.shells.kafka_flags import Parser, connected, where
from ottla.client.formats import Message
from ottla.client.formats.rows import name_bytes

READER = ("parse.key", "key.separator", "null.marker")
FORMATTER = (
    "print.timestamp", "print.partition", "print.offset", "print.headers", "print.key", "print.value",
    "key.separator", "line.separator", "headers.separator", "null.literal",
)  # fmt: skip


def _properties(given: list[str], names: tuple[str, ...]) -> dict[str, str]:
    """One that is not known would change what is sent or shown: headers would become part of values."""
    properties = {name: value for name, _, value in (setting.partition("=") for setting in given)}
    if unknown := sorted(properties.keys() - set(names)):
        raise CommandError(f"--property {unknown[0]} is not done here; there are {', '.join(names)}")
    return properties


def _is_on(properties: dict[str, str], name: str, default: bool = False) -> bool:
    return properties.get(name, str(default)).lower() == "true"


def producer(arguments: list[str]) -> None:
    parser = Parser("kafka-console-producer")
    connected(parser, "--producer.config")
    parser.texts("--topic", "--request-required-acks", "--timeout", "--batch-size")
    parser.texts("--property", "--reader-property", many=True, default=[], dest="properties")
    parser.texts("--producer-property", "--command-property", many=True, default=[], dest="settings")
    parser.add_argument("--compression-codec", nargs="?", const="gzip")
    parser.flags("--sync")  # as it is: one request is answered before the next one is sent
    given = parser.parse_args(arguments)
    parser.need(given, "topic")
    properties = _properties(given.properties, READER)
    typed = {"compression.type": given.compression_codec} if given.compression_codec else {}
    if given.request_required_acks:
        typed["acks"] = given.request_required_acks
    if given.timeout:
        typed["linger.ms"] = given.timeout
    if given.batch_size:
        typed["batch.size"] = given.batch_size
    null = properties.get("null.marker")
    layout = Layout(
        given.topic,
        separator=unescape(properties.get("key.separator", "\t")).encode()
        if _is_on(properties, "parse.key")
        else None,
        null=None if null is None else null.encode(),
    )
    way = Way(where(given, given.settings), given.topic, typed, None, None, None, quiet=True)
    with input_lines.unseen(sys.stdin.buffer) as read:
        way.send(parsed(input_lines.portions(read), layout))


def consumer(arguments: list[str]) -> None:
    parser = Parser("kafka-console-consumer")
    connected(parser, "--consumer.config")
    parser.texts("--topic", "--offset", "--group", "--isolation-level")
    parser.texts("--partition", "--max-messages", "--timeout-ms", type=int)
    parser.texts("--property", "--formatter-property", many=True, default=[], dest="properties")
    parser.texts("--consumer-property", "--command-property", many=True, default=[], dest="settings")
    parser.flags("--from-beginning", "--skip-message-on-error")  # no message is an error: bytes are shown
    given = parser.parse_args(arguments)
    parser.need(given, "topic")
    follow = given.timeout_ms is None
    asked = wanted(
        from_beginning=given.from_beginning,
        offsets=[given.offset] if given.offset else [] if follow or given.from_beginning else ["latest"],
        since=None,
        until=None,
        last=None,
        follow=follow,
    )
    own = {"isolation.level": given.isolation_level or "read_uncommitted"}
    if given.group:
        own |= {"group.id": given.group, "auto.offset.reset": asked.start}
    form = _Counting(_properties(given.properties, FORMATTER))
    reading = Reading(
        where(given, given.settings),
        given.topic,
        [] if given.partition is None else [given.partition],
        asked,
        own,
        Format(form, has_headers=True),
        None,
        given.max_messages,
        follow=follow,
    )
    try:
        reading.run()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    print(f"Processed a total of {form.count} messages", file=sys.stderr)


class _Counting:
    """Records as Kafka's DefaultMessageFormatter writes them."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.count = 0
        self._shown = [
            part
            for name, default, part in (
                ("print.timestamp", False, lambda message: b"CreateTime:%d" % message.timestamp_ms),
                ("print.partition", False, lambda message: b"Partition:%d" % message.partition),
                ("print.offset", False, lambda message: b"Offset:%d" % message.offset),
                ("print.headers", False, self._headers),
                ("print.key", False, lambda message: self._content(message.key)),
                ("print.value", True, lambda message: self._content(message.value)),
            )
            if _is_on(properties, name, default)
        ]
        self._null = properties.get("null.literal", "null").encode()
        self._between = unescape(properties.get("key.separator", "\t")).encode()
        self._end = unescape(properties.get("line.separator", "\n")).encode()
        self._between_headers = properties.get("headers.separator", ",").encode()

    def __call__(self, message: Message) -> bytes:
        self.count += 1
        return self._between.join(part(message) for part in self._shown) + self._end

    def _content(self, content: bytes | None) -> bytes:
        return self._null if content is None else content

    def _headers(self, message: Message) -> bytes:
        pairs = [name_bytes(name) + b":" + self._content(value) for name, value in message.headers]
        return self._between_headers.join(pairs) or b"NO_HEADERS"
