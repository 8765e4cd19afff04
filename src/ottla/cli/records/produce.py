"""`ottla produce`: lines of a file or of stdin become records."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.options import HERE, WhereOption, connects
from ottla.cli.properties import parse_settings
from ottla.cli.records.formats import from_line, unescape
from ottla.cli.records.input_transactions import in_transactions
from ottla.client.formats import Outgoing, json_lines
from ottla.client.librdkafka import cluster, connections, transactions
from ottla.client.librdkafka.errors import errors_explained, explain, is_dropped
from ottla.client.librdkafka.messages import flushed
from ottla.client.librdkafka.transactions import TIMEOUT, TIMEOUT_MS, Transactions, is_over
from ottla.records.compression import CODEC_NAMES

if TYPE_CHECKING:
    from confluent_kafka import Producer

PROGRESS_FROM_BYTES = 4 << 20
DELIVERY_S = 30.0
QUEUE_FULL_S = 0.1
PROBLEMS_SHOWN = 5
RECORD_BYTES_MAX = 1_000_000_000  # all that librdkafka allows: how large a record may be, the broker says
DEFAULTS: dict[str, str | int] = {
    "acks": "all",
    "linger.ms": 5,
    "message.max.bytes": RECORD_BYTES_MAX,
    "topic.metadata.propagation.max.ms": 5_000,
}

Parse = Callable[[bytes], Outgoing]


@dataclass(slots=True)
class Deliveries:
    """What became of the records so far."""

    acknowledged: int = 0
    acknowledged_bytes: int = 0
    failed: int = 0
    is_told: bool = True  # why a record was not accepted; a transaction says it once

    def on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
            self.acknowledged_bytes += len(message.key() or b"") + len(message.value() or b"")
            return
        self.failed += 1
        if not is_dropped(error) and self.is_told and self.failed <= PROBLEMS_SHOWN:
            output.say(f"ottla: a record was not accepted: {explain(error)}")


@connects()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.", show_default=False)],
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Where from; - or nothing is stdin.", show_default=False),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="SEP", help="A line is KEY SEP VALUE; \\t is a tab."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help='A line is JSON: {"key": ..., "value": ..., "headers": ...}.')
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every record; may be repeated."),
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A key or value that is this text is null.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="To this partition.")
    ] = None,
    compression: Annotated[
        str | None, typer.Option("--compression", "-z", help=f"{', '.join(CODEC_NAMES)}. (none)")
    ] = None,
    acks: Annotated[
        str | None,
        typer.Option("--acks", help="Wait for: 0 nobody, 1 the leader, all in-sync replicas. (all)"),
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id", metavar="ID", help="In one transaction, all records or none, under this id."
        ),
    ] = None,
    records_per_transaction: Annotated[
        int | None,
        typer.Option(
            "--records-per-transaction",
            metavar="N",
            min=1,
            help="With --transactional-id: a transaction for every N records.",
        ),
    ] = None,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="Draw a progress bar. (for a large file)"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing at the end.")] = False,
    where: WhereOption = HERE,
) -> None:
    """Send lines of a file, or of stdin, as records.

    Exits with 1 if a record was not acknowledged.
    With --transactional-id whatever goes wrong, Ctrl-C too, aborts the transaction, and the last line says
    which lines of the input are committed. To run it again sends the input again: the same id ends what
    an earlier run has left open, and does not know what that has committed.

    \b
    Examples:
      echo hello | ottla produce greetings
      ottla produce users users.tsv --key-separator '\\t' --compression zstd
      ottla produce orders -H source=shop -K : --null NULL < orders.txt
      ottla consume old --format json | ottla produce new --json
      ottla produce orders day.txt --transactional-id load-orders
      ottla produce orders year.txt --transactional-id load-orders --records-per-transaction 10000
    """
    parse = _parser(key_separator, json, header or [], null, partition)
    typed = _typed(compression, acks)
    given = where.others | typed
    ends = _ends(transactional_id, records_per_transaction, str(given.get(TIMEOUT, "")))
    defaults: dict[str, Any] = DEFAULTS | ends
    if given.get("acks", "all") in {"all", "-1"}:
        # What is sent again after a failover is stored once. Java's default, and not librdkafka's.
        defaults["enable.idempotence"] = True
    elif transactional_id is not None:
        raise CommandError("a transaction takes --acks all", USAGE)
    client = connections.producer(where, defaults, typed)
    is_new = not quiet and topic not in cluster.metadata(client).topics
    began, deliveries = time.monotonic(), Deliveries(is_told=transactional_id is None)
    with _opened(file) as (source, size):
        is_drawn = progress if progress is not None else size >= PROGRESS_FROM_BYTES and sys.stderr.isatty()
        lines = enumerate(_with_progress(source, size) if is_drawn else source, 1)
        if transactional_id is None:
            with errors_explained(f"topic {topic}"):
                _send(client, topic, lines, parse, deliveries)
        else:
            in_transactions(
                Transactions(client, transactional_id, int((ends | given)[TIMEOUT])),
                lines,
                records_per_transaction,
                lambda some: _send(client, topic, some, parse, deliveries, in_transaction=True),
            )
    with errors_explained(f"topic {topic}"):
        left = flushed(client, DELIVERY_S)
    if is_new and deliveries.acknowledged:
        output.say(f"topic {topic} was not there, and was created")
    _report(deliveries, left, topic, time.monotonic() - began, quiet)


def _typed(compression: str | None, acks: str | None) -> dict[str, str]:
    """What the command's own options say, which is above all properties."""
    typed = {}
    if compression is not None:
        typed["compression.type"] = _one_of(compression, CODEC_NAMES, "--compression")
    if acks is not None:
        typed["acks"] = _one_of(acks, ("0", "1", "all", "-1"), "--acks")
    return typed


