"""The controller on this broker: the seat, what it writes, and what waits for that. Every broker has one of
these; one at a time has the seat.

Rules
- The seat is taken when it is free, or its holder is suspected to be gone, in one write with the controller's
  next epoch, and left when the image says that somebody else has it. Nothing is assumed about being alone:
  every write checks the epoch, so that what an earlier controller still writes is refused (KAFKA-3083).
- Nobody takes the seat twice from the same incarnation, nor back from one who took it, unless that one has
  answered since: so brokers that cannot reach each other do not pass it around for ever.
- A controller that is cut off from all the others leaves the seat to them. To a partition that another can
  lead, whoever is suspected is not there (design note 008).
- After a change of the image the topics it touches are looked at, all of them when a broker came or went,
  when the seat was taken, and from time to time. What should be another is written: one write at a time for
  a topic, several topics in one write.
- Whoever asks for a change (AlterPartition, ElectLeaders, reassignments, our own timers) waits in `asked` for
  the topic's turn, decides on the draft that is then made, and is told when the draft is written.
- A leader that is told INELIGIBLE_REPLICA takes its proposal for never written. So the keeper confirms first
  that the state is the one we refused on: an earlier controller may have written what we have not seen.
- A write that was refused, or whose answer was lost, is planned again from the image: after the next
  change, or on the next tick.

A broker that is about to stop says so in its node (`begin_stop`), until the image shows it; the controller
moves leadership away, and `is_drained` tells when nothing is left that another could lead.
"""

import logging
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import image as images
from ottla.controller import znodes
from ottla.controller.draft import Draft, endpoints
from ottla.controller.election import LOST, Around, eligible, in_sync, successor
from ottla.controller.isr import Proposal, propose
from ottla.controller.keeper import ANY, Check, Operation, Outcome, Put, Unknown, Written
from ottla.controller.plan import elect_preferred, imbalanced, is_settled, repair
from ottla.controller.reach import is_cut_off, is_reported
from ottla.controller.registration import candidacy, resignation
from ottla.controller.topics import fence, same_topics
from ottla.controller.znodes import UNKNOWN_EPOCH

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

LOOK_INTERVAL_MS = 5_000  # at everything, whether something changed or not
WRITE_TOPICS_MAX = 64
WRITE_BYTES_MAX = 256 << 10  # ZooKeeper refuses a request of 1 MiB
WRITES_IN_FLIGHT_MAX = 4
CONFIRMED = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED}


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
    draft: Draft
    operations: list[Operation]
    asks: list[Ask]
    refused: list[tuple[Ask, ApiError]]

    @property
    def size(self) -> int:
        return sum(len(one.data) for one in self.operations if isinstance(one, Put))


