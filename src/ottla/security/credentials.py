"""SCRAM credentials, as Kafka stores them: what a broker needs to recognise a password, and from which the
password cannot be had (RFC 5802).

    salt=...,stored_key=...,server_key=...,iterations=4096     each of the three in base64
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from enum import IntEnum

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
ITERATIONS = ITERATIONS_MIN  # unless somebody asks for more
_PARTS = ("salt", "stored_key", "server_key", "iterations")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SALT_BITS = 130


class ScramMechanism(IntEnum):
    """By the numbers that the protocol knows."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def title(self) -> str:
        """Its name in SASL, and the key under which the keeper has a user's credential."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    @property
    def digest_bytes(self) -> int:
        return hashlib.new(self.digest).digest_size


MECHANISMS = {mechanism.title: mechanism for mechanism in ScramMechanism}


class CredentialError(ValueError):
    """A stored credential cannot be read. The text has nothing of it."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def text(self) -> str:
        """As it is stored. Not for logs."""
        keys = (b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key))
        return ",".join(f"{name}={part}" for name, part in zip(_PARTS, (*keys, self.iterations), strict=True))

    @classmethod
    def parse(cls, text: str, mechanism: ScramMechanism) -> "ScramCredential":
        parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if sorted(parts) != sorted(_PARTS):
            raise CredentialError(f"it does not consist of {', '.join(_PARTS)}")
        try:
            salt, stored_key, server_key = (b64decode(parts[name], validate=True) for name in _PARTS[:3])
            iterations = int(parts["iterations"])
        except (Base64Error, ValueError):
            raise CredentialError("it is not in base64, or has no number of iterations") from None
        if {len(stored_key), len(server_key)} != {mechanism.digest_bytes}:
            raise CredentialError(f"its keys are not of {mechanism.title}")
        if iterations < ITERATIONS_MIN:
            raise CredentialError(f"it has fewer than {ITERATIONS_MIN} iterations")
        return cls(salt, stored_key, server_key, iterations)


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes milliseconds, on purpose: not for a thread that serves others. Not normalised, as in Kafka."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", mechanism.digest)


def credential_of(mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """What is stored for a password that was salted."""
    stored_key = hashlib.new(mechanism.digest, client_key(mechanism, salted)).digest()
    return ScramCredential(salt, stored_key, server_key(mechanism, salted), iterations)


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", mechanism.digest)


def salt_of(randomness: bytes) -> bytes:
    """A salt such as Kafka's tools make: 130 bits as letters and digits. So a salt does not tell who made it;
    a broker makes one up for users that do not exist."""
    number = int.from_bytes(randomness) & ((1 << _SALT_BITS) - 1)
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)).encode() or b"0"
