"""The application: sessions, forms, worker threads and errors around the functions of `routes`.

A function of a page runs in a worker thread, and may take PAGE_S. After that the person is told; the thread
goes on until the client's own timeouts end it, and does not count for others, of whom there may be WORKERS.
"""

import hmac
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount
from starlette.routing import Route as StarletteRoute
from starlette.staticfiles import StaticFiles

from ottla.base.command_error import CommandError
from ottla.console import templates
from ottla.console.api.callers import Callers
from ottla.console.api.endpoints import PREFIX
from ottla.console.api.service import Api, on_http_error
from ottla.console.bodies import LOGIN_BYTES_MAX, form_of
from ottla.console.cluster.view import ClusterView
from ottla.console.logins import Attempts, Login, RefusedError, TokenLogin, TooManyError, UserLogin
from ottla.console.routes import ROUTES, Route
from ottla.console.sessions import Session, Sessions
from ottla.console.settings import ConsoleSettings
from ottla.console.shield import HEADERS, NO_STORE, READS, Shield
from ottla.console.visit import (
    BAD_GATEWAY,
    BAD_REQUEST,
    CSRF,
    FORBIDDEN,
    NOT_FOUND,
    PAGE_S,
    SEE_OTHER,
    TOO_LARGE,
    TOO_LONG,
    TOO_MANY,
    MissingError,
    Visit,
    status_of,
    theme_of,
    too_long,
)

log = logging.getLogger(__name__)

WORKERS = 16
SWEEP_S = 30.0
REFRESH = "x-refresh"  # a page asks for itself again, without its user


def console_app(settings: ConsoleSettings, clock: Callable[[], float] = time.monotonic) -> Starlette:
    return Console(settings, clock).app


