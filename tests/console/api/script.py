"""A script that talks to the console, and holds every answer against the OpenAPI document."""

from contextlib import AbstractContextManager
from typing import Any, Self

from httpx2 import Response
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient
from tests.console.visitor import Visitor

from ottla.console.api.openapi import document
from ottla.console.api.routes import ENDPOINTS

PREFIX = "/api/v1"
seen: set[tuple[str, str]] = set()  # which rows were answered with success


class Script(AbstractContextManager["Script"]):
    def __init__(self, visitor: Visitor, **client: Any) -> None:
        self.visitor = visitor
        self.client: TestClient = visitor.browser
        self._client = client

    def __enter__(self) -> Self:
        self.visitor.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.visitor.__exit__(*_)

    def ask(self, method: str, path: str, status: int = 200, **others: Any) -> Any:
        """What is answered, which fits the document."""
        path = path if path.startswith(PREFIX) else PREFIX + path
        answer = self.client.request(method, path, **self._client | others)
        assert answer.status_code == status, answer.text
        check(method, path.partition("?")[0], answer)
        return answer.json() if answer.content else None

    def get(self, path: str, status: int = 200, **others: Any) -> Any:
        return self.ask("GET", path, status, **others)

    def post(self, path: str, body: Any, status: int = 200) -> Any:
        return self.ask("POST", path, status, json=body)

    def patch(self, path: str, body: Any, status: int = 200) -> Any:
        return self.ask("PATCH", path, status, json=body)

    def delete(self, path: str, status: int = 204) -> Any:
        return self.ask("DELETE", path, status)


def check(method: str, path: str, answer: Response) -> None:
    """The document has this answer of this address, in this form."""
    parts = path.removeprefix(PREFIX).split("/")
    declared = [
        endpoint.path
        for endpoint in ENDPOINTS
        if endpoint.method == method
        and len(endpoint.path.split("/")) == len(parts)
        and all(a == b or a.startswith("{") for a, b in zip(endpoint.path.split("/"), parts, strict=True))
    ]
    assert len(declared) == 1, path
    whole = document()
    response = whole["paths"][PREFIX + declared[0]][method.lower()]["responses"][str(answer.status_code)]
    if "$ref" in response:
        response = whole["components"]["responses"][response["$ref"].rpartition("/")[2]]
    if "content" not in response:
        assert answer.content == b""
    else:
        schema = {**response["content"]["application/json"]["schema"], "components": whole["components"]}
        Draft202012Validator(schema).validate(answer.json())
    if answer.is_success:
        seen.add((method, declared[0]))
