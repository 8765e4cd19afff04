"""The fixture `ottla_pipeline`: the test in docs/pipelines.md, as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.folder import create_folder
from ottla.pipelines.pytest_plugin import RunPipeline

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipelines.md"


def test_the_test_of_a_pipeline_in_the_documentation_passes(
    ottla_pipeline: RunPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (program,) = (program for program in programs if "ottla_pipeline" in program)
    monkeypatch.chdir(tmp_path)
    create_folder("my-shop", "stream", "127.0.0.1:1")
    names: dict[str, Any] = {}
    exec(program, names)
    names["test_an_order_counts_once"](ottla_pipeline)
