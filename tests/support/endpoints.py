"""Where a broker of a test is reached."""

from ottla.base.addresses import Address
from ottla.controller.znodes import PLAINTEXT


def plaintext(host: str, port: int) -> dict[str, Address]:
    """The endpoints of a broker with one listener, in plain text."""
    return {PLAINTEXT: Address(host, port)}
