"""What `ottla start` does: arguments to properties, a broker in the foreground, a line when it is ready.

Loads nothing that a broker does not need: every millisecond here is a millisecond of start-up.
"""

import contextlib
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import ottla
from ottla.base.command_error import USAGE, CommandError
from ottla.base.config import ConfigError, load
from ottla.base.log_fields import fields
from ottla.base.properties import read_file
from ottla.broker.audit import LOGGER as AUDIT
from ottla.broker.config import BrokerConfig
from ottla.broker.config_classes import CONFIG_CLASSES
from ottla.broker.listeners import PORT_MAX
from ottla.broker.metrics_config import HTTP_LISTENER
from ottla.broker.security import check_security
from ottla.cli.properties import lay_over, parse_settings, without_effect
from ottla.security.authorizer_config import AuthorizerConfig
from ottla.shell.log_lines import FORMATS, JsonLines, LineFormatter, set_up

if TYPE_CHECKING:
    from ottla.shell.console_process import ConsoleProcess
    from ottla.shell.server import Server

LEVELS = ("debug", "info", "warning", "error", "critical")
DEFAULT_LEVEL = "info"
DEFAULT_FORMAT = "text"
CONSOLE, CONSOLE_PORT = "--console", "8080"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StartOptions:
    """The options of `ottla start`, under their own names."""

    listen: str | None = None
    advertise: str | None = None
    data: str | None = None
    node_id: str | None = None
    zookeeper: str | None = None
    rack: str | None = None
    http: str | None = None
    console: str | None = None
    config: str | None = None
    set: list[str] = field(default_factory=list)
    log_level: str = DEFAULT_LEVEL
    log_format: str = DEFAULT_FORMAT


OPTIONS = {f"--{name.replace('_', '-')}": name for name in StartOptions.__slots__} | {"--id": "node_id"}


def with_console_port(arguments: list[str]) -> list[str]:
    """`--console` may stand alone: then it is at the usual port."""
    completed: list[str] = []
    for at, argument in enumerate(arguments):
        following = arguments[at + 1 : at + 2]
        is_alone = argument == CONSOLE and (not following or following[0].startswith("-"))
        completed.append(f"{CONSOLE}={CONSOLE_PORT}" if is_alone else argument)
    return completed


def read_plainly(arguments: list[str]) -> StartOptions | None:
    """The options, if they are nothing but `--name value` or `--name=value`; else None: typer looks."""
    options = StartOptions()
    left = iter(arguments)
    for argument in left:
        option, equals, value = argument.partition("=")
        if not equals:
            value = next(left, "")
        if option not in OPTIONS or not value or value.startswith("--"):
            return None
        if option == "--set":
            options.set.append(value)
        else:
            setattr(options, OPTIONS[option], value)
    return options


def serve(options: StartOptions) -> None:
    """Run a broker until SIGTERM or SIGINT."""
    lines = _set_up_logging(options)
    try:
        _serve(options, lines)
    except CommandError as error:
        if not isinstance(lines, JsonLines):
            raise  # the command line says it, as of any command
        log.critical("%s", error)
        sys.exit(error.code)


def _serve(options: StartOptions, lines: LineFormatter) -> None:
    properties = properties_of(options)
    _check(properties)
    console_port = None if options.console is None else _port(options.console)
    lines.broker_id = load(BrokerConfig, properties).node_id
    # Whatever is said of the rest. Without an authorizer everybody may do everything.
    is_guarded = bool(load(AuthorizerConfig, properties).class_name)
    logging.getLogger(AUDIT).setLevel(logging.INFO if is_guarded else logging.WARNING)
    for sentence in without_effect(properties):
        log.warning("%s", sentence)
    # Late, so that a mistake in the arguments is answered without loading a broker.
    from ottla.shell.lock import StartError
    from ottla.shell.main import run

    unwritten: list[OSError] = []
    consoles: list[ConsoleProcess] = []

    def on_ready(server: "Server") -> None:
        _log_start(server)
        if console_port is not None:
            consoles.append(_start_console(server, console_port, options.log_format))
        try:
            _say_ready(server)
        except OSError as error:
            unwritten.append(error)
            signal.raise_signal(signal.SIGTERM)  # whoever waits for the line never gets it: a clean stop

    try:
        reason = run(properties, on_ready)
    except StartError as error:
        raise CommandError(str(error)) from None
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from None
    except KeyboardInterrupt:
        return
    finally:
        for console in consoles:
            console.stop()
    if unwritten:
        raise unwritten[0]
    if reason is not None:
        raise CommandError(f"the broker stopped: {reason}")


