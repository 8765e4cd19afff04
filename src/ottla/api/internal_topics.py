"""What clients may write to internal topics: nothing, unless it is Kafka's admin client.

That one goes by a client id of its own, which anybody can take. So what it writes is read before it is
appended, as part of the check of its batch and within the budget of that: no coordinator finds there what it
cannot read.
"""

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ADMIN_CLIENT_ID, INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.log.validation import Judge


def judge_of(call: Call, topic: str) -> Judge | None:
    """Refuse what a client must not write to an internal topic, and say who looks at what it may. One that
    does not exist has its own error."""
    if topic not in INTERNAL_TOPICS or topic not in call.broker.image.topics:
        return None
    if call.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients do not write to {topic}.")
    if topic == OFFSETS_TOPIC:
        from ottla.group import records as group_records

        return group_records.check_body
    if topic == TRANSACTIONS_TOPIC:
        from ottla.txn import records as transaction_records

        return transaction_records.check_body
    return None
