"""Contexts from keys and certificates in every form: what is read, and what is said of what cannot be."""

import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.api.asking import batch
from tests.support.certificates import PEM, Authority, Identity

from ottla.base.config import ConfigError
from ottla.base.private_file import private_file
from ottla.broker.listeners import Listener, Listeners
from ottla.security.tls_config import load_tls
from ottla.shell.tls import client_context, server_context
from ottla.shell.tls_contexts import TlsContexts

HUSH = "hush-hush"
AUTHORITY = Authority()
IDENTITY = AUTHORITY.issue("broker")


def owner(properties: dict[str, str], trusts: Authority = AUTHORITY) -> str:
    """Who a server with these settings proves to be, to a client that trusts an authority."""
    theirs = ssl.create_default_context(cadata=trusts.pem)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(load_tls(properties)).wrap_bio(to_server, to_client, server_side=True)
    client = theirs.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = client.getpeercert()
    assert certificate
    return str(dict(pair for part in certificate["subject"] for pair in part)["commonName"])


def contexts(properties: dict[str, str]) -> None:
    config = load_tls(properties)
    server_context(config)
    client_context(config)


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        contexts(properties)
    assert "\n" not in str(refused.value)
    assert HUSH not in str(refused.value)
    return str(refused.value)


def inline(identity: Identity = IDENTITY, password: str = "") -> dict[str, str]:
    return PEM | {
        "ssl.keystore.key": identity.key_pem(password),
        "ssl.keystore.certificate.chain": identity.chain_pem,
    }


def test_pem_inline(tmp_path: Path) -> None:
    assert owner(inline()) == "broker"
    assert owner(inline(password=HUSH) | {"ssl.key.password": HUSH}) == "broker"


def test_pem_in_a_file(tmp_path: Path) -> None:
    location = {"ssl.keystore.location": IDENTITY.write(tmp_path / "k.pem")}
    assert owner(PEM | location) == "broker"
    location = {"ssl.keystore.location": IDENTITY.write(tmp_path / "e.pem", HUSH)}
    assert owner(PEM | location | {"ssl.key.password": HUSH}) == "broker"


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_under_either_of_javas_types(tmp_path: Path, kind: str) -> None:
    (tmp_path / "k.p12").write_bytes(IDENTITY.pkcs12(HUSH))
    (tmp_path / "t.p12").write_bytes(AUTHORITY.pkcs12(HUSH))
    properties = {
        "ssl.keystore.type": kind, "ssl.truststore.type": kind,
        "ssl.keystore.location": str(tmp_path / "k.p12"), "ssl.keystore.password": HUSH,
        "ssl.truststore.location": str(tmp_path / "t.p12"), "ssl.truststore.password": HUSH,
    }  # fmt: skip
    assert owner(properties) == "broker"
    (trusted,) = client_context(load_tls(properties)).get_ca_certs()
    assert trusted["subject"] == ((("commonName", AUTHORITY.name),),)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="takes keytool")
def test_a_store_that_keytool_made(tmp_path: Path) -> None:
    def keytool(*arguments: str) -> None:
        subprocess.run(["keytool", *arguments, "-storepass", HUSH], check=True, capture_output=True)

    made, store = tmp_path / "ca.pem", tmp_path / "k.p12"
    made.write_text(AUTHORITY.pem)
    keytool(
        "-importcert", "-noprompt", "-alias", "a", "-file", str(made), "-keystore", str(tmp_path / "t.p12")
    )
    keytool("-genkeypair", "-alias", "b", "-keyalg", "EC", "-dname", "CN=k", "-keystore", str(store))
    properties = {
        "ssl.keystore.location": str(store), "ssl.keystore.password": HUSH,
        "ssl.truststore.location": str(tmp_path / "t.p12"), "ssl.truststore.password": HUSH,
        "ssl.client.auth": "required",
    }  # fmt: skip
    assert len(server_context(load_tls(properties)).get_ca_certs()) == 1
    keytool("-genkeypair", "-alias", "b", "-keyalg", "EC", "-dname", "CN=k", "-keypass", HUSH,
            "-storetype", "JKS", "-keystore", str(tmp_path / "k.jks"))  # fmt: skip
    java = properties | {"ssl.keystore.location": str(tmp_path / "k.jks")}
    said = refusal(java)
    assert "is in Java's own format; convert it with keytool -importkeystore -srckeystore" in said
    assert said.endswith("-deststoretype PKCS12")


