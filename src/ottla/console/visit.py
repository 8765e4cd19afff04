"""One request, as the function of a page sees it: who asks, what for, and how to answer."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ErrorCode
from ottla.base.log_fields import UNLIMITED, fields
from ottla.console import templates
from ottla.console.cluster.view import ClusterView
from ottla.console.figures import from_part
from ottla.console.sessions import Session
from ottla.console.settings import ConsoleSettings

AUDIT = "ottla.console.audit"
log = logging.getLogger(AUDIT)

BAD_REQUEST, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_LARGE, TOO_MANY = 400, 403, 404, 409, 413, 429
BAD_GATEWAY, TOO_LONG = 502, 504
PAGE_S = 30.0  # that an answer may take
CSRF = "x-csrf-token"
# What brokers refuse, by Kafka's name, where it is not the cluster that has a problem.
STATUSES = {
    **{error.name: BAD_REQUEST for error in ErrorCode if error.name.startswith(("INVALID_", "UNSUPPORTED_"))},
    **{error.name: FORBIDDEN for error in ErrorCode if error.name.endswith("_AUTHORIZATION_FAILED")},
    ErrorCode.POLICY_VIOLATION.name: BAD_REQUEST,
    ErrorCode.SECURITY_DISABLED.name: BAD_REQUEST,
    ErrorCode.OFFSET_OUT_OF_RANGE.name: NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name: NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND.name: NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS.name: CONFLICT,
    ErrorCode.NON_EMPTY_GROUP.name: CONFLICT,
    ErrorCode.MESSAGE_TOO_LARGE.name: TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE.name: TOO_LARGE,
    ErrorCode.TOPIC_DELETION_DISABLED.name: FORBIDDEN,
    ErrorCode.RESOURCE_NOT_FOUND.name: NOT_FOUND,
    ErrorCode.REASSIGNMENT_IN_PROGRESS.name: CONFLICT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED.name: TOO_MANY,
}
SEE_OTHER = 303


class MissingError(Exception):
    """What was asked for is not there; the sentence says so. `near` is a page to go on from: its address, and
    its name."""

    def __init__(self, sentence: str, near: tuple[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.near = near


@dataclass(frozen=True, slots=True)
class Visit:
    """`form` has what was sent, the last value of each name; `fields` all of them."""

    request: Request
    settings: ConsoleSettings
    session: Session
    fields: Mapping[str, list[str]]

    @property
    def cluster(self) -> ClusterView:
        return self.session.cluster

    @property
    def may_change(self) -> bool:
        return not self.settings.is_read_only

    def path(self, name: str) -> str:
        """A part of the address, as the route names it."""
        return from_part(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)

    def form(self, name: str, default: str = "") -> str:
        values = self.fields.get(name)
        return values[-1].strip() if values else default

    # -- answers ---------------------------------------------------------------------------------------------

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        own = {
            "visit": self,
            "console": self.settings,
            "session": self.session,
            "path": self.request.url.path,
            "theme": theme_of(self.request),
            "notices": self.session.taken_notices(),
        }
        return HTMLResponse(templates.render(template, own | values), status)

    def to(self, path: str, notice: str = "", **query: str) -> Response:
        """Another page, which shows the notice."""
        if notice:
            self.session.notices.append(("done", notice))
        return RedirectResponse(path + (f"?{urlencode(query)}" if query else ""), SEE_OTHER)

    # -- changes ---------------------------------------------------------------------------------------------

    @contextmanager
    def change(self, doing: str) -> Iterator[None]:
        """Around everything that changes the cluster: says who does what, and whether it was done.

        `doing` goes on after the name of the user: "deletes topic orders".
        """
        host = self.request.client.host if self.request.client else "?"
        named = {"at": "console", "principal": f"User:{self.session.user}", "host": host, "on": doing}
        try:
            yield
        except CommandError as error:
            extra = UNLIMITED | fields(**named, allowed=False, reason=str(error))
            log.warning("%s from %s %s: refused: %s", self.session.user, host, doing, error, extra=extra)
            raise
        finally:
            self.cluster.changed()
        extra = UNLIMITED | fields(**named, allowed=True)
        log.info("%s from %s %s: done", self.session.user, host, doing, extra=extra)


def theme_of(request: Request) -> str:
    """What the person chose: light, dark, or nothing, which is what the system has."""
    chosen = request.cookies.get("ottla_theme", "")
    return chosen if chosen in {"light", "dark"} else ""


def too_long(*, is_change: bool) -> str:
    doubt = " It may be done all the same: look before you try again." if is_change else ""
    return f"The cluster did not answer within {PAGE_S:.0f} s.{doubt}"


def status_of(error: CommandError) -> int:
    """What HTTP calls a refusal: 4xx is for who asked, 5xx for the cluster."""
    if error.code == USAGE:
        return BAD_REQUEST
    return STATUSES.get(error.kafka_error, BAD_GATEWAY)
