"""Markers that end a transaction, and control records in general."""

import struct

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.batch import assign, read_header
from ottla.records.control import ControlType, EndTransaction, build_marker, control_type, read_marker
from ottla.records.record import read_records


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_a_control_batch_of_one_record_without_a_sequence(committed):
    batch = build_marker(5, 3, committed, coordinator_epoch=12, timestamp_ms=1000)
    assign(batch, 70, 2)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, -1)
    assert (header.base_offset, header.count, header.leader_epoch) == (70, 1, 2)
    (record,) = read_records(batch)
    assert (record.offset, record.timestamp) == (70, 1000)
    assert read_marker(record.key, record.value) == EndTransaction(committed, 12)


@pytest.mark.parametrize(("committed", "theirs"), [(True, COMMIT_MARKER), (False, ABORT_MARKER)])
def test_aiokafka_understands_our_markers(committed, theirs):
    batch = build_marker(1, 0, committed, coordinator_epoch=0, timestamp_ms=0)
    assert ControlRecord.parse(read_records(batch)[0].key) == theirs


def test_a_type_we_do_not_know_is_something_to_skip():
    assert control_type(struct.pack(">hh", 0, 6)) is ControlType.UNKNOWN
    assert control_type(struct.pack(">hh", 0, -1)) is ControlType.UNKNOWN
    assert read_marker(struct.pack(">hh", 0, 2), None) is None


def test_a_later_version_with_more_fields_is_read_as_this_one():
    key = struct.pack(">hhi", 1, 1, 99)
    assert read_marker(key, struct.pack(">hiq", 1, 8, 99)) == EndTransaction(True, 8)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\x00\x00\x00", None),
        (struct.pack(">hh", -1, 0), struct.pack(">hi", 0, 1)),
        (struct.pack(">hh", 0, 0), None),
        (struct.pack(">hh", 0, 0), b"\x00\x00\x00\x00\x01"),
        (struct.pack(">hh", 0, 0), struct.pack(">hi", -1, 1)),
    ],
)
def test_a_malformed_marker_is_an_invalid_record(key, value):
    with pytest.raises(ApiError) as caught:
        read_marker(key, value)
    assert caught.value.code is ErrorCode.INVALID_RECORD
