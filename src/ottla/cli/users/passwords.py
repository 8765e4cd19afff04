"""Where a password comes from. Never from an argument: those can be seen by all who are on the machine."""

import getpass
import secrets
import sys

from ottla.base.command_error import USAGE, CommandError

STDIN = "-"
GENERATED_BYTES = 24


def generated() -> str:
    return secrets.token_urlsafe(GENERATED_BYTES)


def read(path: str) -> str:
    """The first line of a file; `-` is stdin."""
    try:
        if path == STDIN:
            line = sys.stdin.readline()
        else:
            with open(path, encoding="utf-8") as file:
                line = file.readline()
    except OSError as error:
        raise CommandError(f"--password-file {path}: {error.strerror}", USAGE) from None
    except UnicodeDecodeError:
        raise CommandError(f"--password-file {path}: it is not UTF-8 text", USAGE) from None
    return _checked(line.rstrip("\r\n"))


def asked(user: str) -> str:
    if not sys.stdin.isatty():
        raise CommandError(
            "there is no terminal to ask for the password at: use --password-file FILE (- is stdin), "
            "or --generate",
            USAGE,
        )
    password = _checked(getpass.getpass(f"Password of {user}: "))
    if getpass.getpass("Once more: ") != password:
        raise CommandError("the two passwords differ; nothing was done")
    return password


def _checked(password: str) -> str:
    if not password:
        raise CommandError("the password is empty", USAGE)
    return password
