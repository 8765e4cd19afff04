"""`ottla skip`: leave records that cannot be read out of what a coordinator loads.

It writes a record that says so behind them (`coordinator/damage`), so nothing is removed, all replicas know
it, and it can be looked up later.
"""

import time
from collections.abc import Callable, Iterable
from typing import Annotated, Final

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ApiError
from ottla.base.ids import ADMIN_CLIENT_ID, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from ottla.broker.journal import stored_in
from ottla.cli import output
from ottla.cli.options import HERE, WhereOption, connects
from ottla.cli.storage.group_records import decode_record
from ottla.client.client import Client
from ottla.client.errors import ClientError
from ottla.client.librdkafka import connections
from ottla.coordinator.damage import leave_out
from ottla.coordinator.runtime import Stored
from ottla.coordinator.turn import StoredRecord
from ottla.group import records as group_records
from ottla.log.folders import parse_folder
from ottla.records.batch import split
from ottla.records.builder import NewRecord, build_batch
from ottla.txn import records as transaction_records

_PARSERS: Final[dict[str, Callable[[StoredRecord], object]]] = {
    OFFSETS_TOPIC: group_records.parse,
    TRANSACTIONS_TOPIC: transaction_records.parse,
}


@connects()
def skip(
    partition: Annotated[str, typer.Argument(metavar="PARTITION", help="Such as __consumer_offsets-7.")],
    offsets: Annotated[
        list[int], typer.Argument(metavar="OFFSET...", help="As the broker's log names them.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    where: WhereOption = HERE,
) -> None:
    """Leave records that cannot be read out of what a coordinator loads.

    A broker that finds such a record in an internal topic does not serve the groups, or transactional ids,
    stored beside it, and logs where it is. This shows what is there, and has the broker go on without it:
    what was stored before under the same key counts again. Nothing is removed. Of a batch with a wrong
    checksum all records are left out.

    \b
    Examples:
      ottla skip __consumer_offsets-7 1234
      ottla skip __consumer_offsets-7 1234 1235 --yes
    """
    topic_partition = parse_folder(partition)
    if topic_partition is None or topic_partition.topic not in _PARSERS:
        topics = " or ".join(_PARSERS)
        raise CommandError(f"{partition} is not a partition of {topics}, such as {OFFSETS_TOPIC}-7", USAGE)
    offsets = sorted(set(offsets))
    try:
        connections.check(where)
        with Client(where.bootstrap, client_id=ADMIN_CLIENT_ID, security=where.security) as client:
            for offset in offsets:
                output.say(f"{topic_partition}, offset {offset}: {_look(client, topic_partition, offset)}")
            output.confirm(
                f"Leave {output.plural(len(offsets), 'place')} of {topic_partition} out for good?", yes=yes
            )
            client.produce({topic_partition: _batch(offsets)})
    except ClientError as error:
        raise CommandError(str(error)) from None
    leader = f"the broker that leads {topic_partition}"
    output.say(f"left out; {leader} loads it again and logs what is still wrong")


def _look(client: Client, topic_partition: TopicPartition, offset: int) -> str:
    """What is there that cannot be read."""
    end = client.ends([topic_partition])[topic_partition]
    if not 0 <= offset < end:
        raise CommandError(f"{topic_partition} has no offset {offset}: it ends with {end - 1}")
    for fetched in client.fetch(topic_partition, offset, offset + 1):
        for header, batch in split(memoryview(fetched.records)):
            if not header.base_offset <= offset < header.next_offset:
                continue
            reach = f"a batch of offsets {header.base_offset} to {header.last_offset}"
            try:
                return _describe(topic_partition, offset, stored_in(header, batch))
            except ApiError as error:
                problem = str(error)
            if offset != header.base_offset:
                raise CommandError(
                    f"{topic_partition}, offset {offset} is in {reach}: name {header.base_offset}"
                )
            return f"{reach}: {problem}"
    raise CommandError(f"{topic_partition} has no record at offset {offset}")


def _describe(topic_partition: TopicPartition, offset: int, batch: Iterable[Stored]) -> str:
    for stored in batch:
        match stored:
            case (StoredRecord(key, bytes(value)) as record, int(at), _) if at == offset:
                _, problem = decode_record(record, _PARSERS[topic_partition.topic])
                if problem:
                    return f"{problem} (key {key!r}, value of {len(value)} bytes)"
    raise CommandError(f"{topic_partition}, offset {offset} can be read: there is nothing to leave out")


def _batch(offsets: list[int]) -> bytes:
    now_ms = int(time.time() * 1000)
    records = [leave_out(offset) for offset in offsets]
    return bytes(build_batch([NewRecord(record.key, record.value, (), now_ms) for record in records]))
