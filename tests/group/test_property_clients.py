"""Model clients of both protocols, for the property test: they do with answers what real ones do.

An answer reaches its client only once what it depends on is committed, and may be lost on the way. A client
*owns* the partitions it was told of until it has given them up, and *holds* an epoch (a generation) from the
answer that told it. What it is told is reported to the world it lives in, which has the checkers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.groups import assigned, assignment, subscription

from ottla.base.errors import ErrorCode
from ottla.coordinator.turn import Answer
from ottla.group.protocol import decode_subscription

if TYPE_CHECKING:
    from tests.group.test_property import World

TOPICS = ("t", "u")
Partition = tuple[str, int]
RETRIABLE = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.NOT_COORDINATOR,
}


def by_topic(partitions: set[Partition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for topic, number in sorted(partitions):
        found[topic] = (*found.get(topic, ()), number)
    return found


def flat(named: dict[str, tuple[int, ...]]) -> set[Partition]:
    return {(topic, number) for topic, numbers in named.items() for number in numbers}


@dataclass(eq=False)
class Client(ABC):
    """`era` says to which life of its group what it owns belongs, `told_in` its epoch: see `World.observe`.
    What it was told before it lapsed is no longer its own, also if it then comes back under the same id."""

    world: "World"
    group: str
    name: str
    instance: str | None = None
    member: str = ""
    epoch: int = -1
    owned: set[Partition] = field(default_factory=set)
    era: int = -1
    told_in: int = -1
    is_lapsed: bool = False
    waiting: Answer | None = None
    asked: str = ""

    def ask(self, what: str, answer: Answer) -> None:
        self.waiting, self.asked = answer, what
        if what in ("joined", "told"):
            self.is_lapsed = False

    def step(self, loss: float = 0.0) -> None:
        """Read the answer if it is there, else go on."""
        answer = self.waiting
        if answer is None:
            self.go_on()
            return
        if answer.reply is None or answer.after_offset > self.world.room.journal.committed_offset:
            return
        self.waiting = None
        if self.world.random.random() < loss:
            self.on_lost()
            return
        reply = answer.reply
        code = ErrorCode(reply if isinstance(reply, ErrorCode) else reply.error_code)
        if code:
            self.on_code(code, reply)
        else:
            getattr(self, f"on_{self.asked}")(reply, self.world.era_of(answer, self.group))

    def on_disconnected(self) -> None:
        """The coordinator has gone, and any answer with it."""
        if self.waiting is not None:
            self.waiting = None
            self.on_lost()

    def gone(self) -> None:
        """It is told that it is no member any more."""
        self.world.fenced(self)
        self.epoch, self.owned = -1, set()

    @abstractmethod
    def go_on(self) -> None: ...

    @abstractmethod
    def on_lost(self) -> None: ...

    @abstractmethod
    def on_code(self, code: ErrorCode, reply: Any) -> None: ...

    @abstractmethod
    def leave(self) -> None: ...


@dataclass(eq=False)
class ClassicClient(Client):
    """Eager: it gives up everything before it joins. Cooperative: it keeps what it owns, and joins again when
    it has given up what it lost."""

    is_cooperative: bool = False

    def go_on(self) -> None:
        if self.epoch < 0:
            self.join()
        else:
            answer = self.world.room.ask_heartbeat(
                self.member, self.epoch, group=self.group, instance=self.instance
            )
            self.ask("beaten", answer)

    def join(self) -> None:
        if not self.is_cooperative:
            self.owned = set()
        metadata = subscription(*TOPICS, owned=by_topic(self.owned), generation_id=self.epoch)
        answer = self.world.room.joining(
            self.member,
            group=self.group,
            instance=self.instance,
            metadata=metadata,
            protocol="cooperative" if self.is_cooperative else "range",
        )
        self.ask("joined", answer)

    def on_lost(self) -> None:
        if self.asked != "beaten":
            self.join()

    def on_code(self, code: ErrorCode, reply: Any) -> None:
        assert code in RETRIABLE | {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.FENCED_INSTANCE_ID}, code
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.gone()
            self.world.clients.remove(self)
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.gone()
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member = ""
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member = reply.member_id
        self.join()

    def on_beaten(self, _reply: Any, _era: int) -> None:
        """Nothing is new."""

    def on_joined(self, reply: Any, era: int) -> None:
        self.world.advanced(self, reply.member_id, reply.generation_id, era)
        self.member, self.epoch = reply.member_id, reply.generation_id
        leads = reply.leader == reply.member_id and not reply.skip_assignment
        shares = self.share_out(reply.members) if leads else {}
        answer = self.world.room.ask_sync(
            self.member, self.epoch, shares, group=self.group, instance=self.instance
        )
        self.ask("synced", answer)

    def share_out(self, members: list[Any]) -> dict[str, bytes]:
        """Round robin; a cooperative leader leaves out what somebody else still owns."""
        ids = [each.member_id for each in members]
        claims: dict[Partition, tuple[int, str]] = {}
        for each in members:
            said = decode_subscription(each.metadata)
            for one in said.owned_partitions:
                for number in one.partitions:
                    claim = (said.generation_id, each.member_id)
                    claims[one.topic, number] = max(claim, claims.get((one.topic, number), claim))
        shares: dict[str, set[Partition]] = {member: set() for member in ids}
        for at, partition in enumerate(self.world.partitions()):
            member = ids[at % len(ids)]
            if not self.is_cooperative or claims.get(partition, (0, member))[1] == member:
                shares[member].add(partition)
        return {member: assignment(**by_topic(share)) for member, share in shares.items()}

    def on_synced(self, reply: Any, era: int) -> None:
        given = flat(assigned(reply.assignment))
        lost = self.owned - given
        self.owned, self.era = given, -1 if self.is_lapsed else era
        self.world.assigned_to(self)
        if lost:
            self.join()

    def leave(self) -> None:
        """It does not wait for the answer."""
        self.world.room.leave(self.member, group=self.group, instance=self.instance)


@dataclass(eq=False)
class ConsumerClient(Client):
    """It owns what it was told last (`wanted`), and what it has yet to give up."""

    wanted: set[Partition] = field(default_factory=set)
    is_away: bool = False
    has_news: bool = False

    def go_on(self) -> None:
        if self.owned != self.wanted and self.world.random.random() < 0.7:
            self.owned, self.has_news = set(self.wanted), True
        self.beat()

    def beat(self) -> None:
        is_first = self.epoch <= 0
        self.asked_epoch = max(self.epoch, 0)
        answer = self.world.room.ask_consume(
            self.member,
            self.asked_epoch,
            {} if is_first else by_topic(self.owned) if self.has_news else None,
            group=self.group,
            topics=TOPICS if is_first or self.has_news else None,
            instance_id=self.instance,
            rebalance_timeout_ms=30_000 if is_first or self.has_news else -1,
        )
        self.ask("told", answer)

    def on_lost(self) -> None:
        """From now on it says everything, until an answer comes."""
        self.has_news = True

    def on_code(self, code: ErrorCode, _reply: Any) -> None:
        assert code in RETRIABLE | {ErrorCode.FENCED_INSTANCE_ID}, code
        self.gone()
        self.wanted, self.has_news = set(), False
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.world.clients.remove(self)

    def on_told(self, reply: Any, era: int) -> None:
        self.world.advanced(self, self.member, reply.member_epoch, era)
        self.epoch, self.has_news = reply.member_epoch, False
        told = self.world.room.told(reply)
        if told is not None:
            self.wanted, self.era = flat(told), -1 if self.is_lapsed else era
            self.owned |= self.wanted
            self.world.assigned_to(self)

    def leave(self, for_a_while: bool = False) -> None:
        if self.epoch > 0:
            epoch = -2 if for_a_while else -1
            self.world.room.consume(self.member, epoch, group=self.group, instance_id=self.instance)