def _ends(
    transactional_id: str | None, records_per_transaction: int | None, timeout_ms: str
) -> dict[str, str | int]:
    """When to give up on a record, or on a transaction with all its records."""
    if transactional_id is None:
        if records_per_transaction is not None:
            raise CommandError("--records-per-transaction needs --transactional-id", USAGE)
        return {"message.timeout.ms": int(DELIVERY_S * 1000)}
    if not transactional_id:
        raise CommandError("--transactional-id must not be empty", USAGE)
    return transactions.settings(transactional_id, int(timeout_ms) if timeout_ms.isdigit() else TIMEOUT_MS)


def _send(
    client: "Producer",
    topic: str,
    lines: Iterable[tuple[int, bytes]],
    parse: Parse,
    deliveries: Deliveries,
    *,
    in_transaction: bool = False,
) -> None:
    from confluent_kafka import KafkaException

    for number, line in lines:
        try:
            record = parse(line.removesuffix(b"\n").removesuffix(b"\r"))
        except ValueError as error:
            sent = "" if in_transaction else _sent(client, deliveries)
            raise CommandError(f"line {number}: {error}{sent}", USAGE) from None
        try:
            _send_one(client, topic, record, deliveries)
        except (KafkaException, ValueError, TypeError, OverflowError) as error:
            if is_over(error):
                if not in_transaction:
                    flushed(client, 0)  # it raises the reason, if this is not it
                raise
            sent = "" if in_transaction else _sent(client, deliveries)
            raise CommandError(f"line {number}: {explain(error)}{sent}") from None


def _sent(client: "Producer", deliveries: Deliveries) -> str:
    flushed(client, DELIVERY_S)
    count = deliveries.acknowledged
    return f" ({output.plural(count, 'record')} before it {'was' if count == 1 else 'were'} sent)"


def _send_one(client: "Producer", topic: str, record: Outgoing, deliveries: Deliveries) -> None:
    placed: dict[str, Any] = {}
    if record.partition is not None:
        placed["partition"] = record.partition
    if record.timestamp_ms is not None:
        placed["timestamp"] = record.timestamp_ms
    while True:
        try:
            client.produce(
                topic, record.value, record.key, headers=cast("Any", record.headers or None),
                on_delivery=deliveries.on_delivery, **placed,
            )  # fmt: skip
        except BufferError:
            client.poll(QUEUE_FULL_S)
        else:
            client.poll(0)
            return


def _report(deliveries: Deliveries, left: int, topic: str, took_s: float, quiet: bool) -> None:
    if not quiet:
        rate = deliveries.acknowledged / took_s if took_s > 0 else 0.0
        output.say(
            f"{output.plural(deliveries.acknowledged, 'record')}, "
            f"{output.plural(deliveries.acknowledged_bytes, 'byte')} to {topic} "
            f"in {took_s:.2f} s ({rate:,.0f} records/s)"
        )
    if deliveries.failed or left:
        raise CommandError(f"records that were not acknowledged: {deliveries.failed + left}")


def _parser(
    separator: str | None, is_json: bool, header: list[str], null: str | None, partition: int | None
) -> Parse:
    if is_json and (separator is not None or null is not None):
        raise CommandError("--json says all by itself: leave out --key-separator and --null", USAGE)
    if separator == "":
        raise CommandError("--key-separator must not be empty", USAGE)
    shared = [(name, value.encode()) for name, value in parse_settings(header, "--header").items()]
    between = None if separator is None else unescape(separator).encode()
    none = None if null is None else null.encode()

    def parse(line: bytes) -> Outgoing:
        record = json_lines.outgoing(line) if is_json else from_line(line, between, none)
        if shared:
            record = record._replace(headers=[*record.headers, *shared])
        return record if partition is None else record._replace(partition=partition)

    return parse


def _one_of(given: str, allowed: tuple[str, ...], option: str) -> str:
    if given not in allowed:
        raise CommandError(f"{option} is one of {', '.join(allowed)}, not {given!r}", USAGE)
    return given


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[tuple[IO[bytes], int]]:
    """The input and its size, 0 if nobody knows."""
    if path is None or path == "-":
        yield sys.stdin.buffer, 0
        return
    try:
        file = open(path, "rb")  # noqa: SIM115  # closed below; only the opening may fail with this message
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", USAGE) from None
    with file:
        yield file, os.fstat(file.fileno()).st_size


def _with_progress(source: IO[bytes], size: int) -> Iterator[bytes]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task, seen = bar.add_task("", total=size or None), 0
        for number, line in enumerate(source):
            yield line
            seen += len(line)
            if not number % 1000:
                bar.update(task, completed=seen)
        bar.update(task, completed=seen)
