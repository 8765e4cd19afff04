"""Two brokers prove to each other that they know one secret; and nobody gains by what they said before."""

from itertools import count

import pytest

from ottla.security.peer_handshake import MECHANISM, NONCE_BYTES, Acceptor, HandshakeError, Initiator
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

SECRET, OTHER = b"s" * 32, b"o" * 32
_nonces = count(1)


def nonce() -> bytes:
    return next(_nonces).to_bytes(NONCE_BYTES, "big")


def initiator(own: int = 1, peer: int = 2, secret: bytes = SECRET) -> Initiator:
    return Initiator(secret, own, peer, nonce())


def acceptor(own: int = 2, secret: bytes = SECRET) -> Acceptor:
    return Acceptor(secret, own, nonce())


def opening(one: Initiator) -> bytes:
    handshake, first = one.first()
    assert handshake.mechanism == MECHANISM
    assert one.on_answer(SaslHandshakeResponse(mechanisms=[MECHANISM])) == []
    return first.auth_bytes  # type: ignore[no-any-return]


def code(one: Initiator, challenge: bytes) -> bytes:
    (last,) = one.on_answer(SaslAuthenticateResponse(auth_bytes=challenge))
    return last.auth_bytes  # type: ignore[no-any-return]


def test_two_brokers_that_know_the_secret_prove_it_to_each_other() -> None:
    one, other = initiator(own=7), acceptor()
    challenge = other.challenge(opening(one))
    assert not one.is_proven
    last = code(one, challenge)
    assert one.is_proven
    assert other.verify(last) == 7
    assert one.on_answer(SaslAuthenticateResponse(auth_bytes=b"")) == []


def test_who_does_not_know_the_secret_is_nobody_on_either_side() -> None:
    one, impostor = initiator(), acceptor(secret=OTHER)
    with pytest.raises(HandshakeError, match="does not know the secret"):
        code(one, impostor.challenge(opening(one)))
    assert not one.is_proven
    forger, other = initiator(secret=OTHER), acceptor()
    other.challenge(opening(forger))
    for guess in (b"", bytes(32), other.nonce, OTHER):
        with pytest.raises(HandshakeError):
            other.verify(guess)


def test_no_secret_is_no_proof() -> None:
    one, other = initiator(secret=b""), acceptor(secret=b"")
    with pytest.raises(HandshakeError, match="knows no secret"):
        other.challenge(opening(one))
    with pytest.raises(HandshakeError, match="knows no secret"):
        code(one, bytes(64))


def test_what_was_said_on_one_connection_is_worth_nothing_on_another() -> None:
    one, other = initiator(), acceptor()
    first = opening(one)
    last = code(one, other.challenge(first))
    again = acceptor()
    again.challenge(first)
    with pytest.raises(HandshakeError):
        again.verify(last)


def test_what_the_acceptor_computes_is_worth_nothing_to_the_initiator() -> None:
    """A client has the code that it needs computed for it, by the same broker or by any other."""
    client, other = initiator(secret=OTHER), acceptor()
    first = opening(client)
    answer = other.challenge(first)
    with pytest.raises(HandshakeError):
        other.verify(answer[NONCE_BYTES:])
    oracle = Acceptor(SECRET, 2, other.nonce)
    with pytest.raises(HandshakeError):
        other.verify(oracle.challenge(first)[NONCE_BYTES:])


def test_what_is_meant_for_one_broker_is_not_taken_by_another() -> None:
    one = initiator(peer=2)
    with pytest.raises(HandshakeError, match="not for broker 3"):
        acceptor(own=3).challenge(opening(one))
    relayed = Acceptor(SECRET, 3, nonce())
    with pytest.raises(HandshakeError, match="does not know the secret"):
        code(one, relayed.challenge(opening(initiator(peer=3))))


@pytest.mark.parametrize("size", [0, 1, 39, 41, 100_000])
def test_an_opening_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(HandshakeError):
        acceptor().challenge(bytes(size))


@pytest.mark.parametrize("size", [0, 32, 63, 65])
def test_a_challenge_of_another_size_is_refused(size: int) -> None:
    one = initiator()
    opening(one)
    with pytest.raises(HandshakeError):
        code(one, bytes(size))


def test_a_broker_that_refuses_is_not_asked_anything() -> None:
    one = initiator()
    with pytest.raises(HandshakeError, match="is refused, error 34"):
        one.on_answer(SaslHandshakeResponse(error_code=34))
    assert not one.is_proven


def test_the_secret_is_in_no_text() -> None:
    for one in (initiator(), acceptor()):
        assert repr(SECRET) not in repr(one)
        assert SECRET.hex() not in repr(one)
