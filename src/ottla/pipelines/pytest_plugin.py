"""The pytest plugin of pipelines, beside that of brokers (`ottla.testing.plugin`).

ottla_pipeline  runs a pipeline once on small data, in a broker and a folder of its own, and gives what came:

    def test_an_order_counts_once(ottla_pipeline):
        made = ottla_pipeline("pipelines/shop", {"orders": [order, order]})
        assert len(made.tables["orders"]) == 1

Without Java or PySpark the test is skipped, and says what is missing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from ottla.pipelines.trial import Outcome


class RunPipeline(Protocol):
    def __call__(
        self, folder: str, records: Mapping[str, Sequence[Any]], settings: Mapping[str, str] | None = None
    ) -> "Outcome": ...


@pytest.fixture
def ottla_pipeline() -> RunPipeline:
    """`ottla_pipeline(folder, {topic: records})`: `tables` and `topics` of what came. A record is a value, or
    a dict with `value`, and `key`, `headers`, `timestamp` or `partition`."""
    from ottla.pipelines import spark_environment

    problem = spark_environment.missing()
    if problem is not None:
        pytest.skip(problem)

    def run(
        folder: str, records: Mapping[str, Sequence[Any]], settings: Mapping[str, str] | None = None
    ) -> "Outcome":
        from ottla.pipelines.trial import run_on

        outcome = run_on(folder, records, settings)
        assert outcome is not None, "it was stopped"
        return outcome

    return run
