"""`ottla consume --group`: be a member of a group, and commit what was printed.

Records are committed after they were written and flushed, never before: whoever reads on after a crash sees
some records twice and none too few. The end of a partition is where it ended when it was assigned; the
command stops when every partition it holds is at its end. A partition that goes to another member is that
member's to finish.

Not obvious: while a group rebalances, a commit may be refused although nothing is lost. It is tried again,
unless the partition has gone by then.
"""

import sys
import time
from typing import TYPE_CHECKING, Any

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.cli.records.messages import Write
from ottla.client.librdkafka import partition_offsets
from ottla.client.librdkafka.errors import errors_explained
from ottla.client.librdkafka.messages import POLL_S, SILENCE_S, interrupts_known, is_end, next_messages

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import Consumer, TopicPartition

PROTOCOLS = ("classic", "consumer")
# Others may take their time to give partitions back.
JOIN_S = 30.0
COMMIT_S = 10.0


class Membership:
    def __init__(self, client: "Consumer", topic: str, *, follow: bool) -> None:
        self.client = client
        self.topic = topic
        self.follow = follow
        self.ends: dict[int, int] = {}  # of the partitions held now
        self.unread: set[int] = set()  # those of them that are not at their end
        self.printed: dict[int, int] = {}  # the offset after the last one printed, until it is committed
        self.reached: dict[int, int] = {}  # the same, committed or not, of the partitions held now
        self.heard = 0.0

    def read(self, most: int | None, write: Write) -> None:
        """Print records until the end, or for ever."""
        with errors_explained(f"topic {self.topic}"):
            self.client.subscribe(
                [self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            try:
                self._read(most, write)
            except KeyboardInterrupt:
                sys.stdout.buffer.flush()
                self._commit()
                raise
            self._settle()

    def _read(self, most: int | None, write: Write) -> None:
        left, self.heard = most, time.monotonic()
        while left != 0 and not self._is_done():
            messages = next_messages(self.client, left)
            for message in messages:
                is_printed = self._on_message(message, write)
                left = left - 1 if left is not None and is_printed else left
            sys.stdout.buffer.flush()
            self._commit()
            self.heard = time.monotonic() if messages else self.heard
            self._check_silence(time.monotonic() - self.heard)

    def _is_done(self) -> bool:
        return not self.follow and bool(self.ends) and not self.unread

    def _check_silence(self, silence_s: float) -> None:
        if self.follow:
            return
        if not self.ends and silence_s > JOIN_S:
            raise CommandError(f"no partition of {self.topic} was assigned within {JOIN_S:.0f} s")
        if self.ends and silence_s > SILENCE_S:
            raise CommandError(f"no record came for {SILENCE_S:.0f} s, and the end is not reached")

    def _on_message(self, message: "confluent_kafka.Message", write: Write) -> bool:
        """Print a record, unless it is beyond the end or its partition has just gone; whether it was
        printed."""
        is_no_record = is_end(message)
        partition, position = message.partition() or 0, message.offset() or 0
        if partition not in self.ends:
            return False
        left = self.ends[partition] - position
        if is_no_record or left <= 1:
            self.unread.discard(partition)
        if is_no_record and self.reached.get(partition, position) < position:
            # Markers of transactions and aborted records are behind the last one printed: no lag is left.
            self.reached[partition] = self.printed[partition] = position
        if is_no_record or (left <= 0 and not self.follow):
            return False
        written = write(message)
        self.reached[partition] = self.printed[partition] = position + 1
        if written is None:  # read, but not wanted
            return False
        sys.stdout.buffer.write(written)
        return True

    # -- the group --

    def _on_assign(self, client: "Consumer", partitions: "list[TopicPartition]") -> None:
        self.heard = time.monotonic()
        for assigned in partitions:
            _, self.ends[assigned.partition] = partition_offsets.watermarks(
                client, assigned.topic, assigned.partition
            )
            self.unread.add(assigned.partition)

    def _on_revoke(self, client: "Consumer", partitions: "list[TopicPartition]") -> None:
        self._commit()
        self._on_lost(client, partitions)

    def _on_lost(self, _client: "Consumer", partitions: "list[TopicPartition]") -> None:
        for lost in partitions:
            self.ends.pop(lost.partition, None)
            self.unread.discard(lost.partition)
            self.reached.pop(lost.partition, None)
            if self.printed.pop(lost.partition, None) is not None:
                output.say(
                    f"partition {lost.partition} went to another member before all that was printed of it "
                    "was committed; some records will be read again"
                )

    def _commit(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        if not self.printed:
            return
        offsets = [TopicPartition(self.topic, partition, next_) for partition, next_ in self.printed.items()]
        try:
            answered: Any = self.client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _passing():
                raise
            return
        for committed in answered:
            if committed.error is None:
                self.printed.pop(committed.partition, None)
            elif committed.error.code() not in _passing():
                raise KafkaException(committed.error)

    def _settle(self) -> None:
        """Commit the last of it, even if the group is rebalancing just now."""
        deadline = time.monotonic() + COMMIT_S
        while self.printed and time.monotonic() < deadline:
            with interrupts_known():
                self.client.poll(POLL_S)  # moves the rebalance on; a record that comes is not committed
            self._commit()
        if self.printed:
            raise CommandError("what was printed last could not be committed and will be read again")


def _passing() -> set[int]:
    """Refusals of a commit that the end of a rebalance heals."""
    from confluent_kafka import KafkaError

    return {
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
