"""Option by option against the contract of the official connector. No Spark runs here: options are parsed
first."""

import json
from typing import Any

import pytest

from ottla.base.offset_times import EARLIEST, LATEST
from ottla.client import TopicPartition
from ottla.spark.errors import OptionError, SourceError
from ottla.spark.options import Assigned, Pattern, Topics, read_options, write_options
from ottla.spark.plan import Split
from ottla.spark.positions import ByOffset, ByTime, Everywhere

BASE = {"kafka.bootstrap.servers": "h:1"}


def reading(*, is_stream: bool = True, **options: Any) -> Any:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return read_options({**BASE, "subscribe": "t", **given}, is_stream=is_stream)


def writing(**options: Any) -> Any:
    return write_options({**BASE, **{name.replace("__", "."): str(value) for name, value in options.items()}})


def test_the_defaults_are_the_official_ones() -> None:
    options = reading()
    assert options.start == Everywhere(LATEST)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert (options.tries, options.try_again_ms) == (3, 10)
    assert options.where.timeout_s == 120
    assert options.delay_ms_max == 15 * 60 * 1000
    assert options.metadata_ttl_ms == -1
    assert options.split == Split()
    batch = reading(is_stream=False)
    assert (batch.start, batch.end) == (Everywhere(EARLIEST), Everywhere(LATEST))


def test_names_of_options_are_not_case_sensitive() -> None:
    given = {"KAFKA.bootstrap.SERVERS": "h:1", "SUBSCRIBE": "t", "failondataloss": "FALSE"}
    options = read_options(given, is_stream=True)
    assert options.where.bootstrap == "h:1"
    assert not options.fail_on_data_loss


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "exactly one of the options subscribe, subscribePattern, assign must be specified, and none"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "not subscribe and assign"),
        ({"subscribe": " , "}, "option subscribe names no topics"),
        ({"subscribePattern": " "}, "option subscribePattern is empty"),
        ({"assign": "a"}, "option assign: expected e.g."),
        ({"assign": '{"a":[-1]}'}, "option assign: expected e.g."),
        ({"assign": '{"a":["0"]}'}, "option assign: expected e.g."),
        ({"assign": "{}"}, "option assign: expected e.g."),
    ],
)
def test_exactly_one_subscription_is_wanted(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=named.replace("(", r"\(")):
        read_options({**BASE, **options}, is_stream=True)


def test_the_three_forms_of_a_subscription() -> None:
    def subscription(**given: str) -> object:
        return read_options({**BASE, **given}, is_stream=True).subscription

    assert subscription(subscribe=" a, b ,a") == Topics(("a", "b"))
    assert subscription(subscribePattern="a.*") == Pattern("a.*")
    assert subscription(assign='{"b":[1],"a":[1,0]}') == Assigned(
        (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 1))
    )


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"startingOffsets": "Earliest"}, Everywhere(EARLIEST)),
        ({"startingOffsets": "latest"}, Everywhere(LATEST)),
        (
            {"startingOffsets": '{"t":{"0":23,"1":-1}}'},
            ByOffset(((TopicPartition("t", 0), 23), (TopicPartition("t", 1), -1))),
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "startingOffsets": "earliest"},
            ByTime(((TopicPartition("t", 0), 5),), None, False),
        ),
        (
            {"startingTimestamp": "7", "startingOffsetsByTimestamp": '{"t":{"0":5}}'},
            ByTime((), 7, False),
        ),
        (
            {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "LATEST"},
            ByTime((), 7, True),
        ),
    ],
)
def test_the_forms_of_a_start_and_which_comes_first(options: dict[str, str], start: object) -> None:
    assert reading(**options).start == start


