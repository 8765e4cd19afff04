"""Pages of records, newest first, out of a broker."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.client import Client, TopicPartition
from ottla.console.records import page as page_of_records
from ottla.console.records import positions
from ottla.console.records.connection import partitions_of
from ottla.console.records.page import Page, Source, newer, newest, older

NOW_MS = int(time.time() * 1000)


def spread(count: int, partitions: int) -> list[dict[str, Any]]:
    return [
        {"value": b"%d" % number, "partition": number % partitions, "timestamp": NOW_MS + number}
        for number in range(count)
    ]


def values(page: Page) -> list[int]:
    return [int(message.value or b"") for message in page.messages]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_pages_go_from_the_newest_record_to_the_oldest_and_back(
    codec: str, fill: Any, source: Callable[..., Source]
) -> None:
    topic = fill(spread(230, 3), 3, **{"compression.type": codec})
    read = source(topic)
    page = newest(read, 50)
    assert page.newer is None
    walked = [values(page)]
    while page.older is not None:
        page = older(read, positions.parse(positions.show(page.older)), 50)
        walked.append(values(page))
    assert [number for part in walked for number in part] == list(range(229, -1, -1))
    assert [len(part) for part in walked] == [50, 50, 50, 50, 30]
    back = [values(page)]
    while page.newer is not None:
        page = newer(read, page.newer, 50)
        back.append(values(page))
    assert [number for part in back[::-1] for number in part] == list(range(229, -1, -1))


def test_a_link_shows_the_same_records_while_new_ones_come(
    broker: Broker, fill: Any, source: Callable[..., Source]
) -> None:
    topic = fill(spread(60, 2), 2)
    second = newest(source(topic), 20).older
    assert second is not None
    before = values(older(source(topic), second, 20))
    producer = Producer(broker.client_config)
    for number in range(60, 90):
        producer.produce(topic, b"%d" % number, partition=number % 2, timestamp=NOW_MS + number)
    assert producer.flush(30) == 0
    assert values(older(source(topic), second, 20)) == before == list(range(39, 19, -1))
    assert values(newer(source(topic), second, 30)) == list(range(69, 39, -1))


def test_one_partition_alone_and_from_an_offset_on(fill: Any, source: Callable[..., Source]) -> None:
    topic = fill(spread(30, 3), 3)
    read = source(topic)
    alone = Source(read.client, topic, {1: read.extents[1]})
    assert values(newest(alone)) == [28, 25, 22, 19, 16, 13, 10, 7, 4, 1]
    assert values(older(alone, {1: 4}, 2)) == [10, 7]
    assert values(newer(alone, {1: 4}, 2)) == [16, 13]


def test_an_offset_beyond_the_end_or_before_the_start_is_where_the_log_is(
    fill: Any, source: Callable[..., Source]
) -> None:
    read = source(fill(spread(3, 1)))
    assert values(older(read, {0: 99})) == [2, 1, 0]
    assert values(newer(read, {0: 99})) == []
    assert older(read, {0: 0}).messages == []


def test_an_empty_topic_has_an_empty_page(fill: Any, source: Callable[..., Source]) -> None:
    page = newest(source(fill([], 4)))
    assert (page.messages, page.older, page.newer, page.is_whole) == ([], None, None, True)


def test_aborted_records_are_there_for_who_wants_them_and_markers_never(
    broker: Broker, fill: Any, source: Callable[..., Source]
) -> None:
    topic = fill(spread(5, 1))
    producer = Producer(broker.client_config | {"transactional.id": topic})
    producer.init_transactions(30)
    for first, end in ((5, producer.commit_transaction), (40, producer.abort_transaction)):
        producer.begin_transaction()
        for number in range(first, first + 35):
            producer.produce(topic, b"%d" % number)
        producer.flush(30)
        end(30)
    committed = newest(source(topic), 30)
    assert values(committed) == list(range(39, 9, -1))
    assert committed.older is not None
    assert values(older(source(topic), committed.older, 30)) == list(range(9, -1, -1))
    everything = newest(source(topic, read_committed=False), 100)
    assert values(everything) == list(range(74, -1, -1))


def test_a_page_of_large_records_is_cut_and_goes_on_where_it_was(
    fill: Any, source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.console.records.page.PAGE_BYTES_MAX", 250_000)
    topic = fill([{"value": b"%d" % number + b" " * 100_000} for number in range(6)])
    first = newest(source(topic))
    assert (values(first), first.is_whole) == ([5, 4, 3], False)
    assert first.older is not None
    assert values(older(source(topic), first.older)) == [2, 1, 0]


def test_a_page_begins_at_a_time(client: Client, fill: Any, source: Callable[..., Source]) -> None:
    topic = fill(spread(30, 3), 3)
    places = {TopicPartition(topic, number): NOW_MS + 12 for number in range(3)}
    at = {
        place.partition: offset for place, offset in client.offsets_at(places).items() if offset is not None
    }
    assert values(newer(source(topic), at, 5)) == [16, 15, 14, 13, 12]


def test_a_topic_that_is_not_there_and_a_link_that_is_none_are_refused(client: Client) -> None:
    with pytest.raises(CommandError, match="there is no topic 'nosuch'"):
        partitions_of(client, "nosuch")
    for text in ("", "0", "0:x", "a:1", "0:1,", "0:" + "9" * 30):
        with pytest.raises(CommandError, match="is no place in a topic"):
            positions.parse(text)


def test_large_records_are_read_a_few_at_a_time(
    fill: Any, source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a page begins with, no partition holds more than its share of it, and none is left out."""
    monkeypatch.setattr(page_of_records, "PAGE_BYTES_MAX", 40_000)
    held: list[int] = []
    read_on = page_of_records._Reader._read_on

    def counted(reader: page_of_records._Reader) -> None:
        read_on(reader)
        held.append(len(reader._read))

    monkeypatch.setattr(page_of_records._Reader, "_read_on", counted)
    records = spread(120, 2)
    for record in records:
        record["value"] = record["value"].rjust(5_000)
    read = source(fill(records, 2))
    page, walked = newest(read, 50), []
    while True:
        walked += values(page)
        if page.older is None:
            break
        page = older(read, page.older, 50)
    assert walked == list(range(119, -1, -1))
    back = values(page)[::-1]
    while page.newer is not None:
        page = newer(read, page.newer, 50)
        back += values(page)[::-1]
    assert back == list(range(120))
    assert max(held) == 4


def test_a_record_larger_than_a_page_is_shown_alone(
    fill: Any, source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_of_records, "PAGE_BYTES_MAX", 100)
    read = source(fill([{"value": b"%d" % number * 500} for number in (1, 2, 3)]))
    page = newest(read, 50)
    assert ([message.offset for message in page.messages], page.is_whole) == ([2], False)
    assert page.older == {0: 2}
