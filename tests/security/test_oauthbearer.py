"""The exchange of OAUTHBEARER, with a check of tokens that knows two."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tokens import NOW_MS, client_first

from ottla.security.principals import Principal
from ottla.security.sasl.exchange import AuthenticationError, Step
from ottla.security.sasl.oauthbearer import INVALID_TOKEN, ClientFirst, OAuthBearer, Token, TokenError


def check(text: str, wall_ms: int) -> Token:
    if text == "good":
        return Token("alice", NOW_MS + 5_000)
    raise TokenError("not a good one")


def exchange():
    return OAuthBearer(check).begin(b"\0" * 32)


def test_the_subject_of_a_good_token_is_the_principal_for_as_long_as_the_token_is_good():
    step = exchange().step(client_first("good"), NOW_MS)
    assert step == Step(b"", Principal("User", "alice"), 5_000)


def test_a_token_that_is_only_good_for_the_skew_of_clocks_gives_no_time_at_all():
    assert exchange().step(client_first("good"), NOW_MS + 6_000).lifetime_ms == 0


def test_a_bad_token_is_answered_with_the_error_of_rfc_7628_and_refused_after_the_client_has_heard_it():
    refused = exchange()
    assert refused.step(client_first("bad"), NOW_MS) == Step(INVALID_TOKEN)
    with pytest.raises(AuthenticationError):
        refused.step(b"\x01", NOW_MS)


def test_a_good_token_after_a_bad_one_does_not_help():
    refused = exchange()
    refused.step(client_first("bad"), NOW_MS)
    with pytest.raises(AuthenticationError):
        refused.step(client_first("good"), NOW_MS)


def test_nobody_authenticates_as_another_than_the_subject_of_the_token_cve_2017_12610():
    assert exchange().step(client_first("good", authzid="alice"), NOW_MS).principal == ("User", "alice")
    with pytest.raises(AuthenticationError):
        exchange().step(client_first("good", authzid="bob"), NOW_MS)


def test_the_first_message_has_an_authorization_id_a_token_and_extensions():
    message = client_first("aaa.bbb.ccc==", "al=2Cice=3D", traceId="12 3", logicalCluster="x")
    assert ClientFirst.parse(message) == (
        "al,ice=",
        "aaa.bbb.ccc==",
        {"traceId": "12 3", "logicalCluster": "x"},
    )
    assert ClientFirst.parse(b"n,,\x01auth=bEaReR   t\x01\x01").token == "t"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,a=a=b,\x01auth=Bearer t\x01\x01",
        b"n,,auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,,\x01auth=Bearer t\x01more\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=1\x01a=2\x01\x01",
        b"n,,\x01auth=Bearer t\x01a1=2\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\x7f\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\xc3\xa4\x01\x01",
        b"n,a=\xc3\xa4,\x01auth=Bearer t\x01\x01",
        b"\xff\xfe",
    ],
)
def test_a_first_message_that_rfc_7628_does_not_know_is_refused(message):
    with pytest.raises(AuthenticationError):
        exchange().step(message, NOW_MS)


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda tail: b"n,,\x01auth=Bearer t\x01" + tail))
def test_whatever_is_sent_first_ends_in_an_answer_or_a_refusal(message):
    with suppress(AuthenticationError):
        assert exchange().step(message, NOW_MS) == Step(INVALID_TOKEN)
