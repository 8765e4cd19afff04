"""What is counted of a keeper: connections, sessions, writes and their outcomes."""

from tests.support.metrics import shown_by

from ottla import Broker
from ottla.controller.keeper import Refused, Unknown, Written
from ottla.shell.keeper import Session
from ottla.shell.keeper_counts import KeeperCounts
from ottla.shell.metrics.keeper import KeeperMetrics

EXPIRATIONS = "kafka_server_sessionexpirelistener_zookeeperexpires_total"
WRITTEN = 'ottla_keeper_writes_total{outcome="written"}'


def said(counts: KeeperCounts) -> dict[str, float]:
    return shown_by(KeeperMetrics(counts))


def test_before_the_keeper_is_there_nothing_was_heard_of_it() -> None:
    before = said(KeeperCounts())
    assert before["ottla_keeper_connected"] == 0
    assert "ottla_keeper_heard_seconds" not in before


def test_a_session_that_is_lost_comes_back_or_is_over() -> None:
    counts = KeeperCounts()
    counts.on_connected()
    connected = []
    for event in (Session.SUSPENDED, Session.RESUMED, Session.SUSPENDED, Session.EXPIRED, Session.SUSPENDED):
        counts.on_session(event)
        connected.append(said(counts)["ottla_keeper_connected"])
    assert connected == [0, 1, 0, 1, 0]
    after = said(counts)
    assert after["kafka_server_sessionexpirelistener_zookeeperdisconnects_total"] == 3
    assert after["kafka_server_sessionexpirelistener_zookeepersyncconnects_total"] == 3
    assert after[EXPIRATIONS] == 1


def test_writes_count_by_what_came_of_them() -> None:
    counts = KeeperCounts()
    for outcome in (Written(), Written(), Refused("/a", "it is there"), Unknown("lost")):
        counts.on_written(outcome, 1_000)
    after = said(counts)
    names = [
        f'ottla_keeper_writes_total{{outcome="{outcome}"}}' for outcome in ("written", "refused", "unknown")
    ]
    assert [after[name] for name in names] == [2, 1, 1]
    assert counts.write_durations.total_us == 4_000


def test_a_broker_alone_is_connected_to_a_keeper_of_its_own() -> None:
    with Broker() as broker:
        before = broker.metrics()
        broker.create_topic("orders")
        after = broker.metrics()
    assert before["ottla_keeper_connected"] == 1
    assert before["ottla_keeper_heard_seconds"] < 1
    assert after[WRITTEN] > before[WRITTEN]
    assert after["ottla_keeper_write_seconds_count"] > before["ottla_keeper_write_seconds_count"]
    assert after["kafka_controller_kafkacontroller_activecontrollercount"] == 1
