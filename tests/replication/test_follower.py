"""The followers of one leader: what they ask for, and what answers do to their logs."""

from typing import Any

from tests.log.helpers import NOW, batch
from tests.log.simdisk import SimDisk
from tests.support.partitions import new_partition

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.batch import assign
from ottla.replication.follower import FIRST_REST_MS, Fetcher, Limits, Progress
from ottla.replication.leader import HighWatermarkAdvanced
from ottla.replication.partition import Partition
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TOPIC_ID = b"i" * 16
SESSION = 77


def partition(index: int = 0, *, epoch: int = 3, **config: Any) -> Partition:
    """A follower of broker 1 on broker 2, with an empty log."""
    disk, id = SimDisk(), TopicPartition("t", index)
    folder = f"/data/{id}"
    disk.make_directory(folder)
    log = Log.open(disk, folder, id, LogConfig(**config), now_ms=NOW)
    made = new_partition(log, id, TOPIC_ID, broker_id=2)
    made.on_state(leader=1, leader_epoch=epoch, isr=(1, 2), replicas=(1, 2))
    return made


def fetcher(*partitions: Partition, backoff_ms: int = 1_000) -> Fetcher:
    made = Fetcher(2, 1, Limits(backoff_ms=backoff_ms))
    for one in partitions:
        made.follow(one)
    return made


def records(base: int, *values: str, epoch: int = 3) -> bytes:
    view = batch(*values)
    assign(view, base, epoch)
    return bytes(view)


def answer(index: int = 0, **fields: Any) -> PartitionData:
    given = {"high_watermark": 0, "records": b"", "log_start_offset": 0} | fields
    return PartitionData(partition_index=index, **given)


def ask(one: Fetcher, now_ms: int = NOW) -> Any:
    return one.next_request(now_ms, broker_epoch=9)


def wanted(request: FetchRequest) -> list[tuple[int, int, int, int]]:
    return [
        (part.partition, part.current_leader_epoch, part.fetch_offset, part.last_fetched_epoch)
        for topic in request.topics
        for part in topic.partitions
    ]


def take(one: Fetcher, request: Any, *parts: PartitionData, now_ms: int = NOW, **fields: Any) -> Progress:
    fields = {"session_id": SESSION} | fields
    topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(parts))] if parts else []
    return one.on_answer(request, FetchResponse(responses=topics, **fields), now_ms)


def starts(one: Fetcher, request: Any, offset: int, code: int = 0, now_ms: int = NOW) -> Progress:
    found = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=code)
    topic = ListOffsetsTopicResponse(name="t", partitions=[found])
    return one.on_answer(request, ListOffsetsResponse(topics=[topic]), now_ms)


def test_it_asks_for_the_end_of_its_log_in_the_epoch_it_knows() -> None:
    request = ask(fetcher(partition(1), partition(0)))
    assert wanted(request) == [(0, 3, 0, -1), (1, 3, 0, -1)]
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 9)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 << 20)


def test_one_request_is_under_way() -> None:
    one = fetcher(partition())
    assert ask(one) is not None
    assert ask(one) is None
    assert one.next_ms() is None


def test_records_go_into_the_log_and_the_next_request_goes_on_after_them() -> None:
    followed = partition()
    one = fetcher(followed)
    progress = take(one, ask(one), answer(records=records(0, "a", "b"), high_watermark=1))
    assert progress.effects == [(followed, (HighWatermarkAdvanced(1),))]
    assert progress.bytes == {followed.topic_partition: len(records(0, "a", "b"))}
    assert (followed.log.log_end_offset, followed.high_watermark) == (2, 1)
    request = ask(one)
    assert wanted(request) == [(0, 3, 2, 3)]
    assert (request.session_id, request.session_epoch) == (SESSION, 1)


def test_the_high_watermark_is_no_further_than_its_own_log() -> None:
    followed = partition()
    one = fetcher(followed)
    take(one, ask(one), answer(records=records(0, "a"), high_watermark=9))
    assert followed.high_watermark == 1


def test_without_a_session_every_request_is_full() -> None:
    one = fetcher(partition())
    take(one, ask(one), answer(), session_id=0)
    assert wanted(ask(one)) == [(0, 3, 0, -1)]


def test_what_has_not_changed_is_not_repeated_and_what_is_dropped_is_forgotten() -> None:
    one = fetcher(partition(0), partition(1))
    take(one, ask(one), answer(0), answer(1))
    request = ask(one)
    assert (wanted(request), request.forgotten_topics_data) == ([], [])
    one.drop(TopicPartition("t", 1))
    take(one, request)
    (forgotten,) = ask(one).forgotten_topics_data
    assert (forgotten.topic_id, forgotten.partitions) == (TOPIC_ID, [1])