def test_what_cannot_be_read_is_said_in_one_line_without_secrets(tmp_path: Path) -> None:
    other = AUTHORITY.issue("other")
    (tmp_path / "k.p12").write_bytes(IDENTITY.pkcs12(HUSH))
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "noise").write_bytes(os.urandom(3_000))
    pem = IDENTITY.write(tmp_path / "k.pem")
    key = "ssl.keystore.location"
    broken = "-----BEGIN {0}-----\nzzzz\n-----END {0}-----\n"
    for properties, expected in (
        ({}, "a listener with TLS needs a private key and a certificate"),
        (inline(password=HUSH), "is encrypted, and ssl.key.password is not given"),
        (inline(password=HUSH) | {"ssl.key.password": "x"}, "is encrypted, and ssl.key.password is wrong"),
        (inline() | {"ssl.keystore.certificate.chain": other.chain_pem}, "not that of the first certificate"),
        (inline() | {"ssl.keystore.key": HUSH}, "there is no private key in it"),
        (inline() | {"ssl.keystore.certificate.chain": HUSH}, "there is no certificate in it"),
        (inline() | {"ssl.keystore.key": broken.format("PRIVATE KEY")}, "cannot be read"),
        (inline() | {"ssl.keystore.certificate.chain": broken.format("CERTIFICATE")}, "cannot be read"),
        (inline() | {"ssl.truststore.certificates": HUSH}, "there is no certificate in it"),
        (inline() | {"ssl.truststore.certificates": broken.format("CERTIFICATE")}, "cannot be read"),
        (inline() | {"ssl.truststore.location": "/no/such"}, "ssl.truststore.location: cannot read /no/such"),
        ({key: str(tmp_path)}, "cannot read"),
        ({key: "/no/such"}, f"{key}: cannot read /no/such: No such file"),
        ({key: pem}, "is PEM; set ssl.keystore.type=PEM"),
        ({key: str(tmp_path / "k.p12"), "ssl.keystore.password": "x"}, "ssl.keystore.password is wrong"),
        ({key: str(tmp_path / "noise")}, "is no PKCS12"),
        (PEM | {key: str(tmp_path / "k.p12")}, "has no PEM; see ssl.keystore.type"),
        (PEM | {key: str(tmp_path / "empty")}, "has no PEM"),
        (inline() | {"ssl.cipher.suites": "NONE-SUCH"}, "OpenSSL has none of these suites"),
    ):
        assert expected in refusal(properties)


def test_without_cryptography_pem_is_read_and_of_pkcs12_the_remedy_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.p12").write_bytes(IDENTITY.pkcs12(HUSH))
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    assert owner(inline()) == "broker"
    assert "pip install 'ottla[tls]'" in refusal({"ssl.keystore.location": str(tmp_path / "k.p12")})


def test_a_private_key_is_in_memory_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def looked_at(context: ssl.SSLContext, path: str, password: object) -> None:
        paths.append(os.path.realpath(path))
        load(context, path, password=password)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", looked_at)
    before = set(os.listdir("/proc/self/fd"))
    server_context(load_tls(inline()))
    assert "memfd" in paths[0]
    assert set(os.listdir("/proc/self/fd")) <= before, "it is gone"


def test_where_there_is_no_such_memory_the_file_is_this_users_alone_and_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with private_file(b"key") as path:
        assert (os.stat(path).st_mode & 0o777, os.stat(os.path.dirname(path)).st_mode & 0o777) == (
            0o600, 0o700,
        )  # fmt: skip
    assert not os.path.exists(os.path.dirname(path))
    assert owner(inline()) == "broker"


def test_versions_suites_and_what_clients_must_show_are_as_configured() -> None:
    older = server_context(load_tls(inline() | {"ssl.enabled.protocols": "TLSv1.2"}))
    assert (older.minimum_version, older.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2
    newer = server_context(load_tls(inline() | {"ssl.enabled.protocols": "TLSv1.3"}))
    assert newer.minimum_version == ssl.TLSVersion.TLSv1_3
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    chosen = server_context(load_tls(inline() | {"ssl.cipher.suites": suite}))
    assert chosen.maximum_version == ssl.TLSVersion.TLSv1_2
    for mode, number in (("none", 0), ("requested", 1), ("required", 2)):
        assert server_context(load_tls(inline() | {"ssl.client.auth": mode})).verify_mode == number


def test_hosts_are_checked_unless_the_key_is_empty() -> None:
    assert client_context(load_tls({})).check_hostname
    lenient = client_context(load_tls({"ssl.endpoint.identification.algorithm": ""}))
    assert (lenient.check_hostname, lenient.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize("name", ["SSL", "CLIENTS.SSL"])
def test_of_what_is_set_while_the_broker_runs_only_keys_and_certificates_count(name: str) -> None:
    """Whoever may alter configs, or write to the keeper's node of them, does not choose who is let in."""
    dynamic = {
        f"listener.name.{name}.ssl.client.auth": "none",
        f"Listener.Name.{name.lower()}.ssl.principal.mapping.rules": "RULE:.*/admin/",
        f"listener.name.{name.lower()}.ssl.truststore.type": "pem",
    }
    file = inline() | {"ssl.client.auth": "required", "ssl.truststore.certificates": AUTHORITY.pem}
    listener = Listener(name, "SSL", "", 0)
    settings = SimpleNamespace(layers=lambda: (dynamic, {}, file))
    listeners = Listeners((listener,), (), "OTHER")
    broker: Any = SimpleNamespace(settings=settings, listeners=listeners)
    config = TlsContexts(broker).of(name).config
    assert (config.client_auth, config.mapping_rules, config.truststore_type) == (
        "required",
        "DEFAULT",
        "pem",
    )


def test_certificates_in_a_record_of_a_log_are_not_trusted(tmp_path: Path) -> None:
    """Whoever may alter configs and write to a topic could let in anybody."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(AUTHORITY.pem))
    properties = inline() | {"ssl.truststore.location": str(path), "ssl.client.auth": "required"}
    assert "ssl.truststore.location: it is not PEM" in refusal(properties)
