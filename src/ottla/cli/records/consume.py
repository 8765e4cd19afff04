"""`ottla consume`: records of a topic to stdout, up to its end or for ever.

Without --group nothing is committed, and no group is needed: up to the end of a topic our own client reads
(`partition_reader`), for --follow and with properties of librdkafka's that does (`librdkafka_reader`). With
it, `group_member` does the reading.
"""

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ApiError
from ottla.cli import output
from ottla.cli.options import HERE, WhereOption, connects
from ottla.cli.records import ranges
from ottla.cli.records.filters import Filter, filter_of
from ottla.cli.records.formats import (
    CSV,
    JSON,
    KEY_VALUE,
    VALUE,
    Format,
    delimiter_bytes,
    format_of,
    kcat_format,
)
from ottla.cli.records.ranges import Wanted
from ottla.cli.records.schema_options import KeyFormat, RegistryUrl, ValueFormat, decoders_of
from ottla.client.errors import ClientError
from ottla.client.formats import Decoders
from ottla.client.librdkafka.connections import ASSIGNED, CLIENT_ID, probe, properties_for_librdkafka
from ottla.client.properties import ClientProperties

PROTOCOLS = ("classic", "consumer")
ISOLATION, CRCS = "isolation.level", "check.crcs"
ISOLATIONS = ("read_committed", "read_uncommitted")
# librdkafka believes every byte unless told otherwise.
DEFAULTS = {ISOLATION: ISOLATIONS[0], CRCS: "true"}
# What our own client does as librdkafka would.
OWN = frozenset({"client.id", ISOLATION})


@connects()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.", show_default=False)],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the oldest record. (the default without --follow)")
    ] = False,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="OFFSET",
            help="From there: a number, beginning, end, -N for the last N of each partition, s@TIME; and "
            "up to e@TIME.",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            metavar="N",
            min=1,
            help="The last N records of all partitions together that --filter takes.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            "-s",
            metavar="TIME",
            help="From there: 10m, 2h, 1d ago, or an ISO time (local without a zone).",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Up to there: what is of that time or later is left out."
        ),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", metavar="N", help="Only this one; may be repeated."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="ID",
            help="Join this group: begin where it has committed, commit what is printed.",
        ),
    ] = None,
    group_protocol: Annotated[
        str | None,
        typer.Option(
            "--group-protocol", metavar="PROTOCOL", help="With --group: classic (the default) or consumer."
        ),
    ] = None,
    isolation: Annotated[
        str | None,
        typer.Option(
            "--isolation",
            metavar="LEVEL",
            help="read_committed: no aborted records, and none behind an open transaction; or "
            f"read_uncommitted: all records. ({ISOLATIONS[0]})",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on with what comes; starts at the end unless told otherwise."),
    ] = False,
    exit_at_end: Annotated[
        bool, typer.Option("-e", help="Stop at the end, which is the default.", show_default=False)
    ] = False,
    max_: Annotated[
        int | None, typer.Option("--max", "-c", "-n", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="WHAT=X",
            help="Only records with key=X, header.NAME=X, value.FIELD=X (of JSON), != or ~REGEX; may be "
            "repeated.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="value, key-value, json, csv, or a template: %t %p %o %T %k %v %h. (value)",
        ),
    ] = None,
    kcat: Annotated[
        str | None,
        typer.Option(
            "-f",
            metavar="TEMPLATE",
            help="A template of kcat's: %t %p %o %T %k %K %s %S %R %h, \\n. Not --follow.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON, a line for each record.")] = False,
    key_format: KeyFormat = None,
    value_format: ValueFormat = None,
    registry: RegistryUrl = None,
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator", "-K", metavar="SEP", help="Key and value with this between them. (a tab)"
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", "-D", metavar="SEP", help="Between records. (the end of a line)"),
    ] = None,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="Write this for null. (null)")
    ] = None,
    shows_null: Annotated[bool, typer.Option("-Z", help="Write NULL for null.", show_default=False)] = False,
    where: WhereOption = HERE,
) -> None:
    """Print the records of a topic: all there are, or with --follow what comes.

    Records of one partition come in order. Nothing is committed without --group.
    A member of a group begins where the group has committed; where it has not, at the beginning,
    or with --follow at the end. It stops when all partitions assigned to it are at their end.
    With read_committed, the default as in librdkafka, nothing is printed that may be taken back: a
    partition ends where its first open transaction begins.

    \b
    Examples:
      ottla consume orders
      ottla consume orders --follow --format key-value
      ottla consume orders --offset -10 --json | jq .value
      ottla consume orders --last 10 --filter value.country=CZ
      ottla consume orders --since 2030-01-31T12:00 --until 2030-01-31T12:05
      ottla consume orders --since 15m --partition 0 --format '%T %p/%o %k=%v'
      ottla consume orders --group billing
      ottla consume orders --group billing --group-protocol consumer --follow
      ottla consume orders --isolation read_uncommitted --offset -10
    """
    if exit_at_end and follow:
        raise CommandError("-e stops at the end, and --follow does not; use one of them", USAGE)
    if last is not None and max_ is not None:
        raise CommandError("--last and --max both say how many; use one of them", USAGE)
    decoders = decoders_of(where, key_format, value_format, registry)
    try:
        asked = ranges.wanted(
            from_beginning=from_beginning,
            offsets=offset or [],
            since=since,
            until=until,
            last=last,
            follow=follow,
        )
        shown = _format(form, kcat, json, separator, delimiter, null, shows_null, decoders)
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None
    chosen = filter_of(filters or [], decoders)
    own = _membership(group, group_protocol, asked, is_placed=asked.is_placed or bool(partition))
    if isolation not in (None, *ISOLATIONS):
        raise CommandError(f"--isolation is {' or '.join(ISOLATIONS)}, not {isolation!r}", USAGE)
    if isolation is not None:
        own |= {ISOLATION: isolation}
    if unused := sorted(where.others.keys() & (ASSIGNED.keys() | own.keys())):
        output.say(f"ottla: the command itself says what {', '.join(unused)} is; without effect here")
    reading = Reading(where, topic, partition or [], asked, own, shown, chosen, max_, follow=follow)
    try:
        reading.run()
    except KeyboardInterrupt:
        output.say("")
        if not follow:  # with it there is no other end
            raise
    if chosen is not None and chosen.left_out_all:
        output.say(f"--filter left out all of {chosen.seen} records; is every name in it right?")


