"""Pipelines in folders, as runs leave them behind: one that was run, and one that was not."""

import json
from pathlib import Path

import pyarrow
from pyarrow import parquet

from ottla.pipelines.folder import PipelineFolder, create_folder


def make_pipelines(folder: Path, bootstrap: str) -> Path:
    """A flow has read 40 records of a topic and written a table, another has failed."""
    create_folder(str(folder / "my-logs"), "logs", bootstrap)
    create_folder(str(folder / "unused"), "metrics", bootstrap)
    path = folder / "my-logs"
    for name in ("events", "rejected"):
        (path / "tables" / name).mkdir(parents=True)
        parquet.write_table(pyarrow.table({"a": [1, 2, 3]}), path / "tables" / name / "part.parquet")
    checkpoint = path / "storage" / "_checkpoints" / "events" / "0"
    for kind in ("offsets", "commits"):
        (checkpoint / kind).mkdir(parents=True)
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n" + json.dumps({"logs": {"0": 40}}))
    (path / ".ottla").mkdir(exist_ok=True)
    run = {
        "started_ms": 1_900_000_000_000, "ended_ms": 1_900_000_100_000, "master": "local[2]", "rounds": 7,
        "bootstrap": bootstrap, "client_config": None, "storage": f"file://{path}/storage",
        "tables": f"file://{path}/tables", "state": "failed", "reason": "no\nmemory",
        "flows": {"events": "COMPLETED", "errors": "FAILED"},
    }  # fmt: skip
    PipelineFolder(str(path)).note(run)
    return folder
