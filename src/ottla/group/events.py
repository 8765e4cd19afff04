"""What happens to groups that an operator wants to know of: told by a turn, and heard once that is stored."""

from typing import NamedTuple


class RebalanceBegun(NamedTuple):
    """The members of a group are to share its partitions anew. It may begin again before it has ended."""

    group_id: str
    reason: str
    epoch: int  # or generation, that was so far
    is_counted: bool = False  # where a member of a consumer group has brought it about, as Kafka counts them


class ClassicRebalanceEnded(NamedTuple):
    """Everybody's assignment is stored; or nobody is left."""

    group_id: str
    generation: int
    members: int


class MemberReconciled(NamedTuple):
    """A member of a consumer group has all that it is to have, perhaps as the last one."""

    group_id: str


class LastMemberGone(NamedTuple):
    """From a consumer group."""

    group_id: str


class OffsetsCommitted(NamedTuple):
    offsets: int


class OffsetsExpired(NamedTuple):
    offsets: int


class OffsetsDeleted(NamedTuple):
    """By an administrator."""

    offsets: int
