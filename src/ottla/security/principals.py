"""Who somebody is: a kind and a name, as in `User:alice`."""

from typing import NamedTuple


class Principal(NamedTuple):
    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """ValueError: it is not KIND:NAME. A name may have colons of its own."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"{text!r} is not a principal, such as User:alice")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


USER = "User"
ANONYMOUS = Principal(USER, "ANONYMOUS")
