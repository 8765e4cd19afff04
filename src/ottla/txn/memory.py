"""About how much memory transactional ids hold, in bytes.

The constants are what objects took when that was measured; what clients choose the length of is counted.
Ids stay for days after the last use, and anybody can make them up. So new ones are refused (POLICY_VIOLATION)
when those that there are take three quarters of `ottla.transactions.max.bytes`: the rest is for transactions
of ids that are there already.
"""

from typing import Final

from ottla.txn.transaction import Transaction

ID_BYTES: Final = 650
PARTITION_BYTES: Final = 220
IDS_PART: Final = 0.75


def held_bytes(transaction: Transaction) -> int:
    topics = {topic for topic, _ in transaction.partitions}
    return (
        ID_BYTES
        + len(transaction.transactional_id)
        + PARTITION_BYTES * len(transaction.partitions)
        + sum(map(len, topics))
    )


def room_bytes(limit: int, held: int, *, is_new: bool) -> int:
    """How much more may be taken if transactional ids hold so much, for a new one or for one that is
    there."""
    return (int(limit * IDS_PART) if is_new else limit) - held
