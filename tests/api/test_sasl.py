"""Authentication on a listener with SASL, request by request."""

import struct

import pytest
from tests.api.harness import Client, Machine
from tests.api.sasl import ALICE, LISTENER, add_user, authenticate, handshake, secure_machine

from ottla.api.call import CloseConnection, Silence
from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.controller import znodes
from ottla.controller.keeper import Create
from ottla.security.peer_handshake import Initiator
from ottla.security.principals import ANONYMOUS, Principal
from ottla.security.sasl.client import Credentials, client_exchange
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
EVERY_API_KEY = [*range(-1, 100), 32_767]


@pytest.fixture
def machine() -> Machine:
    machine = secure_machine()
    add_user(machine, "alice", "alice-secret")
    return machine


@pytest.fixture
def client(machine: Machine) -> Client:
    return machine.stranger(LISTENER)


def principal(client: Client) -> Principal:
    return client.machine.broker.access.session(client.number).principal


def is_closed_after_the_delay(client: Client) -> bool:
    client.machine.pass_time(99)
    assert client.closed is None, "not before connection.failed.authentication.delay.ms"
    client.machine.pass_time(1)
    return client.closed is not None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_authenticates_is_served_as_who_they_are(client: Client, mechanism: str) -> None:
    assert (
        client.send(ApiVersionsRequest(client_software_name="a", client_software_version="1")).error_code == 0
    )
    assert authenticate(client, mechanism, ALICE).error_code == 0
    assert principal(client) == Principal("User", "alice")
    assert client.send(ListGroupsRequest(), 0).error_code == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_failure_has_one_message_and_ends_the_connection_after_a_delay(
    machine: Machine, mechanism: str
) -> None:
    messages = set()
    for own in (
        Credentials("alice", "wrong"),
        Credentials("nobody", "alice-secret"),
        Credentials("alice", ""),
        Credentials("", "alice-secret"),
        Credentials("\ud7ff\0", "x"),
    ):
        client = machine.stranger(LISTENER)
        answer = authenticate(client, mechanism, own)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.closed is not None
        assert principal(client) == ANONYMOUS
        messages.add((answer.error_message, bytes(answer.auth_bytes)))
    (only,) = messages
    assert only[1] == b""
    assert "alice" not in only[0]


def test_the_answer_to_a_failure_waits_for_the_delay(client: Client) -> None:
    handshake(client, "PLAIN")
    pending = client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    client.machine.pass_time(99)
    assert pending.answer is None
    client.machine.pass_time(1)
    assert pending.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_mechanism_that_is_not_offered_is_told_those_that_are(client: Client) -> None:
    pending = handshake(client, "GSSAPI")
    assert is_closed_after_the_delay(client)
    assert pending.answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert pending.answer.mechanisms == MECHANISMS


@pytest.mark.parametrize("api_key", EVERY_API_KEY)
def test_every_api_before_authentication_but_two_ends_the_connection_without_an_answer(
    client: Client, api_key: int
) -> None:
    if api_key in {17, 18}:
        return
    assert client.raw(struct.pack(">hhih", api_key, 0, 1, -1) + bytes(64)) is Silence.PARKED
    assert is_closed_after_the_delay(client)
    assert principal(client) == ANONYMOUS


@pytest.mark.parametrize("api_key", EVERY_API_KEY)
def test_every_api_in_place_of_a_token_ends_the_connection(client: Client, api_key: int) -> None:
    if api_key in {17, 36}:
        return
    handshake(client, "SCRAM-SHA-256")
    assert client.raw(struct.pack(">hhih", api_key, 0, 1, -1) + bytes(64)) is Silence.PARKED
    assert is_closed_after_the_delay(client)


def test_the_walk_over_apis_misses_none() -> None:
    assert set(TABLE) < set(EVERY_API_KEY)


def test_a_second_handshake_in_place_of_a_token_is_told_that_it_is_out_of_turn(client: Client) -> None:
    handshake(client, "PLAIN")
    pending = handshake(client, "PLAIN")
    assert is_closed_after_the_delay(client)
    assert pending.answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_api_versions_is_answered_once_and_again_if_its_version_was_unknown(client: Client) -> None:
    unknown = struct.pack(">hhih", 18, 99, 1, -1) + bytes(1)
    assert not isinstance(client.raw(unknown), Silence)
    assert not isinstance(client.raw(unknown), Silence)
    client.send(ApiVersionsRequest(), 0)
    assert client.ask(ApiVersionsRequest(), 0).answer is None
    assert is_closed_after_the_delay(client)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_after_a_handshake_of_version_0_tokens_come_without_a_header(client: Client, mechanism: str) -> None:
    assert handshake(client, mechanism, 0).answer.error_code == 0
    exchange = client_exchange(mechanism, ALICE, bytes(32))
    token: bytes | None = exchange.first()
    while token is not None:
        answer = client.raw(token)
        assert not isinstance(answer, Silence)
        (size,) = struct.unpack_from(">i", answer[0])
        assert size == len(answer[0]) - 4
        token = exchange.on_reply(bytes(answer[0][4:]))
    assert principal(client) == Principal("User", "alice")
    assert client.send(ListGroupsRequest(), 0).error_code == 0


