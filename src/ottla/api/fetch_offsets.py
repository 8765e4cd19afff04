"""Whether a log can be read from the offset a fetcher asks for, and where the fetcher's log parts from it."""

from ottla.base.errors import ApiError, ErrorCode
from ottla.replication.partition import Partition
from ottla.replication.sessions import Wanted
from ottla.wire.messages.fetch import EpochEndOffset


def check_offset(partition: Partition, one: Wanted) -> None:
    """A replica that does not lead cannot know where the log ends: there may be more than it has."""
    log = partition.log
    if log.log_start_offset <= one.fetch_offset <= log.log_end_offset:
        return
    if log.log_end_offset < one.fetch_offset and not partition.is_leader:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)


def diverging(partition: Partition, one: Wanted) -> EpochEndOffset | None:
    """Where the fetcher's log and ours part, if they do (KIP-595, KIP-320)."""
    if one.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.end_offset_for_epoch(one.last_fetched_epoch)
    if epoch < 0 or one.fetch_offset < partition.log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < one.last_fetched_epoch or end_offset < one.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