@pytest.mark.parametrize("which", ["starting", "ending"])
@pytest.mark.parametrize(
    "text", ["soon", "{", "[]", '{"t":[0]}', '{"t":{"x":1}}', '{"t":{"0":"1"}}', '{"t":{"0":-3}}']
)
def test_malformed_offsets_are_refused_by_name(which: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"option {which}Offsets:"):
        reading(is_stream=False, **{f"{which}Offsets": text})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingTimestamp": "noon"}, "startingTimestamp"),
        ({"startingTimestamp": "-1"}, "startingTimestamp"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "startingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "startingOffsetsByTimestampStrategy"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss"),
        ({"includeHeaders": "1"}, "includeHeaders"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be positive"),
        ({"maxPartitions": "x"}, "maxPartitions"),
        ({"minPartitions": "5", "maxPartitions": "4"}, "minPartitions .* maxPartitions"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger .* maxOffsetsPerTrigger",
        ),
        ({"maxTriggerDelay": "5 parsecs"}, "maxTriggerDelay"),
        ({"kafkaConsumer.pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs"),
        ({"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries"),
        ({"kafka.isolation.level": "read_some"}, "kafka.isolation.level"),
        ({"endingOffsets": "latest"}, "endingOffsets is not valid in streaming"),
        ({"endingTimestamp": "1"}, "endingTimestamp is not valid in streaming"),
        ({"endingOffsetsByTimestamp": "{}"}, "endingOffsetsByTimestamp is not valid in streaming"),
        ({"startingOffset": "earliest"}, "startingOffset is not known; did you mean startingOffsets"),
        ({"path": "x"}, "path is not known"),
        (
            {"kafka.bootstrap.server": "x"},
            "kafka.bootstrap.server is not known; did you mean kafka.bootstrap.servers",
        ),
        ({"kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism has no effect, because security.protocol"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol is one of PLAINTEXT, SSL, SASL_"),
        ({"kafka.ssl.truststor.location": "x"}, "did you mean ssl.truststore.location"),
        ({"kafka.sasl.login.class": "x"}, "kafka.sasl.login.class is not supported: it names a Java class"),
        ({"clientConfig": "/nowhere.properties"}, "clientConfig: cannot read the config file /nowhere"),
        (
            {"kafka.auto.offset.reset": "earliest"},
            "kafka.auto.offset.reset is not supported: set startingOffsets",
        ),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer is not supported"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes is not supported"),
        ({"kafka.max.partition.fetch.bytes": "many"}, "kafka.max.partition.fetch.bytes"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=f"option .*{named}|{named}"):
        reading(**options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets for t-0 can't be earliest"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "startingTimestamp is 5, after endingTimestamp"),
    ],
)
def test_what_a_batch_may_not_ask_for(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        reading(is_stream=False, **options)


@pytest.mark.parametrize(
    ("start", "end", "error_class"),
    [
        ({"t": {"0": 5}}, {"t": {"0": 4}}, "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"),
        ({"t": {"0": 5}}, {"t": {"1": 6}}, "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET"),
    ],
)
def test_offsets_that_contradict_each_other_have_the_official_names(
    start: object, end: object, error_class: str
) -> None:
    with pytest.raises(SourceError) as caught:
        reading(is_stream=False, startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))
    assert caught.value.error_class == error_class
    assert str(caught.value).startswith(f"[{error_class}] ")


def test_options_of_streams_are_ignored_by_a_batch() -> None:
    options = reading(is_stream=False, maxOffsetsPerTrigger=5, minOffsetsPerTrigger=1, maxTriggerDelay="1m")
    assert options.end == Everywhere(LATEST)


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("2 s", 2000), ("5", 5), ("1h", 3_600_000), ("1min", 60_000)]
)
def test_times_are_written_as_spark_writes_them(text: str, ms: int) -> None:
    assert reading(maxTriggerDelay=text).delay_ms_max == ms


def test_a_group_is_named_after_what_is_read_unless_it_is_given() -> None:
    assert reading().group == "spark-kafka-source-t"
    assert reading(groupIdPrefix="billing").group == "billing-t"
    assert reading(groupIdPrefix="billing", kafka__group__id="mine").group == "mine"
    pattern = read_options({**BASE, "subscribePattern": "a.*|b"}, is_stream=True).group
    assert pattern.startswith("spark-kafka-source-a._b-")
    many = read_options(
        {**BASE, "subscribe": ",".join(f"topic-{n}" for n in range(99))}, is_stream=True
    ).group
    assert len(many) < 140


def test_a_consumers_settings_are_used_or_ignored_as_documented() -> None:
    options = reading(
        kafka__client__id="me",
        kafka__isolation__level="read_committed",
        kafka__max__partition__fetch__bytes=1000,
        kafka__session__timeout__ms=1,
        kafka__max__poll__records=1,
    )
    assert options.where.client_id == "me"
    assert options.read_committed
    assert reading().read_committed, "unlike the official connector"
    assert not reading(kafka__isolation__level="read_uncommitted").read_committed
    assert options.fetch_bytes == 1000


def test_the_bootstrap_servers_must_be_there() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers must be specified"):
        read_options({"subscribe": "t"}, is_stream=True)


def test_a_writer_is_idempotent_and_waits_for_all_unless_told_otherwise() -> None:
    options = writing(topic=" out ")
    assert (options.topic, options.acks, options.is_idempotent, options.codec) == ("out", -1, True, "none")
    assert not writing(kafka__acks=1).is_idempotent
    assert not writing(kafka__enable__idempotence="false").is_idempotent
    assert writing(kafka__compression__type="ZSTD").codec == "zstd"
    assert writing(kafka__max__request__size=5000).batch_bytes == 5000
    assert not writing().is_exactly_once
    assert writing(checkpointLocation="x", queryName="q", kafka__linger__ms=5).topic is None


def test_a_writer_is_exactly_once_if_it_is_told_to_be() -> None:
    options = writing(delivery="Exactly-Once")
    assert (options.is_exactly_once, options.acks, options.is_idempotent) == (True, -1, True)
    assert options.transaction_timeout_ms == 900_000
    assert writing(kafka__transaction__timeout__ms=5).transaction_timeout_ms == 5
    assert not writing(delivery="at-least-once").is_exactly_once


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"delivery": "once"}, "option delivery: expected at-least-once or exactly-once, got 'once'"),
        ({"delivery": "exactly-once", "kafka.acks": "1"}, "delivery=exactly-once needs kafka.acks=all"),
        (
            {"delivery": "exactly-once", "kafka.enable.idempotence": "false"},
            "delivery=exactly-once needs .* kafka.enable.idempotence=true",
        ),
        ({"kafka.transaction.timeout.ms": "0"}, "option kafka.transaction.timeout.ms"),
        ({"topic": " "}, "option topic is empty"),
        ({"subscribe": "t"}, "option subscribe is not known"),
        ({"kafka.acks": "2"}, "option kafka.acks"),
        (
            {"kafka.acks": "1", "kafka.enable.idempotence": "true"},
            "kafka.enable.idempotence=true needs kafka.acks=all",
        ),
        ({"kafka.enable.idempotence": "perhaps"}, "kafka.enable.idempotence"),
        ({"kafka.compression.type": "brotli"}, "option kafka.compression.type"),
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer is not supported"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer is not supported"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id is not supported.*delivery=exactly-once"),
        ({"kafka.group.id": "x"}, "kafka.group.id is not known"),
    ],
)
def test_a_wrong_option_of_a_writer_is_an_error_that_names_it(options: dict[str, str], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        write_options({**BASE, **options})
