"""How long a start or a stop took, and each of its steps."""

import time
from collections.abc import Callable


class Stopwatch:
    """Runs from the beginning. `steps_ms` has what ended, in order."""

    def __init__(self, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self._elapsed_s = elapsed_s
        self._began_s = self._step_s = elapsed_s()
        self.steps_ms: dict[str, int] = {}

    def end(self, step: str) -> None:
        """What happened since the last step was this one."""
        now_s = self._elapsed_s()
        self.steps_ms[step] = round((now_s - self._step_s) * 1_000)
        self._step_s = now_s

    @property
    def took_ms(self) -> int:
        return round((self._step_s - self._began_s) * 1_000)

    def __str__(self) -> str:
        return ", ".join(f"{step} {took_ms} ms" for step, took_ms in self.steps_ms.items())
