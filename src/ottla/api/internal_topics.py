"""What clients may write to internal topics: nothing, unless it is Kafka's admin client.

That one goes by a client id of its own, which anybody can take. So what it writes is read before it is
appended: no coordinator finds there what it cannot read.
"""

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import INTERNAL_TOPICS, OFFSETS_TOPIC
from ottla.records.batch import HEADER_SIZE

ADMIN_CLIENT_ID = "__admin_client"


def check_writable(call: Call, topic: str, records: Buffer | None) -> None:
    """Refuse what a client must not write to an internal topic. One that does not exist has its own error."""
    if topic not in INTERNAL_TOPICS or topic not in call.broker.image.topics:
        return
    if call.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients do not write to {topic}.")
    if topic == OFFSETS_TOPIC and isinstance(records, memoryview) and len(records) >= HEADER_SIZE:
        from ottla.group.records import check_batch

        check_batch(records)
