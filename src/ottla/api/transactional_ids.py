"""Whether transactional ids are served.

They are refused until everything that belongs to transactions is there. This is the one place that opens
them, for FindCoordinator and InitProducerId: who has no producer id for a transactional id can do nothing
with it.
"""

from ottla.base.errors import ApiError, ErrorCode

ARE_OPEN = False


def check_open() -> None:
    """A code that clients do not retry, so that they fail at once and with a reason."""
    if not ARE_OPEN:
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "This broker has no transactions yet."
        )
