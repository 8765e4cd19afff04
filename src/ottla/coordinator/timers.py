"""Timers of a shard, by key. Setting one again moves it; a stale place in the heap is skipped when it comes
up."""

import heapq
from dataclasses import dataclass, field

from ottla.coordinator.turn import TimerKey


@dataclass(slots=True)
class Timers:
    deadlines: dict[TimerKey, int] = field(default_factory=dict)
    heap: list[tuple[int, int, TimerKey]] = field(default_factory=list)
    sequence: int = 0

    def apply(self, changes: dict[TimerKey, int | None]) -> None:
        for key, deadline_ms in changes.items():
            if deadline_ms is None:
                self.deadlines.pop(key, None)
            elif self.deadlines.get(key) != deadline_ms:
                self.deadlines[key] = deadline_ms
                self.sequence += 1
                heapq.heappush(self.heap, (deadline_ms, self.sequence, key))

    def pop_due(self, now_ms: int) -> TimerKey | None:
        """The next timer that has run out, which is then no longer set."""
        while (due_ms := self.next_ms()) is not None and due_ms <= now_ms:
            _, _, key = heapq.heappop(self.heap)
            del self.deadlines[key]
            return key
        return None

    def next_ms(self) -> int | None:
        while self.heap and self.deadlines.get(self.heap[0][2]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else None
