"""What an administrative request is about, by where that stands in it (`audited` in `api/table`)."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

TARGETS_MAX = 100  # of each kind


def targets_of(request: Any, paths: Iterable[str]) -> dict[str, list[str]]:
    """The names at each path, such as `topics.name`."""
    return {path: list(islice(_names(request, path.split(".")), TARGETS_MAX)) for path in paths}


def _names(item: Any, path: list[str]) -> Iterator[str]:
    if isinstance(item, list):
        for part in item:
            yield from _names(part, path)
    elif path and item is not None:
        yield from _names(getattr(item, path[0]), path[1:])
    elif isinstance(item, str):
        yield item
