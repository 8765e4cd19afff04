"""A schema registry over HTTP for tests, in this process: the routes that clients use to read and register.

Like Confluent's it hands a Protobuf schema out as the text of a .proto file. With `user` it wants basic auth,
with `tls` (certificate and key, both PEM files) it speaks HTTPS.
"""

import base64
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

NOT_THERE = 404, {"error_code": 40403, "message": "Schema not found"}
NO_SUBJECT = 404, {"error_code": 40401, "message": "Subject not found."}


class SchemaRegistry:
    """What it knows, and every request that it got."""

    def __init__(self, user: str | None) -> None:
        self.user = user
        self.schemas: list[dict[str, Any]] = []
        self.versions: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.url = ""

    def add(self, subject: str, text: str, kind: str = "AVRO", references: Any = ()) -> int:
        schema = {"schema": text, "schemaType": kind, "references": list(references)}
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        known = self.versions.setdefault(subject, [])
        if number not in known:
            known.append(number)
        return number

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        for pattern, route in _ROUTES:
            if matched := re.fullmatch(pattern, f"{method} {path}"):
                return route(self, body, *matched.groups())
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def by_id(self, _body: Any, number: str) -> tuple[int, Any]:
        index = int(number) - 1
        return (200, self.schemas[index]) if 0 <= index < len(self.schemas) else NOT_THERE

    def version(self, _body: Any, subject: str, version: str) -> tuple[int, Any]:
        numbers = self.versions.get(unquote(subject))
        if not numbers:
            return NO_SUBJECT
        at = len(numbers) if version == "latest" else int(version)
        number = numbers[at - 1]
        return 200, {"subject": unquote(subject), "version": at, "id": number, **self.schemas[number - 1]}

    def register(self, body: Any, subject: str) -> tuple[int, Any]:
        kind = body.get("schemaType") or "AVRO"
        return 200, {"id": self.add(unquote(subject), body["schema"], kind, body.get("references") or ())}


_ROUTES: list[tuple[str, Callable[..., tuple[int, Any]]]] = [
    (r"GET /schemas/ids/(\d+)", SchemaRegistry.by_id),
    (r"GET /subjects/([^/]+)/versions/(latest|\d+)", SchemaRegistry.version),
    (r"POST /subjects/([^/]+)/versions", SchemaRegistry.register),
]


@contextmanager
def schema_registry(
    *, user: str | None = None, tls: tuple[str, str] | None = None
) -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry(user)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            path = urlsplit(self.path).path
            registry.requests.append(f"{self.command} {path}")
            wanted = registry.user and "Basic " + base64.b64encode(registry.user.encode()).decode()
            if wanted and self.headers.get("Authorization") != wanted:
                status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                status, answer = registry.answer(self.command, path, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing: a test says what it needs."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
