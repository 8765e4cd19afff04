"""Clients that authenticate with tokens, request by request."""

import json

import pytest
from tests.api.harness import Client, Machine
from tests.api.sasl import LISTENER, authenticate, handshake, secure_machine
from tests.support.tokens import jwks, rsa_key, token

from ottla.api.call import CloseConnection
from ottla.base.config import ConfigError
from ottla.base.errors import ErrorCode
from ottla.broker.effects import ReadKeys
from ottla.broker.security import check_security
from ottla.security.oauth_config import URL_KEY
from ottla.security.principals import ANONYMOUS, Principal
from ottla.security.sasl.client import Credentials
from ottla.security.sasl.oauthbearer import INVALID_TOKEN
from ottla.security.tokens import parsed_keys
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest

URL = "https://issuer.example/keys"
PROPERTIES = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": URL,
    "sasl.oauthbearer.expected.audience": "kafka",
}


def machine_with_keys(*keys, **properties: str) -> Machine:
    own = {name.replace(".", "_"): value for name, value in PROPERTIES.items()}
    machine = secure_machine(**own, **properties)
    (key_set,) = machine.broker.authentication.open(machine.broker.listeners.bound)
    assert key_set.url == URL
    assert key_set.is_due(machine.now_ms)
    key_set.on_read(parsed_keys(json.dumps(jwks(*(keys or (rsa_key(),))))), machine.now_ms)
    return machine


@pytest.fixture
def machine() -> Machine:
    return machine_with_keys()


def good(machine: Machine, **changes) -> Credentials:
    return Credentials(token=token(now_ms=machine.now_ms, aud="kafka", **changes))


def principal(client: Client) -> Principal:
    return client.machine.broker.access.session(client.number).principal


def test_who_has_a_good_token_is_served_as_its_subject_until_it_expires(machine: Machine) -> None:
    client = machine.stranger(LISTENER)
    answer = authenticate(client, "OAUTHBEARER", good(machine))
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    assert principal(client) == Principal("User", "alice")
    assert 599_000 <= answer.session_lifetime_ms <= 600_000
    assert client.send(MetadataRequest(topics=[]), 12).cluster_id
    machine.pass_time(answer.session_lifetime_ms + 1)
    with pytest.raises(CloseConnection, match="expired"):
        client.send(MetadataRequest(topics=[]), 12)


def test_a_new_token_on_the_same_connection_goes_on_for_the_same_subject_alone(machine: Machine) -> None:
    client = machine.stranger(LISTENER)
    authenticate(client, "OAUTHBEARER", good(machine))
    machine.pass_time(300_000)
    assert authenticate(client, "OAUTHBEARER", good(machine)).session_lifetime_ms >= 599_000
    machine.pass_time(500_000)
    assert client.send(MetadataRequest(topics=[]), 12).cluster_id
    other = authenticate(client, "OAUTHBEARER", good(machine, sub="bob"))
    assert other.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_session_is_no_longer_than_connections_max_reauth_ms() -> None:
    machine = machine_with_keys(connections_max_reauth_ms="60000")
    answer = authenticate(machine.stranger(LISTENER), "OAUTHBEARER", good(machine))
    assert answer.session_lifetime_ms == 60_000


def test_every_bad_token_hears_the_same(machine: Machine) -> None:
    now_s = machine.now_ms // 1000
    heard = set()
    for text in (
        token(now_ms=machine.now_ms, aud="other"),
        token(now_ms=machine.now_ms, aud="kafka", exp=now_s - 100),
        token(rsa_key("unknown"), now_ms=machine.now_ms, aud="kafka"),
        token(rsa_key("forged"), now_ms=machine.now_ms, aud="kafka", header={"kid": "today"}),
        "garbage",
    ):
        client = machine.stranger(LISTENER)
        answer = authenticate(client, "OAUTHBEARER", Credentials(token=text))
        heard.add((answer.error_code, answer.error_message, bytes(answer.auth_bytes)))
        assert principal(client) == ANONYMOUS
        assert client.closed is not None
    ((code, message, reply),) = heard
    assert code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert reply == b""
    assert "OAUTHBEARER" in message


def test_the_error_of_rfc_7628_comes_before_the_refusal(machine: Machine) -> None:
    client = machine.stranger(LISTENER)
    assert not handshake(client, "OAUTHBEARER").answer.error_code
    first = client.send(SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer garbage\x01\x01"), 2)
    assert (first.error_code, bytes(first.auth_bytes)) == (0, INVALID_TOKEN)


def test_an_unknown_key_id_has_the_keys_read_once(machine: Machine) -> None:
    for _ in range(3):
        stranger = Credentials(token=token(rsa_key("tomorrow"), aud="kafka"))
        authenticate(machine.stranger(LISTENER), "OAUTHBEARER", stranger)
    broker = machine.broker
    broker.on_tick(machine.now_ms + 20_000)
    asked = [effect for effect in broker.outbox.take() if isinstance(effect, ReadKeys)]
    assert [effect.keys.url for effect in asked] == [URL]
    broker.on_tick(machine.now_ms + 20_001)
    assert not [effect for effect in broker.outbox.take() if isinstance(effect, ReadKeys)]


def test_a_start_without_keys_ends_in_one_line() -> None:
    own = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9093",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    with pytest.raises(ConfigError, match=r"sasl.oauthbearer.jwks.endpoint.url.*tokens that nobody signed"):
        check_security(own)
    check_security(own | {"listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": URL})


@pytest.mark.parametrize("prefix", ["", "listener.name.secure.", "listener.name.secure.oauthbearer."])
def test_no_client_can_change_where_keys_are_read_from_cve_2025_27817_cve_2025_27819(
    machine: Machine, prefix: str
) -> None:
    for name in (f"{prefix}{URL_KEY}", f"{prefix}sasl.oauthbearer.expected.audience"):
        for broker in ("", "1"):
            setting = AlterableConfig(name=name, config_operation=0, value="file:///etc/passwd")
            resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=[setting])
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            (result,) = machine.client().send(request).responses
            assert result.error_code, f"{name} was changed"
    assert machine.broker.image.broker_config("") == machine.broker.image.broker_config("1") == {}
