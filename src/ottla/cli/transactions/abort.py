"""`ottla transactions abort`: end a transaction in one partition, past its coordinator.

What Kafka's tool checks is checked here, too: a transaction must be open where it is said to begin. Beyond
that, one that its coordinator still has is refused without --force, as it could be committed elsewhere.
"""

from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.cli import output
from ottla.cli.options import HERE, WhereOption, connects
from ottla.cli.transactions import search
from ottla.client import transaction_states
from ottla.client.admin.requests import connected
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.librdkafka.errors import REQUEST_S
from ottla.client.retry import Deadline
from ottla.client.transaction_states import OpenTransaction


@connects()
def abort(
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic.")],
    partition: Annotated[int, typer.Option("--partition", "-p", metavar="N", min=0, help="The partition.")],
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", metavar="N", min=0, help="Where the transaction begins there."),
    ] = None,
    producer_id: Annotated[
        int | None,
        typer.Option("--producer-id", metavar="N", min=0, help="Instead of --start-offset: its producer."),
    ] = None,
    producer_epoch: Annotated[
        int | None,
        typer.Option("--producer-epoch", metavar="N", min=0, max=32767, help="With --producer-id."),
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option(
            "--coordinator-epoch", metavar="N", min=-1, max=(1 << 31) - 1, help="With --producer-id."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also if its coordinator still has it, or cannot be asked."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    where: WhereOption = HERE,
) -> None:
    """Abort a transaction that hangs in a partition, as `ottla transactions find-hanging` shows it.

    Its records there are never seen by a reader of committed records, who then goes on. Asks first on a
    terminal, and takes --yes without one. A transaction that its coordinator still has is refused: it would
    be aborted in this partition, and could be committed in others. Let it time out, or start a producer
    with the same transactional id, which aborts it.
    With --producer-id and both epochs a broker without DescribeProducers (before 2.8) can be told, too.

    \b
    Examples:
      ottla transactions abort --topic orders --partition 0 --start-offset 1234
      ottla transactions abort -t orders -p 0 --producer-id 7 --producer-epoch 2 --coordinator-epoch 5 --yes
    """
    topic_partition = TopicPartition(topic, partition)
    given = _given(topic_partition, start_offset, producer_id, producer_epoch, coordinator_epoch)
    with connected(where) as cluster:
        search.partitions(cluster, topic, partition)
        transaction = given or _open_at(cluster, topic_partition, start_offset or 0)
        if not force:
            _check_hangs(cluster, transaction)
        name = f"the transaction of producer {transaction.producer_id} in {topic_partition}"
        output.confirm(f"Abort {name}? Its records there are lost.", yes=yes)
        try:
            transaction_states.abort(cluster, transaction, Deadline(REQUEST_S))
        except ClientError as error:
            raise CommandError(_why(error, transaction)) from None
    output.say(f"aborted {name}")


def _given(
    topic_partition: TopicPartition,
    start: int | None,
    producer: int | None,
    epoch: int | None,
    coordinator: int | None,
) -> OpenTransaction | None:
    """The transaction, if it is named by its producer; its start offset is not known then."""
    if start is not None:
        if (producer, epoch, coordinator) != (None, None, None):
            raise CommandError("--start-offset says it all: leave out --producer-id and the epochs", USAGE)
        return None
    if producer is None or epoch is None or coordinator is None:
        raise CommandError(
            "say which transaction: --start-offset, or --producer-id with --producer-epoch and "
            "--coordinator-epoch",
            USAGE,
        )
    return OpenTransaction(topic_partition, producer, epoch, coordinator, -1, -1)


def _open_at(cluster: Cluster, topic_partition: TopicPartition, start_offset: int) -> OpenTransaction:
    transactions = transaction_states.open_transactions(cluster, [topic_partition], Deadline(REQUEST_S))
    for transaction in transactions:
        if transaction.start_offset == start_offset:
            return transaction
    starts = ", ".join(str(transaction.start_offset) for transaction in transactions)
    there = f"those that are open begin at {starts}" if starts else "none is open there"
    raise CommandError(f"no open transaction begins at offset {start_offset} of {topic_partition}: {there}")


def _check_hangs(cluster: Cluster, transaction: OpenTransaction) -> None:
    try:
        hangs = search.without_coordinator(cluster, [transaction])
    except ClientError as error:
        raise CommandError(f"{error}; so it may not hang, and only --force aborts it") from None
    if not hangs:
        producer = transaction.producer_id
        raise CommandError(
            f"the transaction of producer {producer} in {transaction.topic_partition} does not hang: its "
            "coordinator has it and ends it at its timeout "
            f"(`ottla transactions list --producer-id {producer}`); only --force aborts it"
        )


def _why(error: ClientError, transaction: OpenTransaction) -> str:
    topic_partition, producer, epoch, coordinator_epoch, *_ = transaction
    look = f"look again with `ottla transactions find-hanging --topic {topic_partition.topic}`"
    if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
        return f"producer {producer} has a newer epoch than {epoch} in {topic_partition}; {look}"
    if error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        return f"{topic_partition} has seen a newer coordinator epoch than {coordinator_epoch}; {look}"
    return str(error)
