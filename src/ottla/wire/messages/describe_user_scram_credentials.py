"""DescribeUserScramCredentials (key 50), versions 0 to 0.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i8, i16, i32, message, struct


@struct
class UserName:
    name: str


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field(default_factory=list)


@struct
class CredentialInfo:
    mechanism: i8
    iterations: i32


@struct
class DescribeUserScramCredentialsResult:
    user: str
    error_code: i16 = 0
    error_message: str | None = None
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