class Controlling:
    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.is_stopping = False
        self.asked: dict[str, list[Ask]] = {}
        self._unseen: dict[str, None] = {}  # topics to look at
        self._in_flight: set[str] = set()  # topics
        self._alone: set[str] = set()  # topics whose last write was refused, perhaps for another's sake
        self._writes = 0
        self._epoch_taken = -1
        self._is_seeking = False
        self._is_leaving = False
        self._had_seat = False
        self._spared: dict[int, tuple[int, int]] = {}  # whose seat is not taken: epoch, and since when
        self._is_announcing = False
        self._look_ms = 0
        self._balance_ms = 0
        self._clean_since = 0

    @property
    def is_active(self) -> bool:
        """Does this broker have the seat, as far as it knows?"""
        image = self.broker.image
        return image.controller_id == self.broker.id and self.broker.id in image.brokers

    @property
    def suspected(self) -> AbstractSet[int]:
        return self.broker.liveness.suspected

    # -- inputs --

    def on_changes(self, changes: Iterable[images.Change], now_ms: int) -> None:
        me = self.broker.image.brokers.get(self.broker.id)
        self._clean_since = me.clean_since if me is not None else self._clean_since
        for change in changes:
            match change:
                case images.TopicChanged(topic) | images.TopicConfigChanged(topic):
                    self._unseen[topic] = None
                case images.BrokerChanged() | images.BrokerConfigChanged() | images.ControllerChanged():
                    self._look_everywhere()
        if self._had_seat and me is not None and self.broker.image.controller_id >= 0:
            self._spare(self.broker.image.controller_id, now_ms)  # it could not reach us, and took the seat
        self._had_seat = self.is_active
        self._seek_seat(now_ms)
        self._take_reports()
        self.work(now_ms)

    def on_suspicion(self, now_ms: int) -> None:
        """Others are suspected than before."""
        self._look_everywhere()
        self._seek_seat(now_ms)
        self.work(now_ms)

    def on_tick(self, now_ms: int) -> None:
        self._doubt(now_ms)
        self._leave_seat(now_ms)
        self._seek_seat(now_ms)
        self._announce_stop()
        if self.is_active:
            config = self.broker.config
            if now_ms >= self._look_ms:
                self._look_ms = now_ms + LOOK_INTERVAL_MS
                self._look_everywhere()
                self._take_reports()
            if now_ms >= self._balance_ms:
                self._balance_ms = now_ms + config.leader_imbalance_check_interval_s * 1000
                if config.auto_leader_rebalance_enable:
                    self._balance(config.leader_imbalance_percentage)
        self.work(now_ms)

    def ask(self, ask: Ask) -> None:
        """Queue it; `work` sees to it."""
        self.asked.setdefault(ask.topic, []).append(ask)

    # -- the seat --

    def _seek_seat(self, now_ms: int) -> None:
        broker, image = self.broker, self.broker.image
        if self.is_active and self._epoch_taken != image.controller_epoch:
            self._epoch_taken = image.controller_epoch
            self._balance_ms = now_ms + broker.config.leader_imbalance_check_interval_s * 1000
            self._look_everywhere()
        if self._is_seeking or broker.id not in image.brokers or not self._may_be_taken():
            return
        if self.is_stopping and self._others_stay():
            return
        if is_cut_off(image, broker.id, broker.liveness.unreachable(now_ms)):
            return
        self._is_seeking = True
        holder = image.controller_id
        broker.write(candidacy(image, broker.id), partial(self._on_seat, holder))

    def _may_be_taken(self) -> bool:
        """Is the seat free, or its holder suspected? Not while the two nodes of it are not of one time."""
        image, holder = self.broker.image, self.broker.image.controller_id
        if holder < 0:
            return True
        if holder not in self.suspected or image.seat_epoch not in {UNKNOWN_EPOCH, image.controller_epoch}:
            return False
        peer, (epoch, since_ms) = self.broker.liveness.peers[holder], self._spared.get(holder, (-1, 0))
        return peer.epoch != epoch or peer.answered_ms > since_ms

    def _spare(self, holder: int, now_ms: int) -> None:
        there = self.broker.image.brokers.get(holder)
        if there is not None and holder != self.broker.id:
            self._spared[holder] = (there.epoch, now_ms)

    def _on_seat(self, holder: int, outcome: Outcome, now_ms: int) -> None:
        """Refused: somebody was faster, or the image is behind; both will show in it."""
        self._is_seeking = False
        if isinstance(outcome, Written):
            self._spare(holder, now_ms)
            log.info(
                "broker %d is the controller in epoch %d", self.broker.id, self.broker.image.controller_epoch
            )
            self._seek_seat(now_ms)
            self.work(now_ms)

    def _leave_seat(self, now_ms: int) -> None:
        broker, image = self.broker, self.broker.image
        unreachable = broker.liveness.unreachable(now_ms) if self.is_active else {}
        if not unreachable or self._is_leaving or not is_cut_off(image, broker.id, unreachable):
            return
        log.warning("broker %d reaches no other broker, and leaves the controller's seat to them", broker.id)
        self._is_leaving = True
        broker.write(resignation(image), self._on_left)

    def _on_left(self, _outcome: Outcome, _now_ms: int) -> None:
        """Whatever came of it, the image shows; the next tick tries again if need be."""
        self._is_leaving = False

    def _doubt(self, now_ms: int) -> None:
        """A broker that others reach is not gone: what refuses us is something in between."""
        image, liveness = self.broker.image, self.broker.liveness
        for suspect in liveness.doubtful(now_ms):
            witnesses = [
                id
                for id in image.brokers
                if id != suspect and liveness.is_witness(id, now_ms) and not is_reported(image, suspect, id)
            ]
            if witnesses:
                log.warning("broker %d refuses us, but not broker %d; it counts again", suspect, witnesses[0])
                liveness.trust(suspect, now_ms)
                self._look_everywhere()

    # -- work --

    def _take_reports(self) -> None:
        """Proposals that came by way of the keeper, as if they had come by AlterPartition."""
        image = self.broker.image
        for leader in sorted(image.reports) if self.is_active else ():
            report = image.report(leader)
            for one in report.proposals if report is not None else ():
                name = image.topic_names.get(one.topic_id)
                state = image.topics[name].states.get(one.partition) if name is not None else None
                if name is None or state is None or one.partition_epoch != state.partition_epoch:
                    continue
                proposal = Proposal(leader, one.partition, one.leader_epoch, one.partition_epoch, one.isr)
                decide = partial(_decide_reported, proposal=proposal, topic_id=one.topic_id)
                self.ask(Ask(name, decide, lambda _draft, _error, _now_ms: None))

    def _look_everywhere(self) -> None:
        self._unseen.update(dict.fromkeys(self.broker.image.topics))

    def work(self, now_ms: int) -> None:
        """Write what should be written."""
        if not self.is_active:
            self._unseen.clear()
            self._refuse_all(now_ms)
            return
        image, later = self.broker.image, dict[str, None]()
        names, self._unseen = dict.fromkeys((*self.asked, *self._unseen)), {}
        batch: list[_Planned] = []
        for name in names:
            if name in self._in_flight or self._writes >= WRITES_IN_FLIGHT_MAX:
                later[name] = None
                continue
            topic = image.topics.get(name)
            if topic is None or (name not in self.asked and is_settled(image, topic, self.suspected)):
                self._refuse(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_ms)
                continue
            planned = self._plan(topic, now_ms)
            if planned is None:
                continue
            if batch and (name in self._alone or self._is_full(batch, planned)):
                self._write(batch)
                batch = []
            batch.append(planned)
            if name in self._alone:
                self._write(batch)
                batch = []
        if batch:
            self._write(batch)
        self._unseen.update(later)

    @staticmethod
    def _is_full(batch: list[_Planned], another: _Planned) -> bool:
        size = sum(one.size for one in batch) + another.size
        return len(batch) >= WRITE_TOPICS_MAX or size > WRITE_BYTES_MAX

    def _plan(self, topic: images.Topic, now_ms: int) -> _Planned | None:
        """What to write about a topic; whoever needs no write is told at once."""
        config = self.broker.topic_log_config(topic.name)
        draft = Draft(self.broker.image, topic, config, frozenset(self.suspected))
        asks, refused = list[Ask](), list[tuple[Ask, ApiError]]()
        for ask in self.asked.pop(topic.name, []):
            if ask.is_dropped:
                continue
            try:
                ask.decide(draft)
            except ApiError as error:
                if error.code in CONFIRMED:
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
            return _Planned(draft, operations, asks, refused)
        for ask in asks:
            ask.settle(draft, None, now_ms)
        return None

    def _write(self, batch: list[_Planned]) -> None:
        self._in_flight.update(one.draft.topic.name for one in batch)
        self._writes += 1
        image = self.broker.image
        revision, operations = image.revision, [op for one in batch for op in one.operations]

        def on_outcome(outcome: Outcome, now_ms: int) -> None:
            self._on_outcome(batch, outcome, now_ms)
            if isinstance(outcome, Written) or image.revision != revision:
                self.work(now_ms)  # what waited, or what was refused for a reason that is known by now

        self.broker.write([*fence(image), *same_topics(image), *operations], on_outcome)

    def _on_outcome(self, batch: list[_Planned], outcome: Outcome, now_ms: int) -> None:
        self._writes -= 1
        for one in batch:
            name = one.draft.topic.name
            self._in_flight.discard(name)
            is_written = isinstance(outcome, Written) or (
                isinstance(outcome, Unknown) and one.draft.is_what(self.broker.image.topics.get(name))
            )
            again = [] if is_written else one.asks
            if not isinstance(outcome, Written):
                again = again + [ask for ask, _ in one.refused]
            if again:
                self.asked[name] = again + self.asked.get(name, [])
            if not is_written:
                self._unseen[name] = None
                if len(batch) > 1:
                    self._alone.add(name)
                continue
            self._alone.discard(name)
            _say(one.draft)
            for ask in one.asks:
                ask.settle(one.draft, None, now_ms)
            if isinstance(outcome, Written):
                for ask, error in one.refused:
                    ask.settle(None, error, now_ms)

    def _refuse_all(self, now_ms: int) -> None:
        for name in list(self.asked):
            self._refuse(name, ErrorCode.NOT_CONTROLLER, now_ms)

    def _refuse(self, name: str, code: ErrorCode, now_ms: int) -> None:
        for ask in self.asked.pop(name, ()):
            if not ask.is_dropped:
                ask.settle(None, ApiError(code), now_ms)

    def _balance(self, percentage_max: int) -> None:
        """Give leadership back to the first replicas. Whoever cannot lead now gets the next chance."""
        for name, partition in imbalanced(self.broker.image, percentage_max):
            self.ask(Ask(name, _preferred(partition), lambda _draft, _error, _now_ms: None))

    # -- the controlled stop --

    def begin_stop(self, now_ms: int) -> None:
        """This broker will stop: tell the cluster."""
        self.is_stopping = True
        self._announce_stop()
        self.work(now_ms)

    def _announce_stop(self) -> None:
        me = self.broker.image.brokers.get(self.broker.id)
        if not self.is_stopping or self._is_announcing or me is None or me.is_stopping:
            return
        if len(self.broker.image.brokers) == 1:
            return  # nobody to tell
        self._is_announcing = True
        node = znodes.broker_node(
            me.host, me.port, me.rack, is_clean=me.is_clean, is_stopping=True, clean_since=me.clean_since,
            incarnation=me.incarnation,
        )  # fmt: skip
        self.broker.write([Put(znodes.BROKERS + str(me.id), node, ANY)], self._on_announced)

    def _on_announced(self, _outcome: Outcome, _now_ms: int) -> None:
        """Whatever came of it, the image shows; the next tick tries again if need be."""
        self._is_announcing = False

    @property
    def is_drained(self) -> bool:
        """May this broker stop without anybody missing it? Only meaningful after `begin_stop`."""
        image, me = self.broker.image, self.broker.image.brokers.get(self.broker.id)
        if me is None or not self._others_stay():
            return True
        if not me.is_stopping:
            return False
        for topic in image.topics.values():
            for partition, state in topic.states.items():
                if state.leader == me.id and len(state.isr) > 1:
                    replicas = topic.assignment.get(partition, ())
                    there = endpoints(image, topic.name, partition, replicas)
                    there = {id: one for id, one in there.items() if id not in self.suspected}
                    if successor(state, Around(replicas, there, 1)) is not None:
                        return False
        return True

    @property
    def may_stop_cleanly(self) -> bool:
        """After an unclean start, a clean stop would hide it from a controller that has not seen it: while a
        state still counts on an incarnation before that start, the next one must not call itself clean."""
        me = self.broker.image.brokers.get(self.broker.id)
        since = self._clean_since if me is None else me.clean_since
        if since <= 0:
            return True
        return all(
            not LOST < {**eligible(state), **in_sync(state)}.get(self.broker.id, LOST) < since
            for topic in self.broker.image.topics.values()
            for state in topic.states.values()
        )

    def _others_stay(self) -> bool:
        return any(
            not one.is_stopping
            for one in self.broker.image.brokers.values()
            if one.id != self.broker.id and one.id not in self.suspected
        )


def _decide_reported(draft: Draft, proposal: Proposal, topic_id: bytes) -> None:
    """A leader that cannot be told that a member is ineligible sees the state move on without that one."""
    try:
        propose(draft, proposal, topic_id)
    except ApiError as error:
        if error.code is not ErrorCode.INELIGIBLE_REPLICA:
            raise
        draft.touch(proposal.partition)


def _preferred(partition: int) -> Callable[[Draft], None]:
    return lambda draft: elect_preferred(draft, partition)


def _say(draft: Draft) -> None:
    for note in draft.notes:
        log.info("%s", note)
    for alarm in draft.alarms:
        log.warning("%s", alarm)
