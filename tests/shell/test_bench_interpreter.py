"""The bench says which Python its figures are of."""

import pytest
from bench.interpreter import build_of, facts
from bench.report import machine


@pytest.mark.parametrize(
    ("arguments", "schemes", "word"),
    [
        ("'--prefix=/usr/local' '--enable-optimizations' '--with-lto'", (), "optimised (--enable-opt"),
        ("'--enable-shared' '--prefix=/usr'", ("deb_system", "posix_prefix"), "optimised (Debian"),
        ("'--prefix=/opt' '--enable-shared'", ("posix_prefix",), "not optimised"),
        ("", (), "not optimised"),
    ],
)
def test_a_build_is_named_by_how_it_was_configured(
    arguments: str, schemes: tuple[str, ...], word: str
) -> None:
    assert build_of(arguments, schemes).startswith(word)


def test_what_a_run_prints_and_writes_names_the_build_and_the_loop() -> None:
    assert facts().items() <= machine().items()
    assert machine()["loop"].startswith(("uvloop ", "asyncio"))
