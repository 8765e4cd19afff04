"""A consumer's fetch of one partition that has records for it: the answer, without what others need for it.

Rules: here it is only said which records there are, by the leader, to a consumer without quotas and rules.
Whatever else is to be said, and whatever has to wait, is left to `consumer_fetch`, which goes on from there:
what the log refuses is raised there, and not asked for twice.
"""

from ottla.api.partition_reads import FETCH_BYTES_MIN, Failure, named_aborted, taken
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.broker.broker import Broker
from ottla.log.cold import NOTHING_YET, ColdError
from ottla.log.epochs import NO_EPOCH
from ottla.replication.partition import Partition
from ottla.replication.sessions import NO_SESSION, Session, Wanted
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData


def respond_single(
    broker: Broker, wanted: Wanted, session: Session | None, room: int, now_ms: int, *, read_committed: bool
) -> FetchResponse | Failure | None:
    """The answer, with `room` bytes of records at most, or a first batch of any size; or why the log cannot
    be read. None: there is something else to be said."""
    partition = broker.partitions.get(wanted.topic_partition)
    offset = wanted.fetch_offset
    if partition is None or offset >= partition.high_watermark or not _is_plain(broker, partition, wanted):
        return None
    log = partition.log
    stable = partition.last_stable_offset
    end = stable if read_committed else partition.high_watermark
    if not log.log_start_offset <= offset < end:
        return None
    limit = max(min(wanted.max_bytes, room), 0)
    if broker.allowance.read_left <= 0:
        limit = min(limit, FETCH_BYTES_MIN)
    aborted = None
    try:
        if read_committed:
            read, transactions = log.read_committed(offset, limit, end=end, warmth=NOTHING_YET)
            aborted = named_aborted(broker, transactions)
        else:
            read = log.read(offset, limit, end=end, warmth=NOTHING_YET)
    except (ApiError, ColdError, OSError) as error:
        return Failure(error)
    if not read.records:
        return None
    records, traffic = taken(broker, read), partition.traffic
    traffic.fetch_requests += 1
    traffic.bytes_out += len(records)
    wanted.sent_high_watermark, wanted.sent_log_start = partition.high_watermark, log.log_start_offset
    if session is not None:
        session.answered_ms = now_ms
    answer = PartitionData(
        partition_index=wanted.partition, high_watermark=partition.high_watermark, last_stable_offset=stable,
        log_start_offset=log.log_start_offset, aborted_transactions=aborted, records=records,
    )  # fmt: skip
    topic = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[answer])
    return FetchResponse(session_id=session.id if session else NO_SESSION, responses=[topic])


def _is_plain(broker: Broker, partition: Partition, wanted: Wanted) -> bool:
    """Does it exist, lead, and agree with the consumer on epochs and ids, and do clients read what they
    get?"""
    topic, epoch = broker.image.topics.get(wanted.topic), wanted.current_leader_epoch
    return (
        topic is not None
        and wanted.partition in topic.assignment
        and partition.is_leader
        and (epoch == NO_EPOCH or epoch == partition.leader_epoch)
        and wanted.last_fetched_epoch < 0
        and (wanted.topic_id == ZERO_UUID or wanted.topic_id == partition.topic_id)
        and broker.allowance.unsent_bytes <= broker.config.unsent_bytes_max
    )
