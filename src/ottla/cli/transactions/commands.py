"""`ottla transactions`: list and describe transactions, find those that hang, and abort them."""

import time
from typing import Annotated, Any

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ErrorCode
from ottla.base.times import parse_duration_ms, show_duration, show_ms
from ottla.cli import output
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.output import Cell
from ottla.cli.partitions import show_partitions
from ottla.cli.transactions import abort, search
from ottla.client import transaction_states
from ottla.client.admin.requests import connected
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.librdkafka.errors import REQUEST_S, meant
from ottla.client.retry import Deadline
from ottla.client.transaction_states import OPEN_STATES, Described, Filters, Listed, OpenTransaction

app = typer.Typer(
    name="transactions",
    help="List and describe transactions, find those that hang, and abort them.",
    no_args_is_help=True,
)

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
    "PrepareEpochFence",
)  # fmt: skip
MAX_TIMEOUT = "15m"  # transaction.max.timeout.ms, where nobody has set it

Topic = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="In this topic.")]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="In this partition of the topic.")
]


@app.command("list")
@connects()
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help=f"Only {', '.join(STATES)}; may be repeated."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="N", min=0, help="Only of this producer; may be repeated."),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option("--longer-than", metavar="TIME", help="Only those open for longer: 30s, 15m, 2h."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="Only transactional ids that this expression (RE2) matches whole.",
        ),
    ] = None,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """List the transactional ids of all brokers, with the state of the last transaction of each.

    \b
    Examples:
      ottla transactions list
      ottla transactions list --state ongoing --longer-than 10m
      ottla transactions list --pattern 'orders-.*' --json | jq -r '.[].transactional_id'
    """
    longer_ms = None if longer_than is None else parse_duration_ms(longer_than, "--longer-than")
    # A broker counts the time since a transaction began, also of one that has ended.
    states = _states(state or []) or (() if longer_ms is None else OPEN_STATES)
    filters = Filters(states, tuple(producer_id or ()), longer_ms, pattern)
    with connected(where) as cluster:
        rows = _listed(cluster, filters)
    if json:
        output.show_json([transaction._asdict() for transaction in rows])
    elif rows:
        output.show_table(("transactional id", "coordinator", "producer id", "state"), rows)
    else:
        output.say("there are no transactions" + (" like that" if filters != Filters() else ""))


