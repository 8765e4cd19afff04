"""The application of `/api/v1`: who asks, what with, in which thread, and errors as JSON.

A request that says who it is of with each `Authorization` cannot be made by a page of another site, and needs
no token of a form. One with the cookie of a browser can, and does.
"""

import hmac
import json
import logging
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.base.command_error import CommandError
from ottla.console.api.callers import Callers, Credentials, credentials_of
from ottla.console.api.endpoints import NO_CONTENT, PATH_PARTS, Asked, Endpoint
from ottla.console.api.openapi import JSON, Problem, document
from ottla.console.api.routes import ENDPOINTS
from ottla.console.api.shapes import ShapeError, read, read_query, written
from ottla.console.bodies import json_bytes_of, json_of
from ottla.console.logins import RefusedError, TooManyError
from ottla.console.sessions import Session, Sessions
from ottla.console.settings import ConsoleSettings
from ottla.console.visit import (
    BAD_REQUEST,
    CSRF,
    FORBIDDEN,
    NOT_FOUND,
    PAGE_S,
    TOO_LONG,
    TOO_MANY,
    MissingError,
    Visit,
    status_of,
    too_long,
)

log = logging.getLogger(__name__)
T = TypeVar("T")
UNAUTHORIZED = 401


class Api:
    def __init__(
        self, settings: ConsoleSettings, sessions: Sessions, callers: Callers, workers: anyio.CapacityLimiter
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._callers = callers
        self._workers = workers
        self.app = Starlette(
            routes=[Route("/openapi.json", _document, methods=["GET"]), *map(self._route, by_path())],
            exception_handlers={HTTPException: on_http_error, Exception: _on_bug},
        )

    def _route(self, endpoints: list[Endpoint]) -> Route:
        by_method = {endpoint.method: endpoint for endpoint in endpoints}

        async def answered(request: Request) -> Response:
            return await self._answer(by_method[request.method.replace("HEAD", "GET")], request)

        return Route(endpoints[0].path, answered, methods=list(by_method))

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        try:
            entry, body = self._entry(endpoint, request), b""
            if endpoint.body is not None:
                await self._in_worker(lambda: self._let_in(request, entry))  # before anything large is read
                body = await json_bytes_of(request)
            return await self._in_worker(lambda: self._act(endpoint, request, entry, body))
        except ShapeError as error:
            return _problem(BAD_REQUEST, Problem(str(error), error.field or None))
        except RefusedError as error:
            return self._refused(str(error))
        except TooManyError as error:
            return _problem(TOO_MANY, Problem(str(error)), {"retry-after": f"{error.wait_s:.0f}"})
        except TimeoutError:
            return _problem(TOO_LONG, Problem(too_long(is_change=endpoint.is_change)))
        except MissingError as error:
            return _problem(NOT_FOUND, Problem(str(error)))
        except CommandError as error:
            return _problem(status_of(error), Problem(str(error), kafka_error=error.kafka_error or None))

    async def _in_worker(self, work: Callable[[], T]) -> T:
        with anyio.fail_after(PAGE_S):
            return await run_sync(work, limiter=self._workers, abandon_on_cancel=True)

    def _entry(self, endpoint: Endpoint, request: Request) -> Credentials | Session:
        """Who asks, as far as that is known without the cluster. RefusedError: nobody."""
        authorization = request.headers.get("authorization")
        if authorization is not None:
            return credentials_of(authorization, has_users=self._settings.has_users)
        session = self._sessions.find(request.cookies.get(self._settings.cookie, ""))
        if session is None:
            raise RefusedError("Say who you are, with Authorization.")
        token = request.headers.get(CSRF, "")
        if endpoint.is_change and not hmac.compare_digest(token.encode(), session.csrf.encode()):
            raise HTTPException(FORBIDDEN, "A change with a cookie needs the session's X-CSRF-Token.")
        return session

    def _let_in(self, request: Request, entry: Credentials | Session) -> None:
        with self._entered(request, entry):
            """Who was let in is kept for a moment: for what comes next."""

    def _entered(self, request: Request, entry: Credentials | Session) -> AbstractContextManager[Session]:
        """In a worker thread: the cluster may have to be asked."""
        if isinstance(entry, Session):
            return nullcontext(entry)
        return self._callers.entered(entry, request.client.host if request.client else "")

    def _act(
        self, endpoint: Endpoint, request: Request, entry: Credentials | Session, body: bytes
    ) -> Response:
        """In a worker thread."""
        with self._entered(request, entry) as session:
            if endpoint.is_change and self._settings.is_read_only:
                return _problem(FORBIDDEN, Problem("This console is read-only. Nothing was done."))
            query, given = _given(endpoint, request, body)
            answer = endpoint.answer(Asked(Visit(request, self._settings, session, {}), query, given))
            if answer is None:
                return Response(status_code=NO_CONTENT)
            return _json(endpoint.status, written(answer))

    def _refused(self, sentence: str) -> Response:
        """Not `Basic` by that name: a browser would ask its user for a password, and send it from then on
        with whatever a page makes it ask for."""
        scheme = "xBasic" if self._settings.has_users else "Bearer"
        return _problem(UNAUTHORIZED, Problem(sentence), {"www-authenticate": f'{scheme} realm="ottla"'})


def by_path() -> list[list[Endpoint]]:
    """All that is at one address is one route, so that other methods are told which there are."""
    paths: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, []).append(endpoint)
    return list(paths.values())


def _given(endpoint: Endpoint, request: Request, body: bytes) -> tuple[Any, Any]:
    """What is declared, out of the request: its query and its body. ShapeError: it does not fit."""
    for name, text in request.path_params.items():
        if PATH_PARTS[name][0] is int and not re.fullmatch("[0-9]{1,19}", text):
            raise MissingError(f"There is no {name} {text!r:.40}.")
    doubled = [name for name in request.query_params if len(request.query_params.getlist(name)) > 1]
    if doubled:
        raise ShapeError(doubled[0], "this is given more than once")
    query = read_query(endpoint.query, request.query_params)
    return query, None if endpoint.body is None else read(endpoint.body, json_of(body))


# -- answers -------------------------------------------------------------------------------------------------


async def _document(_request: Request) -> Response:
    return _json(200, document())


def _json(status: int, value: Any, headers: dict[str, str] | None = None) -> Response:
    """In ASCII: what records hold may be half of a character, which UTF-8 has not."""
    return Response(json.dumps(value, allow_nan=False), status, headers, JSON)


def _problem(status: int, problem: Problem, headers: dict[str, str] | None = None) -> Response:
    return _json(status, written(problem), headers)


async def on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it"
    return _problem(error.status_code, Problem(str(error.detail)), dict(error.headers or {}))


async def _on_bug(request: Request, error: Exception) -> Response:
    """Starlette raises it again, and uvicorn logs it."""
    log.error("%s %s failed: %r", request.method, request.url.path, error)
    return _problem(500, Problem("This failed: a bug in the console. Its log says more."))
