"""Requests and answers as the simulated clients make and read them: an answer belongs to its request."""

from typing import Any

from tests.sim.world import ViolationError
from tests.support import frames

BY_NAME = 12  # the last version of Produce and of Fetch that names topics


def encode_request(
    request: Any, client_id: str, version: int | None = None, correlation: int = 0
) -> tuple[bytes, int]:
    """A frame without its length, and the version it is in: the newest, unless told."""
    version = request.VERSIONS[1] if version is None else version
    return frames.encode_request(request, version, correlation, client_id), version


def decode_answer(request: type, version: int, frame: bytes, correlation: int = 0) -> Any:
    answered, answer = frames.decode_answer(request, version, memoryview(frame)[4:])
    if answered != correlation:
        raise ViolationError(f"{request.__name__} {correlation} gets the answer to request {answered}")
    return answer