@app.command()
@connects()
def describe(
    transactional_ids: Annotated[
        list[str],
        typer.Argument(metavar="TRANSACTIONAL_ID...", help="The transactional ids.", show_default=False),
    ],
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Show who coordinates transactional ids, their producer, state and timeout, and since when a transaction
    is open in which partitions.

    \b
    Examples:
      ottla transactions describe orders-1
      ottla transactions describe orders-1 --json | jq '.[0].partitions'
    """
    descriptions = []
    with connected(where) as cluster:
        for transactional_id in dict.fromkeys(transactional_ids):
            described = transaction_states.described(cluster, transactional_id, Deadline(REQUEST_S))
            if described is None:
                names = [transaction.transactional_id for transaction in _listed(cluster, Filters())]
                raise CommandError(
                    f"there is no transactional id {transactional_id!r}{meant(transactional_id, names)}"
                )
            descriptions.append(described)
    now_ms = int(time.time() * 1000)
    if json:
        output.show_json([_as_json(described, now_ms) for described in descriptions])
        return
    columns = (
        "transactional id", "coordinator", "producer id", "epoch", "state", "timeout", "started", "open for",
        "partitions",
    )  # fmt: skip
    output.show_table(columns, [_row(described, now_ms) for described in descriptions])


@app.command("find-hanging")
@connects()
def find_hanging(
    topic: Topic = None,
    partition: Partition = None,
    broker: Annotated[
        int | None,
        typer.Option("--broker", "-n", metavar="ID", min=0, help="In partitions with a replica on it."),
    ] = None,
    max_timeout: Annotated[
        str,
        typer.Option(
            "--max-transaction-timeout",
            metavar="TIME",
            help="Those that wrote nothing for longer: transaction.max.timeout.ms of the brokers.",
        ),
    ] = MAX_TIMEOUT,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Find transactions that are open in a partition though no coordinator will end them.

    Such a transaction holds back every reader of committed records in its partition, until it is aborted
    with `ottla transactions abort`. One that its coordinator still has is not shown: it ends by itself.
    Name a topic or a broker, so that not every partition is searched.

    \b
    Examples:
      ottla transactions find-hanging --topic orders
      ottla transactions find-hanging --broker 2 --max-transaction-timeout 1h --json
    """
    if topic is None and broker is None:
        raise CommandError("say where to search: --topic, --broker or both", USAGE)
    if partition is not None and topic is None:
        raise CommandError("--partition needs --topic", USAGE)
    idle_ms = parse_duration_ms(max_timeout, "--max-transaction-timeout")
    with connected(where) as cluster:
        topic_partitions = search.partitions(cluster, topic, partition, broker)
        now_ms = int(time.time() * 1000)
        transactions = search.hanging(cluster, topic_partitions, now_ms - idle_ms)
    if json:
        output.show_json([_open_as_json(transaction, now_ms) for transaction in transactions])
    elif transactions:
        columns = (
            "topic", "partition", "producer id", "epoch", "coordinator epoch", "start offset", "last record",
            "idle for",
        )  # fmt: skip
        rows = [
            (
                *transaction[0], *transaction[1:5], show_ms(transaction.last_timestamp_ms),
                show_duration(now_ms - transaction.last_timestamp_ms),
            )
            for transaction in transactions
        ]  # fmt: skip
        output.show_table(columns, rows)
    else:
        output.say(f"no transaction hangs in {output.plural(len(topic_partitions), 'partition')}")


app.command("abort")(abort.abort)


# -- what is asked for --------------------


def _states(given: list[str]) -> tuple[str, ...]:
    """Case, dashes and underscores do not matter."""
    by_plain = {name.lower(): name for name in STATES}
    plain = [text.lower().replace("-", "").replace("_", "") for text in given]
    wrong = [text for text, name in zip(given, plain, strict=True) if name not in by_plain]
    if wrong:
        raise CommandError(f"--state is one of {', '.join(STATES)}, not {', '.join(wrong)}", USAGE)
    return tuple(by_plain[name] for name in plain)


# -- asking --------------------


def _listed(cluster: Cluster, filters: Filters) -> list[Listed]:
    """Those of all brokers that answer; who does not is told."""
    transactions, problems = [], []
    for node in sorted(cluster.brokers):
        try:
            transactions += transaction_states.listed(cluster, node, filters, Deadline(REQUEST_S))
        except ClientError as error:
            if error.code is ErrorCode.INVALID_REGULAR_EXPRESSION:
                raise CommandError(
                    f"--pattern {filters.pattern!r} is not a regular expression of RE2", USAGE
                ) from None
            problems.append(str(error))
    if len(problems) == len(cluster.brokers):
        raise CommandError(problems[0])
    for problem in problems:
        output.say(f"the transactions of a broker are missing: {problem}")
    return sorted(transactions)


# -- how to show it --------------------


def _row(described: Described, now_ms: int) -> tuple[Cell, ...]:
    open_ms = _open_ms(described, now_ms)
    return (
        described.transactional_id,
        described.coordinator,
        described.producer_id,
        described.producer_epoch,
        described.state,
        show_duration(described.timeout_ms),
        None if described.started_ms is None else show_ms(described.started_ms),
        None if open_ms is None else show_duration(open_ms),
        show_partitions(described.partitions) or None,
    )


def _as_json(described: Described, now_ms: int) -> dict[str, Any]:
    return {
        **described._asdict(),
        "open_ms": _open_ms(described, now_ms),
        "partitions": [topic_partition._asdict() for topic_partition in described.partitions],
    }


def _open_ms(described: Described, now_ms: int) -> int | None:
    return now_ms - described.started_ms if described.is_open and described.started_ms is not None else None


def _open_as_json(transaction: OpenTransaction, now_ms: int) -> dict[str, Any]:
    given = transaction._asdict()
    topic_partition = given.pop("topic_partition")
    return {**topic_partition._asdict(), **given, "idle_ms": now_ms - transaction.last_timestamp_ms}
