"""The short form of the lane of `make fuzz` for SASL and TLS: strangers who lie, beside honest clients."""

from collections.abc import Iterator

import pytest
from tests.hostile import fuzz_handshakes
from tests.hostile.fuzz_handshakes import (
    ALL_MECHANISMS,
    TLS_ATTACKS,
    attack,
    check_login,
    make_broker,
    wait_gone,
)
from tests.hostile.healthy import Healthy
from tests.hostile.test_fuzz import GROWTH_BYTES_MAX, SEED
from tests.kafka_clients.secure_broker import SecureBroker

CASES = 1_000
FILES_MAX = 20  # honest clients may connect once more
WARM_UP = 4 * len(ALL_MECHANISMS) + len(TLS_ATTACKS)  # each kind once: what is loaded late is loaded


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    broker = make_broker(tmp_path_factory.mktemp("handshakes"))
    broker.start()
    try:
        broker.add_alice()
        yield broker
    finally:
        broker.kill()


def test_lies_about_sasl_and_tls_get_nobody_in_cost_nobody_else_and_leave_nothing_behind(
    secure: SecureBroker,
) -> None:
    attack(secure, SEED, WARM_UP)
    with Healthy(secure):
        rss_bytes, files = secure.rss_bytes(), secure.open_files()
        report = attack(secure, SEED + 1, CASES)
        wait_gone(secure)
        grown = secure.rss_bytes() - rss_bytes
    print(f"\n{report.cases} cases, {dict(report.outcomes)}, memory grew by {grown >> 10} KB")
    assert (report.found, report.cases) == ([], CASES)
    assert min(report.outcomes["closed"], report.outcomes["answered"]) > CASES // 10
    assert grown < GROWTH_BYTES_MAX
    assert secure.open_files() < files + FILES_MAX
    assert secure.is_running
    assert secure.bugs() == []


def test_a_lie_that_gets_somebody_in_is_found(secure: SecureBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the check: an honest token that is taken for a lie."""
    monkeypatch.setattr(fuzz_handshakes, "mutated", lambda payload, _chance: payload)
    monkeypatch.setattr(fuzz_handshakes.Exchange, "_is_good", lambda *_: False)
    assert any("let in by" in line for line in attack(secure, SEED, WARM_UP).found)
    for mechanism in ALL_MECHANISMS:
        check_login(secure, mechanism)
