"""Known bugs of transactions, to be planted (`plants`): forgotten rules of KIP-98, KIP-447 and KIP-890.
They are looked for in seeds that have transactions."""

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from tests.sim.plants import Plant

from ottla.api.transactional_produce import Verifying
from ottla.group.transactional_offsets import PendingOffsets
from ottla.log.segment_list import SegmentList
from ottla.replication.partition import Partition
from ottla.txn.shard import TransactionShard
from ottla.txn.transaction import NO_ID

TRANSACTION_PLANTS: dict[str, Plant] = {}
EVERYTHING = 1 << 60


def _plant(text: str) -> Any:
    def keep(planted: Plant) -> Plant:
        TRANSACTION_PLANTS[text] = planted
        return planted

    return keep


def _replace(stack: ExitStack, where: Any, name: str, new: Any) -> None:
    stack.enter_context(patch.object(where, name, new))


# The coordinator


@_plant("an end is complete with its first marker")
def _first_marker(stack: ExitStack) -> None:
    original = TransactionShard.on_markers_written

    def on_markers_written(self: TransactionShard, turn: Any, ended: Any, partitions: Any) -> None:
        original(self, turn, ended, ended.partitions if partitions else partitions)

    _replace(stack, TransactionShard, "on_markers_written", on_markers_written)


@_plant("markers are sent before their end is committed")
def _early_markers(stack: ExitStack) -> None:
    original = TransactionShard._send_committed

    def send_committed(self: TransactionShard) -> None:
        self._committed_below = EVERYTHING
        original(self)

    _replace(stack, TransactionShard, "_send_committed", send_committed)


@_plant("an end does not move the epoch on")
def _same_epoch(stack: ExitStack) -> None:
    _replace(stack, TransactionShard, "_moved_on", lambda self, transaction: (transaction.epoch, NO_ID))


@_plant("a transaction that has timed out stays open")
def _no_timeout(stack: ExitStack) -> None:
    _replace(stack, TransactionShard, "_time_out", lambda self, _turn, _transactional_id: None)


# Who writes


@_plant("a batch is written whatever the coordinator says of its transaction")
def _unverified(stack: ExitStack) -> None:
    _replace(stack, Verifying, "_error", lambda self, _partition, _header: None)


# Groups


@_plant("a pending offset is forgotten")
def _forgotten_offset(stack: ExitStack) -> None:
    original = PendingOffsets.end
    _replace(stack, PendingOffsets, "end", lambda self, producer_id: original(self, producer_id)[1:])


@_plant("an offset is said to be stable while it is pending")
def _never_unstable(stack: ExitStack) -> None:
    _replace(stack, PendingOffsets, "is_unstable", lambda self, _group, _topic, _partition: False)


# Readers


@_plant("who reads committed records is given all that is replicated")
def _unstable_reads(stack: ExitStack) -> None:
    _replace(stack, Partition, "visible_end", lambda self, _read_committed: self.high_watermark)


@_plant("an answer does not say which transactions were aborted")
def _unnamed(stack: ExitStack) -> None:
    _replace(stack, SegmentList, "aborted_between", lambda self, *_between: [])
