"""`python -m tests.metrics.slow_disk FILE start ...`: a broker on a disk that stalls while FILE exists.

Every sync then takes a second, and once in a second a write takes 0.2 s.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ottla.cli import main

SYNC_S, WRITE_S, WRITE_EVERY_S = 1.0, 0.2, 1.0


def slowed(call: Callable[..., Any], path: str, stall_s: float, every_s: float) -> Callable[..., Any]:
    stalled_s = 0.0

    def wait_and_call(*arguments: Any) -> Any:
        nonlocal stalled_s
        if time.monotonic() - stalled_s >= every_s and os.path.exists(path):
            stalled_s = time.monotonic()
            time.sleep(stall_s)
        return call(*arguments)

    return wait_and_call


if __name__ == "__main__":
    flag = sys.argv.pop(1)
    os.fdatasync = slowed(os.fdatasync, flag, SYNC_S, 0)
    os.pwrite = slowed(os.pwrite, flag, WRITE_S, WRITE_EVERY_S)
    main()
