"""schemathesis asks for everything in the OpenAPI document, with values that fit it and values that do not.
No answer is a 5xx, each is one that the document has, and what does not fit is refused.

A few examples of each; more with `N=500 .venv/bin/pytest tests/console/api/test_schemathesis.py`.
"""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

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
HOST = {"host": "127.0.0.1:8080"}
PASSWORD = "a password for alice"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


class Asking(NamedTuple):
    """Somebody who asks, of the schema of a console."""

    api: schemathesis.BaseSchema
    headers: dict[str, str]
    examples: int


@contextmanager
def asking(broker: Broker, visitor: Visitor, authorization: str, examples: int) -> Iterator[Asking]:
    for name in ("0", "A"):  # what it tries first
        broker.create_topic(name)
    headers = HOST | {"authorization": authorization}
    loaded = schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", visitor.console.app, headers=headers)
    yield Asking(loaded, headers, examples)


@pytest.fixture(scope="module", params=["token", "user without rights"])
def asked(request: pytest.FixtureRequest) -> Iterator[Asking]:
    # Load all of it first: pytest parses what it loads, and a console that starts compiles its templates in
    # another thread; Python 3.11 cannot do both at once (cpython#106905).
    schemathesis.openapi.from_dict(document())
    is_secured = request.param != "token"
    with Broker(secure=is_secured) as broker, Visitor.of(settings_for(broker)) as visitor:
        if not is_secured:
            with asking(broker, visitor, f"Bearer {TOKEN}", EXAMPLES) as made:
                yield made
            return
        security = broker._security
        assert security is not None
        visitor.log_in(security.password, security.username)
        visitor.send("/users", user="alice", password=PASSWORD)
        credentials = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
        with asking(broker, visitor, f"Basic {credentials}", max(2, EXAMPLES // 2)) as made:
            yield made
            visitor.session.cluster.changed()
            topics = visitor.browser.get("/api/v1/topics").json()["topics"]
            assert [(topic["name"], topic["partitions"]) for topic in topics] == [("0", 1), ("A", 1)]
            for name in ("0", "A"):
                assert visitor.browser.get(f"/api/v1/topics/{name}/records").json()["records"] == []


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_no_request_makes_the_console_fail_or_answer_what_is_not_in_the_document(
    asked: Asking, endpoint: Endpoint, mode: GenerationMode
) -> None:
    operation = asked.api[PREFIX + endpoint.path][endpoint.method]

    @settings(
        max_examples=asked.examples,
        deadline=None,
        database=None,
        derandomize=EXAMPLES < 10,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=asked.headers, checks=CHECKS)

    ask()
