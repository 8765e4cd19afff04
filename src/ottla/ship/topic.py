"""The topic of a shipper: sending lines to it, and finding in it what an earlier run has sent.

Each record says in its headers which generation of which file it is from, where it began there, and where the
next one begins. A run that was killed may have sent more than its state knows; its records stand behind the
offsets in the state. So the next run reads those, and goes on where they end.
"""

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base.command_error import CommandError
from ottla.client.librdkafka import cluster, connections, partition_offsets
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained, explain, is_dropped
from ottla.client.librdkafka.messages import SILENCE_S, assigned_messages, flushed, headers_of
from ottla.client.properties import ClientProperties, Where
from ottla.ship.files import Line
from ottla.ship.state import Position, ShipState
from ottla.ship.watch import Sent

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

FLUSH_S = 0.5
PATIENCE_S = 10.0
SETTLED_S = (
    0.5  # a killed run may have left a request in the socket: wait until the topic has been still this long
)
SETTLING_S = 10.0
FIELDS = ("path", "offset", "next", "file", "shipper")


class ShipTopic:
    """Sends in order and each record once: the producer is idempotent, and tries until somebody stops it."""

    def __init__(self, where: Where, state: ShipState, say: Callable[[str], None]) -> None:
        self.where, self.state, self.say = ClientProperties.of(where), state, say
        self.host = socket.gethostname()
        self.failed: Any = None
        self.ends = dict(state.ends)
        own = {
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "linger.ms": 5,
            "compression.type": "zstd",
            "message.max.bytes": 2_000_000,
            "queue.buffering.max.messages": 100_000,
        }
        self.producer = connections.producer(where, own)

    def create(self) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        client, name = connections.admin(self.where), self.state.topic
        if name in cluster.metadata(client).topics:
            return
        with errors_explained(f"topic {name}"):
            asked = client.create_topics([NewTopic(name, -1, -1)], request_timeout=REQUEST_S)
            try:
                asked[name].result(REQUEST_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def ids(self) -> tuple[str, str]:
        """Of the cluster and of the topic."""
        from confluent_kafka import TopicCollection

        client, name = connections.admin(self.where), self.state.topic
        with errors_explained(f"topic {name}"):
            asked = client.describe_topics(TopicCollection([name]), request_timeout=REQUEST_S)
            description = asked[name].result(REQUEST_S)
        return cluster.metadata(client).cluster_id or "", str(description.topic_id)

    def send(self, position: Position, line: Line) -> None:
        """Queue one line. BufferError never leaves: a full queue is waited for."""
        headers: list[tuple[str, str | bytes | None]] = [
            ("host", self.host),
            ("path", position.path),
            ("offset", str(line.offset)),
            ("next", str(line.next)),
            ("file", position.file),
            ("shipper", self.state.shipper),
        ]
        if line.is_continued:
            headers.append(("continued", "1"))
        key = f"{self.host}:{position.path}".encode(errors="surrogateescape")
        from confluent_kafka import KafkaException

        with errors_explained(f"topic {self.state.topic}"):
            while True:
                try:
                    self.producer.produce(
                        self.state.topic, line.value, key, headers=headers, on_delivery=self._on_delivery
                    )
                except KafkaException:
                    self.producer.poll(0)  # it says why it cannot go on, if that is the reason
                    raise
                except BufferError:
                    self.producer.poll(FLUSH_S)
                    self._check()
                else:
                    self.producer.poll(0)
                    return

    def flush(self, is_stopping: Callable[[], bool]) -> bool:
        """Wait until everything is acknowledged; False if that was not to be."""
        began_s = time.monotonic()
        has_complained = False
        while self._unacknowledged():
            self._check()
            waited_s = time.monotonic() - began_s
            if waited_s > PATIENCE_S and is_stopping():
                return False
            if waited_s > PATIENCE_S and not has_complained:
                self.say(f"ottla: the broker at {self.where.bootstrap} does not answer; waiting for it")
                has_complained = True
        self._check()
        return True

    def _unacknowledged(self) -> int:
        with errors_explained(f"topic {self.state.topic}"):
            return flushed(self.producer, FLUSH_S)

    def _on_delivery(self, error: Any, message: "Message") -> None:
        if error is not None:
            if not is_dropped(error):
                self.failed = self.failed or error
            return
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None and offset >= 0:
            self.ends[partition] = max(self.ends.get(partition, 0), offset + 1)

    def _check(self) -> None:
        if self.failed is not None:
            raise CommandError(f"topic {self.state.topic}: {explain(self.failed)}")

    # -- what is there already --------------------

    def sent(self) -> dict[str, Sent]:
        """The last record of each file among those behind the state; the ends move to behind them."""
        from confluent_kafka import TopicPartition

        client = connections.consumer(self.where, {"check.crcs": "true"})
        try:
            partitions = cluster.partitions(client, self.state.topic)

            def bounds() -> dict[int, tuple[int, int]]:
                with errors_explained(f"topic {self.state.topic}"):
                    return {
                        partition: partition_offsets.watermarks(client, self.state.topic, partition)
                        for partition in partitions
                    }

            stored_ends = self.state.ends if not self.state.is_clean else {}
            there = _settled(bounds) if stored_ends else bounds()
            begin = {
                partition: stored_ends[partition] if low <= stored_ends[partition] <= high else low
                for partition, (low, high) in there.items()
                if partition in stored_ends
            }
            # A partition that was added meanwhile is read from its beginning, a fresh shipper reads nothing.
            begin |= {
                partition: low
                for partition, (low, _) in there.items()
                if stored_ends and partition not in stored_ends
            }
            self.ends = {partition: high for partition, (_, high) in there.items()}
            starts = [
                TopicPartition(self.state.topic, partition, at)
                for partition, at in begin.items()
                if at < there[partition][1]
            ]
            return self._read(client, starts, self.ends)
        finally:
            client.close()

    def _read(self, client: Any, starts: "list[TopicPartition]", ends: dict[int, int]) -> dict[str, Sent]:
        last_sent: dict[str, Sent] = {}
        unread, heard_s = {start.partition for start in starts}, time.monotonic()
        if starts:
            client.assign(starts)
        while unread:
            messages = assigned_messages(client, None)
            for message in messages:
                partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
                if error is not None and error.name() != "_PARTITION_EOF":
                    raise CommandError(f"topic {self.state.topic}: {explain(error)}")
                if error is None:
                    self._keep(last_sent, message)
                if error is not None or offset + 1 >= ends[partition]:
                    unread.discard(partition)
            heard_s = time.monotonic() if messages else heard_s
            if time.monotonic() - heard_s > SILENCE_S:
                raise CommandError(f"topic {self.state.topic}: what was sent before cannot be read back")
        return last_sent

    def _keep(self, last_sent: dict[str, Sent], message: "Message") -> None:
        headers = {name: value for name, value in headers_of(message, self.say) if value is not None}
        if any(name not in headers for name in FIELDS):
            return
        if headers["shipper"] != self.state.shipper.encode():
            return
        try:
            name = headers["file"].decode()
            path, offset, after = headers["path"], int(headers["offset"]), int(headers["next"])
        except ValueError:
            return  # it has our name, and somebody else sent it
        sent = Sent(path.decode(errors="surrogateescape"), offset, after, message.value() or b"")
        if name not in last_sent or last_sent[name].next < sent.next:
            last_sent[name] = sent


def _settled(bounds: Callable[[], dict[int, tuple[int, int]]]) -> dict[int, tuple[int, int]]:
    """Where the partitions end, once they have not grown for a moment (or others never stop writing)."""
    began_s = changed_s = time.monotonic()
    there = bounds()
    while time.monotonic() - changed_s < SETTLED_S and time.monotonic() - began_s < SETTLING_S:
        time.sleep(SETTLED_S / 5)
        now = bounds()
        if now != there:
            there, changed_s = now, time.monotonic()
    return there
