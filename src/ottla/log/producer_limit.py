"""How many producers the partitions of a broker remember together (`ottla.producer.ids.max`).

Above that, silent ones are forgotten, first where most are. If that is not enough, the partitions that have
most take no new ones, so that a flood of ids in some of them does not shut out producers elsewhere; and half
as many again close all of them. This is looked at once a second, so that there may be a second's worth more.
Verifications of transactions are bounded alike: of too many, the oldest go where most are.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence

from ottla.base.log_fields import fields
from ottla.log.producers import SILENT_MS, Producers
from ottla.log.verifications import Verifications

log = logging.getLogger(__name__)

VERIFICATIONS_MAX = 20_000  # of all partitions, some 5 MB


class ProducerLimit:
    def __init__(self) -> None:
        self._is_reached = False

    def enforce(self, by_partition: Sequence[Producers], limit: int, now_ms: int) -> None:
        count = sum(len(producers.by_id) for producers in by_partition)
        if count > limit:
            for producers in sorted(by_partition, key=lambda producers: len(producers.by_id), reverse=True):
                count -= producers.forget_silent(count - limit, now_ms)
                if count <= limit:
                    break
        is_reached = count > limit
        if is_reached or self._is_reached:
            level = _level(by_partition, limit) if count <= limit + limit // 2 else 0
            for producers in by_partition:
                producers.is_closed = is_reached and len(producers.by_id) >= level
        if is_reached and not self._is_reached:
            log.warning(
                "new idempotent producers are refused where most are: %d have written within %d minutes, and "
                "this broker remembers %d; with more memory it can remember more (ottla.producer.ids.max)",
                count, SILENT_MS // 60_000, limit, extra=fields(setting="ottla.producer.ids.max"),
            )  # fmt: skip
        self._is_reached = is_reached
        _bound_verifications([producers.verifications for producers in by_partition])


def _bound_verifications(by_partition: Sequence[Verifications]) -> None:
    """Those that failed stay, and whoever can write makes up producers for every partition there is."""
    some = [verifications for verifications in by_partition if verifications.by_id]
    if sum(len(verifications.by_id) for verifications in some) > VERIFICATIONS_MAX:
        for verifications in some:
            verifications.forget_first(len(verifications.by_id) - max(VERIFICATIONS_MAX // len(some), 1))


def _level(by_partition: Sequence[Producers], limit: int) -> int:
    """If no partition had more than this, they would fit."""
    counts = [len(producers.by_id) for producers in by_partition]
    return bisect_right(range(max(counts)), limit, key=lambda level: sum(min(n, level) for n in counts)) - 1
