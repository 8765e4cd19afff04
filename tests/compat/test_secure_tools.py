"""Apache Kafka's Java client gets into a secure Ottla, with a password, a token or a certificate."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from bench import apache
from bench.servers import clean_environment
from tests.compat.apache import QUICK_JVM
from tests.compat.tools_jvm import ToolsJvm
from tests.support.pem_files import certificates
from tests.support.ports import free_ports
from tests.support.tokens import jwks, rsa_key, token

from ottla import Broker
from ottla.base.properties import read_file
from ottla.shell import secure_folder

TOOL_S = 120.0
_SECURED = "org.apache.kafka.common.security.oauthbearer"

pytestmark = pytest.mark.usefixtures("kafka_jars")


def topics(bootstrap: str, config: str, java_options: str, *arguments: str) -> str:
    """With options for Java, and so a JVM of its own."""
    command = apache.java(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server", bootstrap, "--command-config", config, *arguments,
    )  # fmt: skip
    environment = clean_environment() | QUICK_JVM
    environment["JDK_JAVA_OPTIONS"] = f"{environment.get('JDK_JAVA_OPTIONS', '')} {java_options}".strip()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


def test_the_client_properties_of_secure_init_are_kafkas(tmp_path: Path, kafka_tools: ToolsJvm) -> None:
    (port,) = free_ports(1)
    folder = str(tmp_path / "secured")
    secure_folder.create(folder, ["localhost"], f"127.0.0.1:{port}", f"localhost:{port}")
    client = os.path.join(folder, "client.properties")
    with Broker(read_file(os.path.join(folder, "broker.properties")), data=os.path.join(folder, "data")):
        where = ("--bootstrap-server", f"localhost:{port}", "--command-config", client)
        made = ("--create", "--topic", "letters")
        outcome = kafka_tools.run("org.apache.kafka.tools.TopicCommand", *where, *made)
    assert "Created topic letters" in outcome.said
    assert outcome.code == 0


def test_the_java_client_comes_with_a_token_over_tls(tmp_path: Path) -> None:
    pem = certificates(tmp_path / "pem")
    keys, own = tmp_path / "keys.json", tmp_path / "token"
    keys.write_text(json.dumps(jwks(rsa_key())))
    own.write_text(token(now_ms=time.time_ns() // 1_000_000, aud="kafka", iss="tests"))
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={_SECURED}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={_SECURED}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={own.as_uri()}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={pem.ca}\n"
    )
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "tests",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": pem.broker,
    }
    allowed = " ".join(
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={where}"
        for kind, where in (("urls", own.as_uri()), ("files", own))
    )
    with Broker(settings) as broker:
        said = topics(broker.bootstrap_servers, str(config), allowed, "--create", "--topic", "letters")
    assert "Created topic letters" in said


def test_the_java_client_comes_with_a_certificate_and_is_its_owner(
    tmp_path: Path, kafka_tools: ToolsJvm
) -> None:
    pem = certificates(tmp_path / "pem")
    stores = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM", "ssl.truststore.location": pem.ca}
    client = stores | {"security.protocol": "SSL", "ssl.keystore.location": pem.client}
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in client.items()))
    settings = stores | {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": pem.broker,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/U",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CLIENT",
    }
    with Broker(settings) as broker:
        where = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(config))
        made = ("--create", "--topic", "letters")
        outcome = kafka_tools.run("org.apache.kafka.tools.TopicCommand", *where, *made)
    assert "Created topic letters" in outcome.said
    assert outcome.code == 0
