"""The records of a topic: a page of them, one of them, what comes, what is found, all of them as a file."""

import time
from collections.abc import Generator
from typing import Any

from starlette.responses import Response

from ottla.base.command_error import USAGE, CommandError
from ottla.base.ids import TopicPartition
from ottla.base.times import show_ms
from ottla.client.formats import Message, json_lines
from ottla.client.formats.content import escaped
from ottla.client.formats.content import show as show_content
from ottla.console import templates
from ottla.console.cluster.snapshot import Topic
from ottla.console.pages.record_options import (
    COUNTS,
    Options,
    is_search,
    options_of,
    search_of,
)
from ottla.console.pages.topics import existing
from ottla.console.records import positions, record_source, rows, search, tail
from ottla.console.records.connection import Extent, connect, connected, extents
from ottla.console.records.download import download, file_format
from ottla.console.records.positions import offset_of
from ottla.console.streams import event_stream, file_stream
from ottla.console.typed import time_of, whole_number
from ottla.console.visit import MissingError, Visit

PLAIN_SEARCH_S = 15.0  # for browsers without JavaScript
DOWNLOAD_LIMIT = 1_000_000


def show(visit: Visit) -> Response:
    topic, options = _asked(visit)
    if is_search(visit):
        return _show_search(visit, topic, options)
    with connected(visit.cluster.where) as client:
        shown = record_source.page_of(
            client,
            options.source,
            options.count,
            visit.query("older"),
            visit.query("newer"),
            visit.query("at"),
        )
    return _render(
        visit,
        topic,
        options,
        rows=[rows.row(message, options.decoders) for message in shown.messages],
        older=shown.older and options.link(older=positions.show(shown.older)),
        newer=shown.newer and options.link(newer=positions.show(shown.newer)),
        is_newest=shown.newer is None,
        problems=shown.problems,
        is_whole=shown.is_whole,
    )


def _show_search(visit: Visit, topic: Topic, options: Options) -> Response:
    """An empty table, which the browser fills from `stream_search`; or what is found in a while."""
    scope, looked_for = search_of(visit, options)
    results: list[Message] = []
    problems: list[str] = []
    if visit.query("plain") == "1":
        until_s = time.monotonic() + PLAIN_SEARCH_S
        events = search.search(lambda: connect(visit.cluster.where), scope, looked_for, options.decoders)
        for event in events:
            if isinstance(event, search.Found):
                results += event.messages
            if time.monotonic() > until_s:
                problems.append(f"The search was stopped after {PLAIN_SEARCH_S:.0f} s.")
                break
    return _render(
        visit,
        topic,
        options,
        rows=[rows.row(message, options.decoders, looked_for.shown) for message in results],
        stream="" if visit.query("plain") == "1" else f"records/search?{visit.request.url.query}",
        problems=problems,
        searched=scope.partitions,
    )


def _render(visit: Visit, topic: Topic, options: Options, **values: Any) -> Response:
    asked = {name: visit.query(name) for name in ("q", "in", "order", "case", "all", "until", "at")}
    special = ("order", "case", "all", "until", "key_format", "value_format", "uncommitted", "count")
    defaults: dict[str, Any] = {
        "older": None,
        "newer": None,
        "stream": "",
        "problems": [],
        "is_newest": False,
        "is_whole": True,
        "searched": [],
        "counts": COUNTS,
    }
    return visit.page(
        "records.html",
        topic=topic,
        options=options,
        asked=asked,
        is_search=is_search(visit),
        is_special=any(visit.query(name) for name in special),
        **(defaults | values),
    )


# -- what goes on --------------------------------------------------------------------------------------------


def stream_tail(visit: Visit) -> Response:
    """What comes, or of that what matches, if somebody looks for something."""
    _, options = _asked(visit)
    looked_for = search_of(visit, options)[1] if is_search(visit) else None
    around = looked_for.shown if looked_for else ""

    def events() -> Generator[tuple[str, Any], None, None]:
        came = tail.tail(
            lambda: connect(visit.cluster.where),
            options.topic,
            options.chosen,
            read_committed=options.read_committed,
            is_wanted=lambda message: looked_for is None or looked_for.matches(message, options.decoders),
        )
        try:
            for event in came:
                match event:
                    case tail.Came(messages=fresh, left_out=left_out):
                        yield "rows", {"html": _rows(options, fresh[::-1], around), "left_out": left_out}
                    case tail.Idle():
                        yield "idle", None
                    case tail.Over():
                        yield "over", "The tail has ended after half an hour."
        except CommandError as error:
            yield "problem", str(error)

    return event_stream(visit.session, events())


