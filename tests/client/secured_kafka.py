"""Apache Kafka with a listener for every security protocol and users for every mechanism."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import apache
from bench.servers import HOST, free_port
from tests.compat.apache import Node
from tests.support.secured import PACKAGE, SCRAM, Secured, add_scram_users

STORE_PASSWORD = "store-secret"


class SecuredKafka(Secured):
    mechanisms = ("PLAIN", *SCRAM, "OAUTHBEARER")

    def jaas(self) -> dict[str, str]:
        line = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=b;"
        return {**super().jaas(), "oauthbearer": line}

    def token(self) -> str:
        return unsecured_token()

    def node(self) -> Node:
        keystore, truststore = self.folder / "broker.p12", self.folder / "trusted.p12"
        keystore.write_bytes(self.authority.issue("broker").pkcs12(STORE_PASSWORD))
        truststore.write_bytes(self.authority.pkcs12(STORE_PASSWORD))
        settings, controller = self.settings(), f"{HOST}:{free_port()}"
        settings["listeners"] += f",CONTROLLER://{controller}"
        settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        return Node(
            {
                **settings,
                "controller.quorum.voters": f"1@{controller}",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(keystore),
                "ssl.keystore.password": STORE_PASSWORD,
                "ssl.key.password": STORE_PASSWORD,
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(truststore),
                "ssl.truststore.password": STORE_PASSWORD,
            }
        )


def unsecured_token(lasts_s: float = 3600) -> str:
    """A token without a signature, which Apache Kafka accepts unless told to check them."""
    now_s = time.time()
    # Not of this very moment: Kafka rounds to milliseconds, and takes no token from the future.
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now_s - 10, "exp": now_s + lasts_s})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join([*encoded, ""])


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """PeerError where Apache Kafka cannot be had."""
    apache.fetch()
    server = SecuredKafka(folder)
    node = server.node()
    try:
        node.prepare()
        node.port = int(server.addresses["PLAINTEXT"].rpartition(":")[2])
        node.start()
        node.wait_ready()
        add_scram_users(node.bootstrap)
        yield server
    finally:
        node.stop()
        node.close()
