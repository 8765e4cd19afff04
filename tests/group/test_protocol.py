"""The bytes consumers agree on in the classic protocol. kio is the oracle."""

import importlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from tests.support.groups import Topics, encode_subscription, listed, topic_id

from ottla.group.protocol import (
    VERSION_MAX,
    Assignment,
    OwnedPartitions,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    read_assignment,
    version_of,
)
from ottla.wire.primitives import ProtocolError

examples = settings(max_examples=60)

topic_names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=9)
partitions = st.lists(st.integers(0, 2**31 - 1), max_size=5)
owned = st.lists(st.builds(OwnedPartitions, topic=topic_names, partitions=partitions), max_size=4)
user_data = st.none() | st.binary(max_size=20)
subscriptions = st.builds(
    Subscription,
    topics=st.lists(topic_names, max_size=4),
    user_data=user_data,
    owned_partitions=owned,
    generation_id=st.integers(-1, 2**31 - 1),
    rack_id=st.none() | topic_names,
)
assignments = st.builds(Assignment, assigned_partitions=owned, user_data=user_data)
versions = st.integers(0, VERSION_MAX)


def read_by_oracle(kind, version, encoded):
    schema = importlib.import_module(f"kio.schema.consumer_protocol_{kind}.v{version}.data")
    entity, size = entity_reader(getattr(schema, f"ConsumerProtocol{kind.title()}"))(encoded, 2)
    assert size == len(encoded) - 2
    return entity


def written_by_oracle(entity):
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return type(entity).__version__.to_bytes(2, "big") + buffer.getvalue()


def pairs(found):
    return [(each.topic, tuple(each.partitions)) for each in found]


@examples
@given(subscriptions, versions)
def test_a_subscription_reads_the_same_to_the_oracle_and_comes_back(ours, version):
    encoded = encode_subscription(ours, version)
    theirs = read_by_oracle("subscription", version, encoded)
    assert list(theirs.topics) == ours.topics
    assert theirs.user_data == ours.user_data
    if version >= 1:
        assert pairs(theirs.owned_partitions) == pairs(ours.owned_partitions)
    if version >= 2:
        assert theirs.generation_id == ours.generation_id
    if version >= 3:
        assert theirs.rack_id == ours.rack_id
    assert written_by_oracle(theirs) == encoded
    assert version_of(encoded) == version
    again = decode_subscription(encoded)
    assert (again.topics, again.user_data) == (ours.topics, ours.user_data)
    if version == VERSION_MAX:
        assert again == ours


@examples
@given(assignments, versions)
def test_an_assignment_reads_the_same_to_the_oracle_and_comes_back(ours, version):
    encoded = encode_assignment(ours, version)
    theirs = read_by_oracle("assignment", version, encoded)
    assert pairs(theirs.assigned_partitions) == pairs(ours.assigned_partitions)
    assert theirs.user_data == ours.user_data
    assert written_by_oracle(theirs) == encoded
    assert decode_assignment(encoded) == ours


@examples
@given(subscriptions, st.integers(VERSION_MAX + 1, 2**15 - 1), st.binary(max_size=9))
def test_a_newer_version_is_read_as_the_highest_we_know_and_what_follows_is_ignored(ours, version, more):
    newer = version.to_bytes(2, "big") + encode_subscription(ours)[2:] + more
    assert decode_subscription(newer) == ours
    assert version_of(newer) == version


@examples
@given(assignments, st.integers(VERSION_MAX + 1, 2**15 - 1))
def test_a_version_that_we_do_not_know_is_written_as_the_highest_we_do(ours, version):
    assert encode_assignment(ours, version) == encode_assignment(ours)


def test_the_bytes_are_those_of_kafka():
    assert encode_subscription(Subscription(topics=["t"]), 0) == bytes.fromhex(
        "0000 00000001 0001 74 ffffffff"
    )
    assignment = Assignment(assigned_partitions=listed({"t": {1, 0}}))
    assert encode_assignment(assignment, 1) == bytes.fromhex(
        "0001 00000001 0001 74 00000002 00000000 00000001 ffffffff"
    )


def test_no_bytes_are_no_partitions():
    assert decode_assignment(b"") == Assignment()


@pytest.mark.parametrize("encoded", [b"", b"\0", b"\xff\xff", b"\0\0", b"\0\0\0\0\0\x05\0\x01t"])
def test_what_is_not_of_the_protocol_is_refused(encoded):
    with pytest.raises(ProtocolError):
        decode_subscription(encoded)


@examples
@given(st.binary(max_size=60))
def test_hostile_bytes_are_read_or_refused(encoded):
    for read in (decode_subscription, decode_assignment):
        try:
            read(encoded)
        except ProtocolError:
            continue


def test_a_topic_that_is_assigned_twice_is_merged():
    twice = [OwnedPartitions(topic="a", partitions=[3, 0]), OwnedPartitions(topic="a", partitions=[0])]
    twice.append(OwnedPartitions(topic="b", partitions=[2, 1]))
    encoded = encode_assignment(Assignment(assigned_partitions=twice))
    topics = Topics(a=4, b=3)
    assert read_assignment(encoded, topics) == {topic_id("a"): {0, 3}, topic_id("b"): {1, 2}}
