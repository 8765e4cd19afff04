"""The ids that this broker gives to idempotent producers."""

from dataclasses import dataclass


@dataclass(slots=True)
class ProducerIds:
    """The block of producer ids this broker may give out; the next comes from the keeper."""

    next: int = 0
    end: int = 0
