"""The names of certificates' owners, to the letter as Java 17 writes them (X500Principal.getName): what is
expected here was printed by it."""

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from ottla.security.distinguished_names import owner_of

N = NameOID


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def certificate(name: x509.Name) -> bytes:
    """As far as it is looked at: the fields up to the subject."""
    version, number = element(0xA0, element(0x02, b"\x02")), element(0x02, b"\x07")
    algorithm = issuer = validity = element(0x30, b"")
    fields = [version, number, algorithm, issuer, validity, name.public_bytes(), element(0x30, b"")]
    return element(0x30, element(0x30, b"".join(fields)) + element(0x30, b""))


def named(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (named((N.COMMON_NAME, "broker")), "CN=broker"),
        (
            named(
                (N.COUNTRY_NAME, "US"), (N.STATE_OR_PROVINCE_NAME, "MD"), (N.LOCALITY_NAME, "Fulton"),
                (N.ORGANIZATION_NAME, "my, co"), (N.ORGANIZATIONAL_UNIT_NAME, "SME"), (N.COMMON_NAME, "Duke"),
            ),
            r"CN=Duke,OU=SME,O=my\, co,L=Fulton,ST=MD,C=US",
        ),
        (
            named((N.EMAIL_ADDRESS, "a@b.c"), (N.COMMON_NAME, 'we"ird;<x>+=#\\y')),
            r"CN=we\"ird\;\<x\>\+\=\#\\y,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (named((N.COMMON_NAME, "  lead and trail  ")), r"CN=\ \ lead and trail\ \ "),
        (named((N.COMMON_NAME, "   ")), r"CN=\ \ \ "),
        (named((N.COMMON_NAME, "cr\r")), "CN=cr\\\r"),
        (named((N.COMMON_NAME, "#hash")), r"CN=\#hash"),
        (named((N.COMMON_NAME, "Grüße 日本 😀")), "CN=Grüße 日本 😀"),
        (named((N.COMMON_NAME, "nul\0l")), r"CN=nul\00l"),
        (
            named(
                (N.DOMAIN_COMPONENT, "a"), (N.DOMAIN_COMPONENT, "b"), (N.USER_ID, "u1"),
                (N.STREET_ADDRESS, "s"), (N.SERIAL_NUMBER, "77"), (N.TITLE, "Dr"), (N.SURNAME, "Z"),
                (N.DN_QUALIFIER, "q"),
            ),
            "2.5.4.46=#130171,2.5.4.4=#0c015a,2.5.4.12=#0c024472,2.5.4.5=#13023737,STREET=s,UID=u1,DC=b,DC=a",
        ),
        (named((N.ORGANIZATION_NAME, "x" * 300)), "O=" + "x" * 300),
        (x509.Name([]), ""),
    ],
)  # fmt: skip
def test_a_name_is_written_as_java_does_with_the_last_part_first(name: x509.Name, expected: str) -> None:
    assert owner_of(certificate(name)) == expected


def test_attributes_of_one_part_are_joined_by_a_plus() -> None:
    attributes = [(N.COMMON_NAME, "a"), (N.USER_ID, "b"), (N.ORGANIZATIONAL_UNIT_NAME, "c")]
    part = x509.RelativeDistinguishedName([x509.NameAttribute(oid, value) for oid, value in attributes])
    assert owner_of(certificate(x509.Name([part]))) == "CN=a+OU=c+UID=b"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (_ASN1Type.PrintableString, "printable", "CN=printable"),
        (_ASN1Type.T61String, "t61", "CN=t61"),
        (_ASN1Type.UniversalString, "uni", "CN=#1c0c000000750000006e00000069"),
        (_ASN1Type.BMPString, "bm", r"CN=\00b\00m"),
    ],
)
def test_strings_are_read_as_java_reads_them(kind: _ASN1Type, text: str, expected: str) -> None:
    name = x509.Name([x509.NameAttribute(N.COMMON_NAME, text, _type=kind)])
    assert owner_of(certificate(name)) == expected
