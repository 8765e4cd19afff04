"""What is being verified in a partition: producers whose transaction is not open here, and whose coordinator
is being asked whether it may be (KIP-890).

Whoever asks keeps the `Verification`, and writes only if it still holds when the answer is there. The first
batch of the transaction takes it away, and so does its marker: an answer that comes after the transaction was
ended counts for nothing, even if the producer has begun the next one meanwhile, which has another
`Verification`. One that failed stays: it knows the lowest sequence that came, and what is behind that must
not be written first.

With transactions V2 the end of a transaction has the epoch of the next, whose first batch may come before the
marker, as clients do not wait for that. So there a marker of the same epoch ends the transaction before, and
takes nothing away. (Kafka takes all away, and refuses a producer that was so quick.) The version of the
marker's own transaction would not tell more: a client that changes to V2 has the same epoch in its last
transaction of before and in its first of V2.
"""

from dataclasses import dataclass, field
from itertools import islice

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.batch import BatchHeader

VERIFICATIONS_MAX = 2_000  # whoever can write makes up producers; of too many, the oldest goes


@dataclass(slots=True, eq=False)
class Verification:
    """`adds`: the transaction is one whose epoch nobody had before (transactions V2)."""

    producer_id: int
    epoch: int
    lowest_sequence: int
    adds: bool


@dataclass(slots=True)
class Verifications:
    by_id: dict[int, Verification] = field(default_factory=dict)

    def begin(self, producer_id: int, epoch: int, sequence: int, *, adds: bool) -> Verification:
        """The verification of a producer's transaction, which may be under way for other batches of it."""
        verification = self.by_id.get(producer_id)
        if verification is None:
            self.forget_first(len(self.by_id) + 1 - VERIFICATIONS_MAX)
            verification = Verification(producer_id, epoch, sequence, adds)
            self.by_id[producer_id] = verification
        elif epoch > verification.epoch:
            verification.epoch, verification.lowest_sequence = epoch, sequence
        elif epoch == verification.epoch:
            verification.lowest_sequence = min(sequence, verification.lowest_sequence)
        return verification

    def forget_first(self, count: int) -> None:
        """Forget those that began first."""
        for producer_id in list(islice(self.by_id, max(count, 0))):
            del self.by_id[producer_id]

    def holds(self, verification: Verification) -> bool:
        return self.by_id.get(verification.producer_id) is verification

    def on_opened(self, producer_id: int) -> None:
        """The first batch of a transaction was written."""
        self.by_id.pop(producer_id, None)

    def on_ended(self, producer_id: int, epoch: int) -> None:
        """A marker was written."""
        verification = self.by_id.get(producer_id)
        if verification is not None and epoch >= verification.epoch + verification.adds:
            del self.by_id[producer_id]

    def check(self, header: BatchHeader, *, is_new: bool) -> None:
        """Refuse a batch that others must come before. A producer that `is_new` here begins its epoch with 0,
        if nobody had that epoch before."""
        verification = self.by_id.get(header.producer_id)
        if verification is None or header.producer_epoch != verification.epoch:
            return
        lowest = 0 if is_new and verification.adds else verification.lowest_sequence
        if header.base_sequence > lowest:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {header.producer_id} epoch {header.producer_epoch} sent sequence "
                f"{header.base_sequence}, and {lowest} must come before it.",
            )
