"""What a caller may see, and which of a broker's codes are worth another try.

`ClientError` is the only exception of this package, and its message is for a person: what was asked, where,
what is wrong and, where we know it, what to do. `code` is the broker's, or None where no broker said
anything.
"""

from ottla.base.errors import ErrorCode

UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

RETRIABLE = UNKNOWN_TOPIC | {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class ClientError(Exception):
    """Something was not done, and the message says what and why."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.blamed: tuple[int, ...] = ()  # of a batch, the places of the records that are wrong, if told
        self.times_sent = 0  # how often a batch had been sent when this was the answer; 0 if none came


class OffsetOutOfRange(ClientError):  # noqa: N818  (Kafka's name for it)
    """The log does not hold the offset: `start` and `end` are what it holds, or None if that was not said."""

    def __init__(self, message: str, start: int | None, end: int | None) -> None:
        super().__init__(message, ErrorCode.OFFSET_OUT_OF_RANGE)
        self.start = start
        self.end = end


class Again(Exception):  # noqa: N818  (not an error yet)
    """An attempt failed in a way that another one may not. Never leaves this package."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


def code_of(number: int) -> ErrorCode:
    """The broker's code; one that we have no name for is an unknown error."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def check(number: int, what: str, said: str | None = None) -> None:
    """Nothing for no error, `Again` for one that may pass, `ClientError` for any other."""
    if number == ErrorCode.NONE:
        return
    code = code_of(number)
    name = code.name if code == number else f"error {number}"
    message = f"{what}: {name}" + (f" ({said})" if said else "")
    if code in RETRIABLE:
        raise Again(message, code)
    raise ClientError(message, code)
