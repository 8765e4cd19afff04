"""Known bugs, to be planted: each is how somebody lost data, or how a rule of ours could be forgotten.

A plant is a patch of the code under test. Whoever checks the checkers runs seeds with it until one fails.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from tests.sim.keeper_client import KeeperClient

from ottla.api import consumer_fetch, follower_fetch, offset_fetch
from ottla.api.dispatch import Exchange
from ottla.api.produce import Appending, Produce
from ottla.base.errors import ErrorCode
from ottla.broker import controller_writes
from ottla.broker.effects import Reply
from ottla.broker.identities import Identities
from ottla.broker.long_work import Slices
from ottla.broker.operations import Operation
from ottla.controller import draft, election
from ottla.controller.election import Around, Rule
from ottla.controller.keeper import ANY, Put
from ottla.coordinator.runtime import Journal, Loaded, Runtime
from ottla.log.log import Log
from ottla.log.validation import Checked, LargeCheck
from ottla.replication.leader import Leader
from ottla.replication.partition import LeaderChanged, Partition
from ottla.security.peer_handshake import Acceptor

Plant = Callable[[ExitStack], None]
PLANTS: dict[str, Plant] = {}
PASSED_OVER = {  # few seeds find these: where the search begins, so that it is short
    "a restarted leader leads on": 250,
    "markers are sent before their end is committed": 160,
    "an offset is said to be stable while it is pending": 55,
}


def plant(text: str) -> Callable[[Plant], Plant]:
    def keep(one: Plant) -> Plant:
        PLANTS[text] = one
        return one

    return keep


def _replace(stack: ExitStack, where: Any, name: str, new: Any) -> None:
    stack.enter_context(patch.object(where, name, new))


# The leader


@plant("the watermark counts the written ISR only")
def _written_only(stack: ExitStack) -> None:
    _replace(stack, Leader, "isr_maximal", property(lambda self: self.isr))


@plant("an ISR proposal is trusted before it is written")
def _proposed_only(stack: ExitStack) -> None:
    def believed(self: Leader) -> dict[int, int]:
        return self.isr if self.pending is None else self.pending

    _replace(stack, Leader, "isr_maximal", property(believed))


@plant("the watermark moves with too few in sync")
def _below_min(stack: ExitStack) -> None:
    original = Leader._advance

    def advance(self: Leader) -> Any:
        isr_min, has_eligible = self.isr_min, self.has_eligible
        self.isr_min, self.has_eligible = 0, False
        try:
            return original(self)
        finally:
            self.isr_min, self.has_eligible = isr_min, has_eligible

    _replace(stack, Leader, "_advance", advance)


@plant("a follower enters the ISR wherever it is")
def _early_entry(stack: ExitStack) -> None:
    def maybe_expand(self: Leader, follower_id: int, now_ms: int) -> Any:
        if follower_id in self.isr or self.pending is not None:
            return ()
        return self._propose({**self.isr, follower_id: self.followers[follower_id].broker_epoch})

    _replace(stack, Leader, "_maybe_expand", maybe_expand)


@plant("an answer does not wait for the watermark")
def _early_answer(stack: ExitStack) -> None:
    _replace(stack, Partition, "is_acknowledged", lambda self, end_offset, acks: True)


@plant("an answer is given after leadership was lost")
def _late_answer(stack: ExitStack) -> None:
    def ready(self: Produce, _key: Any, _now_ms: int) -> Any:
        done = all(one.partition.is_acknowledged(one.end_offset, self.acks) for one in self.unsafe)
        return self.response if done else None

    _replace(stack, Produce, "ready", ready)


@plant("a coordinator answers before its records are committed")
def _early_coordinator(stack: ExitStack) -> None:
    _replace(stack, Operation, "_sendable", lambda self, _now_ms: self._answer.reply)


@plant("a new coordinator answers from what it knows to be committed so far")
def _unsettled_coordinator(stack: ExitStack) -> None:
    _replace(stack, offset_fetch, "check_coordinator", lambda _call, _group_id, _now_ms: None)
    _replace(stack, offset_fetch, "answer_about_groups", lambda call, _ids, respond: respond(call.now_ms))


@plant("a broker takes it for granted that it still leads")
def _unproven(stack: ExitStack) -> None:
    _replace(stack, Partition, "led_at", lambda self, _time_ms, _now_ms: self.is_leader)


@plant("a coordinator answers before it is loaded")
def _half_loaded(stack: ExitStack) -> None:
    original = Runtime.load

    def load(self: Runtime[Any], index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        original(self, index, journal, leader_epoch, now_ms)
        if half := self.loading.get(index):
            self.shards[index] = Loaded(index, half.shard, journal, leader_epoch)

    _replace(stack, Runtime, "load", load)


# Followers


@plant("a new leader shows its high watermark at once")
def _unsettled(stack: ExitStack) -> None:
    _replace(stack, Partition, "is_settled", property(lambda self: True))


@plant("logs that part are not cut")
def _no_truncation(stack: ExitStack) -> None:
    for module in (consumer_fetch, follower_fetch):
        _replace(stack, module, "diverging", lambda _partition, _wanted: None)


@plant("a follower cuts its log at its high watermark")
def _truncate_to_watermark(stack: ExitStack) -> None:
    original = Partition.on_state

    def on_state(self: Partition, **state: Any) -> Any:
        effects = original(self, **state)
        if LeaderChanged() in effects and not self.is_leader:
            self.log.truncate_to(self.high_watermark, state["now_ms"])
        return effects

    _replace(stack, Partition, "on_state", on_state)


@plant("a leader's epoch begins with its first record")
def _late_epoch(stack: ExitStack) -> None:
    _replace(stack, Log, "assign_epoch", lambda self, _epoch: None)


@plant("a follower's epoch is not compared with the leader's")
def _no_fencing(stack: ExitStack) -> None:
    _replace(stack, Partition, "check_epoch", lambda self, _epoch: None)


# Who is a broker


@plant("whoever says that it is a broker is taken for one")
def _gullible(stack: ExitStack) -> None:
    _replace(stack, Identities, "may_act_as", lambda self, _connection, _broker: True)


@plant("whoever was answered once is taken for a broker")
def _easily_proved(stack: ExitStack) -> None:
    _replace(stack, Acceptor, "verify", lambda self, _code: struct.unpack_from(">i", self.opening)[0])


# The controller


@plant("whoever is there may lead")
def _unclean(stack: ExitStack) -> None:
    def elect(state: Any, around: Around) -> Any:
        found = around.first(around.replicas)
        return None if found is None else (found, Rule.ISR)

    _replace(stack, election, "elect", elect)


@plant("a restart is taken for a clean one")
def _always_clean(stack: ExitStack) -> None:
    _replace(stack, Around, "holds", lambda self, member, _epoch: member in self.there)


@plant("a restarted leader leads on")
def _leads_on(stack: ExitStack) -> None:
    original = Partition.on_state

    def on_state(self: Partition, **state: Any) -> Any:
        return original(self, **{**state, "isr_epochs": ()})

    _replace(stack, Partition, "on_state", on_state)


@plant("a controller that lost its seat can still write")
def _zombie_controller(stack: ExitStack) -> None:
    original = draft.Draft.operations

    def operations(self: Any) -> list[Any]:
        return [Put(one.path, one.data, ANY) for one in original(self)]

    _replace(stack, KeeperClient, "forgets_writes", False)
    _replace(stack, draft.Draft, "operations", operations)
    _replace(stack, controller_writes, "fence", lambda _image: [])
    _replace(stack, controller_writes, "same_topics", lambda _image: [])


# What takes its time


@plant("an answer is given twice")
def _twice(stack: ExitStack) -> None:
    original = Exchange._late

    def late(self: Exchange, steps: Any) -> Iterator[Any]:
        yield from original(self, steps)
        effects = self.broker.outbox.effects
        effects += [one for one in effects[-1:] if isinstance(one, Reply)]

    _replace(stack, Exchange, "_late", late)


@plant("a request that was given up is served on, and answered")
def _never_dropped(stack: ExitStack) -> None:
    _replace(stack, Slices, "drop", lambda self, _owner: None)


@plant("a large request that was given up keeps its turn")
def _turn_kept(stack: ExitStack) -> None:
    original = Slices.drop

    def drop(self: Slices, owner: Any) -> None:
        lines = [lane.large for lane in (self.brokers, self.clients)]
        taken = [dict(line.under_way) for line in lines]
        original(self, owner)
        for line, under_way in zip(lines, taken, strict=True):
            line.under_way = under_way

    _replace(stack, Slices, "drop", drop)


@plant("what was checked apart is appended, whoever leads by then")
def _checked_for_another(stack: ExitStack) -> None:
    original = Partition._check_writable

    def append(self: Partition, records: Any, *, acks: int, **how: Any) -> Any:
        if not isinstance(records, Checked):
            original(self, acks)
        appended = self.log.append(records, leader_epoch=self.leader_epoch, **how)
        return appended, () if appended.duplicate else self.advance()

    _replace(stack, Partition, "append", append)


@plant("a batch is checked apart in the frame it came in")
def _no_copy(stack: ExitStack) -> None:
    original = LargeCheck.__init__

    def begin(self: LargeCheck, validator: Any, view: memoryview, *about: Any) -> None:
        original(self, validator, view, *about)
        self._arguments = (view, *about[:2])

    _replace(stack, LargeCheck, "__init__", begin)


@plant("a batch whose time is up is said to be written")
def _expired_well(stack: ExitStack) -> None:
    original = Appending._expire

    def expire(self: Appending, call: Any) -> Any:
        answer = original(self, call)
        for topic in self.ongoing.response.responses:
            for reply in topic.partition_responses:
                if reply.error_code == ErrorCode.REQUEST_TIMED_OUT:
                    reply.error_code, reply.base_offset = 0, 0
        return answer

    _replace(stack, Appending, "_expire", expire)


@plant("who parks an answer does not say that something is due")
def _silent_park(stack: ExitStack) -> None:
    original = Exchange.park

    def park(self: Exchange, parked: Any) -> None:
        original(self, parked)
        self.broker.outbox.is_stirred = False

    _replace(stack, Exchange, "park", park)
