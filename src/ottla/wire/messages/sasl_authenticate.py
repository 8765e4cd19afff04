"""SaslAuthenticate (key 36), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from typing import Annotated

from ottla.wire.schema import i16, i64, message, since


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes


@message(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateResponse:
    error_code: i16 = 0
    error_message: str | None = None
    auth_bytes: bytes
    session_lifetime_ms: Annotated[i64, since(1)] = 0