class Console:
    def __init__(self, settings: ConsoleSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._login: Login = UserLogin(settings) if settings.has_users else TokenLogin(settings)
        self.sessions = Sessions(clock, lambda session: self._login.leave(session.cluster))
        self._attempts = Attempts(clock)
        self._workers = anyio.CapacityLimiter(WORKERS)
        self.callers = Callers(self._login, self._attempts, clock)
        static = StaticFiles(directory=Path(__file__).parent / "static")
        self.app = Starlette(
            routes=[
                StarletteRoute("/login", self._show_login, methods=["GET"]),
                StarletteRoute("/login", self._log_in, methods=["POST"]),
                StarletteRoute("/logout", self._log_out, methods=["POST"]),
                Mount("/static", static),
                Mount(PREFIX, Api(settings, self.sessions, self.callers, self._workers).app),
                *(self._route(route) for route in ROUTES),
            ],
            middleware=[Middleware(Shield, settings=settings)],
            exception_handlers={HTTPException: self._on_http_error, Exception: self._on_bug},
            lifespan=self._life,
        )

    @asynccontextmanager
    async def _life(self, _app: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=templates.compile_all, daemon=True).start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sweep)
            yield
            tasks.cancel_scope.cancel()
        await run_sync(self.sessions.end_all)
        await run_sync(self.callers.end_all)
        await run_sync(self._login.close)

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(SWEEP_S)
            await run_sync(self.callers.sweep)
            await run_sync(self.sessions.sweep)

    # -- pages -----------------------------------------------------------------------------------------------

    def _route(self, route: Route) -> StarletteRoute:
        async def endpoint(request: Request) -> Response:
            return await self._answer(route, request)

        return StarletteRoute(route.path, endpoint, methods=["POST"] if route.is_change else ["GET"])

    async def _answer(self, route: Route, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return self._to_login(request)
        fields = await form_of(request) if route.is_change else {}
        visit = Visit(request, self._settings, session, fields)
        if route.is_change:
            token = request.headers.get(CSRF) or visit.form("csrf")
            if not hmac.compare_digest(token.encode(), session.csrf.encode()):
                return self._error(
                    request, FORBIDDEN, "This form is of another session. Load the page again."
                )
            if self._settings.is_read_only:
                return self._error(request, FORBIDDEN, "This console is read-only. Nothing was done.")
        try:
            with anyio.fail_after(PAGE_S):
                return await run_sync(route.handler, visit, limiter=self._workers, abandon_on_cancel=True)
        except TimeoutError:
            return self._error(request, TOO_LONG, too_long(is_change=route.is_change))
        except MissingError as error:
            return self._error(request, NOT_FOUND, str(error), error.near)
        except CommandError as error:
            return self._error(request, status_of(error), str(error))

    def _session(self, request: Request) -> Session | None:
        key = request.cookies.get(self._settings.cookie, "")
        return self.sessions.find(key, is_refresh=REFRESH in request.headers)

    # -- logging in and out ----------------------------------------------------------------------------------

    def _to_login(self, request: Request) -> Response:
        if REFRESH in request.headers or request.method != "GET":
            return HTMLResponse("", 401)
        path = quote(request.url.path, safe="/%") + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(
            "/login" + (f"?next={quote(path, safe='')}" if path != "/" else ""), SEE_OTHER
        )

    async def _show_login(self, request: Request) -> Response:
        if self._session(request) is not None:
            return RedirectResponse(local_path(request.query_params.get("next", "")), SEE_OTHER)
        return self._login_page(request, request.query_params.get("next", ""))

    async def _log_in(self, request: Request) -> Response:
        fields = await form_of(request, LOGIN_BYTES_MAX)
        following = fields.get("next", [""])[-1]
        address = request.client.host if request.client else ""
        user, secret = fields.get("user", [""])[-1].strip(), fields.get("secret", [""])[-1]

        def enter() -> tuple[str, ClusterView]:
            return self._attempts.guarded(address, lambda: self._login.log_in(user, secret))

        try:
            name, cluster = await run_sync(enter, limiter=self._workers)
        except TooManyError as error:
            return self._login_page(request, following, str(error), TOO_MANY)
        except RefusedError as error:
            log.warning("a login from %s as %.80s was refused", address, user or "holder of the token")
            return self._login_page(request, following, str(error), FORBIDDEN)
        except CommandError as error:
            return self._login_page(request, following, f"Nobody can log in now: {error}", BAD_GATEWAY)
        cluster.start()
        session = self.sessions.start(name, cluster)
        log.info("%s has logged in from %s", name, address)
        response = RedirectResponse(local_path(following), SEE_OTHER)
        response.set_cookie(
            self._settings.cookie,
            session.key,
            httponly=True,
            samesite="lax",  # a link to a record works from anywhere; changes are protected otherwise
            secure=self._settings.origin.startswith("https:"),
        )
        return response

    async def _log_out(self, request: Request) -> Response:
        session = self._session(request)
        fields = await form_of(request, LOGIN_BYTES_MAX)
        if session is not None and fields.get("csrf", [""])[-1] == session.csrf:
            await run_sync(self.sessions.end, session)
        response = RedirectResponse("/login", SEE_OTHER)
        response.delete_cookie(self._settings.cookie, httponly=True, samesite="lax")
        return response

    def _login_page(self, request: Request, following: str, problem: str = "", status: int = 200) -> Response:
        values: dict[str, object] = {
            "console": self._settings,
            "theme": theme_of(request),
            "next": following,
            "problem": problem,
        }
        return HTMLResponse(templates.render("login.html", values), status)

    # -- errors ----------------------------------------------------------------------------------------------

    def _error(
        self, request: Request, status: int, sentence: str, near: tuple[str, str] | None = None
    ) -> Response:
        """A page that could not be read looks again; a form that failed is not sent again by itself. `near`
        is a page to go on from: of a form, and of a question that nobody understands, the page without it."""
        is_form = request.method not in READS
        if (is_form and status != NOT_FOUND) or (status == BAD_REQUEST and request.url.query):
            near = quote(request.url.path.removesuffix("/remove"), safe="/%"), "Back"
        values: dict[str, object] = {
            "looks_again": status in (BAD_GATEWAY, TOO_LONG) and not is_form,
            "near": near,
            "console": self._settings,
            "session": self._session(request),
            "path": request.url.path,
            "theme": theme_of(request),
            "notices": [],
            "sentence": sentence,
            "status": status,
        }
        return HTMLResponse(templates.render("error.html", values), status)

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        if request.url.path.startswith(
            f"{PREFIX}/"
        ):  # what no route of the API matches, such as a line break
            return await on_http_error(request, error)
        assert isinstance(error, HTTPException), "registered for it"
        sentences = {NOT_FOUND: "There is no such page.", TOO_LARGE: "That is too much at once."}
        return self._error(request, error.status_code, sentences.get(error.status_code, str(error.detail)))

    async def _on_bug(self, request: Request, error: Exception) -> Response:
        """Starlette raises it again, and uvicorn logs it. It stands outside the shield, so the headers that
        every answer carries are put on here."""
        log.error("%s %s failed: %r", request.method, request.url.path, error)
        answer = self._error(request, 500, "This page failed: a bug in the console. Its log says more.")
        answer.headers.update(HEADERS | NO_STORE)
        return answer


def local_path(address: str) -> str:
    """A page of this console, whatever somebody wrote into the link."""
    parts = urlsplit(address)
    is_local = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_local and not parts.netloc and address.isprintable() else "/"
