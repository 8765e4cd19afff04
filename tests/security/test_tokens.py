"""Which tokens are good: signed with real keys."""

import base64
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey, RSAKey
from tests.support.tokens import NOW_MS, claims, ec_key, ed_key, jwks, rsa_key, token

from ottla.security.oauth_config import OAuthConfig
from ottla.security.sasl.oauthbearer import Token, TokenError
from ottla.security.tokens import Tokens, parsed_keys

URL = {"sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys"}


class Keys:
    def __init__(self, *keys):
        self.keys = parsed_keys(json.dumps(jwks(*keys)))
        self.missed = 0

    def on_missing(self):
        self.missed += 1


def tokens(*keys, **settings):
    """A check of tokens; settings by the last words of their names, with _ for dots."""
    named = {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in settings.items()}
    return Tokens(OAuthConfig.of_listener(URL | named), Keys(*(keys or (rsa_key(), ec_key(), ed_key()))))


def refused(text, *keys, **settings):
    with pytest.raises(TokenError) as refusal:
        tokens(*keys, **settings).check(text, NOW_MS)
    return str(refusal.value)


def encoded(content) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_token_signed_with_rsa_names_its_subject(algorithm):
    assert tokens().check(token(algorithm=algorithm), NOW_MS) == Token("alice", NOW_MS + 600_000)


def test_tokens_signed_on_curves_are_good_as_well():
    assert tokens().check(token(ec_key(), "ES256"), NOW_MS).subject == "alice"
    assert tokens().check(token(ed_key(), "EdDSA"), NOW_MS).subject == "alice"


def test_without_a_key_id_every_key_of_that_kind_is_tried():
    keys = (rsa_key("yesterday"), rsa_key())
    assert tokens(*keys).check(token(header={"kid": None}), NOW_MS).subject == "alice"
    refused(token(rsa_key("another"), header={"kid": None}), *keys)


def test_a_token_of_an_unknown_key_is_refused_and_has_the_keys_read_again():
    asked = tokens(rsa_key("yesterday"))
    with pytest.raises(TokenError, match="no key is known"):
        asked.check(token(), NOW_MS)
    assert asked._keys.missed == 1
    with pytest.raises(TokenError, match="no key is known"):
        asked.check(token(header={"kid": "x" * 1001}), NOW_MS)
    assert asked._keys.missed == 1


def test_a_token_signed_with_another_key_of_the_same_name_is_refused():
    assert "bad_signature" in refused(token(rsa_key("another"), header={"kid": "today"}))


def test_a_token_that_was_changed_after_it_was_signed_is_refused():
    header, _, signature = token().split(".")
    assert "bad_signature" in refused(f"{header}.{encoded(claims(sub='admin'))}.{signature}")


def test_a_token_that_nobody_signed_is_refused():
    for name in ("none", "None", "nOnE"):
        for tail in ("", "AAAA", token().split(".")[2]):
            for header in ({"alg": name}, {"alg": name, "kid": "today"}):
                refused(f"{encoded(header)}.{encoded(claims())}.{tail}")


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("as_secret", ["pem", "der", "n"])
def test_a_public_key_is_no_shared_secret(algorithm, as_secret):
    key = rsa_key()
    secret = {
        "pem": lambda: key.as_pem(private=False),
        "der": lambda: key.as_der(private=False),
        "n": lambda: key["n"].encode(),
    }[as_secret]()
    signed = f"{encoded({'alg': algorithm, 'kid': key.kid})}.{encoded(claims())}"
    code = hmac.digest(secret, signed.encode(), f"sha{algorithm[2:]}")
    assert "not allowed" in refused(f"{signed}.{encoded(code)}")


def encoded_key(secret: bytes) -> dict[str, str]:
    return {"kty": "oct", "k": encoded(secret)}


def test_a_key_is_used_for_its_own_kind_of_signature_alone():
    same_name = ECKey.generate_key("P-256", {"kid": "today"})
    refused(token(same_name, "ES256"))
    refused(token(algorithm="PS256"), RSAKey.import_key(rsa_key().as_dict(private=True, alg="RS256")))


def test_keys_in_a_token_are_not_looked_at_cve_2025_27817():
    own = RSAKey.generate_key(2048, {"kid": "mine"})
    offered = own.as_dict(private=False)
    for header in (
        {"jwk": offered, "kid": None},
        {"jwk": offered},
        {"jku": "https://evil.example/keys", "kid": "today"},
        {"x5u": "https://evil.example/cert", "kid": "today"},
        {"x5u": "https://evil.example/cert", "kid": None},
    ):
        refused(token(own, header=header), rsa_key())


def test_an_expired_token_is_refused_and_one_within_the_skew_of_clocks_is_not():
    now_s = NOW_MS // 1000
    assert tokens().check(token(exp=now_s - 29), NOW_MS).expires_ms == NOW_MS - 29_000
    assert "expired" in refused(token(exp=now_s - 31))
    assert "expired" in refused(token(exp=now_s - 1), clock_skew_seconds="0")


def test_a_token_that_is_not_valid_yet_is_refused():
    now_s = NOW_MS // 1000
    assert tokens().check(token(nbf=now_s + 29), NOW_MS).subject == "alice"
    assert "nbf" in refused(token(nbf=now_s + 31)) or "not yet" in refused(token(nbf=now_s + 31))
    refused(token(iat=now_s + 31))


