"""Which offsets a micro-batch covers: the stream reader as Spark calls it, on a real broker and without
Spark."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows
from tests.kafka_clients.harness import wait_for
from tests.spark.harness import Topic

from ottla.client import Client, TopicPartition
from ottla.spark.errors import DataLoss, OptionError, SourceError
from ottla.spark.offsets import START
from ottla.spark.options import read_options
from ottla.spark.plan import Ranges
from ottla.spark.stream import StreamReader
from ottla.testing.embedded import Broker

ALL = ReadAllAvailable()
Make = Callable[..., Topic]


def reader(topic: Topic, **options: Any) -> StreamReader:
    given = topic.options(**{"startingOffsets": "earliest", "fetchOffset__retryIntervalMs": 1, **options})
    if "subscribePattern" in options or "assign" in options:
        del given["subscribe"]
    return StreamReader(read_options(given, is_stream=True), ["value"])


def first(query: StreamReader, limit: ReadLimit = ALL) -> dict[str, Any]:
    return query.latestOffset(dict(query.initialOffset()), limit)


def covered(query: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> dict[tuple[str, int], range]:
    """What a batch reads, by topic and partition."""
    tasks = query.partitions(start, end)
    found = [each for task in tasks if isinstance(task, Ranges) for each in task.ranges]
    return {(each.topic, each.partition): range(each.start, each.end) for each in found}


def test_the_start_of_the_first_batch_survives_a_restart_that_finds_it_unfinished(topic: Make) -> None:
    """Spark keeps the end of a batch and asks for its start again: rows 100 to 109 used to be lost here."""
    orders = topic()
    orders.produce(range(100))
    query = reader(orders, startingOffsets="latest")
    start = query.initialOffset()
    orders.produce(range(100, 110))
    end = query.latestOffset(dict(start), ALL)
    orders.produce(range(110, 130))
    again = reader(orders, startingOffsets="latest")
    assert again.initialOffset() == {orders.name: {"0": 130}}
    assert covered(again, dict(again.initialOffset()), end) == {(orders.name, 0): range(100, 110)}
    later = again.latestOffset(end, ALL)
    assert START not in later
    assert covered(again, end, later) == {(orders.name, 0): range(110, 130)}


def test_the_start_is_the_same_however_often_it_is_asked_for(topic: Make) -> None:
    orders = topic()
    query = reader(orders, startingOffsets="latest")
    before = query.initialOffset()
    orders.produce(range(5))
    assert query.initialOffset() == before == {orders.name: {"0": 0}}


def test_an_unmarked_start_after_its_end_is_refused(topic: Make) -> None:
    orders = topic()
    orders.produce(range(5))
    with pytest.raises(DataLoss, match=r"PARTITION_OFFSET_CHANGED.*offset was changed from 5 to 3"):
        reader(orders).partitions({orders.name: {"0": 5}}, {orders.name: {"0": 3}})


def test_a_query_without_news_hears_what_it_said(topic: Make) -> None:
    orders = topic()
    orders.produce(range(5))
    query = reader(orders)
    end = first(query)
    assert query.latestOffset(end, ALL) is end
    assert covered(query, end, end) == {}


def test_batches_join_without_a_gap_under_a_limit(topic: Make) -> None:
    orders = topic(2)
    orders.produce(range(90), 0)
    orders.produce(range(10), 1)
    query = reader(orders, maxOffsetsPerTrigger=50)
    assert query.getDefaultReadLimit() == ReadMaxRows(50)
    end = first(query, ReadMaxRows(50))
    assert covered(query, dict(query.initialOffset()), end) == {
        (orders.name, 0): range(45),
        (orders.name, 1): range(5),
    }
    last = query.latestOffset(end, ReadMaxRows(50))
    assert last == {orders.name: {"0": 90, "1": 10}}
    assert query.reportLatestOffset() == last


def test_a_batch_waits_for_enough_rows_or_for_long_enough(
    topic: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = topic()
    clock = [1000.0]
    monkeypatch.setattr("ottla.spark.stream.time.monotonic", lambda: clock[0])
    query = reader(orders, minOffsetsPerTrigger=10, maxTriggerDelay="1m", commitOffsets="false")
    limit = query.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    orders.produce(range(3))
    end = first(query, limit)
    assert end[orders.name] == {"0": 3}, "the first batch does not wait"
    orders.produce(range(9))
    assert query.latestOffset(end, limit) == end
    orders.produce([9])
    end = query.latestOffset(end, limit)
    assert end == {orders.name: {"0": 13}}
    orders.produce([10])
    clock[0] += 59
    assert query.latestOffset(end, limit) == end
    clock[0] += 1
    assert query.latestOffset(end, limit) == {orders.name: {"0": 14}}


def test_a_minimum_and_a_maximum_hold_together(topic: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = topic()
    monkeypatch.setattr("ottla.spark.stream.time.monotonic", lambda: 1000.0)
    query = reader(orders, minOffsetsPerTrigger=5, maxOffsetsPerTrigger=8, commitOffsets="false")
    limit = query.getDefaultReadLimit()
    end = first(query, limit)
    orders.produce(range(4))
    assert query.latestOffset(end, limit) == end
    orders.produce(range(16))
    assert query.latestOffset(end, limit) == {orders.name: {"0": 8}}


def test_an_available_now_run_ends_where_the_log_ended_when_it_began(topic: Make) -> None:
    orders = topic()
    orders.produce(range(10))
    query = reader(orders, maxOffsetsPerTrigger=6, minOffsetsPerTrigger=5)
    query.prepareForTriggerAvailableNow()
    limit = query.getDefaultReadLimit()
    end = first(query, limit)
    orders.produce(range(100))
    orders.grow(2)
    end = query.latestOffset(end, limit)
    assert end == {orders.name: {"0": 10}}, "4 rows are fewer than the minimum, and no more will come"
    assert query.latestOffset(end, limit) is end


def test_new_partitions_are_read_from_their_beginning(topic: Make) -> None:
    orders = topic()
    query = reader(orders, startingOffsets="latest", maxOffsetsPerTrigger=4)
    end = first(query)
    orders.grow(3)
    orders.produce(range(8), 2)
    later = wait_for(lambda: _news(query, end, ReadMaxRows(4)))
    assert covered(query, end, later) == {(orders.name, 2): range(4)}
    assert later[orders.name].keys() == {"0", "1", "2"}


def _news(query: StreamReader, end: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any] | None:
    later = query.latestOffset(end, limit)
    return later if any(later[name] != end.get(name) for name in later) else None


def test_a_new_partition_that_has_lost_its_beginning_is_a_loss(topic: Make) -> None:
    orders = topic()
    query = reader(orders)
    end = first(query)
    orders.grow(2)
    orders.produce(range(8), 1)
    orders.delete_records(3, 1)
    later = query.latestOffset(end, ALL)
    with pytest.raises(DataLoss, match=f"ADDED_PARTITION.* {orders.name}-1 starts from 3 instead of 0"):
        query.partitions(end, later)
    lenient = reader(orders, failOnDataLoss="false")
    assert covered(lenient, end, later) == {(orders.name, 1): range(3, 8)}


def test_topics_that_match_a_pattern_come_by_themselves(topic: Make, broker: Broker) -> None:
    seed = topic(prefix="north")
    pattern = seed.name.replace("north", "(north|south)")
    query = reader(seed, subscribePattern=pattern, startingOffsets="latest")
    end = first(query)
    south = Topic(broker.bootstrap_servers, broker.create_topic(seed.name.replace("north", "south")))
    south.produce(range(3))
    later = wait_for(lambda: _news(query, end))
    assert covered(query, end, later) == {(south.name, 0): range(3)}


def test_a_pattern_may_match_nothing_yet(topic: Make, broker: Broker) -> None:
    seed = topic()
    query = reader(seed, subscribePattern=f"later-{seed.name}", startingOffsets="latest")
    assert query.initialOffset() == {}
    end = first(query)
    assert covered(query, {}, end) == {}
    late = Topic(broker.bootstrap_servers, broker.create_topic(f"later-{seed.name}"))
    late.produce(range(3))
    assert covered(query, end, wait_for(lambda: _news(query, end))) == {(late.name, 0): range(3)}


def test_internal_topics_match_no_pattern(topic: Make, broker: Broker) -> None:
    orders = topic()
    with Client(broker.bootstrap_servers) as client:
        client.commit_offsets("somebody", {TopicPartition(orders.name, 0): 1})
    places = reader(orders, subscribePattern=".*").initialOffset()
    assert orders.name in places
    assert not [name for name in places if name.startswith("__")]


def test_only_assigned_partitions_are_read(topic: Make) -> None:
    orders = topic(3)
    for number in range(3):
        orders.produce(range(number + 1), number)
    query = reader(orders, assign=f'{{"{orders}":[2,0]}}')
    assert covered(query, dict(query.initialOffset()), first(query)) == {
        (orders.name, 0): range(1),
        (orders.name, 2): range(3),
    }


@pytest.mark.parametrize(
    ("options", "missing"),
    [({"subscribe": "not-there"}, "not-there"), ({"assign": '{"TOPIC":[0,9]}'}, "TOPIC-9")],
)
def test_a_topic_that_is_not_there_is_an_error_and_is_not_created(
    topic: Make, broker: Broker, options: dict[str, str], missing: str
) -> None:
    orders = topic()
    options = {name: text.replace("TOPIC", orders.name) for name, text in options.items()}
    with pytest.raises(SourceError, match=f"no topic {missing.replace('TOPIC', orders.name)}"):
        reader(orders, **options).initialOffset()
    with Client(broker.bootstrap_servers) as client:
        assert "not-there" not in client.topics()


def test_a_deleted_topic_is_a_loss_that_is_named(topic: Make) -> None:
    orders = topic(2)
    query = reader(orders)
    end = first(query)
    orders.delete()
    names = f"{orders}-0, {orders}-1"
    with pytest.raises(DataLoss, match=f"PARTITIONS_DELETED.*Partitions {names} have been deleted"):
        wait_for(lambda: query.latestOffset(end, ALL) is not end)
    with pytest.raises(DataLoss, match="PARTITIONS_DELETED"):
        query.partitions(end, {})
    lenient = reader(orders, failOnDataLoss="false")
    assert lenient.latestOffset(end, ALL) == {}
    assert covered(lenient, end, {}) == {}


def test_a_topic_that_was_created_again_is_a_loss(topic: Make, broker: Broker) -> None:
    orders = topic()
    orders.produce(range(10))
    query = reader(orders)
    end = first(query)
    orders.delete()
    broker.create_topic(orders.name)
    orders.produce(range(3))
    with pytest.raises(DataLoss, match=r"PARTITION_OFFSET_CHANGED.*was changed from 10 to 3"):
        query.latestOffset(end, ALL)
    lenient = reader(orders, failOnDataLoss="false")
    assert lenient.latestOffset(end, ALL) == {orders.name: {"0": 3}}


def test_a_topic_that_is_deleted_after_its_batch_was_written_down_is_a_loss(topic: Make) -> None:
    orders, others = topic(), topic()
    orders.produce(range(10))
    others.produce(range(5))
    both = {"subscribe": f"{orders},{others}"}
    end = first(reader(orders, **both))
    orders.delete()
    start = {orders.name: {"0": 0}, others.name: {"0": 0}}
    with pytest.raises(DataLoss, match=f"PARTITIONS_DELETED.*Partitions {orders}-0 have been deleted"):
        reader(orders, **both).partitions(start, end)
    assert covered(reader(orders, failOnDataLoss="false", **both), start, end) == {(others.name, 0): range(5)}


def test_what_retention_took_is_a_loss_that_says_which_range(topic: Make) -> None:
    orders = topic()
    orders.produce(range(10))
    query = reader(orders)
    end = first(query)
    orders.delete_records(4)
    start = {orders.name: {"0": 0}}
    why = rf"COULD_NOT_READ_OFFSET_RANGE.*\[0, 4\) for topic partition {orders}-0.*the log starts at offset 4"
    with pytest.raises(DataLoss, match=why):
        query.partitions(start, end)
    assert covered(reader(orders, failOnDataLoss="false"), start, end) == {(orders.name, 0): range(4, 10)}


@pytest.mark.parametrize("strategy", ["error", "latest"])
def test_a_time_after_the_last_record(topic: Make, strategy: str) -> None:
    orders = topic()
    orders.produce(range(4), timestamp=1000)
    query = reader(orders, startingTimestamp=2000, startingOffsetsByTimestampStrategy=strategy)
    if strategy == "latest":
        assert query.initialOffset() == {orders.name: {"0": 4}}
    else:
        with pytest.raises(OptionError, match=f"no offset matched .* {orders}-0 and timestamp 2000"):
            query.initialOffset()


def test_the_forms_of_a_start_give_offsets(topic: Make) -> None:
    orders = topic(2)
    for ms in (1000, 2000, 3000):
        orders.produce([ms], 0, timestamp=ms)
        orders.produce([ms], 1, timestamp=ms)
    at = {"0": 2000, "1": 2001}
    assert reader(orders, startingTimestamp=1500).initialOffset() == {orders.name: {"0": 1, "1": 1}}
    by_time = reader(orders, startingOffsetsByTimestamp=f'{{"{orders}":{str(at).replace(chr(39), chr(34))}}}')
    assert by_time.initialOffset() == {orders.name: {"0": 1, "1": 2}}
    by_offset = reader(orders, startingOffsets=f'{{"{orders}":{{"0":-1,"1":-2}}}}')
    assert by_offset.initialOffset() == {orders.name: {"0": 3, "1": 0}}


def test_a_start_has_to_be_given_for_every_partition(topic: Make) -> None:
    orders = topic(2)
    with pytest.raises(SourceError, match="KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        reader(orders, startingOffsets=f'{{"{orders}":{{"0":0}}}}').initialOffset()
    with pytest.raises(SourceError, match="KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        reader(orders, startingOffsetsByTimestamp=f'{{"{orders}":{{"0":5}}}}').initialOffset()


def test_progress_is_what_the_sink_has_in_a_group_of_its_own(topic: Make, broker: Broker) -> None:
    orders = topic()
    orders.produce(range(10))
    query = reader(orders, maxOffsetsPerTrigger=4)
    place = TopicPartition(orders.name, 0)
    with Client(broker.bootstrap_servers) as client:

        def committed() -> dict[TopicPartition, int]:
            return client.committed(f"spark-kafka-source-{orders}")

        end = first(query, ReadMaxRows(4))
        assert committed() == {place: 0}, "the first batch is not in the sink yet"
        end = query.latestOffset(end, ReadMaxRows(4))
        assert committed() == {place: 4}
        query.commit(end)
        assert committed() == {place: 8}
        silent = reader(orders, kafka__group__id=f"none-{orders}", commitOffsets="false")
        first(silent)
        silent.commit({orders.name: {"0": 1}})
        assert client.committed(f"none-{orders}") == {}


def test_a_group_that_cannot_be_written_to_does_not_stop_the_query(
    topic: Make, caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka import Consumer

    orders = topic()
    orders.produce(range(3))
    group = f"busy-{orders}"
    consumer = Consumer(
        {"bootstrap.servers": orders.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([orders.name])
        wait_for(lambda: (one := consumer.poll(0.1)) and one.error() is None, 60, "a member in the group")
        query = reader(orders, kafka__group__id=group)
        end = first(query)
        query.latestOffset(end, ALL)
    finally:
        consumer.close()
    assert end[orders.name] == {"0": 3}
    warnings = [record for record in caplog.records if "progress is not shown" in record.message]
    assert len(warnings) == 1, "it is said once, and tried again after a while"


def test_a_reader_travels_to_the_workers(topic: Make) -> None:
    orders = topic()
    query = reader(orders, startingOffsets="earliest")
    assert pickle.loads(pickle.dumps(query)).options == query.options


def test_metadata_can_be_kept_for_a_while(topic: Make) -> None:
    orders = topic()
    query = reader(orders, partition__metadata__cache__ttl__ms=600_000)
    end = first(query)
    orders.grow(2)
    orders.produce(range(3), 1)
    assert query.latestOffset(end, ALL) is end
