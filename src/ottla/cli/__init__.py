"""The command line, one file per command. The only room that prints.

`main` is the door. Rules: a mistake of the person who typed is a `CommandError`, shown as one line on stderr;
results go to stdout, everything else to stderr; tables are drawn on a terminal and are plain text in a pipe.

Not obvious: `ottla start` must serve within a fraction of a second, and loading typer takes a good part of
that. So plain arguments of `start` are read by `cli/broker/process` without it. Whatever that does not
understand, `--help` included, goes to typer like any other command, so there is one help and one set of error
messages.

    broker · cluster · topics · configs · groups · transactions        the commands, by what they are about
    users · acls · quotas · features · records · storage
    shells · pipelines · secure · top
    ship · metrics · console · demo                         commands that only start a product
    app · options · output · properties · partitions                   what commands share
    client_settings · keeper_options · interrupts · watch · summaries
"""

import contextlib
import io
import os
import sys

from ottla.base.command_error import FAILED, USAGE, CommandError
from ottla.cli.interrupts import INTERRUPTED, is_interrupt

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run a command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # until the exit
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what it cannot write is shown as \xNN, and is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _code(given)
        sys.stdout.flush()  # now, while a full disk can still be told
    except TimeoutError:
        _complain("no answer in time; what was asked for may still be carried out")
        code = FAILED
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # whoever has stopped reading knows
            _complain(f"cannot write the output: {error.strerror or error}")
        _write_no_more()
        code = FAILED
    sys.exit(code)


def _code(given: list[str]) -> int:
    """Run a command; its exit code. An OSError that nobody has explained is one of the output."""
    try:
        _check_text(given)
        _run(given)
    except CommandError as error:
        _complain(str(error))
        return error.code
    except (KeyboardInterrupt, SystemError) as error:
        if is_interrupt(error):
            return INTERRUPTED
        raise
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        raise
    return 0


def _check_text(given: list[str]) -> None:
    """Bytes that are no text come as lone surrogates, which librdkafka does not survive."""
    for argument in given:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise CommandError(f"the argument {argument!a} is not UTF-8 text", USAGE) from None


def _complain(sentence: str) -> None:
    with contextlib.suppress(OSError):
        print(f"ottla: {sentence}", file=sys.stderr)


def _write_no_more() -> None:
    """Python would try to write the rest at its exit, and complain in its own words."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _run(given: list[str]) -> None:
    if given[:1] == ["start"]:
        from ottla.cli.broker import process

        given = ["start", *process.with_console_port(given[1:])]
        options = process.read_plainly(given[1:])
        if options is not None:
            process.serve(options)
            return
    if given[:1] == ["__kafka"]:
        from ottla.cli.shells import shims

        shims.run(given[1:])
        return
    if given[:1] == ["__complete"]:
        from ottla.cli.shells import candidates

        candidates.show(given[1:])
        return
    from ottla.cli.app import app

    app(given, prog_name="ottla")
