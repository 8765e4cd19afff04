"""What every request passes before a page sees it, and what every answer carries.

Hosts: a page of another site can make a browser resolve that site's name to 127.0.0.1 (DNS rebinding), and is
then of the same origin as the console, to the browser. So the name that was asked for must be one of ours.

Other sites: what changes something must come from a page of the console: browsers say so in `Sec-Fetch-Site`
and `Origin`, which a page cannot forge. The token in each form is checked in `app`, where sessions are known.

Answers: nothing but our own files may run or be shown, in no frame, and no page stays in a cache.
"""

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from ottla.console.settings import ConsoleSettings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READS = {"GET", "HEAD"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # `no-referrer` would make browsers say `Origin: null` of our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
NO_STORE = {"cache-control": "no-store"}


class Shield:
    def __init__(self, app: App, settings: ConsoleSettings) -> None:
        self._app = app
        self._hosts = allowed_hosts(settings)
        self._origin = settings.origin.rstrip("/") or None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        problem = self._problem(scope)
        if problem is not None:
            status, sentence = problem
            await PlainTextResponse(sentence + "\n", status)(scope, receive, guarded(send))
            return
        await self._app(scope, receive, guarded(send))

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_allowed(host, self._hosts):
            return 421, "This console is not at that name. Use the address that it printed, or --origin."
        if scope["method"] not in READS and not self._is_own(headers, host):
            return 403, "Another site asked for that. Nothing was done."
        return None

    def _is_own(self, headers: Headers, host: str) -> bool:
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return False
        origin = headers.get("origin")
        return origin in {None, self._origin, f"http://{host}", f"https://{host}"}


def guarded(send: Send) -> Send:
    async def send_guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            for name, value in NO_STORE.items():
                headers.setdefault(name, value)
        await send(message)

    return send_guarded


def allowed_hosts(settings: ConsoleSettings) -> set[str]:
    """Names under which people may ask for the console. An address of a machine is always fine: no name had
    to be resolved for it."""
    names = {"localhost", settings.host.strip("[]").lower()}
    if settings.origin:
        names.add((urlsplit(settings.origin).hostname or "").lower())
    return names - {""}


def is_allowed(host: str, names: set[str]) -> bool:
    try:
        name = (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return False
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
