"""A client's properties out of all the places where a person may have put them.

The first that names a property wins: an option of its own, -X, the file of --client-config, the environment
($OTTLA_BOOTSTRAP, then the file that $OTTLA_CONFIG names), and a profile: a table in config.toml below
$XDG_CONFIG_HOME/ottla, or ~/.config/ottla:

    profile = "work"

    [profiles.work]
    bootstrap.servers = "broker.example.com:9093"
    security.protocol = "SSL"

`ottla profile` writes it. Without a line `profile`, the table `default` holds, if it is there.
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
from ottla.client.security.names import PROTOCOL
from ottla.client.security.sasl_settings import OAUTHBEARER

BOOTSTRAP, CONFIG, PROFILE = "OTTLA_BOOTSTRAP", "OTTLA_CONFIG", "OTTLA_PROFILE"
DEFAULT_PROFILE = "default"
NOBODY = "-"
CHOSEN = "profile"  # the name in the file of the profile that is used


@dataclass(frozen=True)
class Typed:
    """What stands in the command line."""

    bootstrap: str | None = None
    settings: tuple[str, ...] = ()
    config: str | None = None
    profile: str | None = None


def resolve(typed: Typed, default: str, *, is_user_open: bool = False) -> ClientProperties:
    """`is_user_open`: who logs in with SASL is said later, so it need not be said here.
    ClientError: the properties are wrong, or contradict each other."""
    properties = layered(
        {SERVERS: typed.bootstrap} if typed.bootstrap is not None else {},
        parse_settings(typed.settings, "-X"),
        read_file(typed.config) if typed.config is not None else {},
        _environment(),
        _profile(typed.profile),
    )
    if is_user_open:
        properties = _with_somebody(properties)
    if ignored := sorted(JAVA_ONLY & properties.keys()):
        output.say(f"ottla: only Java's clients have {', '.join(ignored)}; without effect here")
    return client_properties(properties, default)


def _with_somebody(properties: dict[str, str]) -> dict[str, str]:
    """Somebody who is replaced before they log in; properties are not complete without."""
    if not properties.get(PROTOCOL, "").strip().upper().startswith("SASL_"):
        return properties
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).strip().upper()
    if properties.get("sasl.jaas.config", "").strip() or properties.get("sasl.username", "").strip():
        return properties
    if mechanism == OAUTHBEARER:
        has_source = any(name.startswith("sasl.oauthbearer.token") for name in properties)
        return properties if has_source else {"sasl.oauthbearer.token": NOBODY} | properties
    return properties | {"sasl.username": NOBODY, "sasl.password": NOBODY}


def _environment() -> dict[str, str]:
    path, servers = os.environ.get(CONFIG), os.environ.get(BOOTSTRAP)
    return (read_file(path) if path else {}) | ({SERVERS: servers} if servers else {})


def profiles_path() -> str:
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "ottla", "config.toml")


def _profile(name: str | None) -> dict[str, str]:
    """An empty name is no profile, not even the one that is used."""
    name = os.environ.get(PROFILE) if name is None else name
    if name == "":
        return {}
    tables = profiles()
    if name is None:
        return tables.get(chosen() or "", {})
    check_profile(name, tables)
    return tables[name]


def check_profile(name: str, tables: Mapping[str, Any]) -> None:
    if name not in tables:
        there = f"it has {', '.join(sorted(tables))}" if tables else "it has none"
        raise CommandError(f"there is no profile {name!r} in {profiles_path()}; {there}", USAGE)


def chosen() -> str | None:
    """The profile that holds if nobody says another."""
    content = file_content()
    name = content.get(CHOSEN, DEFAULT_PROFILE)
    return name if isinstance(name, str) and name in content.get("profiles", {}) else None


def profile_names() -> list[str]:
    return sorted(profiles())


def profiles() -> dict[str, dict[str, str]]:
    tables = file_content().get("profiles", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise CommandError(f"{profiles_path()}: a profile is a table, such as [profiles.default]", USAGE)
    return {name: dict(_flat(table)) for name, table in tables.items()}


def file_content() -> dict[str, Any]:
    path = profiles_path()
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", USAGE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not TOML: {error}", USAGE) from None


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