@pytest.mark.parametrize("claim", ["exp", "iat", "sub"])
def test_a_token_without_a_claim_that_it_must_have_is_refused(claim):
    assert claim in refused(token(**{claim: None}))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": "1900000000"}, {"exp": True}, {"exp": -1}, {"exp": [1]}, {"exp": float("inf")},
        {"exp": float("nan")}, {"exp": 10**400}, {"iat": "yesterday"}, {"nbf": {}},
        {"sub": ""}, {"sub": "  "}, {"sub": 7}, {"sub": ["a"]},
        {"scope": ""}, {"scope": ["a", "a"]}, {"scope": ["a", 7]}, {"scope": [" "]}, {"iss": 7},
    ],
)  # fmt: skip
def test_a_token_whose_claims_are_of_another_kind_is_refused(changes):
    refused(token(**changes))


def test_a_token_must_be_for_an_expected_audience_if_there_is_one():
    expected = {"expected_audience": "kafka, logs"}
    for audience in ("kafka", ["other", "logs"]):
        assert tokens(**expected).check(token(aud=audience), NOW_MS).subject == "alice"
    for audience in (None, "other", ["other"], [], "kafka,logs", 7):
        assert "aud" in refused(token(aud=audience), **expected)


def test_a_token_for_somebody_is_refused_where_no_audience_is_expected():
    assert "sasl.oauthbearer.expected.audience" in refused(token(aud="kafka"))


def test_a_token_must_be_from_the_expected_issuer_if_there_is_one():
    expected = {"expected_issuer": "https://issuer.example"}
    assert tokens(**expected).check(token(iss="https://issuer.example"), NOW_MS).subject == "alice"
    for issuer in (None, "https://issuer.example/", "https://evil.example"):
        assert "iss" in refused(token(iss=issuer), **expected)


def test_another_claim_can_say_who_somebody_is_and_what_the_scopes_are():
    settings = {"sub_claim_name": "email", "scope_claim_name": "scp"}
    good = token(email=" a@example.org ", scp=["read", "write"], scope=["x", "x"])
    assert tokens(**settings).check(good, NOW_MS).subject == "a@example.org"
    assert "email" in refused(token(), **settings)


def test_a_token_with_unknown_headers_is_good_unless_they_are_critical():
    assert tokens().check(token(header={"nonce": "n"}), NOW_MS).subject == "alice"
    header = {"alg": "RS256", "kid": "today", "crit": ["wings"], "wings": 1}
    signed = f"{encoded(header)}.{encoded(claims())}"
    refused(f"{signed}.AAAA")


def test_a_token_that_is_too_large_is_refused_before_it_is_read():
    assert "size" in refused(token(more="x" * 200_000))
    assert "size" in refused(token(header={"more": "x" * 20_000}))


def test_a_header_nested_too_deeply_is_refused():
    deep = encoded(b'{"alg":' + b"[" * 5000 + b"]" * 5000 + b"}"[:1])
    refused(f"{deep[:8000]}.{encoded(claims())}.AAAA")
    refused(f"{encoded(b'[' * 6000)}.{encoded(claims())}.AAAA")


HEADERS = st.dictionaries(
    st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["RS256", "none", "today", "b64"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
)
BYTES = st.binary(max_size=60).map(encoded)
GARBAGE = (
    st.text(max_size=100)
    | st.tuples(BYTES, BYTES, BYTES).map(".".join)
    | st.tuples(HEADERS.map(encoded), BYTES, st.binary(max_size=300).map(encoded)).map(".".join)
)


@given(GARBAGE)
def test_whatever_is_called_a_token_is_refused_and_nothing_else_happens(text):
    refused(text)


@given(st.data())
def test_a_token_with_any_byte_changed_is_refused(data):
    text = token(ec_key(), "ES256")
    index = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("ABCDXYZabcxyz0189-_."))
    changed = text[:index] + other + text[index + 1 :]
    # The last character of a segment may have bits that encode nothing.
    if changed == text or text[index + 1 : index + 2] in {".", ""}:
        return
    refused(changed)


def test_a_key_set_gives_the_keys_that_can_verify_and_leaves_out_the_others():
    weak = {"kty": "RSA", "n": encoded(b"\x80" + b"\x01" * 127), "e": "AQAB", "kid": "weak"}
    others = [
        weak, encoded_key(b"s" * 32), {"kty": "quantum"}, {}, 7, {"kty": "RSA", "n": "!", "e": "AQAB"},
        ec_key().as_dict(private=False, use="enc"), ed_key().as_dict(private=False, key_ops=["sign"]),
    ]  # fmt: skip
    keys = parsed_keys(json.dumps({"keys": [*others, rsa_key().as_dict(private=False)]}))
    assert [key["kid"] for key in keys] == ["today"]


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"keys":7}', '{"keys":[]}', "[" * 9999, "null"])
def test_what_is_no_key_set_is_an_error(text):
    with pytest.raises(ValueError, match="it "):
        parsed_keys(text)


@given(
    st.text() | st.recursive(st.none() | st.text(max_size=9), lambda inner: st.lists(inner)).map(json.dumps)
)
def test_garbage_is_never_a_key_set(text):
    with pytest.raises(ValueError, match="it "):
        parsed_keys(text)
