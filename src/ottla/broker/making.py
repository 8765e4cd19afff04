"""New logs, made in portions: a topic of thousands of partitions must not keep the broker from all others.

Rules: one input makes at most `PORTION_MAX` logs, which takes about a tenth of a second; the others wait in
`todo`, and `pump` goes on with them as soon as the loop has seen to what came meanwhile. What waits is only a
name: when its turn comes, what the image says then counts, and if that is nothing, there is nothing to do.
Until then the partition is not here yet (NOT_LEADER_OR_FOLLOWER), as on a broker that has not heard of it.

A log that is there is opened at once, and so is everything when a broker starts. After a crash with names in
`todo`, a directory that is offline at the next start is held to have them (`offline`), until it is back.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from ottla.base.ids import TopicPartition
from ottla.log.config import LONG_MAX

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PORTION_MAX = 100
AGAIN_MS = 1_000  # after what goes by itself: a lack of file descriptors


@dataclass(slots=True)
class Making:
    broker: "Broker"
    todo: dict[TopicPartition, None] = field(default_factory=dict)
    _left: int = LONG_MAX
    _due_ms: int = 0

    def begin(self) -> None:
        """An input begins that may ask for new logs."""
        self._left = PORTION_MAX

    def may_make(self, id: TopicPartition, now_ms: int) -> bool:
        """Is it this log's turn? If not, it will be."""
        if self._left and id not in self.todo:
            self._left -= 1
            return True
        if not self.todo:
            self._due_ms = now_ms
        self.todo[id] = None
        return False

    def next_ms(self) -> int | None:
        return self._due_ms if self.todo else None

    def pump(self, now_ms: int) -> None:
        if not self.todo or now_ms < self._due_ms:
            return
        self.begin()
        topics = self.broker.image.topics
        for id in list(islice(self.todo, PORTION_MAX)):
            del self.todo[id]
            topic = topics.get(id.topic)
            if topic is not None and id.partition in topic.states:
                try:
                    self.broker.follow(topic, id.partition, now_ms)
                except OSError:
                    self.todo[id] = None
                    self._due_ms = now_ms + AGAIN_MS
                    raise
