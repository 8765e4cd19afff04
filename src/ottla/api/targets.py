"""What an administrative request is about, by where that stands in it (`audited` in `api/table`)."""

from collections.abc import Iterable, Iterator
from typing import Any

TARGETS_MAX = 100  # of each kind


def targets_of(request: Any, paths: Iterable[str]) -> dict[str, list[str]]:
    """The names at each path, such as `topics.name`; where there are too many, how many are left out: nobody
    hides behind a hundred others unseen."""
    targets = {}
    for path in paths:
        names = list(_names(request, path.split(".")))
        targets[path] = names[:TARGETS_MAX]
        if len(names) > TARGETS_MAX:
            targets[f"more {path}"] = [str(len(names) - TARGETS_MAX)]
    return targets


def _names(item: Any, path: list[str]) -> Iterator[str]:
    if isinstance(item, list):
        for part in item:
            yield from _names(part, path)
    elif path and item is not None:
        yield from _names(getattr(item, path[0]), path[1:])
    elif isinstance(item, str):
        yield item
