"""The broker's clock: the time of day when it started, moved on by the steady clock. It never jumps.

Deadlines, sessions and intervals must not care when somebody sets the system's clock. What is stored for
people (append times, retention) follows the system's clock through `wall_offset_ms`.
"""

import time


class Clock:
    def __init__(self) -> None:
        self._start_ms = time.time_ns() // 1_000_000
        self._start_ns = time.monotonic_ns()

    def now_ms(self) -> int:
        return self._start_ms + (time.monotonic_ns() - self._start_ns) // 1_000_000

    def ms_at(self, steady_ns: int) -> int:
        """What `now_ms` said when the steady clock said this."""
        return self._start_ms + (steady_ns - self._start_ns) // 1_000_000

    def elapsed_us(self) -> int:
        return (time.monotonic_ns() - self._start_ns) // 1_000

    def wall_offset_ms(self) -> int:
        """How far the system's clock has been moved since this one was started."""
        return time.time_ns() // 1_000_000 - self.now_ms()
