"""What clients were told of transactions, held against what readers are shown and what the logs say in the
end. It knows nothing of the brokers' code.

Every attempt is a transaction of its own, with a name, and every record's value begins with that name, so a
reader knows to which attempt it belongs. What is promised:

    the outcome is the outcome    what was answered as committed is committed; what was answered as aborted,
                                  or refused, or never asked to be committed, is not
    all or nothing                a committed transaction has all its records, in all partitions, once and in
                                  order; an aborted one has none
    readers see that, only that   who reads committed sees all records of committed transactions, and no other
    offsets belong to it          a group's offset is one that a committed transaction gave, and only grows
    exactly once                  committed transactions take the input up where the one before left it
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tests.sim.world import ViolationError

from ottla.records.batch import split
from ottla.records.control import read_marker
from ottla.records.record import read_records

NO_SOURCE = -1  # of what is no copy of anything


class Told(StrEnum):
    """What a client did last to end a transaction, and what it was told."""

    NOTHING = "never asked to be committed"
    ASKED = "asked to be committed"
    COMMITTED = "answered as committed"
    ABORTED = "answered as aborted"
    REFUSED = "refused"

    @property
    def may_be_committed(self) -> bool:
        return self in (Told.ASKED, Told.COMMITTED)


class Shown(NamedTuple):
    """A record of a transaction, in one partition."""

    offset: int
    value: str


@dataclass
class Transaction:
    name: str
    records: dict[int, list[str]] = field(default_factory=dict)  # by partition of the output
    taken: dict[int, tuple[int, int]] = field(default_factory=dict)  # of the input: from here, up to there
    told: Told = Told.NOTHING


def value_of(transaction: str, source: int, offset: int, value: str) -> str:
    return f"{transaction}|{source}|{offset}|{value}"


@dataclass
class TransactionLedger:
    transactions: dict[str, Transaction] = field(default_factory=dict)
    offsets_seen: dict[int, int] = field(default_factory=dict)  # by partition of the input, the highest
    all_offsets_seen: set[tuple[int, int]] = field(default_factory=set)
    committed_count: int = 0
    aborted_count: int = 0

    def begin(self, name: str) -> Transaction:
        self.transactions[name] = Transaction(name)
        return self.transactions[name]

    def on_told(self, transaction: Transaction, told: Told) -> None:
        transaction.told = told
        self.committed_count += told is Told.COMMITTED
        self.aborted_count += told is Told.ABORTED

    # What readers are shown

    def on_shown(self, partition: int, record: Shown, who: str) -> None:
        """A reader takes this for committed."""
        transaction = self._of(record.value)
        if not transaction.told.may_be_committed:
            raise ViolationError(
                f"{who} is shown {record.value} at {record.offset} of partition {partition}, which was "
                f"{transaction.told}"
            )
        if record.value not in transaction.records.get(partition, ()):
            raise ViolationError(f"{who} is shown {record.value} in partition {partition}: not sent there")

    def _of(self, value: str) -> Transaction:
        return self.transactions[value.partition("|")[0]]

    # Offsets of the group

    def committed(self, source: int) -> int:
        """The highest that a client was told to be committed."""
        ends = (
            transaction.taken[source][1]
            for transaction in self.transactions.values()
            if transaction.told is Told.COMMITTED and source in transaction.taken
        )
        return max(ends, default=-1)

    def on_offset_read(self, source: int, offset: int, who: str, *, before: int) -> None:
        """`before`: what it may not be lower than: what readers were shown before this one asked and, for who
        asked for stable offsets, what was told to be committed."""
        if offset < before:
            raise ViolationError(f"{who} reads offset {offset} of the input's {source}, when it was {before}")
        if offset < 0:
            return
        if not any(
            transaction.told.may_be_committed and transaction.taken.get(source, (0, -1))[1] == offset
            for transaction in self.transactions.values()
        ):
            raise ViolationError(
                f"{who} reads offset {offset} of the input's {source}, which no transaction gave that may be "
                "committed"
            )
        self.offsets_seen[source] = max(self.offsets_seen.get(source, -1), offset)
        self.all_offsets_seen.add((source, offset))

    # The end

    def check_end(
        self, output: dict[int, bytes], inputs: dict[int, dict[int, str]]
    ) -> dict[int, list[Shown]]:
        """`output`: the bytes of each partition of the output; `inputs`: what each of the input holds, by
        offset. Answers what a reader of committed records has to be shown, of each partition."""
        visible = {partition: list(_committed(log, partition)) for partition, log in output.items()}
        records: dict[str, dict[int, list[str]]] = {}
        for partition, shown in visible.items():
            for record in shown:
                by_partition = records.setdefault(self._of(record.value).name, {})
                by_partition.setdefault(partition, []).append(record.value)
        for transaction in self.transactions.values():
            self._check_whole(transaction, records.get(transaction.name, {}))
        self._check_taken([self.transactions[name] for name in records], inputs)
        for partition, shown in visible.items():
            _check_order(partition, shown, inputs)
        return visible

    def _check_whole(self, transaction: Transaction, shown: dict[int, list[str]]) -> None:
        if shown and not transaction.told.may_be_committed:
            raise ViolationError(f"{transaction.name} is committed, and was {transaction.told}: {shown}")
        if not shown and transaction.told is Told.COMMITTED and transaction.records:
            raise ViolationError(f"{transaction.name} is not committed, and was {transaction.told}")
        if shown and shown != transaction.records:
            raise ViolationError(
                f"of {transaction.name} with {transaction.records}, which was {transaction.told}, this much "
                f"is committed: {shown}"
            )

    def _check_taken(self, committed: list[Transaction], inputs: dict[int, dict[int, str]]) -> None:
        for source, values in inputs.items():
            taken = sorted(
                (*transaction.taken[source], transaction.name)
                for transaction in committed
                if source in transaction.taken
            )
            at = 0
            for begin, end, name in taken:
                if begin != at:
                    raise ViolationError(
                        f"{name} takes the input's {source} from {begin} to {end}, after {at}: {taken}"
                    )
                at = end
            if at != max(values, default=-1) + 1:
                raise ViolationError(f"of the input's {source}, with {len(values)} records, {at} were taken")
            ends = {end for _, end, _ in taken}
            for seen_source, offset in sorted(self.all_offsets_seen):
                if seen_source == source and offset not in ends:
                    raise ViolationError(
                        f"offset {offset} of the input's {source} was read, and no committed transaction "
                        f"gave it: {taken}"
                    )


def _committed(log: bytes, partition: int) -> Iterator[Shown]:
    """The records of committed transactions, in the order of their offsets, as the markers say."""
    ongoing: dict[int, list[Shown]] = {}
    committed: list[Shown] = []
    for header, batch in split(memoryview(log)):
        records = list(read_records(batch, header))
        if header.is_control:
            marker = read_marker(records[0].key, records[0].value)
            ended = ongoing.pop(header.producer_id, [])
            if marker is not None and marker.committed:
                committed += ended
        elif header.is_transactional:
            shown = [Shown(record.offset, (record.value or b"").decode()) for record in records]
            ongoing.setdefault(header.producer_id, []).extend(shown)
    if ongoing:
        raise ViolationError(f"partition {partition} holds transactions that nobody ended: {ongoing}")
    return iter(sorted(committed))


def _check_order(partition: int, shown: Iterable[Shown], inputs: dict[int, dict[int, str]]) -> None:
    """Every record is its input's, and in the input's order."""
    last: dict[int, int] = {}
    for record in shown:
        _, source_text, offset_text, value = record.value.split("|", 3)
        source, offset = int(source_text), int(offset_text)
        if source == NO_SOURCE:
            continue
        if inputs[source].get(offset) != value:
            raise ViolationError(
                f"{record.value} is in partition {partition}, and {inputs[source].get(offset)} in the input"
            )
        if last.get(source, -1) >= offset:
            raise ViolationError(
                f"{record.value} at {record.offset} of partition {partition} is out of order"
            )
        last[source] = offset
