"""Java's login configuration file: the section that is towards ZooKeeper."""

import pytest

from ottla.security.jaas import JaasError
from ottla.security.jaas_file import zookeeper_credentials

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
CLIENT = f'Client {{ {MODULE} required username="ottla" password="p; }}w"; }};'


@pytest.mark.parametrize(
    "before", ["", '/* for { clients */ KafkaServer { a.B required x="}"; c.D optional; };\n']
)
@pytest.mark.parametrize("after", ["", "\nServer { not even { read };"])
def test_user_and_password_are_those_of_the_section_client(before: str, after: str) -> None:
    assert zookeeper_credentials(before + CLIENT + after) == ("ottla", "p; }w")


def test_a_password_is_not_in_what_is_shown_of_it() -> None:
    assert "p; }w" not in repr(zookeeper_credentials(CLIENT))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no section Client"),
        ("Server { a.B required; };", "it has no section Client"),
        ("Client { com.sun.security.auth.module.JndiLoginModule required x=y; };", "JndiLoginModule'"),
        (f"Client {{ {MODULE} username=a password=b; }};", "comes 'required'"),
        (f'Client {{ {MODULE} required username="secret"; }};', "has no password"),
        (f'Client {{ {MODULE} required username="" password=""; }};', "no username and no password"),
        (f'Client {{ {MODULE} required username="secret" password="secret" }};', "is not key="),
        ('Server { a.B required x="secret;', "closed|close them"),
        ("Server { a.B required;", "does not end with };"),
        ("Server { a.B required; } Client", "comes a semicolon"),
        ("{ };", "a section is not NAME"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_without_what_it_holds(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as refused:
        zookeeper_credentials(text)
    assert "secret" not in str(refused.value)
