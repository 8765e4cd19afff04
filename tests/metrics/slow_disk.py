"""`python -m tests.metrics.slow_disk FILE start ...`: a broker on a disk that stalls while FILE exists.

Every write and every sync of the process then takes as long as FILE says, in seconds.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ottla.cli import main

SLOW = ("fdatasync", "fsync", "pwrite", "pwritev", "write", "writev")


def slowed(call: Callable[..., Any], path: str) -> Callable[..., Any]:
    def wait_and_call(*arguments: Any) -> Any:
        if os.path.exists(path) and arguments[0] > 2:
            with open(path) as file:
                time.sleep(float(file.read() or 0))
        return call(*arguments)

    return wait_and_call


if __name__ == "__main__":
    flag = sys.argv.pop(1)
    for name in SLOW:
        setattr(os, name, slowed(getattr(os, name), flag))
    main()