@dataclass(frozen=True)
class Reading:
    """All that was asked for, and the way to it."""

    where: ClientProperties
    topic: str
    partitions: list[int]
    asked: Wanted
    settings: dict[str, str]  # of librdkafka, over all properties
    shown: Format
    chosen: Filter | None
    most: int | None
    follow: bool

    def run(self) -> None:
        given = properties_for_librdkafka(self.where)
        is_own = given.keys() - ASSIGNED.keys() <= OWN and not self.follow
        if is_own and "group.id" not in self.settings:
            self._own((DEFAULTS | given | self.settings)[ISOLATION])
        else:
            self._librdkafka()

    def _own(self, isolation: str) -> None:
        from ottla.cli.records.partition_reader import PartitionReader
        from ottla.client.client import Client

        probe(self.where)
        client_id = self.where.client_id or CLIENT_ID
        try:
            with Client(self.where.bootstrap, client_id=client_id, security=self.where.security) as client:
                reader = PartitionReader(client, self.topic, read_committed=isolation == ISOLATIONS[0])
                wanted = reader.ranges(reader.partitions(self.partitions), self.asked)
                if self.asked.last is None:
                    reader.print(wanted, self.shown, self.chosen, self.most)
                else:
                    reader.print_last(wanted, self.shown, self.chosen, self.asked.last)
        except (ClientError, ApiError) as error:
            raise CommandError(str(error)) from None

    def _librdkafka(self) -> None:
        from ottla.cli.records import librdkafka_reader
        from ottla.cli.records.group_member import Membership
        from ottla.cli.records.messages import writer
        from ottla.client.librdkafka import cluster, connections
        from ottla.client.librdkafka.errors import errors_explained

        if self.asked.last is not None:
            raise CommandError("--last goes with no property of librdkafka; use --offset -N", USAGE)
        write = writer(
            self.shown, self.chosen, with_headers=self.shown.has_headers or self.chosen is not None
        )
        client = connections.consumer(self.where, DEFAULTS, self.settings)
        try:
            partitions = cluster.partitions(client, self.topic, self.partitions)
            if "group.id" in self.settings:
                Membership(client, self.topic, follow=self.follow).read(self.most, write)
                return
            with errors_explained(f"topic {self.topic}"):
                wanted = librdkafka_reader.ranges(client, self.topic, partitions, self.asked)
            librdkafka_reader.print_records(client, self.topic, wanted, self.most, write, follow=self.follow)
        finally:
            client.close()


def _format(
    form: str | None,
    kcat: str | None,
    json: bool,
    separator: str | None,
    delimiter: str | None,
    null: str | None,
    shows_null: bool,
    decoders: Decoders | None,
) -> Format:
    is_terminal = sys.stdout.isatty()
    if (form is not None) + (kcat is not None) + json > 1:
        raise CommandError("--format, -f and --json exclude each other", USAGE)
    if kcat is not None:
        return kcat_format(kcat, shows_null=shows_null, decoders=decoders, is_terminal=is_terminal)
    if null is None:
        null = "NULL" if shows_null else "null"
    name = JSON if json else form or (VALUE if separator is None else KEY_VALUE)
    if delimiter is not None and name == CSV:
        raise CommandError("CSV has lines, and cells that may have some: leave out --delimiter", USAGE)
    return format_of(
        name,
        separator="\t" if separator is None else separator,
        null=null,
        delimiter=delimiter_bytes(delimiter),
        decoders=decoders,
        is_terminal=is_terminal,
    )


def _membership(group: str | None, protocol: str | None, asked: Wanted, *, is_placed: bool) -> dict[str, str]:
    """What librdkafka must know of the group, if there is one."""
    if group is None:
        if protocol is not None:
            raise CommandError("--group-protocol needs --group", USAGE)
        return {}
    if not group:
        raise CommandError("--group takes the name of a group", USAGE)
    if protocol not in (None, *PROTOCOLS):
        raise CommandError(f"--group-protocol is {' or '.join(PROTOCOLS)}, not {protocol!r}", USAGE)
    if is_placed or asked.until_ms is not None:
        raise CommandError(
            "with --group the committed offsets say where to begin, so --offset, --since, --until, --last "
            f"and --partition are not for it; `ottla groups reset {group}` moves them",
            USAGE,
        )
    return {"group.id": group, "group.protocol": protocol or PROTOCOLS[0], "auto.offset.reset": asked.start}
