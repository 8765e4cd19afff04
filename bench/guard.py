"""What does a request cost? `python -m bench.guard` counts what the interpreter does for it, and compares
that with what is written down in guard.json: a measure that does not depend on the machine's mood.

    python -m bench.guard                  fails if a request takes 2 % more than is written down
    python -m bench.guard --record         writes down what it takes now
    python -m bench.guard --before FOLDER  compares with a checkout (`git worktree add`) instead

Counted are bytecodes, and calls of functions that are not written in Python, between the bytes that come and
those that leave (`bench.guard_script`). The kernel, the event loop and how long something in C takes are not
in it: whether a change is worth it says the clock (`bench.paired`), whether one was made unawares says this.
Versions of Python compile differently, so figures of another one are not compared.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from typing import TypeAlias

from bench.servers import ROOT, clean_environment

TOLERANCE = 0.02
RECORDED = os.path.join(ROOT, "bench", "guard.json")
TIMEOUT_S = 600

Counted: TypeAlias = dict[str, dict[str, int]]  # by kind of request, by what was counted


def interpreter() -> str:
    return f"{platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}"


def measure(root: str) -> Counted:
    """With the broker of the checkout at `root`."""
    paths = os.pathsep.join([os.path.join(root, "src"), ROOT])
    done = subprocess.run(
        [sys.executable, "-m", "bench.guard_script"],
        env=clean_environment() | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    counted: Counted = json.loads(done.stdout)
    return counted


def recorded() -> Counted:
    with open(RECORDED) as file:
        written = json.load(file)
    if written["interpreter"] != interpreter():
        print(f"guard.json is about {written['interpreter']}, this is {interpreter()}: nothing is compared")
        return {}
    counted: Counted = written["requests"]
    return counted


def compare(now: Counted, before: Counted) -> tuple[list[str], list[str]]:
    """A line for each figure, and those that are worse than they may be."""
    lines, worse = [], []
    for request, figures in now.items():
        for what, count in figures.items():
            line = f"{request:36} {what:11} {count:>6,}"
            was = before.get(request, {}).get(what)
            if was is not None:
                line += f"  {100 * (count / was - 1):+.1f} %"
                if count > was * (1 + TOLERANCE):
                    worse.append(f"{what} of {request}")
            lines.append(line)
    return lines, worse


def main() -> None:
    parser = argparse.ArgumentParser("bench.guard", description="What the interpreter does for a request.")
    parser.add_argument("--before", metavar="FOLDER", help="a checkout to compare with")
    parser.add_argument("--record", action="store_true", help="write the figures down")
    arguments = parser.parse_args()
    before = measure(os.path.abspath(arguments.before)) if arguments.before else recorded()
    now = measure(ROOT)
    lines, worse = compare(now, before)
    print("\n".join(lines))
    if arguments.record:
        with open(RECORDED, "w") as file:
            json.dump({"interpreter": interpreter(), "requests": now}, file, indent=2)
            file.write("\n")
    elif worse:
        sys.exit(f"more than {100 * TOLERANCE:.0f} % worse: {', '.join(worse)}")


if __name__ == "__main__":
    main()
