"""Logs are created and deleted in portions, so that a topic of thousands of partitions does not block others.

Rules: one input makes at most `PORTION_MAX` logs, and begins none after `PORTION_US`, unless it would be the
first: machines differ. It deletes at most `DELETED_MAX`. The others wait, and `pump` goes on with as many as
soon as the loop has seen to what came meanwhile. What waits in `todo` is only a name: when its turn
comes, what the image says then counts, and if that is nothing, there is nothing to do. Until then the
partition is not here yet (NOT_LEADER_OR_FOLLOWER), as on a broker that has not heard of it. Who wants all
of a topic to be here waits for `NewLogs`. A log that waits for its end is nobody's any more; a new one of its
name ends it first. If the broker stops before, it is one that nobody knows at the next start.

How long it takes says `elapsed_us`, which the shell replaces by a clock. Without one it takes no time, so
that a run can be repeated exactly.

A log that is there is opened at once, and so is everything when a broker starts. After a crash with names in
`todo`, a directory that is offline at the next start is held to have them (`offline`), until it is back.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from ottla.base.config import LONG_MAX
from ottla.base.ids import TopicPartition
from ottla.controller.image import Image, Topic
from ottla.log.store import LogStore

PORTION_MAX = 50
PORTION_US = 5_000
DELETED_MAX = 500
AGAIN_MS = 1_000  # after an error that passes by itself, such as a lack of file descriptors


@dataclass(frozen=True, slots=True)
class NewLogs:
    """What an answer waits for that is given when no log of a topic waits any more: its key in `parked`."""

    topic: str


class LogQueue:
    """`follow` opens a partition whose turn has come, in the role that the image gives it. `on_made` is told
    of a topic that has none left to make."""

    def __init__(
        self,
        image: Image,
        store: LogStore,
        follow: Callable[[Topic, int, int], None],
        on_made: Callable[[NewLogs, int], None],
    ) -> None:
        self.todo: dict[TopicPartition, None] = {}
        self.deleted: dict[TopicPartition, None] = {}
        self._todo_of = Counter[str]()  # by topic
        self.elapsed_us: Callable[[], int] = lambda: 0
        self._image = image
        self._store = store
        self._follow = follow
        self._on_made = on_made
        self._left = LONG_MAX
        self._end_us = LONG_MAX
        self._deletes_left = LONG_MAX
        self._due_ms = 0

    def begin(self) -> None:
        """Called before each input that may ask for new logs."""
        self._left, self._deletes_left = PORTION_MAX, DELETED_MAX
        self._end_us = self.elapsed_us() + PORTION_US

    @property
    def _may_make(self) -> bool:
        return self._left == PORTION_MAX or (self._left > 0 and self.elapsed_us() < self._end_us)

    def may_open(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Whether the log exists or may be created now. If neither, it is queued."""
        if topic_partition in self.deleted:
            self._delete(topic_partition, now_ms)
        if topic_partition in self._store.logs:
            return True
        if topic_partition not in self.todo and self._may_make:
            self._left -= 1
            return True
        self._wait(now_ms)
        self._put(topic_partition)
        return False

    def has_any_of(self, topic: str) -> bool:
        """Is a log of this topic still to be made here?"""
        return topic in self._todo_of

    def _put(self, topic_partition: TopicPartition) -> None:
        if topic_partition not in self.todo:
            self.todo[topic_partition] = None
            self._todo_of[topic_partition.topic] += 1

    def _take(self, topic_partition: TopicPartition) -> None:
        del self.todo[topic_partition]
        self._todo_of[topic_partition.topic] -= 1
        if not self._todo_of[topic_partition.topic]:
            del self._todo_of[topic_partition.topic]

    def delete(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Delete a log that is no longer used, now or in its turn."""
        self._wait(now_ms)
        self.deleted[topic_partition] = None
        if self._deletes_left:
            self._deletes_left -= 1
            self._delete(topic_partition, now_ms)

    def _delete(self, topic_partition: TopicPartition, now_ms: int) -> None:
        del self.deleted[topic_partition]
        if topic_partition in self._store.logs:  # and not on a disk that has failed meanwhile
            self._store.delete(topic_partition, now_ms)

    def _wait(self, now_ms: int) -> None:
        if not self.todo and not self.deleted:
            self._due_ms = now_ms

    def next_ms(self) -> int | None:
        return self._due_ms if self.todo or self.deleted else None

    def pump(self, now_ms: int) -> None:
        if (not self.todo and not self.deleted) or now_ms < self._due_ms:
            return
        self.begin()
        for topic_partition in list(islice(self.deleted, DELETED_MAX)):
            self._delete(topic_partition, now_ms)
        topics = self._image.topics
        for topic_partition in list(islice(self.todo, PORTION_MAX)):
            if not self._may_make:
                return
            self._take(topic_partition)
            topic = topics.get(topic_partition.topic)
            if topic is not None and topic_partition.partition in topic.states:
                try:
                    self._follow(topic, topic_partition.partition, now_ms)
                except OSError:
                    self._put(topic_partition)
                    self._due_ms = now_ms + AGAIN_MS
                    raise
            if not self.has_any_of(topic_partition.topic):
                self._on_made(NewLogs(topic_partition.topic), now_ms)
