"""Programs whose output is a terminal."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Sequence


def shown_on_a_terminal(command: Sequence[str], *, stream: str, columns: int, within_s: float) -> str:
    """What a program shows there until it ends, which is without an error. `stream`: stdout or stderr."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    streams = {stream: theirs}
    process = subprocess.Popen(
        command, stdout=streams.get("stdout"), stderr=streams.get("stderr"), env=environment
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + within_s
    while time.monotonic() < deadline and select.select([ours], [], [], within_s)[0]:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other side is gone
            break
    os.close(ours)
    assert process.wait(within_s) == 0
    return shown.decode()
