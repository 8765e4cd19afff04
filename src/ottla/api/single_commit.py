"""An OffsetCommit of one partition that can be answered at once: stored, without what others need on the way.

Rules: here it is only said that all went well. What may not be committed `offset_commit` finds out again,
and says so. What was stored, or could not be, is not stored again: `offset_commit` goes on with what came of
it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.api.offset_commit import offset_commit
from ottla.broker.broker import Broker
from ottla.broker.operations import Tried
from ottla.broker.request_meter import RequestMeter
from ottla.coordinator.turn import Answer
from ottla.group.commits import Commit, OffsetToCommit
from ottla.wire.header import RequestHeader
from ottla.wire.single_commit import OFFSET_COMMIT, READERS, answer_to


def commit_single(
    broker: Broker, header: RequestHeader, frame: memoryview, at: int, now_ms: int, meter: RequestMeter
) -> bytes | Callable[..., Any] | None:
    """The answer to a request that nobody has to be asked about, as a frame; or the handler that goes on with
    it. None: nothing was done, and the usual handler does it."""
    version = header.api_version
    read, groups = READERS.get(version), broker.coordinators.groups_here
    if read is None or groups is None or meter.usage is not None or broker.proofs.in_doubt:
        return None
    single = read(bytes(frame[at:]), version)
    if single is None:
        return None
    group_id, epoch, member_id, instance_id, topic, index, offset, leader_epoch, metadata = single
    image = broker.image
    name = topic if isinstance(topic, str) else image.topic_names.get(topic, "")
    listed = image.topics.get(name)
    if listed is None or index not in listed.assignment or not group_id:
        return None
    if metadata and len(metadata) > groups.config.metadata_bytes_max:
        return None
    topic_partition = groups.partition_of(group_id)
    partition = broker.partitions.get(topic_partition)
    loaded = groups.runtime.shards.get(topic_partition.partition)
    if loaded is None or partition is None or partition.replication is not None:
        return None
    to_commit = tuple.__new__(OffsetToCommit, (name, index, offset, leader_epoch, metadata or ""))
    commit = Commit(
        group_id=group_id, member_id=member_id, instance_id=instance_id, epoch=epoch, retention_ms=-1,
        offsets=[to_commit], version=version,
    )  # fmt: skip
    runtime, answer = groups.runtime, Answer()
    turn = runtime.turn(loaded, now_ms)
    try:
        loaded.shard.commit_offsets(turn, answer, commit, None)
    except Exception:  # noqa: BLE001 - it is raised again where commits are refused
        return None
    try:
        runtime.complete(loaded, turn)
    except Exception as error:  # noqa: BLE001 - likewise
        return partial(offset_commit, tried=Tried(answer, error))
    if partition.high_watermark < answer.after_offset or not partition.is_leader:
        return partial(offset_commit, tried=Tried(answer))
    counts = broker.requests.by_key.get(OFFSET_COMMIT) or broker.requests.of(OFFSET_COMMIT, "OffsetCommit")
    meter.begin(counts, version, len(frame))
    reply = answer_to(version, header.correlation_id, topic, index)
    counts.answer_bytes += len(reply) - 4
    return reply
