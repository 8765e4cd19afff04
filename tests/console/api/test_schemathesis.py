"""schemathesis asks for everything in the OpenAPI document, with values that fit it and values that do not.
No answer is a 5xx, each is one that the document has, and what does not fit is refused.

A few examples of each; more with `N=500 .venv/bin/pytest tests/console/api/test_schemathesis.py`.
"""

import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker
from ottla.console.api.endpoints import PREFIX, Endpoint
from ottla.console.api.openapi import document
from ottla.console.api.routes import ENDPOINTS

EXAMPLES = int(os.environ.get("N", "5"))
HEADERS = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1:8080"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module")
def api() -> Iterator[schemathesis.BaseSchema]:
    # Load all of it first: pytest parses what it loads, and a console that starts compiles its templates in
    # another thread; Python 3.11 cannot do both at once (cpython#106905).
    schemathesis.openapi.from_dict(document())
    with Broker() as broker, Visitor.of(settings_for(broker)) as visitor:
        for name in ("0", "A"):  # what it tries first
            broker.create_topic(name)
        yield schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", visitor.console.app, headers=HEADERS)


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_request_makes_the_console_fail_or_answer_what_is_not_in_the_document(
    api: schemathesis.BaseSchema, endpoint: Endpoint, mode: GenerationMode
) -> None:
    operation = api[PREFIX + endpoint.path][endpoint.method]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=EXAMPLES < 10,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=HEADERS, checks=CHECKS)

    ask()
