"""Which function answers which address. A page is one row here, a function in `pages/`, and a template.

A `change` is refused by a read-only console, and always carries the token of its session.
"""

from collections.abc import Callable
from typing import NamedTuple

from starlette.responses import Response

from ottla.console.pages import overview
from ottla.console.visit import Visit

Handler = Callable[[Visit], Response]


class Route(NamedTuple):
    path: str
    handler: Handler
    is_change: bool = False


ROUTES = [
    Route("/", overview.show),
]
