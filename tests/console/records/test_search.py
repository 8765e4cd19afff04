"""Searches through a topic: what they find, what they pass over, and how they stop."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.client import Client
from ottla.client.formats import Message
from ottla.console.records.query import Query, query
from ottla.console.records.search import Ended, Found, Progress, Scope, search

Connect = Callable[[], Client]
NOW_MS = int(time.time() * 1000)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def looked(connect: Connect, scope: Scope, looked_for: Query) -> tuple[list[Message], Ended]:
    found: list[Message] = []
    for event in search(connect, scope, looked_for):
        if isinstance(event, Found):
            found += event.messages
    assert isinstance(event, Ended)
    return found, event


def orders(count: int, partitions: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "value": b'{"id": %d, "city": "%s"}' % (number, b"Brno" if number % 1000 == 7 else b"Praha"),
            "key": b"order-%d" % number,
            "partition": number % partitions,
            "timestamp": NOW_MS + number,
            "headers": [("number", b"%d" % number)],
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("is_newest_first", [True, False])
def test_every_match_is_found_once_and_in_order_with_every_codec(
    codec: str, is_newest_first: bool, open_client: Connect, fill: Any
) -> None:
    topic = fill(orders(8_000), **{"compression.type": codec, "batch.size": 20_000})
    expected = list(range(7, 8_000, 1000))
    scope = Scope(topic, [0], is_newest_first)
    for looked_for in (
        query("anywhere", "brno"),
        query("value", "Brno", is_case_sensitive=True),
        query("field", "city = Brno"),
        query("field", "city ~ BRN"),
    ):
        found, ended = looked(open_client, scope, looked_for)
        assert [message.offset for message in found] == (expected[::-1] if is_newest_first else expected)
        assert ended.reason == "all"
        assert ended.progress.share == 1
        assert ended.progress.records == 8_000
        assert ended.progress.found == 8


def test_records_are_found_by_key_by_header_and_by_number(open_client: Connect, fill: Any) -> None:
    topic = fill(orders(3_000, 3), 3)
    scope = Scope(topic, [0, 1, 2])
    for looked_for in (
        query("key", "", key=b"order-1234"),
        query("header", "number=1234"),
        query("field", "id = 1234"),
        query("anywhere", "order-1234"),
    ):
        found, _ = looked(open_client, scope, looked_for)
        assert [message.key for message in found] == [b"order-1234"], looked_for
    assert looked(open_client, Scope(topic, [0]), query("key", "", key=b"order-1234"))[0] == []


def test_what_is_too_old_is_not_read(open_client: Connect, fill: Any) -> None:
    topic = fill(orders(20_000), **{"batch.size": 10_000})
    found, ended = looked(open_client, Scope(topic, [0]), query("anywhere", "brno", since_ms=NOW_MS + 18_000))
    assert [message.offset for message in found] == [19_007, 18_007]
    assert ended.progress.offsets_total == 2_000
    found, _ = looked(open_client, Scope(topic, [0]), query("anywhere", "brno", until_ms=NOW_MS + 1_500))
    assert [message.offset for message in found] == [1_007, 7]


def test_a_search_ends_at_its_limit_with_the_newest_or_the_oldest(open_client: Connect, fill: Any) -> None:
    topic = fill(orders(20_000))
    found, ended = looked(open_client, Scope(topic, [0], limit=3), query("anywhere", "praha"))
    assert [message.offset for message in found] == [19_999, 19_998, 19_997]
    assert ended.reason == "limit"
    assert ended.progress.share < 1
    found, _ = looked(open_client, Scope(topic, [0], False, limit=3), query("anywhere", "praha"))
    assert [message.offset for message in found] == [0, 1, 2]


def test_a_search_that_is_left_half_way_stops_its_threads_at_once(
    open_client: Connect, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small spans, so that half of this topic is as many answers as half of one with millions."""
    monkeypatch.setattr("ottla.console.records.search.SPAN_MAX", 500)
    topic = fill(orders(60_000, 2), 2, **{"batch.size": 10_000})
    events = search(open_client, Scope(topic, [0, 1]), query("anywhere", "nowhere to be found"))
    shares = []
    for event in events:
        assert isinstance(event, Progress)
        shares.append(event.share)
        break
    assert any(thread.name.startswith("search-") for thread in threading.enumerate())
    events.close()  # type: ignore[attr-defined]
    assert not any(thread.name.startswith("search-") for thread in threading.enumerate())
    assert shares[-1] < 1


def test_aborted_records_are_found_only_by_who_wants_them(
    broker: Broker, open_client: Connect, fill: Any
) -> None:
    topic = fill(orders(10))
    producer = Producer(broker.client_config | {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"Brno, taken back")
    producer.flush(30)
    producer.abort_transaction(30)
    assert len(looked(open_client, Scope(topic, [0]), query("anywhere", "brno"))[0]) == 1
    assert (
        len(looked(open_client, Scope(topic, [0], read_committed=False), query("anywhere", "brno"))[0]) == 2
    )


def test_a_search_where_the_cluster_refuses_says_why(open_client: Connect) -> None:
    with pytest.raises(CommandError, match="nosuch"):
        looked(open_client, Scope("nosuch", [0]), query("anywhere", "x"))
