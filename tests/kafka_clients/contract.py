"""What every client library may expect of a broker, whatever it sends on the wire. Each library runs it."""

import time
from collections import defaultdict

import pytest
from tests.kafka_clients.adapters import CODECS, Client, Refused, Sent, take
from tests.kafka_clients.harness import BrokerProcess, wait_for

MESSAGE_TOO_LARGE = 10
UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_OUT_OF_RANGE = 1
INVALID_RECORD = 87
INVALID_TIMESTAMP = 32
UNKNOWN_SERVER_ERROR = -1
LOG_APPEND_TIME = 1

MIXED = (
    Sent(b"plain"),
    Sent(b"with a key", b"key"),
    Sent(b"", b"an empty value"),
    Sent(None, b"a tombstone"),
    Sent(b"", b""),
    Sent(b"\x00\xff" * 300, b"bytes", (("one", b"1"), ("two", b""), ("one", b"\xff\x00"))),
    *(Sent(f"value {n}".encode() * 20, f"key {n}".encode(), (("n", str(n).encode()),)) for n in range(200)),
)


class ClientContract:
    """Inherit, and give the fixture `client`."""

    @pytest.mark.parametrize("codec", CODECS)
    def test_every_codec_carries_keys_headers_nulls_and_empty_values(
        self, client: Client, topic: str, codec: str
    ) -> None:
        missing = client.missing_codec(codec)
        if missing:
            pytest.skip(missing)
        placed = client.produce(topic, MIXED, codec=codec)
        assert [one.offset for one in placed] == list(range(len(MIXED)))
        with client.reader(topic) as reader:
            received = take(reader, len(MIXED))
        assert [one.content for one in received] == [(one.key, one.value, one.headers) for one in MIXED]
        assert [one.offset for one in received] == list(range(len(MIXED)))

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_records_arrive_with_every_kind_of_acknowledgement(
        self, client: Client, topic: str, acks: str, broker: BrokerProcess
    ) -> None:
        broker.create_topic(topic)
        client.produce(topic, [Sent(str(n).encode()) for n in range(50)], acks=acks)
        with client.reader(topic) as reader:
            assert [one.value for one in take(reader, 50)] == [str(n).encode() for n in range(50)]

    def test_an_idempotent_producer_writes_each_record_once_and_in_order(
        self, client: Client, topic: str
    ) -> None:
        placed = client.produce(topic, [Sent(str(n).encode()) for n in range(1000)], idempotent=True)
        assert [one.offset for one in placed] == list(range(1000))
        with client.reader(topic) as reader:
            assert [one.value for one in take(reader, 1000)] == [str(n).encode() for n in range(1000)]

    def test_a_message_just_under_the_limit_is_taken_and_one_over_it_refused(
        self, client: Client, topic: str, broker: BrokerProcess
    ) -> None:
        broker.create_topic(topic, config={"max.message.bytes": "100000"})
        client.produce(topic, [Sent(b"x" * (100_000 - 100))])
        with pytest.raises(Refused) as refused:
            client.produce(topic, [Sent(b"y" * 100_001)])
        assert refused.value.code == MESSAGE_TOO_LARGE
        with client.reader(topic) as reader:
            assert len(take(reader, 1)[0].value or b"") == 100_000 - 100
            assert reader.ends(0) == (0, 1)

    def test_a_message_of_8_mib_goes_through_a_topic_that_allows_it(
        self, client: Client, topic: str, broker: BrokerProcess
    ) -> None:
        broker.create_topic(topic, config={"max.message.bytes": str(9 << 20)})
        large = bytes(range(256)) * (8 << 12)
        client.produce(topic, [Sent(large), Sent(b"after")])
        with client.reader(topic, partition_bytes=1 << 16) as reader:
            received = take(reader, 2)
        assert received[0].value == large
        assert received[1].value == b"after"

    def test_a_small_partition_limit_never_starves_a_large_batch(
        self, client: Client, topic: str, broker: BrokerProcess
    ) -> None:
        broker.create_topic(topic, partitions=3)
        for partition in range(3):
            client.produce(topic, [Sent(b"z" * 300_000), Sent(b"end")], partition=partition)
        with client.reader(topic, range(3), partition_bytes=1000) as reader:
            received = take(reader, 6)
        assert sorted((one.partition, len(one.value or b"")) for one in received) == [
            (partition, size) for partition in range(3) for size in (3, 300_000)
        ]

    def test_create_time_is_the_producers_and_append_time_the_brokers(
        self, client: Client, topic: str, broker: BrokerProcess
    ) -> None:
        broker.create_topic(topic + "-a", config={"message.timestamp.type": "LogAppendTime"})
        broker.create_topic(topic)
        long_ago = 1_600_000_000_123
        before = int(time.time() * 1000)
        for name in (topic, topic + "-a"):
            client.produce(name, [Sent(b"v", timestamp_ms=long_ago), Sent(b"w", timestamp_ms=long_ago + 5)])
        with client.reader(topic) as reader:
            times = [(one.timestamp_ms, one.timestamp_type) for one in take(reader, 2)]
        assert times == [(long_ago, 0), (long_ago + 5, 0)]
        with client.reader(topic + "-a") as reader:
            for one in take(reader, 2):
                assert before - 1000 <= one.timestamp_ms <= int(time.time() * 1000) + 1000
                assert one.timestamp_type == LOG_APPEND_TIME

    def test_a_timestamp_far_in_the_future_is_refused(self, client: Client, topic: str) -> None:
        ahead = int(time.time() * 1000) + 2 * 3_600_000
        with pytest.raises(Refused) as refused:
            client.produce(topic, [Sent(b"v", timestamp_ms=ahead)])
        assert refused.value.code == INVALID_TIMESTAMP

    def test_offsets_are_found_by_time_and_at_both_ends(self, client: Client, topic: str) -> None:
        start = 1_700_000_000_000
        for n in range(5):
            client.produce(topic, [Sent(b"v", timestamp_ms=start + 1000 * n + m) for m in range(10)])
        with client.reader(topic) as reader:
            assert reader.ends(0) == (0, 50)
            assert reader.offset_for_time(0, start - 1) == 0
            assert reader.offset_for_time(0, start + 1000) == 10
            assert reader.offset_for_time(0, start + 1005) == 15
            assert reader.offset_for_time(0, start + 1500) == 20
            assert reader.offset_for_time(0, start + 4009) == 49
            assert reader.offset_for_time(0, start + 4010) is None

    @pytest.mark.parametrize("codec", ["none", "gzip"])
    def test_a_seek_into_the_middle_of_a_batch_begins_there(
        self, client: Client, topic: str, codec: str
    ) -> None:
        client.produce(topic, [Sent(str(n).encode()) for n in range(100)], codec=codec)
        with client.reader(topic) as reader:
            take(reader, 100)
            for offset in (57, 99, 0, 42):
                reader.seek(0, offset)
                received = take(reader, 100 - offset)
                assert [one.offset for one in received] == list(range(offset, 100))

    def test_an_offset_beyond_the_end_falls_back_to_the_reset_policy(
        self, client: Client, topic: str
    ) -> None:
        client.produce(topic, [Sent(b"only")])
        with client.reader(topic, offset=1000) as reader:
            assert take(reader, 1)[0].value == b"only"

    def test_keys_decide_the_partition_and_keep_their_order(
        self, client: Client, topic: str, broker: BrokerProcess
    ) -> None:
        broker.create_topic(topic, partitions=20)
        sent = [Sent(str(n).encode(), f"key-{n % 50}".encode()) for n in range(1000)]
        client.produce(topic, sent)
        with client.reader(topic, range(20)) as reader:
            received = take(reader, 1000)
        homes = defaultdict(set)
        values = defaultdict(list)
        for one in received:
            homes[one.key].add(one.partition)
            values[one.key].append(int(one.value or b"-1"))
        assert len(homes) == 50
        assert all(len(partitions) == 1 for partitions in homes.values())
        assert len(set.union(*homes.values())) > 10
        assert all(numbers == sorted(numbers) for numbers in values.values())

    def test_a_consumer_that_waits_at_the_end_gets_a_record_at_once(self, client: Client, topic: str) -> None:
        client.produce(topic, [Sent(b"old")])
        # The end as a number: whoever still asks for it while "new" is written waits behind that.
        with client.reader(topic, offset=1, max_wait_ms=25_000) as reader:
            assert reader.poll(0.5) == []
            client.produce(topic, [Sent(b"new")])
            assert [one.value for one in take(reader, 1, 15)] == [b"new"], "before the wait is over"

    def test_a_consumer_with_a_large_minimum_still_gets_what_there_is_when_its_wait_is_over(
        self, client: Client, topic: str
    ) -> None:
        client.produce(topic, [Sent(b"small")])
        with client.reader(topic, max_wait_ms=300, min_bytes=1 << 20) as reader:
            assert [one.value for one in take(reader, 1)] == [b"small"]

    def test_a_compacted_topic_refuses_records_without_a_key(
        self, client: Client, topic: str, broker: BrokerProcess
    ) -> None:
        broker.create_topic(topic, config={"cleanup.policy": "compact"})
        client.produce(topic, [Sent(b"v", b"k")])
        with pytest.raises(Refused) as refused:
            client.produce(topic, [Sent(b"keyless")])
        # aiokafka does not know the code, and calls it unknown.
        assert refused.value.code in {INVALID_RECORD, UNKNOWN_SERVER_ERROR}

    def test_a_consumer_goes_on_with_a_topic_that_was_made_again_under_its_name(
        self, client: Client, topic: str, broker: BrokerProcess
    ) -> None:
        """From where is the library's choice: kafka-python fetches by name and takes the new log for the old
        one cut short (KIP-320), so it goes on at its end; the others begin at the beginning."""
        broker.create_topic(topic)
        client.produce(topic, [Sent(f"old {n}".encode()) for n in range(10)])
        with client.reader(topic) as reader:
            assert len(take(reader, 10)) == 10
            broker.delete_topic(topic)
            broker.create_topic(topic)
            sent, received = 0, 0

            def goes_on() -> bool:
                nonlocal sent, received
                client.produce(topic, [Sent(f"new {sent}".encode())])
                sent += 1
                try:
                    for one in reader.poll(0.2):
                        assert one.value == f"new {one.offset}".encode()
                        received += 1
                except Refused as refused:
                    if refused.code not in {UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE}:
                        raise
                return received > 2

            wait_for(goes_on, 20, "records of the new topic")
