"""A client's properties out of all the places where a person may have put them.

The first that names a property wins: an option of its own, -X, the file of --client-config, the environment
($OTTLA_BOOTSTRAP, then the file that $OTTLA_CONFIG names), and a profile: a table in config.toml below
$XDG_CONFIG_HOME/ottla, or ~/.config/ottla:

    [profiles.default]
    bootstrap.servers = "broker.example.com:9093"
    security.protocol = "SSL"
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.base.command_error import USAGE, CommandError
from ottla.base.properties import read_file
from ottla.cli import output
from ottla.cli.properties import parse_settings
from ottla.client.librdkafka.java_names import JAVA_ONLY
from ottla.client.properties import SERVERS, ClientProperties, client_properties, layered

BOOTSTRAP, CONFIG, PROFILE = "OTTLA_BOOTSTRAP", "OTTLA_CONFIG", "OTTLA_PROFILE"
DEFAULT_PROFILE = "default"


@dataclass(frozen=True)
class Typed:
    """What stands in the command line."""

    bootstrap: str | None = None
    settings: tuple[str, ...] = ()
    config: str | None = None
    profile: str | None = None


def resolve(typed: Typed, default: str) -> ClientProperties:
    """ClientError: the properties are wrong, or contradict each other."""
    properties = layered(
        {SERVERS: typed.bootstrap} if typed.bootstrap is not None else {},
        parse_settings(typed.settings, "-X"),
        read_file(typed.config) if typed.config is not None else {},
        _environment(),
        _profile(typed.profile),
    )
    if ignored := sorted(JAVA_ONLY & properties.keys()):
        output.say(f"ottla: only Java's clients have {', '.join(ignored)}; without effect here")
    return client_properties(properties, default)


def _environment() -> dict[str, str]:
    path, servers = os.environ.get(CONFIG), os.environ.get(BOOTSTRAP)
    return (read_file(path) if path else {}) | ({SERVERS: servers} if servers else {})


def profiles_path() -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "ottla", "config.toml")


def _profile(name: str | None) -> dict[str, str]:
    """An empty name is no profile, not even the default."""
    name = os.environ.get(PROFILE) if name is None else name
    if name == "":
        return {}
    profiles = _profiles()
    if name is None:
        return dict(_flat(profiles.get(DEFAULT_PROFILE, {})))
    if name not in profiles:
        there = f"it has {', '.join(sorted(profiles))}" if profiles else "it has none"
        raise CommandError(f"there is no profile {name!r} in {profiles_path()}; {there}", USAGE)
    return dict(_flat(profiles[name]))


def _profiles() -> dict[str, Any]:
    path = profiles_path()
    try:
        with open(path, "rb") as file:
            profiles = tomllib.load(file).get("profiles", {})
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", USAGE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not TOML: {error}", USAGE) from None
    if not isinstance(profiles, dict) or not all(isinstance(table, dict) for table in profiles.values()):
        raise CommandError(f"{path}: a profile is a table, such as [profiles.default]", USAGE)
    return profiles


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """To TOML, a.b = "c" is a table in a table."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int | float):
            yield name, str(value)
        else:
            raise CommandError(f"{profiles_path()}: {name} is neither text nor a number", USAGE)
