"""SaslHandshake (key 17), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, message


@message(key=17, versions=(0, 1), flexible=None)
class SaslHandshakeRequest:
    mechanism: str


@message(key=17, versions=(0, 1), flexible=None)
class SaslHandshakeResponse:
    error_code: i16 = 0
    mechanisms: list[str] = field(default_factory=list)
