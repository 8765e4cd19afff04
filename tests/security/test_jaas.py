"""JAAS lines: read as Java reads them, and never acted upon."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.jaas import JaasError, LoginModule, parse

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_line_gives_its_login_module_and_its_options() -> None:
    line = parse(f'{PLAIN} required username="admin" password="admin-secret" user_alice="a b;c";')
    assert line.module is LoginModule.PLAIN
    assert line.options == {"username": "admin", "password": "admin-secret", "user_alice": "a b;c"}


def test_quotes_escapes_comments_and_bare_words_are_javas() -> None:
    text = f"""{PLAIN} REQUIRED // a comment
        username='al"ice' password="a\\"b\\\\c\\tde\\101\\'"  /* and
        another */ tokenauth=true serviceName=kafka-1.x / so is this
        ;"""
    assert parse(text).options == {
        "username": 'al"ice',
        "password": "a\"b\\c\tdeA'",
        "tokenauth": "true",
        "serviceName": "kafka-1.x",
    }


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "com.sun.security.auth.module.Krb5LoginModule",
        "os.system",
        "PlainLoginModule",
    ],
)
def test_cve_2023_25194_any_other_login_module_is_refused_by_its_name(module: str) -> None:
    with pytest.raises(JaasError, match=f"'{module}' is not allowed"):
        parse(f'{module} required user.provider.url="ldap://attacker/";')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "names no login module"),
        (";", "names no login module"),
        (PLAIN, "comes 'required'"),
        (f"{PLAIN} perhaps;", "comes 'required'"),
        (f"{PLAIN} required", "semicolon"),
        (f'{PLAIN} required password="hunter2"', "semicolon"),
        (f"{PLAIN} required password;", 'not key="value"'),
        (f"{PLAIN} required password=;", "password has no value"),
        (f'{PLAIN} required password="hunter2;', "cannot be read"),
        (f"{PLAIN} required password=1234;", "cannot be read"),
        (f'{PLAIN} required password="hunter2" password="hunter2";', "is there twice"),
        (f'{PLAIN} required password="hunter2"; {PLAIN} required;', "after the semicolon"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_without_its_values(text: str, problem: str) -> None:
    with pytest.raises(JaasError, match=problem) as error:
        parse(text)
    assert "hunter2" not in str(error.value)


def test_a_line_does_not_show_its_passwords() -> None:
    assert "hunter2" not in repr(parse(f'{PLAIN} required password="hunter2";'))


@given(st.text())
def test_any_text_is_a_line_or_is_refused(text: str) -> None:
    for line in (text, f"{PLAIN} required {text}", f'{PLAIN} required password="{text}";'):
        with contextlib.suppress(JaasError):
            parse(line)


@given(st.text())
def test_any_password_can_be_written(password: str) -> None:
    escaped = "".join(
        f"\\{character}" if character in '"\\' else
        f"\\{ord(character):03o}" if character in "\r\n" else character
        for character in password
    )  # fmt: skip
    assert parse(f'{PLAIN} required password="{escaped}";').options == {"password": password}
