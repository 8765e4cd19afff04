"""Which way the records of `ottla produce` go, and what is said when they are there or Ctrl-C comes first.

Our own client sends them in batches (`batch_sender`): it starts at once and is fast. librdkafka sends them
one by one (`librdkafka_sender`) in transactions, and with properties that only librdkafka has.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.records.deliveries import Deliveries
from ottla.cli.records.input_records import LineError, Parsed, single
from ottla.client.client import Client
from ottla.client.errors import ClientError
from ottla.client.librdkafka.connections import CLIENT_ID, probe, properties_for_librdkafka
from ottla.client.properties import ClientProperties
from ottla.records.compression import Codec

if TYPE_CHECKING:
    from ottla.cli.records.librdkafka_sender import LibrdkafkaSender

DELIVERY_S = 30.0
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
# What our own client does as librdkafka would.
OWN = frozenset({"acks", "client.id", "compression.type"})
RECORD_BYTES_MAX = 1_000_000_000  # all that librdkafka allows: how large a record may be, the broker says
DEFAULTS: dict[str, str | int] = {
    "acks": "all",
    "linger.ms": 5,
    "message.max.bytes": RECORD_BYTES_MAX,
    "topic.metadata.propagation.max.ms": 5_000,
}


@dataclass(frozen=True)
class Way:
    where: ClientProperties
    topic: str
    typed: dict[str, str]  # over all properties
    partition: int | None
    transactional_id: str | None
    records_per_transaction: int | None
    quiet: bool

    @cached_property
    def settings(self) -> dict[str, Any]:
        return properties_for_librdkafka(self.where) | self.typed

    @property
    def is_own(self) -> bool:
        return (
            self.transactional_id is None
            and self.settings.keys() <= OWN
            and self.settings.get("acks", "all") in ACKS
            and self.settings.get("compression.type", "none").upper() in Codec.__members__
        )

    def check(self) -> None:
        """What contradicts itself is refused before anything is read."""
        if self.transactional_id is None:
            if self.records_per_transaction is not None:
                raise CommandError("--records-per-transaction needs --transactional-id", USAGE)
            return
        if not self.transactional_id:
            raise CommandError("--transactional-id must not be empty", USAGE)
        if not self._has_all_acks:
            raise CommandError("a transaction takes --acks all", USAGE)

    def send(self, portions: Iterable[Parsed]) -> None:
        began, deliveries = time.monotonic(), Deliveries(is_told=self.transactional_id is None)
        try:
            left = self._own(portions, deliveries) if self.is_own else self._librdkafka(portions, deliveries)
        except KeyboardInterrupt:
            if self.transactional_id is None:
                output.say(f"interrupted: {output.plural(deliveries.acknowledged, 'record')} acknowledged")
            raise
        deliveries.report(left, self.topic, time.monotonic() - began, quiet=self.quiet)

    @property
    def _has_all_acks(self) -> bool:
        return ACKS.get(str(self.settings.get("acks", "all"))) == -1

    # -- our own client --

    def _own(self, portions: Iterable[Parsed], deliveries: Deliveries) -> int:
        from ottla.cli.records.batch_sender import BatchSender, explained

        probe(self.where)
        try:
            with self._client() as client:
                sender = BatchSender(
                    client,
                    self.topic,
                    deliveries,
                    acks=ACKS[self.settings.get("acks", "all")],
                    codec=Codec.from_name(self.settings.get("compression.type", "none")),
                    partition=self.partition,
                    limit=lambda: self._limit,
                    quiet=self.quiet,
                )
                try:
                    sender.prepare()
                    for portion in portions:
                        sender.send(portion)
                    sender.finish()
                except LineError as error:
                    sender.finish()
                    raise CommandError(f"{error}{deliveries.sent}", error.code) from None
                except (CommandError, ClientError, OSError):  # also of the input: what was read is sent
                    sender.finish()
                    raise
                except KeyboardInterrupt:
                    sender.settle()
                    raise
        except ClientError as error:
            raise CommandError(f"topic {self.topic}: {explained(error)}{_so_far(deliveries)}") from None
        return 0

    def _client(self) -> Client:
        client_id = self.where.client_id or CLIENT_ID
        return Client(
            self.where.bootstrap, client_id=client_id, timeout_s=DELIVERY_S, security=self.where.security
        )

    @cached_property
    def _limit(self) -> int | None:
        """How large a batch may be; somebody who may write need not be allowed to know that."""
        from ottla.client.admin import configs as resources
        from ottla.client.admin.configs import Resource
        from ottla.client.librdkafka import connections

        try:
            settings = resources.describe(connections.admin(self.where), Resource("topic", self.topic))
        except CommandError:
            return None
        limits = [setting.value for setting in settings if setting.name == "max.message.bytes"]
        return int(limits[0]) if limits and limits[0] is not None else None

    # -- librdkafka --

    def _librdkafka(self, portions: Iterable[Parsed], deliveries: Deliveries) -> int:
        from ottla.cli.records.librdkafka_sender import LibrdkafkaSender, interruptible
        from ottla.client.librdkafka import cluster, connections
        from ottla.client.librdkafka.errors import errors_explained

        limit = str(self.settings.get("message.max.bytes", RECORD_BYTES_MAX))
        client = connections.producer(self.where, self._defaults(), self.typed)
        is_new = not self.quiet and self.topic not in cluster.metadata(client).topics
        sender = LibrdkafkaSender(
            client,
            self.topic,
            deliveries,
            in_transaction=self.transactional_id is not None,
            limit=int(limit) if limit.isdigit() else RECORD_BYTES_MAX,
        )
        try:
            with interruptible() as reading, errors_explained(f"topic {self.topic}"):
                records = reading.records(single(portions, self.partition))
                if self.transactional_id is None:
                    sender.send(records)
                else:
                    self._in_transactions(client, records, sender)
                return sender.finish()
        except LineError as error:
            raise CommandError(f"{error}{sender.sent}", error.code) from None
        except KeyboardInterrupt:
            sender.finish()
            raise
        finally:
            if is_new and self.topic in cluster.metadata(client).topics:
                output.say(f"topic {self.topic} was not there, and was created")

    def _defaults(self) -> dict[str, Any]:
        """Under the properties that were given."""
        from ottla.client.librdkafka import transactions

        defaults: dict[str, Any] = dict(DEFAULTS)
        if self.transactional_id is None:
            defaults["message.timeout.ms"] = int(DELIVERY_S * 1000)
        else:
            defaults |= transactions.settings(self.transactional_id, self._timeout_ms)
        if self._has_all_acks:
            # What is sent again after a failover is stored once. Java's default, and not librdkafka's.
            defaults["enable.idempotence"] = True
        return defaults

    @property
    def _timeout_ms(self) -> int:
        from ottla.client.librdkafka.transactions import TIMEOUT, TIMEOUT_MS

        given = str(self.settings.get(TIMEOUT, ""))
        return int(given) if given.isdigit() else TIMEOUT_MS

    def _in_transactions(self, client: Any, records: Any, sender: "LibrdkafkaSender") -> None:
        from ottla.cli.records.input_transactions import in_transactions
        from ottla.client.librdkafka.transactions import Transactions

        assert self.transactional_id is not None
        opened = Transactions(client, self.transactional_id, self._timeout_ms)
        in_transactions(opened, records, self.records_per_transaction, sender.send)


def _so_far(deliveries: Deliveries) -> str:
    count = deliveries.acknowledged
    return f"; {output.plural(count, 'record')} acknowledged before" if count else ""
