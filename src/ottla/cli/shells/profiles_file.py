"""config.toml with the profiles, written as a whole: what else is in it stays, comments do not."""

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ottla.base.command_error import CommandError
from ottla.cli import client_settings


def write(profiles: Mapping[str, Mapping[str, str]], chosen: str | None) -> None:
    others = {
        name: value
        for name, value in client_settings.file_content().items()
        if name not in ("profiles", client_settings.CHOSEN)
    }
    top = dict(others) | ({client_settings.CHOSEN: chosen} if chosen else {})
    tables = {name: value for name, value in top.items() if isinstance(value, dict)}
    lines = [f"{_key(name)} = {_value(value)}" for name, value in top.items() if name not in tables]
    for name, table in tables.items():
        lines += ["", f"[{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items())]
    for name, properties in sorted(profiles.items()):
        lines += ["", f"[profiles.{_key(name)}]"]
        lines += [f"{_key(key)} = {_value(value)}" for key, value in sorted(properties.items())]
    _replace(client_settings.profiles_path(), "\n".join([*lines, ""]).lstrip("\n"))


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(some)}" for key, some in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str | bool | int | float):
        return json.dumps(value)
    return str(value)  # a time


def _replace(path: str, text: str) -> None:
    """In one step, and readable to nobody else: it may have passwords."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".config-")
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None
