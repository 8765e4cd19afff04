"""AlterUserScramCredentials (key 51), versions 0 to 0.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i8, i16, i32, message, struct


@struct
class ScramCredentialDeletion:
    name: str
    mechanism: i8


@struct
class ScramCredentialUpsertion:
    name: str
    mechanism: i8
    iterations: i32
    salt: bytes
    salted_password: bytes


@message(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@struct
class AlterUserScramCredentialsResult:
    user: str
    error_code: i16 = 0
    error_message: str | None = None


@message(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: i32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