def test_a_bare_token_that_is_wrong_ends_the_connection_without_an_answer(client: Client) -> None:
    handshake(client, "PLAIN", 0)
    assert client.raw(b"\0alice\0wrong") is Silence.PARKED
    assert is_closed_after_the_delay(client)


def test_after_authentication_another_handshake_is_out_of_turn_and_changes_nothing(client: Client) -> None:
    authenticate(client, "PLAIN", ALICE)
    assert handshake(client, "PLAIN").answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    token = SaslAuthenticateRequest(auth_bytes=b"\0bob\0bob-secret")
    assert client.send(token).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert principal(client) == Principal("User", "alice")
    assert client.closed is None


def test_what_is_known_of_a_connection_is_gone_with_it(machine: Machine) -> None:
    for _ in range(5):
        client = machine.stranger(LISTENER)
        handshake(client, "SCRAM-SHA-256")
        client.close()
    assert machine.broker.authentication._exchanges == {}


def test_a_failure_is_logged_without_secrets_and_once_a_second(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        handshake(client := machine.stranger(LISTENER), "PLAIN")
        client.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"))
    (line,) = [record.getMessage() for record in caplog.records if "authenticate" in record.getMessage()]
    assert "no user 'alice' with that password" in line
    assert "hunter2" not in caplog.text


# -- authenticating again (KIP-368) --


@pytest.fixture
def expiring() -> Machine:
    machine = secure_machine(connections_max_reauth_ms="60000")
    add_user(machine, "alice", "alice-secret")
    return machine


@pytest.mark.parametrize(("version", "told_ms"), [(0, 0), (1, 60_000), (2, 60_000)])
def test_a_client_is_told_how_long_its_authentication_is_good_for(
    expiring: Machine, version: int, told_ms: int
) -> None:
    answer = authenticate(expiring.stranger(LISTENER), "SCRAM-SHA-512", ALICE, version)
    assert answer.session_lifetime_ms == told_ms


def test_lifetimes_are_set_for_a_listener_and_for_a_mechanism() -> None:
    machine = secure_machine(
        connections_max_reauth_ms="60000",
        listener_name_secure_connections_max_reauth_ms="50000",
        listener_name_secure_plain_connections_max_reauth_ms="40000",
    )
    add_user(machine, "alice", "alice-secret")
    told = [authenticate(machine.stranger(LISTENER), name, ALICE).session_lifetime_ms for name in MECHANISMS]
    assert told == [40_000, 50_000, 50_000]


def test_who_does_not_authenticate_again_in_time_is_closed_at_the_next_request(expiring: Machine) -> None:
    client = expiring.stranger(LISTENER)
    authenticate(client, "PLAIN", ALICE)
    expiring.pass_time(60_000)
    client.send(ListGroupsRequest(), 0)
    expiring.pass_time(1)
    with pytest.raises(CloseConnection, match="expired"):
        client.ask(ListGroupsRequest(), 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("after_ms", [30_000, 70_000])
def test_who_authenticates_again_goes_on(expiring: Machine, mechanism: str, after_ms: int) -> None:
    client = expiring.stranger(LISTENER)
    authenticate(client, mechanism, ALICE)
    expiring.pass_time(after_ms)
    assert authenticate(client, mechanism, ALICE).session_lifetime_ms == 60_000
    expiring.pass_time(59_000)
    assert client.send(ListGroupsRequest(), 0).error_code == 0


def test_nothing_else_may_be_asked_while_authenticating_again(expiring: Machine) -> None:
    client = expiring.stranger(LISTENER)
    authenticate(client, "PLAIN", ALICE)
    handshake(client, "PLAIN")
    assert client.ask(ListGroupsRequest(), 0).answer is None
    assert is_closed_after_the_delay(client)


def test_nobody_authenticates_again_as_somebody_else(expiring: Machine) -> None:
    client = expiring.stranger(LISTENER)
    authenticate(client, "PLAIN", ALICE)
    answer = authenticate(client, "PLAIN", Credentials("bob", "bob-secret"))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.closed is not None
    assert principal(client) == Principal("User", "alice")


def test_nobody_authenticates_again_with_another_mechanism(expiring: Machine) -> None:
    client = expiring.stranger(LISTENER)
    authenticate(client, "PLAIN", ALICE)
    assert authenticate(client, "SCRAM-SHA-256", ALICE).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.closed is not None


def test_nobody_authenticates_again_twice_a_second(expiring: Machine) -> None:
    client = expiring.stranger(LISTENER)
    authenticate(client, "PLAIN", ALICE)
    authenticate(client, "PLAIN", ALICE)
    expiring.pass_time(999)
    assert handshake(client, "PLAIN").answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    expiring.pass_time(1)
    assert handshake(client, "PLAIN").answer.error_code == 0


def test_on_a_listener_without_sasl_a_handshake_is_out_of_turn(machine: Machine) -> None:
    client = machine.client()
    assert client.send(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.send(ListGroupsRequest(), 0).error_code == 0


# -- brokers (design note 009) --

SECRET = b"s" * 32


def prove(client: Client, initiator: Initiator) -> SaslAuthenticateResponse:
    """The last answer."""
    opening = initiator.first()
    while opening:
        answer = client.send(opening.pop(0), 1)
        if answer.error_code:
            return answer  # type: ignore[no-any-return]
        opening += initiator.on_answer(answer)
    return answer  # type: ignore[no-any-return]


@pytest.fixture
def peered(machine: Machine) -> Machine:
    machine.write(Create(znodes.PEER_SECRET, znodes.peer_secret_node(SECRET)))
    return machine


def test_a_broker_that_proves_to_be_one_needs_no_other_authentication(peered: Machine) -> None:
    client = peered.stranger(LISTENER)
    assert prove(client, Initiator(SECRET, 2, 1, bytes(32))).error_code == 0
    assert peered.broker.identities.may_act_as(client.number, 2)
    assert peered.broker.access.session(client.number).is_authenticated
    assert client.send(ListGroupsRequest(), 0).error_code == 0


def test_a_broker_may_authenticate_first_and_prove_itself_after(peered: Machine) -> None:
    client = peered.stranger(LISTENER)
    authenticate(client, "SCRAM-SHA-512", ALICE)
    assert prove(client, Initiator(SECRET, 2, 1, bytes(32))).error_code == 0
    assert peered.broker.identities.may_act_as(client.number, 2)
    assert principal(client) == Principal("User", "alice"), "it stays who it is"


def test_a_broker_that_has_proved_itself_need_not_authenticate_again() -> None:
    machine = secure_machine(connections_max_reauth_ms="60000")
    machine.write(Create(znodes.PEER_SECRET, znodes.peer_secret_node(SECRET)))
    client = machine.stranger(LISTENER)
    authenticate(client, "PLAIN", ALICE)
    assert prove(client, Initiator(SECRET, 2, 1, bytes(32))).error_code == 0
    machine.pass_time(100_000)
    assert client.send(ListGroupsRequest(), 0).error_code == 0


def test_who_only_pretends_to_be_a_broker_is_closed_after_the_delay(peered: Machine) -> None:
    client = peered.stranger(LISTENER)
    for request in Initiator(SECRET, 2, 1, bytes(32)).first():
        assert client.send(request, 1).error_code == 0
    pending = client.ask(SaslAuthenticateRequest(auth_bytes=bytes(32)))
    assert is_closed_after_the_delay(client)
    assert pending.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not peered.broker.access.session(client.number).is_authenticated


def test_nothing_but_the_proof_may_follow_its_beginning(peered: Machine) -> None:
    client = peered.stranger(LISTENER)
    for request in Initiator(SECRET, 2, 1, bytes(32)).first():
        client.send(request, 1)
    assert client.ask(ListGroupsRequest(), 0).answer is None
    assert is_closed_after_the_delay(client)


def test_passwords_are_in_no_description_of_a_brokers_configs(machine: Machine) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = machine.client().send(request).results
    (entry,) = [config for config in result.configs if config.name == "sasl.jaas.config"]
    assert (entry.value, entry.is_sensitive) == (None, True)
    assert "alice-secret" not in repr(result)


@pytest.mark.parametrize("first", ["a wrong password", "no such mechanism", "another request"])
def test_a_connection_is_good_for_one_guess_whatever_was_sent_behind_it(
    machine: Machine, client: Client, first: str
) -> None:
    if first == "a wrong password":
        assert authenticate(client, "PLAIN", Credentials("alice", "wrong")).error_code
    elif first == "no such mechanism":
        handshake(client, "NOPE")
    else:
        client.ask(ListGroupsRequest(), 0)
    machine.pass_time(100)
    assert client.closed is not None
    for request in (
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"),
        SaslHandshakeRequest(mechanism="PLAIN"),
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"),
    ):
        assert client.ask(request, 1).answer is None
    assert principal(client) == ANONYMOUS
