"""A follower's end of a fetch session (KIP-227): what the leader knows that we want, and what is new.

Rules: what was sent and answered is remembered as the leader remembers it, so `asked` tells under which
epoch and offset an answer was given. Whenever it is not certain what the leader knows (no answer, an error
about the session), the next request is a full one. A full request is also what is sent while the leader
grants no session.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ottla.replication.sessions import EPOCH_MAX, INITIAL_EPOCH, NO_SESSION
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

Key: TypeAlias = tuple[bytes, int]  # topic id, partition


class Asked(NamedTuple):
    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int
    max_bytes: int


@dataclass(slots=True)
class FetchRequests:
    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH
    asked: dict[Key, Asked] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Must the next request name everything?"""
        return self.session_id == NO_SESSION

    def reset(self) -> None:
        """The next request starts a session. The id of the old one goes with it, so that the leader need
        not keep it."""
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self.asked.clear()

    def fill(
        self, request: FetchRequest, wanted: Iterable[tuple[Key, Asked]], gone: Iterable[Key] = ()
    ) -> None:
        """Put into a request what the leader does not know yet. A full request wants `wanted` and nothing
        else."""
        if self.is_full:
            self.asked.clear()
        request.session_id, request.session_epoch = self.session_id, self.epoch
        topics: dict[bytes, FetchTopic] = {}
        for key, asked in wanted:
            if self.asked.get(key) == asked:
                continue
            self.asked[key] = asked
            topic = topics.setdefault(key[0], FetchTopic(topic_id=key[0]))
            topic.partitions.append(_partition(key[1], asked))
        forgotten: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in gone:
            if self.asked.pop((topic_id, index), None) is not None:
                forgotten.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
        request.topics = list(topics.values())
        request.forgotten_topics_data = list(forgotten.values())

    def on_answered(self, session_id: int) -> None:
        """The leader took the request, and the next one goes on from it, if there is a session."""
        if session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
            self.session_id = session_id


def _partition(index: int, asked: Asked) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=asked.leader_epoch,
        fetch_offset=asked.offset,
        last_fetched_epoch=asked.last_epoch,
        log_start_offset=asked.log_start,
        partition_max_bytes=asked.max_bytes,
    )
