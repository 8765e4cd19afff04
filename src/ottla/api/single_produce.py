"""A Produce with one batch that can be answered at once: into its log, without what others need on the way.

Rules: here it is only said that all went well. Whatever else came of the batch, and whatever has to wait, is
left to `produce`, which goes on from there; a batch is never tried twice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.api.produce import ATTRIBUTES_AT, PRODUCE, Tried, count_produced, produce
from ottla.base.ids import INTERNAL_TOPICS, TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.request_meter import RequestMeter
from ottla.log.log import Appended
from ottla.log.validation import budget_at_once
from ottla.records.batch import HEADER_SIZE, TRANSACTIONAL
from ottla.replication.partition import Partition
from ottla.wire.header import RequestHeader
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.single_batch import READERS, Single, answer_to, request_of


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A request, and the handler that goes on with it."""

    request: ProduceRequest
    handler: Callable[..., Any]


def produce_single(
    broker: Broker, header: RequestHeader, frame: memoryview, at: int, now_ms: int, meter: RequestMeter
) -> bytes | Unfinished | None:
    """The answer to a request of a client without quotas, as a frame. None: it has not just one batch."""
    version = header.api_version
    read = READERS.get(version)
    single = read and read(frame, at)
    if single is None:
        return None
    acks, _, topic, index, records = single
    name = topic if isinstance(topic, str) else broker.image.topic_names.get(topic, "")
    partition = broker.partitions.get(tuple.__new__(TopicPartition, (name, index)))
    if partition is None or not _is_plain(broker, partition, acks, name, records):
        return Unfinished(request_of(single), produce)
    allowance = broker.allowance
    budget = budget_at_once(len(records), allowance.items_left)
    share = budget.items
    allowance.items_left -= share
    try:
        appended = broker.replicas.append(
            partition, records, acks=acks, now_ms=now_ms, wall_ms=broker.storage.wall_ms(now_ms),
            produce_version=version, budget=budget,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - it is raised again where batches are refused
        return _unfinished(single, error, share)
    finally:
        allowance.items_left += max(budget.items, 0)
    base_offset, last_offset, time_ms, start, _ = appended
    if not partition.is_acknowledged(last_offset + 1, acks) or (
        acks == 1 and not broker.proofs.led_at(partition, now_ms, now_ms)
    ):
        return _unfinished(single, appended, share)
    count_produced(partition, appended, len(records))
    counts = broker.requests.by_key.get(PRODUCE) or broker.requests.of(PRODUCE, "Produce")
    meter.begin(counts, version, len(frame))
    answer = answer_to(version, header.correlation_id, topic, index, base_offset, time_ms, start)
    counts.answer_bytes += len(answer) - 4
    return answer


def _is_plain(broker: Broker, partition: Partition, acks: int, name: str, records: memoryview) -> bool:
    """Does nothing have to be asked or awaited for it?"""
    return (
        (acks == 1 or (acks == -1 and partition.replication is None))
        and broker.access.authorizer is None
        and not broker.proofs.in_doubt
        and not broker.store.lost
        and name not in INTERNAL_TOPICS
        and len(records) >= HEADER_SIZE
        and not records[ATTRIBUTES_AT] & TRANSACTIONAL
    )


def _unfinished(single: Single, outcome: Appended | Exception, share: int) -> Unfinished:
    return Unfinished(request_of(single), partial(produce, tried=Tried(outcome, share)))
