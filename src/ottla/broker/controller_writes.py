"""What the controller writes: the states of topics, as they should be.

Rules
- Every write checks the controller's epoch, so that what an earlier controller still writes is refused
  (KAFKA-3083), and that no topic was deleted since.
- After a change of the image the topics it touches are looked at, all of them when a broker came or went,
  when the seat was taken, and from time to time. What should be another is written: one write at a time for
  a topic, several topics in one write.
- To a partition that another can lead, whoever is suspected is not there (design note 008).
- Whoever asks for a change (AlterPartition, ElectLeaders, reassignments, our own timers) waits in `asked` for
  the topic's turn, decides on the draft that is then made, and is told when the draft is written. A request
  about several partitions is answered once, when all are settled (`Asks`); a broker that is not the
  controller refuses it with NOT_CONTROLLER.
- A leader that is told INELIGIBLE_REPLICA takes its proposal for never written. So the keeper confirms first
  that the state is the one we refused on: an earlier controller may have written what we have not seen.
- A write that was refused, or whose answer was lost, is planned again from the image: after the next
  change, or on the next tick.
- A hundred thousand partitions are not looked at in one go: after LOOKED_MAX others have their turn, and
  `next_ms` says that there is more.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.controller_events import ControllerEvents
from ottla.broker.controller_seat import Seat
from ottla.broker.liveness import Liveness
from ottla.broker.outbox import Outbox
from ottla.broker.parked import Key, Parked, Waiting
from ottla.broker.settings import Settings
from ottla.controller import image as images
from ottla.controller import znodes
from ottla.controller.causes import Reason
from ottla.controller.draft import Draft
from ottla.controller.image import Image
from ottla.controller.isr import NEVER_WRITTEN, Proposal, propose
from ottla.controller.keeper import Check, Operation, Outcome, Put, Unknown, Written
from ottla.controller.plan import elect_preferred, imbalanced, is_settled, repair
from ottla.controller.reachability import is_reported
from ottla.controller.topics import fence, same_topics

log = logging.getLogger(__name__)

R = TypeVar("R")

LOOK_INTERVAL_MS = 5_000  # at everything, whether something changed or not
WRITE_TOPICS_MAX = 64
WRITE_BYTES_MAX = 256 << 10  # ZooKeeper refuses a request of 1 MiB
WRITES_IN_FLIGHT_MAX = 4
LOOKED_MAX = 4_000  # partitions in one go: about 5 ms
BALANCED_MAX = 1_000  # partitions that are asked for in one go
TOPIC_COST = 4  # a topic takes as long as so many partitions, whatever it has
PLANNED_FACTOR = 4  # to plan a topic takes so much longer than to see that it is settled


@dataclass(slots=True, eq=False)
class Ask:
    """A change of a topic that somebody wants. `decide` makes it in the draft, or raises an ApiError;
    `settle` is called once, when it is written, with the draft, or with what is wrong."""

    topic: str
    decide: Callable[[Draft], None]
    settle: Callable[[Draft | None, ApiError | None, int], None]
    is_dropped: bool = False


@dataclass(slots=True, eq=False)
class _Planned:
    decided_ms: int
    draft: Draft
    operations: list[Operation]
    asks: list[Ask]
    refused: list[tuple[Ask, ApiError]]

    @property
    def size(self) -> int:
        return sum(len(operation.data) for operation in self.operations if isinstance(operation, Put))


class ControllerWrites:
    def __init__(
        self,
        image: Image,
        settings: Settings,
        seat: Seat,
        liveness: Liveness,
        outbox: Outbox,
        events: ControllerEvents,
    ) -> None:
        self.asked: dict[str, list[Ask]] = {}
        self._image = image
        self._settings = settings
        self._seat = seat
        self._liveness = liveness
        self._outbox = outbox
        self._events = events
        self._unseen: OrderedDict[str, None] = OrderedDict()  # topics to look at
        self._everything: list[str] = []  # all topics, of which so many are to be looked at, from there on
        self._everything_left = self._everything_at = 0
        self._in_flight: set[str] = set()  # topics
        self._alone: set[str] = set()  # topics whose last write was refused, perhaps for another's sake
        self._writes = 0
        self._put_off_ms: int | None = None  # since when there is more to look at, in a turn of its own
        self._epoch_taken = -1
        self._look_ms = 0
        self._balance_ms = 0
        self._imbalanced: Iterator[tuple[str, int] | None] = iter(())  # what is left to be asked for

    # -- inputs --

    def on_changes(self, changes: Iterable[images.Change], now_ms: int) -> None:
        for change in changes:
            match change:
                case images.TopicChanged(topic) | images.TopicConfigChanged(topic):
                    self._unseen[topic] = None
                case images.BrokerChanged() | images.BrokerConfigChanged() | images.ControllerChanged():
                    self._look_everywhere()
        self._begin_epoch(now_ms)
        self._take_reports()
        self.work(now_ms)

    def on_seat(self, now_ms: int) -> None:
        """This broker has taken the controller's seat."""
        self._begin_epoch(now_ms)
        self.work(now_ms)

    def _begin_epoch(self, now_ms: int) -> None:
        if self._seat.is_active and self._epoch_taken != self._image.controller_epoch:
            self._epoch_taken = self._image.controller_epoch
            self._balance_ms = now_ms + self._settings.config.leader_imbalance_check_interval_s * 1000
            self._look_everywhere()

    def on_suspicion(self, now_ms: int) -> None:
        """Others are suspected than before."""
        self._look_everywhere()
        self._seat.seek(now_ms)
        self._begin_epoch(now_ms)
        self.work(now_ms)

    def on_tick(self, now_ms: int) -> None:
        self._begin_epoch(now_ms)
        if self._seat.is_active:
            config = self._settings.config
            if now_ms >= self._look_ms:
                self._look_ms = now_ms + LOOK_INTERVAL_MS
                self._look_everywhere()
                self._take_reports()
            if now_ms >= self._balance_ms:
                self._balance_ms = now_ms + config.leader_imbalance_check_interval_s * 1000
                if config.auto_leader_rebalance_enable:
                    self._imbalanced = imbalanced(self._image, config.leader_imbalance_percentage)
                    self._balance(now_ms)
        self.work(now_ms)

    def ask(self, ask: Ask) -> None:
        """Queue it; `work` sees to it."""
        self.asked.setdefault(ask.topic, []).append(ask)

    def doubt(self, now_ms: int) -> None:
        """A broker that others reach is not gone: what refuses us is something in between."""
        for suspect in self._liveness.doubtful(now_ms):
            witnesses = [
                broker
                for broker in self._image.brokers
                if broker != suspect
                and self._liveness.is_witness(broker, now_ms)
                and not is_reported(self._image, suspect, broker)
            ]
            if witnesses:
                log.warning("broker %d refuses us, but not broker %d; it counts again", suspect, witnesses[0])
                self._liveness.trust(suspect, now_ms)
                self._look_everywhere()

    # -- work --

    def _take_reports(self) -> None:
        """Proposals that came by way of the keeper, as if they had come by AlterPartition."""
        image = self._image
        for leader in sorted(image.reports) if self._seat.is_active else ():
            report = image.report(leader)
            for told in report.proposals if report is not None else ():
                name = image.topic_names.get(told.topic_id)
                state = image.topics[name].states.get(told.partition) if name is not None else None
                if name is None or state is None or told.partition_epoch != state.partition_epoch:
                    continue
                proposal = Proposal(leader, told.partition, told.leader_epoch, told.partition_epoch, told.isr)
                decide = partial(_decide_reported, proposal=proposal, topic_id=told.topic_id)
                self.ask(Ask(name, decide, lambda _draft, _error, _now_ms: None))

    def _look_everywhere(self) -> None:
        """Who is in the middle of it goes on from there, and once around."""
        if not self._everything_left:
            self._everything_at = 0
        self._everything = list(self._image.topics)
        self._everything_left = len(self._everything)

    def next_ms(self) -> int | None:
        """When `pump` has something to do."""
        return self._put_off_ms

    def pump(self, now_ms: int) -> None:
        if self._put_off_ms is not None:
            self._put_off_ms = None
            self._balance(now_ms)
            self.work(now_ms)

    def work(self, now_ms: int) -> None:
        """Write what should be written."""
        if not self._seat.is_active:
            self._unseen.clear()
            self._everything_left = 0
            self._imbalanced = iter(())
            self._refuse_all(now_ms)
            return
        batch, in_flight, names = list[_Planned](), list[str](), set[str]()
        looked = 0
        for name in self._waiting_names():
            if name in names:
                continue
            names.add(name)
            if name in self._in_flight:
                in_flight.append(name)
                continue
            topic = self._image.topics.get(name)
            if topic is None or (
                name not in self.asked and is_settled(self._image, topic, self._liveness.suspected)
            ):
                looked += TOPIC_COST + (len(topic.states) if topic is not None else 0)
                self._refuse(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_ms)
            else:
                looked += PLANNED_FACTOR * (len(topic.states) + len(self.asked.get(name, ())))
                planned = self._plan(topic, now_ms)
                batch = self._add(batch, planned) if planned is not None else batch
            if looked >= LOOKED_MAX:
                if self._unseen or self._everything_left or not self.asked.keys() <= self._in_flight:
                    self._put_off(now_ms)
                break
            if self._writes >= WRITES_IN_FLIGHT_MAX:
                break  # its outcome comes, and then the others have their turn
        if batch:
            self._write(batch)
        self._unseen.update(dict.fromkeys(in_flight))

    def _waiting_names(self) -> Iterator[str]:
        """Topics to look at, those first for which somebody asks; whoever stops half way leaves the rest."""
        if self._writes >= WRITES_IN_FLIGHT_MAX:
            return
        for name in list(self.asked):
            self._unseen.pop(name, None)
            yield name
        while self._unseen:
            yield self._unseen.popitem(last=False)[0]
        while self._everything_left:
            at = self._everything_at % len(self._everything)
            self._everything_left, self._everything_at = self._everything_left - 1, at + 1
            yield self._everything[at]

    def _put_off(self, now_ms: int) -> None:
        """The rest has a turn of its own."""
        self._put_off_ms = now_ms
        self._outbox.is_stirred = True

    def _add(self, batch: list[_Planned], planned: _Planned) -> list[_Planned]:
        """To what is written next; what is full, or must go alone, is written now."""
        is_alone = planned.draft.topic.name in self._alone
        if batch and (is_alone or self._is_full(batch, planned)):
            self._write(batch)
            batch = []
        batch.append(planned)
        if is_alone:
            self._write(batch)
            batch = []
        return batch

    @staticmethod
    def _is_full(batch: list[_Planned], another: _Planned) -> bool:
        size = sum(planned.size for planned in batch) + another.size
        return len(batch) >= WRITE_TOPICS_MAX or size > WRITE_BYTES_MAX

    def _plan(self, topic: images.Topic, now_ms: int) -> _Planned | None:
        """What to write about a topic; whoever needs no write is told at once."""
        config = self._settings.topic_log_config(topic.name)
        draft = Draft(self._image, topic, config, frozenset(self._liveness.suspected))
        asks, refused = list[Ask](), list[tuple[Ask, ApiError]]()
        for ask in self.asked.pop(topic.name, []):
            if ask.is_dropped:
                continue
            try:
                ask.decide(draft)
            except ApiError as error:
                if error.code in NEVER_WRITTEN:
                    refused.append((ask, error))
                else:
                    ask.settle(None, error, now_ms)
            else:
                asks.append(ask)
        repair(draft)
        operations = draft.operations()
        if refused and not operations:
            operations = [Check(znodes.state_path(topic.name), topic.state_version)]
        if operations:
            return _Planned(now_ms, draft, operations, asks, refused)
        for ask in asks:
            ask.settle(draft, None, now_ms)
        return None

    def _write(self, batch: list[_Planned]) -> None:
        self._in_flight.update(planned.draft.topic.name for planned in batch)
        self._writes += 1
        image = self._image
        revision, operations = image.revision, [op for planned in batch for op in planned.operations]

        def on_outcome(outcome: Outcome, now_ms: int) -> None:
            self._on_outcome(batch, outcome, now_ms)
            if isinstance(outcome, Written) or image.revision != revision:
                self.work(now_ms)  # what waited, or what was refused for a reason that is known by now

        self._outbox.write([*fence(image), *same_topics(image), *operations], on_outcome)

    def _on_outcome(self, batch: list[_Planned], outcome: Outcome, now_ms: int) -> None:
        self._writes -= 1
        written = [planned for planned in batch if self._is_written(planned, outcome)]
        if written:
            took_ms = now_ms - min(planned.decided_ms for planned in written)
            self._events.on_written([planned.draft for planned in written], took_ms)
            if not self._writes:
                self._events.digest.say(logging.WARNING)
        for planned in batch:
            name = planned.draft.topic.name
            self._in_flight.discard(name)
            is_written = planned in written
            again = [] if is_written else planned.asks
            if not isinstance(outcome, Written):
                again = again + [ask for ask, _ in planned.refused]
            if again:
                self.asked[name] = again + self.asked.get(name, [])
            if not is_written:
                self._unseen[name] = None
                if len(batch) > 1:
                    self._alone.add(name)
                continue
            self._alone.discard(name)
            for ask in planned.asks:
                ask.settle(planned.draft, None, now_ms)
            if isinstance(outcome, Written):
                for ask, error in planned.refused:
                    ask.settle(None, error, now_ms)

    def _is_written(self, planned: _Planned, outcome: Outcome) -> bool:
        if isinstance(outcome, Unknown):
            return planned.draft.is_what(self._image.topics.get(planned.draft.topic.name))
        return isinstance(outcome, Written)

    def _refuse_all(self, now_ms: int) -> None:
        for name in list(self.asked):
            self._refuse(name, ErrorCode.NOT_CONTROLLER, now_ms)

    def _refuse(self, name: str, code: ErrorCode, now_ms: int) -> None:
        for ask in self.asked.pop(name, ()):
            if not ask.is_dropped:
                ask.settle(None, ApiError(code), now_ms)

    def _balance(self, now_ms: int) -> None:
        """Give leadership back to the first replicas. Whoever cannot lead now gets the next chance."""
        for asked, topic_partition in enumerate(self._imbalanced, 1):
            if topic_partition is not None:
                name, partition = topic_partition
                self.ask(Ask(name, _preferred(partition), lambda _draft, _error, _now_ms: None))
            if topic_partition is None or asked == BALANCED_MAX:
                self._put_off(now_ms)
                return


