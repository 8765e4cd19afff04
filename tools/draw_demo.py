"""Draws docs/demo.svg, the picture in README.md: what `ottla demo` shows on a terminal, as it came.

Runs the demo, so it needs what that needs (Java 17 and PySpark for the pipeline) and takes a minute or two.
Run: python -m tools.draw_demo
"""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).parent.parent / "docs" / "demo.svg"
COLUMNS = 92
LINE_ERASED = "\x1b[2K"  # how a progress line makes room for the next
LINE_TAKEN_BACK = re.compile(r"[^\n]*\n(?=[^\n]*\x1b\[1A)")  # how its last state goes when it is done
FONT_FROM_THE_NET = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    shown = run_on_a_terminal([sys.executable, "-m", "ottla.cli", "demo"])
    kept = LINE_TAKEN_BACK.sub("", shown.replace("\r\n", "\n"))
    lines = [line.rpartition(LINE_ERASED)[2].rstrip() for line in kept.split("\n")]
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(Text("$ ottla demo", style="bold"))
    for line in lines:
        if line:
            console.print(Text.from_ansi(line))
    TARGET.write_text(FONT_FROM_THE_NET.sub("", console.export_svg(title="ottla demo")))


def run_on_a_terminal(command: list[str]) -> str:
    """All that the command writes, with what it does only on a terminal; it must succeed."""
    ours, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=environment)
    os.close(its)
    shown = b""
    while True:
        try:
            read = os.read(ours, 65536)
        except OSError:  # nobody holds the other end any more
            break
        if not read:
            break
        shown += read
    os.close(ours)
    if process.wait() != 0:
        sys.exit(f"the demo failed:\n{shown.decode()}")
    return shown.decode()


if __name__ == "__main__":
    main()
