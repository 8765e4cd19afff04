"""What processes hold, as the kernel says: looked at from time to time by a thread."""

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import psutil
from tests.soak.slopes import Sample

MEASURES = ("memory_mb", "descriptors", "threads", "children")
Series = dict[tuple[str, str], list[Sample]]  # by process and measure


def holdings(pid: int) -> dict[str, float]:
    """Memory is what no file is behind (RssAnon): what the page cache maps in says nothing of a leak."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return {
        "memory_mb": int(status["RssAnon"].split()[0]) * 1024 / 1e6,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
        "children": len(psutil.Process(pid).children(recursive=True)),
    }


class Sampler:
    """`with Sampler(processes, every_s) as sampler:`. `processes` says who runs now, as pids by name."""

    def __init__(self, processes: Callable[[], Mapping[str, int]], every_s: float) -> None:
        self.series: Series = defaultdict(list)
        self._processes, self._every_s = processes, every_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._every_s):
            for name, pid in self._processes().items():
                # One that ends meanwhile is seen again in its next life.
                with contextlib.suppress(OSError, KeyError, psutil.Error):
                    at_s, held = time.monotonic() - self._began, holdings(pid)
                    for measure, figure in held.items():
                        self.series[name, measure].append(Sample(at_s, pid, figure))
