"""What a person did wrong, or what is wrong with the world: one line, and an exit code.

It stands this low because the products (`ship`, `pipelines`) raise it, and the command line shows it.
"""

FAILED = 1
USAGE = 2


class CommandError(Exception):
    """Ends the command. The message says what is wrong and, where that helps, what to do."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
