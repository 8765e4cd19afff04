"""Ottla's own meter of what everybody waits for, as a benchmark reads it between two moments.

`stalls` is how often everybody waited for more than THRESHOLD_MS (ottla_stalls_total), `stalled_ms` how long
that was altogether, `stall_ms` the longest of them as the broker's log has it. `starved_ms` is how long the
thread that serves everybody was ready to run and had no processor, by the kernel's own account.

On a machine that others use, `is_busy` has the broker count processor time alone (`bench.stall_clock`).
"""

import os
import re
import sys
import urllib.request
from collections import Counter

from bench import wire, wire_cluster
from bench.report import Figures
from bench.servers import HOST, Ottla, free_port

THRESHOLD_MS = 50
LOGGER = "ottla.shell.stalls"
SCRAPE_S = 60.0
_STALL = re.compile(
    r'^(ottla_stalls_total|ottla_stall_seconds_total)\{cause="([^"]*)"\} (\S+)$', re.MULTILINE
)
_LINE = re.compile(r"everybody had to wait (\d+) ms for (.*)")


class Meter:
    """Of one broker, which is not started yet."""

    def __init__(self, peer: Ottla, *, is_busy: bool) -> None:
        self._peer, self._port = peer, free_port()
        if is_busy:
            peer.program = (sys.executable, "-m", "bench.stall_clock")
        peer.settings = (
            *peer.settings,
            f"ottla.stall.threshold.ms={THRESHOLD_MS}",
            f"ottla.http.listener={HOST}:{self._port}",
            "ottla.metrics.partitions.enable=false",
        )
        self._before = Counter[tuple[str, str]]()
        self._read_to = 0
        self._starved_ms = 0.0

    def begin(self, *, at_start: bool = False) -> None:
        """What happens from now on counts, or from the broker's start on."""
        with wire.connect(HOST, self._peer.port, SCRAPE_S) as sock:
            wire_cluster.ask(sock, wire_cluster.log_everything(self._peer.number, LOGGER))
        self._before = Counter() if at_start else self._counts()
        self._read_to = 0 if at_start else os.path.getsize(self._output)
        self._starved_ms = 0.0 if at_start else self._starved()

    def figures(self) -> tuple[Figures, str]:
        """And what the longest was, or what everybody waited for most."""
        since = self._counts() - self._before
        stalls = sum(count for (name, _), count in since.items() if name == "ottla_stalls_total")
        stalled_s = sum(spent_s for (name, _), spent_s in since.items() if name != "ottla_stalls_total")
        with open(self._output, errors="replace") as output:
            output.seek(self._read_to)
            said = [(int(ms), what) for ms, what in _LINE.findall(output.read())]
        longest_ms, what = max(said, default=(None, ""))
        starved_ms = self._starved() - self._starved_ms
        figures: Figures = {"stalls": stalls, "stalled_ms": 1e3 * stalled_s, "starved_ms": starved_ms}
        return figures | {"stall_ms": longest_ms}, what

    @property
    def _output(self) -> str:
        return os.path.join(self._peer.folder, "output")

    def _counts(self) -> Counter[tuple[str, str]]:
        with urllib.request.urlopen(f"http://{HOST}:{self._port}/metrics", timeout=SCRAPE_S) as answer:
            page = answer.read().decode()
        return Counter({(name, cause): float(figure) for name, cause, figure in _STALL.findall(page)})

    def _starved(self) -> float:
        pid = self._peer.pid
        with open(f"/proc/{pid}/task/{pid}/schedstat") as file:
            return int(file.read().split()[1]) / 1e6
