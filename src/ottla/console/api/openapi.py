"""The OpenAPI 3.1 document, made from the rows of `routes`."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

from ottla.console.api.endpoints import NO_CONTENT, PATH_PARTS, PREFIX, Endpoint
from ottla.console.api.routes import ENDPOINTS
from ottla.console.api.shapes import Json, Rule, is_required, members, object_schema, schema

JSON = "application/json"
DESCRIPTION = (
    "What the console can do, for scripts. Authenticate with `Authorization: Bearer` and the token of the "
    "console, or, where the cluster has SASL, with HTTP Basic as one of its users. A session of the browser "
    "works as well; changes then need its token in `X-CSRF-Token`. A console that is read-only answers 403 "
    "to every change."
)


@dataclass(frozen=True)
class Problem:
    """What is wrong with a request, or with the cluster."""

    message: Annotated[str, Rule("A sentence for a person.")]
    field: Annotated[str | None, Rule("What of the request is wrong, such as `records[2].key`.")] = None
    kafka_error: Annotated[str | None, Rule("Kafka's name for it, if a broker refused something.")] = None


REFUSALS = {
    400: "The request is wrong; `field` says where.",
    401: "Nobody is logged in with that.",
    403: "That is not allowed, or the console is read-only.",
    404: "There is no such thing, or it may not be seen.",
    408: "The body did not come in time.",
    409: "It is there already, or in use.",
    413: "That is too much at once.",
    415: "A body is JSON.",
    429: "Too many logins have failed (`Retry-After` says for how long), or a quota is used up.",
    502: "The cluster does not answer, or has a problem.",
    504: "The cluster did not answer in time.",
}


@cache
def document() -> Json:
    shapes: dict[str, Json] = {}

    def named(shape: Any) -> Json:
        name = shape.__name__
        if name not in shapes:
            shapes[name] = {}  # it may be a part of itself
            shapes[name] = object_schema(shape, named)
        return {"$ref": f"#/components/schemas/{name}"}

    paths: dict[str, Json] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, named)
    responses = {
        f"Refused{status}": {"description": says, "content": {JSON: {"schema": named(Problem)}}}
        for status, says in REFUSALS.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ottla console", "version": version("ottla"), "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(shapes.items())),
            "responses": responses,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "user": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"user": []}],
    }


def _operation(endpoint: Endpoint, named: Any) -> Json:
    given: Json = {"description": "Done."}
    if endpoint.status != NO_CONTENT:
        given["content"] = {JSON: {"schema": named(endpoint.gives)}}
    operation: Json = {
        "operationId": endpoint.name,
        "summary": endpoint.says,
        "parameters": [*_path_parts(endpoint, named), *_query(endpoint, named)],
        "responses": {
            str(endpoint.status): given,
            **{str(status): {"$ref": f"#/components/responses/Refused{status}"} for status in REFUSALS},
        },
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": named(endpoint.body)}}}
    return operation


def _path_parts(endpoint: Endpoint, named: Any) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": schema(Annotated[PATH_PARTS[name]], named)}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]


def _query(endpoint: Endpoint, named: Any) -> list[Json]:
    parameters = []
    for name, (field, kind) in members(endpoint.query).items():
        described = schema(kind, named)
        if isinstance(described.get("type"), list):  # a query has no null: it is left out
            described["type"] = described["type"][0]
        if not is_required(field) and field.default not in (None, ""):
            described["default"] = field.default
        parameters.append({"name": name, "in": "query", "required": is_required(field), "schema": described})
    return parameters
