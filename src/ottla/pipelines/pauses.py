"""How long to wait after a run that failed: longer each time, until one does not fail."""

FIRST_S = 5.0
LONGEST_S = 300.0


class GrowingPauses:
    def __init__(self, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self.failures = 0

    def after_failure(self) -> float:
        pause_s: float = min(self._longest_s, self._first_s * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return pause_s

    def on_success(self) -> None:
        self.failures = 0
