"""Which path is answered with what.

/health/live says that the loop turns, and nothing else: whoever is restarted because of it must be stuck.
/health/ready says whether this broker can answer for what it leads (`broker/readiness`); that the keeper is
away is told beside it, and changes nothing.
"""

import json
import platform
from collections.abc import Callable

from ottla.base.version import VERSION
from ottla.broker.readiness import Readiness
from ottla.shell.http.connection import Answer, Answering, Asked, text_answer
from ottla.shell.http.scrapes import Scrapes

PATHS = ("/metrics", "/health/live", "/health/ready", "/version")


class Pages:
    """`keeper` says in a word whether the keeper is there."""

    def __init__(self, readiness: Readiness, scrapes: Scrapes, keeper: Callable[[], str]) -> None:
        self._readiness = readiness
        self._scrapes = scrapes
        self._keeper = keeper

    def answer(self, asked: Asked) -> Answering:
        match asked.path:
            case "/metrics":
                return self._scrapes.answer(asked)
            case "/health/live":
                return _json(200, {"live": True})
            case "/health/ready":
                return self._ready()
            case "/version":
                versions = {"version": VERSION, "python": platform.python_version()}
                return _json(200, {"name": "ottla", **versions})
            case _:
                return text_answer(404, f"There are {', '.join(PATHS)}.")

    def _ready(self) -> Answer:
        reasons = self._readiness.reasons()
        shown = {
            "ready": not reasons,
            "reasons": [reason._asdict() for reason in reasons],
            "keeper": self._keeper(),
        }
        return _json(503 if reasons else 200, shown)


def _json(status: int, shown: object) -> Answer:
    return Answer(status, "application/json", f"{json.dumps(shown)}\n".encode())
