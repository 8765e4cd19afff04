"""What a request brings with it, up to a limit of bytes and of time: a form, or JSON."""

import json
from typing import Any
from urllib.parse import parse_qs

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ottla.console.visit import BAD_REQUEST, TOO_LARGE

BODY_BYTES_MAX = 8 << 20  # a record that is sent may be large
LOGIN_BYTES_MAX = 64 << 10  # of people who are not in yet
BODY_S = 30.0
FORM_FIELDS_MAX = 2000
LATE, UNSUPPORTED = 408, 415


async def form_of(request: Request, bytes_max: int = BODY_BYTES_MAX) -> dict[str, list[str]]:
    """The fields of a form, as browsers send them without files."""
    body = await _bytes_of(request, bytes_max)
    try:
        return parse_qs(
            body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise HTTPException(BAD_REQUEST, "That is not a form.") from None


async def json_bytes_of(request: Request) -> bytes:
    """Not read yet: what is large is read in a worker's thread, and holds nobody up."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(UNSUPPORTED, "A body is JSON: say Content-Type: application/json.")
    return await _bytes_of(request, BODY_BYTES_MAX)


def json_of(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise HTTPException(BAD_REQUEST, "The body is nested too deeply.") from None
    except ValueError as error:
        raise HTTPException(BAD_REQUEST, f"The body is not JSON: {error}") from None


def _refuse(word: str) -> None:
    raise ValueError(f"there is no {word} in JSON")


async def _bytes_of(request: Request, bytes_max: int) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > bytes_max:
                    raise HTTPException(TOO_LARGE, "That is too much at once.")
    except TimeoutError:
        raise HTTPException(LATE, f"The request did not come within {BODY_S:.0f} s.") from None
    return bytes(body)
