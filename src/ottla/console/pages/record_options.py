"""What a visitor of the records page asks for, out of the address: where to begin, what to look for, in which
formats. All of it is in the address, so that every view is a link."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlencode

from ottla.base.command_error import USAGE, CommandError
from ottla.client.errors import ClientError
from ottla.client.formats import FORMATS, Decoder, Decoders, Encoder, FormatError, Registry
from ottla.client.formats.content import AUTO, SCHEMA_FORMATS
from ottla.client.partitioner import likely_partitions
from ottla.client.registry_settings import registry_url
from ottla.console.records.page import RECORDS
from ottla.console.records.positions import is_offset
from ottla.console.records.query import ANYWHERE, KEY, Query, query
from ottla.console.records.record_source import RecordSource
from ottla.console.records.search import RESULTS, RESULTS_MAX, Scope
from ottla.console.typed import time_of, whole_number
from ottla.console.visit import Visit

COUNTS = (20, 50, 100, 200)
NEWEST, OLDEST = "newest", "oldest"
KEPT = ("partition", "key_format", "value_format", "uncommitted", "count")  # of one view for the next


@dataclass(frozen=True)
class Options:
    """How records are shown, whatever the page."""

    topic: str
    partitions: tuple[int, ...]  # that the topic has
    partition: int | None
    read_committed: bool
    count: int
    decoders: Decoders
    has_registry: bool
    kept: Mapping[str, str]

    @property
    def chosen(self) -> list[int]:
        return list(self.partitions) if self.partition is None else [self.partition]

    @property
    def source(self) -> RecordSource:
        return RecordSource(self.topic, self.chosen, self.read_committed)

    @property
    def formats(self) -> list[str]:
        return [form for form in FORMATS if self.has_registry or form not in SCHEMA_FORMATS]

    def link(self, path: str = "", **more: str) -> str:
        """An address below that of the topic's records, with the same options."""
        given = {name: value for name, value in (dict(self.kept) | more).items() if value}
        return path + (f"?{urlencode(given)}" if given else "")


def options_of(visit: Visit, topic: str, partitions: tuple[int, ...]) -> Options:
    registry = registry_of(visit)
    key_format, value_format = visit.query("key_format") or AUTO, visit.query("value_format") or AUTO
    decoders = decoders_of(key_format, value_format, registry)
    return Options(
        topic,
        partitions,
        _partition(visit.query("partition"), partitions),
        visit.query("uncommitted") != "1",
        _number(visit.query("count"), RECORDS, COUNTS[-1], "records on a page"),
        decoders,
        registry is not None,
        {name: visit.query(name) for name in KEPT},
    )


def decoders_of(key_format: str, value_format: str, registry: Registry | None) -> Decoders:
    try:
        return Decoders(Decoder("key", key_format, registry), Decoder("value", value_format, registry))
    except FormatError as error:
        raise CommandError(str(error), USAGE) from None


def registry_of(visit: Visit) -> Registry | None:
    """The console's, if it has one."""
    given = visit.settings.where.given
    url = visit.settings.registry or registry_url(dict(given))
    if not url:
        return None
    try:
        return _registry(url, given)
    except ClientError as error:
        raise CommandError(str(error)) from None


@lru_cache(maxsize=4)
def _registry(url: str, given: tuple[tuple[str, str], ...]) -> Registry:
    """One for all visitors, so that a schema is asked for once."""
    return Registry.of(url, dict(given))


# -- searches ------------------------------------------------------------------------------------------------


def is_search(visit: Visit) -> bool:
    return bool(visit.query("q")) or visit.query("in") == KEY


def search_of(visit: Visit, options: Options) -> tuple[Scope, Query]:
    where, text = visit.query("in", ANYWHERE) or ANYWHERE, visit.query("q")
    key = None
    if where == KEY:
        try:
            key = Encoder("key", options.decoders.key.form, options.decoders.key.registry)(
                options.topic, text
            )
        except (FormatError, ClientError) as error:
            raise CommandError(str(error), USAGE) from None
    at = visit.query("at").strip()
    looked_for = query(
        where,
        text,
        key=key,
        is_case_sensitive=visit.query("case") == "1",
        since_ms=None if is_offset(at) else time_of(at),
        until_ms=time_of(visit.query("until")),
    )
    partitions = options.chosen
    if key is not None and options.partition is None and visit.query("all") != "1":
        partitions = [options.partitions[at] for at in likely_partitions(key, len(options.partitions))]
    limit = _number(visit.query("limit"), RESULTS, RESULTS_MAX, "results")
    scope = Scope(
        options.topic,
        partitions,
        visit.query("order") != OLDEST,
        options.read_committed,
        limit,
        int(at) if is_offset(at) else 0,
    )
    return scope, looked_for


# -- numbers -------------------------------------------------------------------------------------------------


def _partition(text: str, partitions: tuple[int, ...]) -> int | None:
    if not text:
        return None
    number = whole_number(text)
    if number not in partitions:
        raise CommandError(f"there is no partition {text!r:.40}", USAGE)
    return number


def _number(text: str, default: int, most: int, what: str) -> int:
    if not text:
        return default
    number = whole_number(text)
    if number is None or not 0 < number <= most:
        raise CommandError(f"{text!r:.40} is no number of {what}: at most {most}", USAGE)
    return number
