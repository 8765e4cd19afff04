"""A broker's connection to another: the handshake first, and what was asked meanwhile behind it."""

from collections.abc import Callable
from typing import Any

from tests.sim.frames import decode_answer, encode_request
from tests.sim.network import Connection, OnAnswer

from ottla.security.peer_handshake import HandshakeError, Initiator

Asked = tuple[bytes, OnAnswer]


class PeerLine:
    """`run` puts what happens into the turn of the process that asks."""

    def __init__(
        self,
        connection: Connection,
        initiator: Initiator,
        client_id: str,
        timeout_ms: int,
        run: Callable[[Callable[[], None]], None],
    ) -> None:
        self._connection, self._initiator, self._client_id = connection, initiator, client_id
        self._timeout_ms, self._run = timeout_ms, run
        self._held: list[Asked] = []
        connection.on_end = self._on_end
        self._greet(initiator.first())

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    def close(self) -> None:
        self._connection.close()

    def ask(self, frame: bytes, on_answer: OnAnswer) -> None:
        if self._initiator.is_proven or not self.is_open:
            self._connection.ask(frame, on_answer, self._timeout_ms)
        else:
            self._held.append((frame, on_answer))

    def _greet(self, requests: list[Any]) -> None:
        for request in requests:
            frame, version = encode_request(request, self._client_id)
            self._connection.ask(frame, self._on_greeted(type(request), version), self._timeout_ms)

    def _on_greeted(self, kind: type, version: int) -> OnAnswer:
        def on_answer(answer: bytes | None) -> None:
            if answer is not None:
                self._run(lambda: self._take(decode_answer(kind, version, answer)))

        return on_answer

    def _take(self, answer: Any) -> None:
        if not self.is_open:
            return
        try:
            self._greet(self._initiator.on_answer(answer))
        except HandshakeError:
            self._connection.close()
            return
        if self._initiator.is_proven:
            held, self._held = self._held, []
            for frame, on_answer in held:
                self._connection.ask(frame, on_answer, self._timeout_ms)

    def _on_end(self) -> None:
        held, self._held = self._held, []
        for _, on_answer in held:
            on_answer(None)
