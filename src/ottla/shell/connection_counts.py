"""Connections, counted by their listener: those that came, those that were refused, and why others ended."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class Cause(Enum):
    """Why a connection ended."""

    CLIENT = "client"  # it hung up, or was lost
    REQUEST = "request"  # what it sent could not be answered
    SENT_AWAY = "sent_away"  # after an answer with which a connection ends
    LIMIT = "limit"  # it was over one, or in the way of others who came
    IDLE = "idle"
    STOP = "stop"  # the broker's


@dataclass(slots=True, eq=False)
class ConnectionCounts:
    """`failed_handshakes`: of TLS, by listener."""

    made: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    closed: Counter[tuple[str, Cause]] = field(default_factory=Counter)
    failed_handshakes: Counter[str] = field(default_factory=Counter)
