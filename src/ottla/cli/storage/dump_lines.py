"""How `ottla dump` shows things: one line each, or one JSON object."""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.cli.output import json_text
from ottla.client.formats.content import readable

# Shows a file: its path, whether records are wanted, whether as JSON. What is wrong with it, a line each.
Reader: TypeAlias = Callable[[str, bool, bool], list[str]]


def show(fields: dict[str, Any], as_json: bool) -> None:
    """What says nothing, an empty list or -1, is left out for people."""
    if as_json:
        print_json(fields)
    else:
        print(" · ".join(f"{name} {_text(value)}" for name, value in fields.items() if value not in ([], -1)))


def brief(given: bytes | None, most: int = 200) -> str:
    if given is None:
        return "null"
    shown = readable(given)
    text = repr(shown) if isinstance(shown, str) else given.hex(" ")
    return text if len(text) <= most else f"{text[:most]}… ({len(given)} bytes)"


def print_json(value: Any) -> None:
    sys.stdout.write(json_text(value) + "\n")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
