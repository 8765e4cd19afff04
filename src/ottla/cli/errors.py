"""What a person did wrong, or what is wrong with the world: one line, and an exit code."""

FAILED = 1
USAGE = 2


class CommandError(Exception):
    """Ends the command. The message says what is wrong and, where that helps, what to do."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def is_interrupt(error: BaseException) -> bool:
    """A Ctrl-C; at the wrong moment it comes out of confluent-kafka as the cause of a SystemError."""
    cause = error.__cause__ if isinstance(error, SystemError) else error
    return isinstance(cause, KeyboardInterrupt)
