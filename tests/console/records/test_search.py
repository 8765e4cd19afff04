"""Searches through a topic: what they find, what they pass over, and how they stop."""

import json
import os
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


def looked(
    connect: Connect, scope: Scope, looked_for: Query, threads: int = 1
) -> tuple[list[Message], Ended]:
    found: list[Message] = []
    for event in search(connect, scope, looked_for, threads=threads):
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
def test_every_match_is_found_once_and_in_order_with_every_codec(
    codec: str, open_client: Connect, fill: Any
) -> None:
    topic = fill(orders(4_000), **{"compression.type": codec, "batch.size": 20_000})
    expected = [7, 1007, 2007, 3007]
    for is_newest_first, looked_for in (
        (True, query("anywhere", "brno")),
        (False, query("value", "Brno", is_case_sensitive=True)),
        (True, query("field", "city = Brno")),
        (False, query("field", "city ~ BRN")),
    ):
        results, ended = looked(open_client, Scope(topic, [0], is_newest_first), looked_for)
        assert [message.offset for message in results] == (expected[::-1] if is_newest_first else expected)
        assert ended.reason == "all"
        assert ended.progress.share == 1
        assert ended.progress.records == 4_000
        assert ended.progress.found == 4


def test_matches_of_all_partitions_come_in_the_order_of_their_times(open_client: Connect, fill: Any) -> None:
    """Also where the limit leaves some out: those are the last ones."""
    topic = fill(orders(6_000, 4), 4, **{"batch.size": 10_000})
    for is_newest_first, expected in ((True, range(5_999, 5_949, -1)), (False, range(50))):
        scope = Scope(topic, [0, 1, 2, 3], is_newest_first, limit=50)
        results, ended = looked(open_client, scope, query("anywhere", "praha"), threads=3)
        numbers = [int((message.key or b"").removeprefix(b"order-")) for message in results]
        wanted = [number for number in expected if number % 1000 != 7]
        assert numbers[: len(wanted)] == wanted
        assert (len(numbers), ended.reason) == (50, "limit")


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
    assert (ended.reason, ended.progress.found) == ("limit", 3)
    found, _ = looked(open_client, Scope(topic, [0], False, limit=3), query("anywhere", "praha"))
    assert [message.offset for message in found] == [0, 1, 2]


@pytest.mark.timeout(900)
def test_a_search_that_is_left_half_way_stops_its_threads(
    broker: Broker, open_client: Connect, half_way: threading.Event
) -> None:
    """`make search` does it with 2 million records."""
    count = 2_000_000 if os.environ.get("OTTLA_LONG_TESTS") else 20_000
    broker.create_topic("many", 2)
    producer = Producer(
        broker.client_config | {"linger.ms": 20, "batch.size": 20_000 if count < 1e6 else 200_000}
    )
    for number in range(count):
        while True:
            try:
                producer.produce("many", b"a record of some length, %d" % number, partition=number % 2)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    events = search(open_client, Scope("many", [0, 1]), query("anywhere", "nowhere to be found"))
    for event in events:
        assert isinstance(event, Progress)
        if event.share >= 0.5:
            break
    assert event.share < 1
    assert any(thread.name.startswith("search-") for thread in threading.enumerate())
    half_way.set()
    events.close()  # type: ignore[attr-defined]
    assert not any(thread.name.startswith("search-") for thread in threading.enumerate())


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


def test_a_search_that_breaks_does_not_say_that_it_has_seen_everything(
    open_client: Connect, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fill(orders(10))
    broken: list[object] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)

    def matches(*_: object) -> bool:
        raise ZeroDivisionError

    monkeypatch.setattr(Query, "matches", matches)
    with pytest.raises(CommandError, match="failed half-way"):
        looked(open_client, Scope(topic, [0]), query("anywhere", "brno"))
    assert len(broken) == 1


def test_a_field_that_is_nested_without_end_is_no_match(open_client: Connect, fill: Any) -> None:
    deep = json.dumps({"a": "[" * 20_000}).encode()
    topic = fill([{"value": deep}, {"value": b'{"a": "7"}'}])
    messages, _ = looked(open_client, Scope(topic, [0]), query("field", "a = 7"))
    assert [message.offset for message in messages] == [1]