def _log_start(server: "Server") -> None:
    watch, partitions = server.starting, len(server.broker.store.logs)
    last_stop = "" if server.broker.is_clean or not partitions else ", after a stop that was not clean"
    log.info(
        "broker %d has started in %d ms: %s; Ottla %s on Python %s, process %d, %d partitions%s",
        server.config.node_id, watch.took_ms, watch,
        ottla.__version__, sys.version.partition(" ")[0], os.getpid(), partitions, last_stop,
        extra=fields(took_ms=watch.took_ms, steps_ms=watch.steps_ms, partitions=partitions),
    )  # fmt: skip


def _start_console(server: "Server", port: int, log_format: str) -> "ConsoleProcess":
    from ottla.shell.console_process import ConsoleProcess

    console = ConsoleProcess(str(server.address), port, ["--log-format", log_format.lower()])
    console.start()
    return console


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise CommandError(f"{CONSOLE} takes a port, not {text!r}", USAGE)
    return int(text)


def _say_ready(server: "Server") -> None:
    parts = [
        f"Ottla {ottla.__version__} is ready at {server.addresses}",
        f"data {','.join(server.config.log_dirs)}",
        f"node {server.config.node_id}",
        f"cluster {server.broker.image.cluster_id}",
    ]
    if server.http_address is not None:
        parts.append(f"http://{server.http_address}")
    print(" · ".join([*parts, f"{_age_ms():.0f} ms"]), flush=True)


def properties_of(options: StartOptions) -> dict[str, str]:
    """Defaults stay away; the file, then --set, then the options of their own, each over the one before."""
    listen, advertise = options.listen, options.advertise
    explicit = {
        "listeners": listen and _listeners("--listen", listen),
        "advertised.listeners": advertise and _listeners("--advertise", advertise),
        "log.dirs": options.data,
        "broker.id": options.node_id,
        "broker.rack": options.rack,
        "zookeeper.connect": options.zookeeper,
        HTTP_LISTENER: options.http,
    }
    properties = read_file(options.config) if options.config else {}
    if listen:
        properties.pop("advertised.listeners", None)  # it would lead clients to where nobody listens
    properties = lay_over(properties, parse_settings(options.set, "--set"))
    return lay_over(properties, {name: value for name, value in explicit.items() if value})


def _listeners(option: str, given: str) -> str:
    """HOST:PORT,... or NAME://HOST:PORT,... as Kafka's property has it; a port alone is one of this machine.
    What else may be wrong with it, the broker says."""
    return ",".join(_listener(option, part.strip()) for part in given.split(","))


def _listener(option: str, given: str) -> str:
    name, _, address = given.rpartition("://")
    port = address.rpartition(":")[2]
    if option == "--listen" and address == port and port.isdecimal():
        address = f"127.0.0.1:{port}"
    if port.isdecimal() and int(port) > PORT_MAX:
        raise CommandError(f"{option} {given}: the port is out of range, {PORT_MAX} is the last", USAGE)
    return f"{name or 'PLAINTEXT'}://{address}"


def _check(properties: dict[str, str]) -> None:
    try:
        for config_class in CONFIG_CLASSES:
            load(config_class, properties)
        check_security(properties)
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from None


def _set_up_logging(options: StartOptions) -> LineFormatter:
    level, style = options.log_level.lower(), options.log_format.lower()
    if level not in LEVELS:
        raise CommandError(f"--log-level is one of {', '.join(LEVELS)}, not {options.log_level!r}", USAGE)
    if style not in FORMATS:
        raise CommandError(f"--log-format is one of {', '.join(FORMATS)}, not {options.log_format!r}", USAGE)
    return set_up(level, style, sys.stderr)


def _age_ms() -> float:
    """How long ago this process began; the kernel counts that in ticks of 10 ms."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")) * 1e3
    return time.process_time() * 1e3