def test_a_session_error_begins_a_new_session_at_once() -> None:
    one = fetcher(partition())
    take(one, ask(one), answer())
    take(one, ask(one), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
    request = ask(one)
    assert (request.session_id, request.session_epoch, wanted(request)) == (0, 0, [(0, 3, 0, -1)])


def test_another_error_of_the_whole_request_rests() -> None:
    one = fetcher(partition())
    take(one, ask(one), error_code=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=0)
    assert ask(one) is None
    assert one.next_ms() == NOW + FIRST_REST_MS


def test_without_an_answer_it_rests_longer_each_time_up_to_the_backoff() -> None:
    one, now_ms, rests = fetcher(partition(), backoff_ms=60), NOW, []
    for _ in range(4):
        one.on_answer(ask(one, now_ms), None, now_ms)
        due_ms = one.next_ms()
        assert due_ms is not None
        assert ask(one, due_ms - 1) is None
        rests.append(due_ms - now_ms)
        now_ms = due_ms
    assert rests == [25, 50, 60, 60]
    take(one, ask(one, now_ms), answer(), now_ms=now_ms)
    assert one.failures == 0


def test_a_partition_with_an_error_rests_and_the_others_go_on() -> None:
    one = fetcher(partition(0), partition(1))
    take(one, ask(one), answer(0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH), answer(1))
    request = ask(one)
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    assert request.max_wait_ms == FIRST_REST_MS, "it comes back in time"
    take(one, request, now_ms=NOW + FIRST_REST_MS)
    assert wanted(ask(one, NOW + FIRST_REST_MS)) == [(0, 3, 0, -1)]


def test_if_all_rest_nothing_is_sent_until_one_is_due() -> None:
    one = fetcher(partition())
    take(one, ask(one), answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert ask(one) is None
    assert one.next_ms() == NOW + FIRST_REST_MS
    request = ask(one, NOW + FIRST_REST_MS)
    assert request.session_epoch == 0, "a session that wanted nothing is gone"


def test_a_new_epoch_ends_the_rest() -> None:
    followed = partition()
    one = fetcher(followed)
    take(one, ask(one), answer(error_code=ErrorCode.FENCED_LEADER_EPOCH))
    followed.on_state(leader=1, leader_epoch=4, isr=(1, 2), replicas=(1, 2))
    one.follow(followed)
    assert wanted(ask(one)) == [(0, 4, 0, -1)]


def test_an_answer_for_another_epoch_is_dropped_faults_1_rule_2() -> None:
    followed = partition()
    one = fetcher(followed)
    request = ask(one)
    followed.on_state(leader=1, leader_epoch=4, isr=(1, 2), replicas=(1, 2))
    one.follow(followed)
    take(one, request, answer(records=records(0, "a")))
    assert followed.log.log_end_offset == 0
    assert wanted(ask(one)) == [(0, 4, 0, -1)]


def test_an_answer_for_what_is_no_longer_followed_is_dropped() -> None:
    followed = partition()
    one = fetcher(followed)
    request = ask(one)
    one.drop(followed.topic_partition)
    take(one, request, answer(records=records(0, "a")))
    assert followed.log.log_end_offset == 0
    assert ask(one) is None


def test_where_logs_part_is_cut_and_asked_again_faults_2_2() -> None:
    followed = partition(epoch=9)
    for base, epoch in ((0, 1), (1, 2), (2, 4)):
        followed.log.append_batches(memoryview(records(base, "x", epoch=epoch)), NOW)
    one = fetcher(followed)
    request = ask(one)
    assert wanted(request) == [(0, 9, 3, 4)]
    take(one, request, answer(diverging_epoch=EpochEndOffset(epoch=3, end_offset=8)))
    request = ask(one)
    assert wanted(request) == [(0, 9, 2, 2)], "epoch 3 is unknown here: the end of 2, and ask again"
    take(one, request, answer(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1)))
    assert wanted(ask(one)) == [(0, 9, 1, 1)]


def test_a_leader_whose_epochs_all_came_later_has_nothing_in_common() -> None:
    followed = partition(epoch=9)
    followed.log.append_batches(memoryview(records(0, "x", epoch=4)), NOW)
    one = fetcher(followed)
    take(one, ask(one), answer(diverging_epoch=EpochEndOffset(epoch=2, end_offset=0)))
    assert wanted(ask(one)) == [(0, 9, 0, -1)]


def test_the_watermark_does_not_decide_where_to_cut_faults_2_1() -> None:
    followed = partition(epoch=9)
    followed.log.append_batches(memoryview(records(0, "a", "b")), NOW)
    assert followed.high_watermark == 0
    one = fetcher(followed)
    assert wanted(ask(one)) == [(0, 9, 2, 3)]


def test_out_of_range_asks_where_the_leader_begins_and_starts_over_there() -> None:
    followed = partition()
    followed.log.append_batches(memoryview(records(0, "a")), NOW)
    one = fetcher(followed)
    take(one, ask(one), answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1))
    request = ask(one)
    assert isinstance(request, ListOffsetsRequest)
    (asked,) = request.topics[0].partitions
    assert (request.replica_id, asked.timestamp, asked.current_leader_epoch) == (2, -2, 3)
    progress = starts(one, request, 50)
    assert (progress.effects, progress.failed) == ([], {})
    assert (followed.log.log_start_offset, followed.log.log_end_offset, followed.high_watermark) == (
        50,
        50,
        50,
    )
    assert wanted(ask(one)) == [(0, 3, 50, -1)]