def stream_search(visit: Visit) -> Response:
    _, options = _asked(visit)
    scope, looked_for = search_of(visit, options)

    def events() -> Generator[tuple[str, Any], None, None]:
        try:
            for event in search.search(
                lambda: connect(visit.cluster.where), scope, looked_for, options.decoders
            ):
                match event:
                    case search.Found(messages=results):
                        yield "rows", {"html": _rows(options, results, looked_for.shown)}
                    case search.Progress():
                        yield "progress", _progress(event)
                    case search.Ended():
                        end = {"reason": event.reason, "problems": event.problems}
                        yield "over", _progress(event.progress) | end
        except CommandError as error:
            yield "problem", str(error)

    return event_stream(visit.session, events())


def _progress(progress: search.Progress) -> dict[str, Any]:
    seconds = max(progress.seconds, 0.001)
    return {
        "share": round(progress.share, 4),
        "records": progress.records,
        "bytes": progress.bytes,
        "found": progress.found,
        "seconds": round(progress.seconds, 1),
        "rate": round(progress.records / seconds),
    }


def _rows(options: Options, fresh: list[Message], around: str = "") -> str:
    """The same lines as on the page: there is one renderer."""
    shown = [rows.row(message, options.decoders, around) for message in fresh]
    return templates.render("record_rows.html", {"rows": shown, "options": options})


# -- one record ----------------------------------------------------------------------------------------------


def show_one(visit: Visit) -> Response:
    topic, options = _asked(visit)
    partition, offset = record_place(visit, topic)
    with connected(visit.cluster.where) as client:
        message, extent = record_source.read_one(client, options.source, partition, offset)
    decode, headers = options.decoders, message.headers
    return visit.page(
        "record.html",
        topic=topic,
        options=options,
        message=message,
        time=show_ms(message.timestamp_ms),
        size=rows.size_of(message),
        key=rows.full(decode.key(topic.name, message.key, headers)),
        value=rows.full(decode.value(topic.name, message.value, headers)),
        headers=[(escaped(name), show_content(value)) for name, value in headers],
        as_json=json_lines.line(message, decode).decode("utf-8", "replace"),
        older=offset - 1 if offset > extent.start else None,
        newer=offset + 1 if offset + 1 < extent.end else None,
    )


def record_place(visit: Visit, topic: Topic) -> tuple[int, int]:
    partition = whole_number(visit.path("partition"))
    if partition is None:
        sentence = f"{topic.name} has no partition {visit.path('partition')!r:.20}."
        raise MissingError(sentence, record_source.records_of(topic.name))
    return partition, offset_of(visit.path("offset"))


# -- files ---------------------------------------------------------------------------------------------------


def stream_file(visit: Visit) -> Response:
    topic, options = _asked(visit)
    file = file_format(visit.query("format", "jsonl"))
    limit = whole_number(visit.query("limit"))
    if visit.query("limit") and limit is None:
        raise CommandError(f"{visit.query('limit')!r:.40} is no number of records", USAGE)
    with connected(visit.cluster.where) as client:
        reach = extents(client, options.topic, options.chosen, read_committed=options.read_committed)
        since_ms = time_of(visit.query("since"))
        if since_ms is not None:
            asked = {TopicPartition(options.topic, number): max(0, since_ms) for number in reach}
            for asked_of, offset in client.offsets_at(asked).items():
                start, end = reach[asked_of.partition]
                reach[asked_of.partition] = Extent(end if offset is None else max(start, offset), end)
    pieces = download(
        lambda: connect(visit.cluster.where),
        topic.name,
        reach,
        file,
        options.decoders,
        read_committed=options.read_committed,
        limit=limit,
    )
    return file_stream(visit.session, pieces, file.media_type, f"{topic.name}.{file.ending}")


def _asked(visit: Visit) -> tuple[Topic, Options]:
    topic, _ = existing(visit)
    return topic, options_of(visit, topic.name, tuple(other.number for other in topic.partitions))
