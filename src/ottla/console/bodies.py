"""What a request brings with it, up to a limit: a form, or JSON."""

import json
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ottla.console.visit import BAD_REQUEST, TOO_LARGE

BODY_BYTES_MAX = 8 << 20  # a record that is sent may be large
FORM_FIELDS_MAX = 2000
UNSUPPORTED = 415


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form, as browsers send them without files."""
    body = await _bytes_of(request)
    try:
        return parse_qs(
            body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise HTTPException(BAD_REQUEST, "That is not a form.") from None


async def json_of(request: Request) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(UNSUPPORTED, "A body is JSON: say Content-Type: application/json.")
    body = await _bytes_of(request)
    try:
        return json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise HTTPException(BAD_REQUEST, "The body is nested too deeply.") from None
    except ValueError as error:
        raise HTTPException(BAD_REQUEST, f"The body is not JSON: {error}") from None


def _refuse(word: str) -> None:
    raise ValueError(f"there is no {word} in JSON")


async def _bytes_of(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise HTTPException(TOO_LARGE, "That is too much at once.")
    return bytes(body)