def test_a_start_that_is_not_told_is_asked_for_again_after_a_rest() -> None:
    followed = partition()
    one = fetcher(followed)
    take(one, ask(one), answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    starts(one, ask(one), -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert ask(one) is None
    due_ms = one.next_ms()
    assert due_ms is not None
    assert due_ms > NOW
    assert isinstance(ask(one, due_ms), ListOffsetsRequest)
    one.on_answer(ListOffsetsRequest(replica_id=2), None, due_ms)
    due_ms = one.next_ms()
    assert due_ms is not None
    assert isinstance(ask(one, due_ms), FetchRequest), "perhaps it is no longer so"


def test_a_start_of_another_epoch_is_dropped() -> None:
    followed = partition()
    followed.log.append_batches(memoryview(records(0, "a")), NOW)
    one = fetcher(followed)
    take(one, ask(one), answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    request = ask(one)
    followed.on_state(leader=1, leader_epoch=4, isr=(1, 2), replicas=(1, 2))
    one.follow(followed)
    starts(one, request, 50)
    assert followed.log.log_end_offset == 1


def test_a_log_that_must_sync_holds_up_the_next_request() -> None:
    followed = partition(flush_messages=1)
    one = fetcher(followed)
    take(one, ask(one), answer(records=records(0, "a")))
    assert ask(one) is None
    sync = followed.log.next_sync(NOW)
    assert sync is not None
    followed.log.on_synced(sync, NOW)
    assert wanted(ask(one)) == [(0, 3, 1, 3)]


def test_bytes_that_changed_on_the_way_are_not_taken() -> None:
    followed = partition()
    one = fetcher(followed)
    broken = bytearray(records(0, "a"))
    broken[-1] ^= 1
    take(one, ask(one), answer(records=bytes(broken)))
    assert followed.log.log_end_offset == 0
    assert ask(one) is None, "it rests"


def test_the_start_of_the_log_follows_the_leaders_as_far_as_is_committed() -> None:
    followed = partition()
    one = fetcher(followed)
    progress = take(
        one, ask(one), answer(records=records(0, "a", "b", "c"), high_watermark=2, log_start_offset=3)
    )
    assert followed.log.log_start_offset == 2
    assert progress.effects == [(followed, (HighWatermarkAdvanced(2),))]


def test_who_is_throttled_is_left_out_until_there_is_room() -> None:
    full = [True]
    one = Fetcher(
        2, 1, Limits(), is_throttled=lambda one, _now_ms: full[0] and one.topic_partition.partition == 0
    )
    for index in (0, 1):
        one.follow(partition(index))
    request = ask(one)
    assert [index for index, *_ in wanted(request)] == [1]
    take(one, request, answer(1))
    full[0] = False
    assert [index for index, *_ in wanted(ask(one))] == [0]


def test_if_all_are_throttled_it_looks_again_later() -> None:
    one = Fetcher(2, 1, Limits(), is_throttled=lambda _one, _now_ms: True)
    one.follow(partition())
    assert ask(one) is None
    assert one.next_ms() == NOW + 500


def test_the_lag_is_what_is_committed_at_the_leader_and_not_here() -> None:
    replica = partition()
    followers = fetcher(replica)
    take(followers, ask(followers), answer(records=records(0, "a"), high_watermark=9))
    assert followers.followed[replica.topic_partition].lag == 8
    take(followers, ask(followers), answer(records=records(1, "b"), high_watermark=1))
    assert followers.followed[replica.topic_partition].lag == 0


def test_what_leaders_answer_instead_of_records_is_told() -> None:
    errors: list[str] = []
    followers = Fetcher(2, 1, Limits(), on_error=errors.append)
    followers.follow(partition())
    followers.on_answer(ask(followers), None, NOW)
    later_ms = NOW + 10_000
    take(
        followers, ask(followers, later_ms), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, now_ms=later_ms
    )
    failed = answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    take(followers, ask(followers, later_ms), failed, now_ms=later_ms)
    assert errors == ["NETWORK_EXCEPTION", "FETCH_SESSION_ID_NOT_FOUND", "NOT_LEADER_OR_FOLLOWER"]
