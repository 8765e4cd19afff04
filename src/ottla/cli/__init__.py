"""The command line, one file per command. The only room that prints.

`main` is the door. Rules: a mistake of the person who typed is a `CommandError`, shown as one line on stderr;
results go to stdout, everything else to stderr; tables are drawn on a terminal and are plain text in a pipe.

Not obvious: `ottla start` must serve within a fraction of a second, and loading typer takes a good part of
that. So plain arguments of `start` are read by `cli/serve` without it. Whatever that does not understand,
`--help` included, goes to typer like any other command, so there is one help and one set of error messages.
"""

import sys

from ottla.cli.errors import CommandError

__all__ = ["main"]

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run a command line and leave with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        _run(given)
    except CommandError as error:
        print(f"ottla: {error}", file=sys.stderr)
        sys.exit(error.code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run(given: list[str]) -> None:
    if given[:1] == ["start"]:
        from ottla.cli import serve

        options = serve.read_plainly(given[1:])
        if options is not None:
            serve.serve(options)
            return
    from ottla.cli.app import app

    app(given, prog_name="ottla")
