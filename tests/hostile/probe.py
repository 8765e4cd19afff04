"""Sends one hostile frame, and finds out what became of it: answered, closed, waiting, or silently taken."""

import struct
from enum import Enum

from tests.kafka_clients.wire_client import Closed, Wire, frame_of, framed

from ottla.wire.messages.api_versions import ApiVersionsRequest

PROBE_ID = 0x7EADBEEF
_PROBE = frame_of(ApiVersionsRequest(), 0, PROBE_ID)


class Outcome(Enum):
    ANSWERED = "an answer, and the connection goes on"
    SILENT = "no answer, and the connection goes on"
    CLOSED = "closed without an answer"
    WAITING = "the answer is held back"


class Probe:
    """Every frame is followed by a question that is always answered: silence is not taken for waiting."""

    def __init__(self, port: int, patience_s: float = 0.05) -> None:
        self._port = port
        self._patience_s = patience_s
        self._wire: Wire | None = None
        self.last_answer = b""

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def send(self, payload: bytes) -> Outcome:
        return self.send_bytes(framed(payload))

    def send_bytes(self, data: bytes) -> Outcome:
        if self._wire is None:
            self._wire = Wire(self._port)
        self._wire.socket.settimeout(self._patience_s)
        try:
            self._wire.send_bytes(data + _PROBE)
            outcome = self._outcome(self._wire)
        except Closed:
            outcome = Outcome.CLOSED
        except TimeoutError:
            outcome = Outcome.WAITING
        if outcome in {Outcome.CLOSED, Outcome.WAITING}:
            self.close()
        return outcome

    def _outcome(self, wire: Wire) -> Outcome:
        outcome = Outcome.SILENT
        while True:
            frame = bytes(wire.receive_frame())
            if struct.unpack_from(">i", frame)[0] == PROBE_ID:
                return outcome
            self.last_answer = frame
            outcome = Outcome.ANSWERED
