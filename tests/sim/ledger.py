"""What clients were told, held against everything they are told later. It knows nothing of the brokers' code.

Every record's value names its producer and its number, and is sent once. From that follow the promises that
are checked here, for records that were acknowledged by all in-sync replicas or that a consumer has read:

    one place, one record     what was once read or acknowledged at an offset is there for ever
    nothing is lost           what was acknowledged, or said to be there already, is in the log at the end
    once, and in order        a producer's records are in the log at most once, in the order they were sent
    committed offsets stay    who reads a group's offset never finds one older than what was acknowledged
    one owner                 a partition has one owner in one generation of a group
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.sim.world import ViolationError

Place = tuple[bytes, int]  # topic id and partition


@dataclass
class Ledger:
    records: dict[Place, dict[int, str]] = field(default_factory=dict)
    acknowledged_end: dict[Place, int] = field(default_factory=dict)
    acknowledged: dict[Place, dict[int, str]] = field(default_factory=dict)
    somewhere: dict[Place, list[str]] = field(default_factory=dict)  # at an offset that nobody was told
    acknowledged_count: int = 0
    read_count: int = 0
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    offsets_count: int = 0
    owners: dict[tuple[str, int, str, int], str] = field(default_factory=dict)
    given_up: set[Place] = field(default_factory=set)  # of topics that somebody deleted

    def on_acknowledged(self, place: Place, base_offset: int, values: list[str], who: str) -> None:
        """A producer with acks=all was told that these are safe."""
        for offset, value in enumerate(values, base_offset):
            self._place(place, offset, value, who)
            self.acknowledged.setdefault(place, {})[offset] = value
        self.acknowledged_count += len(values)
        end = base_offset + len(values)
        self.acknowledged_end[place] = max(self.acknowledged_end.get(place, 0), end)

    def on_duplicate(self, place: Place, values: list[str]) -> None:
        """A producer was told that these were there already, and will not send them again."""
        self.somewhere.setdefault(place, []).extend(values)

    def on_read(self, place: Place, offset: int, value: str, who: str) -> None:
        self.read_count += 1
        self._place(place, offset, value, who)

    def _place(self, place: Place, offset: int, value: str, who: str) -> None:
        known = self.records.setdefault(place, {}).setdefault(offset, value)
        if known != value:
            raise ViolationError(
                f"{who} has {value} at offset {offset} of {name(place)}, "
                f"where {known} was acknowledged or read"
            )

    # Groups

    def committed(self, group: str, topic: str, partition: int) -> int:
        return self.offsets.get((group, topic, partition), -1)

    def on_committed(
        self, group: str, topic: str, partition: int, offset: int, who: str, *, before: int
    ) -> None:
        """Who commits has read the offset before as an owner: one that is lower than what was committed
        `before` it was sent was read from a state that has lost a commit, or is committed by somebody who
        owns nothing any more."""
        if offset < before:
            raise ViolationError(
                f"{who} could commit {offset} to group {group} for {topic}-{partition}, after {before}"
            )
        self.offsets[group, topic, partition] = max(offset, self.committed(group, topic, partition))
        self.offsets_count += 1

    def on_offset_read(self, group: str, topic: str, partition: int, offset: int, who: str) -> None:
        known = self.offsets.get((group, topic, partition), -1)
        if offset < known:
            raise ViolationError(
                f"{who} reads offset {offset} of group {group} for {topic}-{partition}, {known} was committed"
            )

    def on_owned(self, group: str, generation: int, owned: Iterable[tuple[str, int]], who: str) -> None:
        for topic, partition in owned:
            owner = self.owners.setdefault((group, generation, topic, partition), who)
            if owner != who:
                raise ViolationError(
                    f"{topic}-{partition} belongs to {owner} and {who} in generation {generation} of {group}"
                )

    # The end

    def check_log(self, place: Place, values: dict[int, str]) -> None:
        """`values`: all a partition's leader holds in the end."""
        for offset, value in self.records.get(place, {}).items():
            if values.get(offset) != value:
                found = values.get(offset, "nothing")
                told = "acknowledged" if offset in self.acknowledged.get(place, {}) else "read"
                raise ViolationError(
                    f"at offset {offset} of {name(place)} there is {found}; {value} was {told} there"
                )
        seen: dict[str, int] = {}
        numbers: dict[str, int] = {}
        for offset in sorted(values):
            value = values[offset]
            if value in seen:
                raise ViolationError(f"{value} is in {name(place)} twice, at {seen[value]} and {offset}")
            seen[value] = offset
            producer, _, number = value.rpartition("#")
            if numbers.get(producer, -1) >= int(number):
                raise ViolationError(f"{value} at {offset} of {name(place)} comes after a later one")
            numbers[producer] = int(number)
        for value in self.somewhere.get(place, ()):
            if value not in seen:
                raise ViolationError(f"{value} was said to be in {name(place)} already, and is not")


def name(place: Place) -> str:
    return f"{place[0].hex()[:6]}-{place[1]}"
