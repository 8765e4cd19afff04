"""The states of a transactional id. Everything that depends on the state is in the table below.

**Empty**: a producer has its id and epoch, and no transaction yet.

**Ongoing**: at least one partition takes part. A producer that starts anew with the same transactional id, or
the end of the transaction's time, aborts it: the epoch grows, so that the old producer is fenced.

**PrepareCommit**, **PrepareAbort**: the end is decided, and nothing changes it any more. As soon as that is
committed, markers go to all partitions. Everybody who wants something else waits (CONCURRENT_TRANSACTIONS).

**CompleteCommit**, **CompleteAbort**: every partition has its marker. The next transaction may begin.

How an end is answered depends on what the producer speaks. Up to EndTxn v4 the epoch stays as it is, so an
end that is sent again cannot be told from another one, and is answered by the state alone. Since v5 (KIP-890)
every end moves the epoch on: one with the epoch before is *sent again*, and one with the current epoch
belongs to a transaction of which the coordinator may never have heard; to abort that one is allowed, since
the producer cannot know, and moves the epoch on too.

In one cell this differs from Kafka, which answers PRODUCER_FENCED: a producer that has heard of its epoch and
ends its next transaction before the markers of the last are written is asked to wait. It is not fenced, and
would stop for good.

Kafka's states Dead and PrepareEpochFence are only ever in its memory: what they guard is one turn here.
"""

from enum import Enum
from typing import Final, NamedTuple

from ottla.base.errors import ErrorCode


class TransactionState(Enum):
    """Named as DescribeTransactions and ListTransactions show it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class Act(Enum):
    """What a request gets, if not an error."""

    BUMP = "the next epoch"
    FENCE = "the open transaction is aborted, and who asks is to ask again (CONCURRENT_TRANSACTIONS)"
    ADD = "what is asked about takes part"
    ANSWER = "an answer from what is known"
    END = "the end is decided"
    END_NOTHING = "an abort of nothing, which is over at once"


Cell = Act | ErrorCode


class Rules(NamedTuple):
    number: int  # by which Kafka stores it
    goes_to: frozenset[TransactionState]
    inits: Cell  # InitProducerId
    adds: Cell  # AddPartitionsToTxn, AddOffsetsToTxn
    verifies: Cell
    old_commit: Cell  # EndTxn up to v4
    old_abort: Cell
    commit: Cell  # EndTxn since v5, with the current epoch
    abort: Cell
    commit_again: Cell  # likewise, with the epoch before
    abort_again: Cell


def _to(*states: TransactionState) -> frozenset[TransactionState]:
    return frozenset(states)


_WAIT: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_INVALID: Final = ErrorCode.INVALID_TXN_STATE
_FENCED: Final = ErrorCode.PRODUCER_FENCED

_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_PREPARE_COMMIT, _PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT, _COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT

STATES: Final[dict[TransactionState, Rules]] = {
    _EMPTY: Rules(
        number=0,
        goes_to=_to(_EMPTY, _ONGOING, _PREPARE_ABORT),
        inits=Act.BUMP,
        adds=Act.ADD,
        verifies=Act.ANSWER,
        old_commit=_INVALID,
        old_abort=_INVALID,
        commit=_INVALID,
        abort=Act.END_NOTHING,
        commit_again=_FENCED,
        abort_again=_FENCED,
    ),
    _ONGOING: Rules(
        number=1,
        goes_to=_to(_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT),
        inits=Act.FENCE,
        adds=Act.ADD,
        verifies=Act.ANSWER,
        old_commit=Act.END,
        old_abort=Act.END,
        commit=Act.END,
        abort=Act.END,
        commit_again=_FENCED,
        abort_again=_FENCED,
    ),
    _PREPARE_COMMIT: Rules(
        number=2,
        goes_to=_to(_COMPLETE_COMMIT),
        inits=_WAIT,
        adds=_WAIT,
        verifies=_WAIT,
        old_commit=_WAIT,
        old_abort=_INVALID,
        commit=_WAIT,
        abort=_WAIT,
        commit_again=_WAIT,
        abort_again=_INVALID,
    ),
    _PREPARE_ABORT: Rules(
        number=3,
        goes_to=_to(_COMPLETE_ABORT),
        inits=_WAIT,
        adds=_WAIT,
        verifies=_WAIT,
        old_commit=_INVALID,
        old_abort=_WAIT,
        commit=_WAIT,
        abort=_WAIT,
        commit_again=_INVALID,
        abort_again=_WAIT,
    ),
    _COMPLETE_COMMIT: Rules(
        number=4,
        goes_to=_to(_EMPTY, _ONGOING, _PREPARE_ABORT),
        inits=Act.BUMP,
        adds=Act.ADD,
        verifies=Act.ANSWER,
        old_commit=Act.ANSWER,
        old_abort=_INVALID,
        commit=_INVALID,
        abort=Act.END_NOTHING,
        commit_again=Act.ANSWER,
        abort_again=_INVALID,
    ),
    _COMPLETE_ABORT: Rules(
        number=5,
        goes_to=_to(_EMPTY, _ONGOING, _PREPARE_ABORT),
        inits=Act.BUMP,
        adds=Act.ADD,
        verifies=Act.ANSWER,
        old_commit=_INVALID,
        old_abort=Act.ANSWER,
        commit=_INVALID,
        abort=Act.END_NOTHING,
        commit_again=_INVALID,
        abort_again=Act.ANSWER,
    ),
}
PREPARED: Final = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
IDLE: Final = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
"""Where an id may expire."""
BY_NUMBER: Final = {rules.number: state for state, rules in STATES.items()}


def check_step(now: TransactionState, to: TransactionState) -> None:
    """A step that the table does not have is a bug of ours, never an answer."""
    assert to in STATES[now].goes_to, f"a transaction does not go from {now.value} to {to.value}"
