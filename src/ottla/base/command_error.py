"""What a person did wrong, or what is wrong with the world: one line, and an exit code.

It stands this low because the products (`ship`, `pipelines`) raise it, and the command line shows it.
"""

FAILED = 1
USAGE = 2


class CommandError(Exception):
    """Ends the command. The message says what is wrong and, where that helps, what to do. `kafka_error` is
    Kafka's name for it, such as TOPIC_ALREADY_EXISTS, if a broker has refused something."""

    def __init__(self, message: str, code: int = FAILED, kafka_error: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.kafka_error = kafka_error
