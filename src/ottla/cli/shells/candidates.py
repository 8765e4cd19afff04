"""What may come next in a command line, for `ottla completion`: a line for each, with what it is after a tab.

The command that is typed is loaded, and no other. A cluster that does not answer at once has no topics.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

from ottla.base.command_error import CommandError
from ottla.cli import client_settings
from ottla.cli.client_settings import Typed
from ottla.cli.shells.completion import SCRIPTS
from ottla.cli.summaries import SUMMARIES
from ottla.client.errors import ClientError
from ottla.client.properties import DEFAULT_BOOTSTRAP
from ottla.records.compression import CODEC_NAMES

Candidate = tuple[str, str]
WITHIN_S = 1.0
CLIENT_ID = "ottla-completion"


def show(words: list[str]) -> None:
    """The candidates for the last of the words."""
    for word, meaning in candidates(words):
        print(f"{word}\t{meaning}" if meaning else word)


def candidates(words: list[str]) -> list[Candidate]:
    *before, current = words or [""]
    return [(word, meaning) for word, meaning in _next(before, current) if word.startswith(current)]


def _next(before: list[str], current: str) -> Iterable[Candidate]:
    if not before:
        return [*SUMMARIES.items(), ("--help", ""), ("--version", "")]
    from ottla.cli.app import LazyCommands, summary

    commands: Any = LazyCommands()
    command, path, rest = None, [], list(before)
    while rest and rest[0] in commands:
        path.append(rest.pop(0))
        command = commands[path[-1]]
        commands = getattr(command, "commands", {})
    if command is None:
        return []
    if commands:
        return [(name, summary(some)) for name, some in commands.items()] if not rest else []
    option, argument_count = _position(command, rest)
    if option is not None:
        return _values(option.opts[0], path, before)
    if current.startswith("-"):
        return _options(command)
    arguments = [some for some in command.params if some.param_type_name == "argument"]
    if not arguments:
        return []
    argument = arguments[min(argument_count, len(arguments) - 1)]
    is_wanted = argument_count < len(arguments) or argument.nargs < 0
    return _values(str(argument.metavar), path, before) if is_wanted else []


def _options(command: Any) -> Iterator[Candidate]:
    for option in command.params:
        if option.param_type_name == "option" and not option.hidden:
            yield from ((name, option.help or "") for name in option.opts if name.startswith("--"))
    yield "--help", ""


def _position(command: Any, words: list[str]) -> tuple[Any, int]:
    """The option that waits for its value, and how many arguments there are."""
    options = {name: option for option in command.params for name in option.opts}
    waiting, argument_count = None, 0
    for word in words:
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            option = options.get(word)
            waiting = option if option is not None and not option.is_flag else None
        else:
            argument_count += 1
    return waiting, argument_count


def _values(name: str, path: list[str], words: list[str]) -> list[Candidate]:
    """`name` is an option's, or what stands for an argument."""
    if name == "--profile" or (path[0] == "profile" and name == "NAME"):
        return [(profile, "") for profile in client_settings.profile_names()]
    if name in ("--topic", "TOPIC") or name.startswith("[TOPIC") or (path[0] == "topics" and "NAME" in name):
        return _asked(_topics, words)
    if name in ("--group", "GROUP", "GROUP..."):
        return _asked(_groups, words)
    return [(value, "") for value in _WORDS.get(name, ())]


_WORDS: dict[str, Iterable[str]] = {
    "--compression": CODEC_NAMES,
    "--acks": ("0", "1", "all"),
    "--format": ("value", "key-value", "json", "csv"),
    "--isolation": ("read_committed", "read_uncommitted"),
    "--group-protocol": ("classic", "consumer"),
    "SHELL": SCRIPTS,
}


def _asked(ask: Callable[[Any, Any], Iterable[str]], words: list[str]) -> list[Candidate]:
    from ottla.client.cluster import Cluster
    from ottla.client.retry import Deadline, until

    deadline = Deadline(WITHIN_S)
    try:
        where = client_settings.resolve(_typed(words), DEFAULT_BOOTSTRAP)
        with closing(Cluster(where.bootstrap, CLIENT_ID, where.security)) as cluster:
            names = until(deadline, "completing", lambda: list(ask(cluster, deadline)))
    except (CommandError, ClientError, OSError, ValueError):
        return []
    return [(name, "") for name in sorted(names)]


def _typed(words: list[str]) -> Typed:
    """How the line says where the cluster is."""
    given: dict[str, list[str]] = {}
    for name, value in pairwise(words):
        given.setdefault(name, []).append(value)
    bootstrap = [*given.get("--bootstrap", []), *given.get("-b", [])]
    settings = [*given.get("-X", []), *given.get("--set", [])]
    return Typed(
        bootstrap[-1] if bootstrap else None,
        tuple(settings),
        given.get("--client-config", [None])[-1],
        given.get("--profile", [None])[-1],
    )


def _topics(cluster: Any, deadline: Any) -> Iterable[str]:
    from ottla.base.ids import INTERNAL_TOPICS
    from ottla.client.topics import topics

    return [name for name in topics(cluster, deadline) if name not in INTERNAL_TOPICS]


def _groups(cluster: Any, deadline: Any) -> Iterable[str]:
    from ottla.client.snapshots import group_names

    cluster.refresh([], deadline)
    return group_names(cluster, deadline)
