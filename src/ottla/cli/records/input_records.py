"""What `ottla produce` makes of its input: portions of lines become portions of records.

Lines that are values, or keys and values, stay columns, which are sent without an object per record. All
others are parsed one by one. A line that is wrong ends the input: what came before it is still sent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import NamedTuple, TypeAlias

from ottla.base.command_error import USAGE, CommandError
from ottla.cli.records.input_lines import Portion, Read
from ottla.client.formats import Encoder, Encoders, FormatError, Outgoing, csv_rows, json_lines
from ottla.client.formats.rows import Pairs

CSV_ROWS = 1000
TIMESTAMPS = 1 << 63


class Columns(NamedTuple):
    """Records that have a value each, all or none of them a key, and the same headers."""

    values: Sequence[bytes]
    keys: Sequence[bytes] | None
    headers: Pairs

    def part(self, start: int, stop: int) -> "Columns":
        keys = None if self.keys is None else self.keys[start:stop]
        return Columns(self.values[start:stop], keys, self.headers)


Records: TypeAlias = Columns | Sequence[Outgoing]


class Parsed(NamedTuple):
    """Records, and the numbers of the lines that they were."""

    lines: Sequence[int]
    records: Records

    def part(self, start: int, stop: int) -> "Parsed":
        some = (
            self.records.part(start, stop) if isinstance(self.records, Columns) else self.records[start:stop]
        )
        return Parsed(self.lines[start:stop], some)


class LineError(CommandError):
    """A line is not what it should be, and is named in the message. What came before it is sent."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, USAGE)


@dataclass(frozen=True)
class Layout:
    """What a line is."""

    topic: str
    separator: bytes | None = None  # between key and value
    key: bytes | None = None  # of every record that has none
    null: bytes | None = None  # a key or value that is this is none
    headers: Pairs = field(default_factory=list)
    partition: int | None = None
    encoders: Encoders | None = None  # if keys or values are more than the bytes of a line
    is_json: bool = False

    @property
    def is_plain(self) -> bool:
        return not self.is_json and self.null is None and self.encoders is None

    def columns(self, lines: list[bytes]) -> Columns | None:
        """If they can be columns, and no line is wrong."""
        if self.separator is None:
            return Columns(lines, None if self.key is None else [self.key] * len(lines), self.headers)
        parts = [line.partition(self.separator) for line in lines]
        if not all([part[1] for part in parts]):  # noqa: C419  # half the time of a generator
            return None
        return Columns([part[2] for part in parts], [part[0] for part in parts], self.headers)

    def record(self, line: bytes) -> Outgoing:
        """ValueError: it is none."""
        if self.is_json:
            return self.completed(json_lines.outgoing(line, self.topic, self.encoders))
        key, value = self.key, line
        if self.separator is not None:
            before, is_separated, value = line.partition(self.separator)
            if not is_separated:
                shown = self.separator.decode(errors="replace")
                raise ValueError(f"there is no {shown!r} between key and value")
            key = before
        return self.completed(Outgoing(self._content("key", key), self._content("value", value), []))

    def _content(self, name: str, given: bytes | None) -> bytes | None:
        if given is None or given == self.null:
            return None
        if self.encoders is None:
            return given
        encoder: Encoder = getattr(self.encoders, name)
        return encoder(self.topic, given.decode("utf-8", "surrogateescape"))

    def completed(self, record: Outgoing) -> Outgoing:
        """With what every record has."""
        if (record.timestamp_ms or 0) >= TIMESTAMPS:
            raise ValueError(f"{record.timestamp_ms} is no time in milliseconds")
        return record._replace(
            key=self.key if record.key is None else record.key,
            headers=[*record.headers, *self.headers],
            partition=record.partition if self.partition is None else self.partition,
        )


def parsed(portions: Iterable[Portion], layout: Layout) -> Iterator[Parsed]:
    for first, lines in portions:
        columns = layout.columns(lines) if layout.is_plain else None
        if columns is not None:
            yield Parsed(range(first, first + len(lines)), columns)
        else:
            yield from _one_by_one(first, lines, layout.record)


def _one_by_one(first: int, lines: list[bytes], parse: Callable[[bytes], Outgoing]) -> Iterator[Parsed]:
    records: list[Outgoing] = []
    for number, line in enumerate(lines, first):
        try:
            records.append(parse(line))
        except ValueError as error:
            if records:
                yield Parsed(range(first, number), records)
            raise LineError(f"line {number}: {error}") from None
    yield Parsed(range(first, first + len(lines)), records)


def parsed_csv(read: Read, layout: Layout, key_column: str | None) -> Iterator[Parsed]:
    fixed = None if layout.key is None else layout.key.decode(errors="replace")
    rows = csv_rows.outgoing(_texts(read), layout.topic, layout.encoders, key_column=key_column, key=fixed)
    while True:
        lines: list[int] = []
        records: list[Outgoing] = []
        wrong = None
        try:
            for line, record in islice(rows, CSV_ROWS):
                records.append(layout.completed(record))
                lines.append(line)
        except FormatError as error:  # which names the line
            wrong = str(error)
        except ValueError as error:
            wrong = f"line {line}: {error}"
        if records:
            yield Parsed(lines, records)
        if wrong is not None:
            raise LineError(wrong)
        if not records:
            return


def _texts(read: Read) -> Iterator[str]:
    """Lines with their ends, as CSV wants them: a cell may have some."""
    rest = b""
    while chunk := read():
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        for line in (whole + newline).splitlines(keepends=True):
            yield line.decode("utf-8", "surrogateescape")
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


def limited(portions: Iterable[Parsed], most: int | None) -> Iterator[Parsed]:
    """No more than so many records."""
    left = most
    for portion in portions:
        if left is None:
            yield portion
            continue
        yield portion.part(0, left)
        left -= min(left, len(portion.lines))
        if not left:
            return


def single(portions: Iterable[Parsed], partition: int | None) -> Iterator[tuple[int, Outgoing]]:
    """Record by record, each with its line."""
    for lines, records in portions:
        if isinstance(records, Columns):
            keys = repeat(None, len(lines)) if records.keys is None else records.keys
            for line, key, value in zip(lines, keys, records.values, strict=True):
                yield line, Outgoing(key, value, records.headers, partition)
        else:
            yield from zip(lines, records, strict=True)