@dataclass(slots=True, eq=False)
class Item(Generic[R]):
    """What one partition is answered with; the error stays None if all went well."""

    result: R
    draft: Draft | None = None
    error: ApiError | None = None
    is_settled: bool = False


@dataclass(slots=True, eq=False)
class Asks(Generic[R]):
    """What a request asks for several partitions: each is decided in its topic's turn, and one answer is
    given when all are settled. `respond` makes it, once each item has its draft or its error.

    What is written after the deadline is written all the same; nobody is told."""

    controller_writes: ControllerWrites
    waiting: Waiting
    respond: Callable[[list[Item[R]]], Any]
    items: list[Item[R]] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    unsettled: int = 0

    def add(self, result: R, topic: str, decide: Callable[[Draft], None]) -> None:
        item = Item(result)
        self.items.append(item)
        self.unsettled += 1
        ask = Ask(topic, decide, lambda draft, error, now_ms: self._settle(item, draft, error, now_ms))
        self.asks.append(ask)
        self.controller_writes.ask(ask)

    def refuse(self, result: R, error: ApiError) -> None:
        """A partition that needs no decision: it is wrong as it is."""
        self.items.append(Item(result, error=error, is_settled=True))

    def answer(self, timeout_ms: int, now_ms: int) -> Any:
        self.controller_writes.work(now_ms)
        if not self.unsettled:
            return self.respond(self.items)
        return Parked(
            keys=(self,), deadline_ms=now_ms + max(timeout_ms, 0), ready=self._ready, expire=self._expire
        )

    def _settle(self, item: Item[R], draft: Draft | None, error: ApiError | None, now_ms: int) -> None:
        item.draft, item.error, item.is_settled = draft, error, True
        self.unsettled -= 1
        if not self.unsettled:
            self.waiting.wake(self, now_ms)

    def _ready(self, _key: Key, _now_ms: int) -> Any | None:
        return None if self.unsettled else self.respond(self.items)

    def _expire(self, _now_ms: int) -> Any:
        for ask in self.asks:
            ask.is_dropped = True
        for item in self.items:
            if not item.is_settled:
                item.error = ApiError(ErrorCode.REQUEST_TIMED_OUT, "The keeper did not answer in time.")
        return self.respond(self.items)


def _decide_reported(draft: Draft, proposal: Proposal, topic_id: bytes) -> None:
    """A leader that cannot be told that a member is ineligible sees the state move on without that one."""
    try:
        propose(draft, proposal, topic_id)
    except ApiError as error:
        if error.code is not ErrorCode.INELIGIBLE_REPLICA:
            raise
        draft.touch(proposal.partition)


def _preferred(partition: int) -> Callable[[Draft], None]:
    return lambda draft: elect_preferred(draft, partition, Reason.PREFERRED)
