"""`ottla produce`: lines of a file or of stdin become records.

`input_lines` reads them, `input_records` makes records of them, and `ways` says which way these go.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli.options import HERE, WhereOption, connects
from ottla.cli.properties import parse_settings
from ottla.cli.records import input_lines
from ottla.cli.records.formats import delimiter_bytes, unescape
from ottla.cli.records.input_records import Layout, limited, parsed, parsed_csv
from ottla.cli.records.schema_options import KeyFormat, RegistryUrl, ValueFormat, encoders_of
from ottla.cli.records.ways import ACKS, Way
from ottla.records.compression import CODEC_NAMES

PROGRESS_FROM_BYTES = 4 << 20


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
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="Of every record that has none.")
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", "-D", metavar="SEP", help="Between records. (the end of a line)"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help='A line is JSON: {"key": ..., "value": ..., "headers": ...}.')
    ] = False,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="CSV with names at the top: records, or rows that become JSON objects."),
    ] = False,
    key_column: Annotated[
        str | None, typer.Option("--key-column", metavar="NAME", help="With --csv: the column of the key.")
    ] = None,
    key_format: KeyFormat = None,
    value_format: ValueFormat = None,
    registry: RegistryUrl = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", metavar="FILE", help="The schema of values. (the latest of the subject)"),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every record; may be repeated."),
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A key or value that is this text is null.")
    ] = None,
    null_if_empty: Annotated[
        bool, typer.Option("-Z", help="An empty key or value is null.", show_default=False)
    ] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="To this partition.")
    ] = None,
    max_: Annotated[
        int | None, typer.Option("--max", "-c", "-n", metavar="N", min=1, help="Stop after N records.")
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
      ottla produce orders orders.csv --csv --key-column id
      ottla produce orders --registry http://localhost:8081 --value-format avro < orders.jsonl
      ottla consume old --format json | ottla produce new --json
      ottla produce orders day.txt --transactional-id load-orders
      ottla produce orders year.txt --transactional-id load-orders --records-per-transaction 10000
    """
    if key_column is not None and not csv:
        raise CommandError("--key-column needs --csv", USAGE)
    if delimiter is not None and csv:
        raise CommandError("CSV has lines, and cells that may have some: leave out --delimiter", USAGE)
    layout = Layout(
        topic,
        separator=_separator(key_separator, is_said=json or csv),
        key=None if key is None else key.encode(),
        null=_null(null, null_if_empty=null_if_empty, is_said=json or csv),
        headers=[(name, value.encode()) for name, value in parse_settings(header or [], "--header").items()],
        partition=partition,
        encoders=encoders_of(where, key_format, value_format, registry, schema),
        is_json=json,
    )
    way = Way(
        where,
        topic,
        typed=_typed(compression, acks),
        partition=partition,
        transactional_id=transactional_id,
        records_per_transaction=records_per_transaction,
        quiet=quiet,
    )
    way.check()
    with input_lines.opened(file) as (source, size):
        is_drawn = progress if progress is not None else size >= PROGRESS_FROM_BYTES and sys.stderr.isatty()
        with input_lines.shown(source, size) if is_drawn else input_lines.unseen(source) as read:
            if csv:
                portions = parsed_csv(read, layout, key_column)
            else:
                portions = parsed(input_lines.portions(read, delimiter_bytes(delimiter)), layout)
            way.send(limited(portions, max_))


def _typed(compression: str | None, acks: str | None) -> dict[str, str]:
    """What the command's own options say, which is above all properties."""
    typed = {}
    if compression is not None:
        typed["compression.type"] = _one_of(compression, CODEC_NAMES, "--compression")
    if acks is not None:
        typed["acks"] = _one_of(acks, tuple(ACKS), "--acks")
    return typed


def _separator(given: str | None, *, is_said: bool) -> bytes | None:
    if given is None:
        return None
    if is_said:
        raise CommandError("JSON and CSV say all by themselves: leave out --key-separator", USAGE)
    if not given:
        raise CommandError("--key-separator must not be empty", USAGE)
    return unescape(given).encode()


def _null(given: str | None, *, null_if_empty: bool, is_said: bool) -> bytes | None:
    if given is None and not null_if_empty:
        return None
    if is_said:
        raise CommandError("JSON and CSV say all by themselves: leave out --null and -Z", USAGE)
    if given and null_if_empty:
        raise CommandError("--null and -Z say two things; use one of them", USAGE)
    return (given or "").encode()


def _one_of(given: str, allowed: tuple[str, ...], option: str) -> str:
    if given not in allowed:
        raise CommandError(f"{option} is one of {', '.join(allowed)}, not {given!r}", USAGE)
    return given
