"""Publish a run: `python -m bench.publication RESULT.json ...` makes docs/performance.json of these, and of
that all pictures and tables in the docs and in README.md.

Of a workload that is in several files the last counts; when and where it was measured says the first file, so
`docs/performance.json NEW.json` replaces some of what is there. Paths of this machine are shortened.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import plots, tables

RESULT = "docs/performance.json"
PATHS = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)*(?:bin|src|python[\d.]+|site-packages)/")


def _order(workload: dict[str, Any]) -> tuple[int, str]:
    """By number, W1R after W1; those without a number at the end."""
    name = workload["workload"]
    return int(re.sub(r"\D", "", name) or 99), name


def merged(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    last = {workload["workload"]: result for result in results for workload in result["workloads"]}

    def kept(part: str) -> list[dict[str, Any]]:
        """What the last file with its workload says."""
        return [
            entry
            for result in results
            for entry in result[part]
            if last.get(entry["workload"], result) is result
        ]

    return {
        "taken_at": results[0]["taken_at"],
        "machine": results[0]["machine"],
        "workloads": sorted(kept("workloads"), key=_order),
        "targets": kept("targets"),
    }


def publish(paths: Sequence[str], root: Path = tables.ROOT) -> None:
    content = merged([json.loads(Path(path).read_text()) for path in paths])
    result = root / RESULT
    result.write_text(PATHS.sub("", json.dumps(content, indent=1)) + "\n")
    for picture in (root / plots.INTO).glob("bench-*.svg"):
        picture.unlink()
    plots.write([str(result)], str(root / plots.INTO))
    tables.write([str(result)], root)


def main() -> None:
    parser = argparse.ArgumentParser("bench.publication", description="A run, in the docs and in README.md.")
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    publish(parser.parse_args().results)


if __name__ == "__main__":
    main()
