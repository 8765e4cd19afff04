"""CRC-32C, and where it comes from."""

from importlib.machinery import PathFinder

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import checksum


def test_it_is_the_checksum_of_the_standard():
    assert checksum.crc32c(b"123456789") == 0xE3069283  # RFC 3720 uses the same polynomial
    assert checksum.crc32c(bytes(32)) == 0x8A9136AA  # B.4 there


@given(st.binary())
def test_loaded_alone_it_is_the_same(data):
    assert checksum.crc32c(memoryview(data)) == package.crc32c(data)


def test_where_the_module_cannot_be_found_the_package_is_imported(monkeypatch):
    monkeypatch.setattr(PathFinder, "find_spec", lambda _name, _path=None: None)
    assert checksum._load() is package.crc32c
