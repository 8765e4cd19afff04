"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664).

While some of them are being loaded, or this broker may not know all of them, none is listed, with
COORDINATOR_LOAD_IN_PROGRESS, as in Kafka. Ids that whoever asks may not describe are not listed. A state that
there is not matches nothing, and is named in the answer. A duration is compared with the time since the last
transaction began.

v1 filter by duration (KIP-994) · v2 filter by a pattern for the whole id (KIP-1152)
Left out: of RE2's syntax, what `group/consumer/regex` leaves out.
"""

import string
from collections.abc import Callable, Generator
from typing import Final

from ottla.api.call import Call, LastAnswer
from ottla.api.leadership_proof import proven
from ottla.api.needs import DESCRIBE, TRANSACTIONAL_ID
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TRANSACTIONS_TOPIC, TopicPartition
from ottla.broker.long_work import LARGE, Steps
from ottla.broker.parked import Parked
from ottla.group.consumer.regex import compile_pattern
from ottla.replication.partition import Partition
from ottla.txn.states import TransactionState
from ottla.txn.transaction import Transaction
from ottla.wire.lazy import lazily
from ottla.wire.messages import list_transactions as messages
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

MANY: Final = 1_000  # ids: the list of them waits for its turn
OTHER: Final = "\uffff"  # stands for all characters of ids that neither are ASCII nor in the pattern
ASCII: Final = frozenset(string.printable)


def list_transactions(call: Call, request: ListTransactionsRequest) -> Steps | Parked | LastAnswer:
    broker, transactions = call.broker, call.broker.coordinators.transactions

    def partitions() -> list[Partition]:
        return [
            broker.partitions[TopicPartition(TRANSACTIONS_TOPIC, index)] for index, _ in transactions.shards()
        ]

    asked = partitions()

    def respond(now_ms: int) -> Steps:
        is_many = sum(len(shard.transactions) for _, shard in transactions.shards()) > MANY
        yield LARGE if is_many else None
        is_certain = all(
            partition.is_settled and broker.proofs.led_at(partition, call.now_ms, now_ms)
            for partition in [*asked, *partitions()]  # some may have been loaded since
        )
        if transactions.runtime.loading or not is_certain:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return (yield from _listed(call, request))

    return proven(call, asked, respond, settled=True)


def _listed(call: Call, request: ListTransactionsRequest) -> Steps:
    text, is_asked_for = request.transactional_id_pattern, _filter(call, request)
    try:
        is_named = _name_filter(text) if text else None
    except ApiError as error:
        return ListTransactionsResponse(error_code=error.code)
    listed = []
    for _, shard in call.broker.coordinators.transactions.shards():
        for transaction in shard.listed():
            yield
            name = transaction.transactional_id
            if not call.allows(DESCRIBE, TRANSACTIONAL_ID, name, is_asked=False):
                continue
            if is_asked_for(transaction) and (
                is_named is None or (yield from is_named(transaction.transactional_id))
            ):
                listed.append(transaction)
    names = {state.value for state in TransactionState}
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in names],
        transaction_states=lazily(
            lambda transaction: messages.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.value,
            ),
            listed,
        ),
    )


def _filter(call: Call, request: ListTransactionsRequest) -> Callable[[Transaction], bool]:
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    wall_ms = call.broker.storage.wall_ms(call.now_ms)

    def is_asked_for(transaction: Transaction) -> bool:
        return (
            (not states or transaction.state.value in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (request.duration_filter < 0 or wall_ms - transaction.start_ms > request.duration_filter)
        )

    return is_asked_for


def _name_filter(text: str) -> Callable[[str], Generator[None, None, bool]]:
    """Ids may have any character, and the matcher knows as many as it is told; and they may be long."""
    alphabet = ASCII | set(text) | {OTHER}
    pattern = compile_pattern(text, alphabet)
    return lambda name: pattern.matches_in_slices(
        "".join(char if char in alphabet else OTHER for char in name)
    )
