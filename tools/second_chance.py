"""What CI does when `make test` has failed: failed tests of the lanes with real processes run again, alone.

The pure lanes are never run twice: what fails there fails always. In the others a machine that stalls can
fail a test that is right; a second failure is one. A lane that broke off (a test hung in a C library, and the
run was ended with it) is run again whole: nobody knows what the rest of it would have said. Whatever passes
only now is printed as a flake, to be mended next.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / ".results"
REAL_LANES = ("real", "long")
FAILED_MAX = 10  # more than that is no stalled machine


def main() -> int:
    for name in ("lint", "pure"):
        if not (RESULTS / f"{name}.ok").exists():
            return _fail(f"the lane {name!r} has failed, and is not run twice")
    broken_off = [lane for lane in REAL_LANES if not (RESULTS / f"{lane}.xml").exists()]
    failed = [
        name for lane in REAL_LANES if lane not in broken_off for name in _failed(RESULTS / f"{lane}.xml")
    ]
    if (not failed and not broken_off) or len(failed) > FAILED_MAX:
        return _fail(f"{len(failed)} tests of the lanes with real processes have failed")
    commands = [["make", "--no-print-directory", f"test-{lane}"] for lane in broken_off]
    if failed:
        commands.append([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *failed])
    for command in commands:
        print(f"\nonce more, alone: {' '.join(command)}", flush=True)
        if subprocess.run(command, cwd=ROOT, env={**os.environ, "OTTLA_SLOW_MACHINE": "1"}).returncode:
            return _fail("a second failure")
    for name in [*(f"the lane {lane!r}" for lane in broken_off), *failed]:
        print(f"flake: {name} failed once and passed alone; mend it next")
    return 0


def _fail(reason: str) -> int:
    print(f"second chance: {reason}")
    return 1


def _failed(path: Path) -> Iterator[str]:
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            yield _node_id(case.get("classname", ""), case.get("name", ""))


def _node_id(dotted: str, name: str) -> str:
    """As pytest takes it: the file, the classes in it, the test."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        file = Path(*parts[:length]).with_suffix(".py")
        if (ROOT / file).is_file():
            return "::".join([str(file), *parts[length:], name])
    return name


if __name__ == "__main__":
    sys.exit(main())
