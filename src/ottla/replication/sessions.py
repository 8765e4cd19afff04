"""Incremental fetch sessions (KIP-227): what a fetcher wants is remembered, and only changes travel.

Rules: a session belongs to whoever knows its id and next epoch. An epoch out of step is refused and changes
nothing. A full fetch (epoch 0) starts a session if there is room; epoch -1 ends it. What was sent in one
leader epoch is sent again in the next.

Sessions are bounded, and so are the partitions that all of them hold together, and those of a consumer's
session, which are gone through with every small request. In a full table a new session
takes the place of one that has been idle for two minutes; else, if it is a follower's, of a consumer's; else
of one of its own kind that is older than two minutes and smaller than itself. If there is none, it is not
granted (id 0), and the fetcher goes on with full requests. A session that would add too many partitions is
not granted, or ends; one of a follower first ends those of consumers. So does one with a name that no topic
can have: such names may be as long as the request.

The order of a session's partitions is the order of reading: one that has just given records goes to the
end, so that with many partitions and few bytes each gets its turn.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TOPIC_NAME_MAX, ZERO_UUID, TopicPartition

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
EVICTION_IDLE_MS = 120_000
PARTITIONS_PER_SLOT = 150  # of all slots together: some 80 MB of memory
CONSUMER_PARTITIONS_MAX = 10_000


@dataclass(slots=True)
class Wanted:
    """One partition a fetcher asks for. `topic` is empty while a topic id is unknown to this broker."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int = -1  # a follower's
    sent_high_watermark: int = -1
    sent_log_start: int = -1

    @property
    def key(self) -> tuple[str | bytes, int]:
        """By id where the fetcher speaks of ids, so that it holds before and after the topic is known
        here."""
        return (self.topic if self.topic_id == ZERO_UUID else self.topic_id, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        return tuple.__new__(TopicPartition, (self.topic, self.partition))  # in half the time of its class


@dataclass(slots=True)
class Session:
    id: int
    by_topic_id: bool
    wanted: dict[tuple[str | bytes, int], Wanted] = field(default_factory=dict)
    epoch: int = 1
    used_ms: int = 0
    answered_ms: int = -1  # when the last answer was given; whoever goes on in this session has it
    opened_ms: int = 0
    is_follower: bool = False

    def update(self, asked: Iterable[Wanted], forgotten: Iterable[tuple[str | bytes, int]]) -> None:
        for wanted in asked:
            before = self.wanted.get(wanted.key)
            if before is not None and before.current_leader_epoch == wanted.current_leader_epoch:
                wanted.sent_high_watermark = before.sent_high_watermark
                wanted.sent_log_start = before.sent_log_start
            self.wanted[wanted.key] = wanted
        for key in forgotten:
            self.wanted.pop(key, None)

    def rotate(self, served: Iterable[Wanted]) -> None:
        for wanted in served:
            if self.wanted.pop(wanted.key, None) is not None:
                self.wanted[wanted.key] = wanted


@dataclass(slots=True)
class Sessions:
    """All sessions of a broker, the one unused longest first."""

    slots: int
    new_id: Callable[[], int]
    by_id: dict[int, Session] = field(default_factory=dict)

    def open(
        self, asked: Sequence[Wanted], *, by_topic_id: bool, now_ms: int, is_follower: bool = False
    ) -> Session | None:
        if len(asked) > CONSUMER_PARTITIONS_MAX and not is_follower:
            return None
        if not _can_exist(asked):
            return None
        if not self._make_room(len(asked), is_follower=is_follower):
            return None
        if len(self.by_id) >= self.slots and not self._evict(len(asked), now_ms, is_follower=is_follower):
            return None
        session_id = self.new_id()
        while session_id in self.by_id:
            session_id = self.new_id()
        session = Session(session_id, by_topic_id, used_ms=now_ms, opened_ms=now_ms, is_follower=is_follower)
        session.update(asked, ())
        self.by_id[session_id] = session
        return session

    def update(
        self, session: Session, asked: Sequence[Wanted], forgotten: Iterable[tuple[str | bytes, int]]
    ) -> None:
        """Change what a session wants. One that grows too large ends; its fetcher begins again without."""
        if not _can_exist(asked):
            self.close(session.id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        before = len(session.wanted)
        session.update(asked, forgotten)
        is_too_large = len(session.wanted) > CONSUMER_PARTITIONS_MAX and not session.is_follower
        has_grown = len(session.wanted) > before
        if has_grown and (is_too_large or not self._make_room(0, is_follower=session.is_follower)):
            self.close(session.id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _make_room(self, more: int, *, is_follower: bool) -> bool:
        """Is there room for so many partitions more? For a follower, consumers' sessions give theirs up, the
        one unused longest first, but none of them in vain."""
        excess = sum(len(session.wanted) for session in self.by_id.values()) + more
        excess -= self.slots * PARTITIONS_PER_SLOT
        given_up = []
        for session in self.by_id.values() if is_follower else ():
            if excess <= 0:
                break
            if not session.is_follower:
                excess -= len(session.wanted)
                given_up.append(session.id)
        if excess > 0:
            return False
        for session_id in given_up:
            self.close(session_id)
        return True

    def close(self, session_id: int) -> None:
        self.by_id.pop(session_id, None)

    def partitions(self, session_id: int) -> int:
        """How many a session has."""
        session = self.by_id.get(session_id)
        return len(session.wanted) if session is not None else 0

    def resume(self, session_id: int, epoch: int, *, by_topic_id: bool, now_ms: int) -> Session:
        """The session an incremental fetch goes on with, its epoch moved on."""
        session = self.by_id.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.used_ms = now_ms
        self.by_id[session_id] = self.by_id.pop(session_id)
        return session

    def _evict(self, size: int, now_ms: int, *, is_follower: bool) -> bool:
        """Take a place away for a session of `size` partitions: the stalest, or the least valuable of those
        that it may take, unless that is worth more than itself."""
        oldest = next(iter(self.by_id.values()), None)
        if oldest is not None and now_ms - oldest.used_ms >= EVICTION_IDLE_MS:
            del self.by_id[oldest.id]
            return True
        evictable = [
            session
            for session in self.by_id.values()
            if now_ms - session.opened_ms > EVICTION_IDLE_MS or (is_follower and not session.is_follower)
        ]
        least = min(evictable, key=_worth, default=None)
        if least is None or _worth(least) >= (is_follower, size):
            return False
        del self.by_id[least.id]
        return True


def _can_exist(asked: Sequence[Wanted]) -> bool:
    return all(len(wanted.topic) <= TOPIC_NAME_MAX and wanted.topic.isascii() for wanted in asked)


def _worth(session: Session) -> tuple[bool, int]:
    return session.is_follower, len(session.wanted)
