"""Who is suspected, who is only silent, and who is told of."""

from ottla.broker.effects import Probe, Sign
from ottla.broker.liveness import (
    AGAIN_MS,
    AT_ONCE_MS,
    DOUBT_MS,
    PROBE_MS,
    REFUSED_APART_MS,
    UNREACHABLE_MS,
    Liveness,
)
from ottla.controller.image import BrokerEndpoint

T = 1_000_000


def there(*brokers: int, epoch: int = 5) -> dict[int, BrokerEndpoint]:
    return {id: BrokerEndpoint(id, {}, None, epoch) for id in brokers}


def watching(*others: int) -> Liveness:
    liveness = Liveness(1)
    liveness.on_brokers(there(1, *others), T)
    return liveness


def refused_twice(liveness: Liveness, id: int = 2, at_ms: int = T) -> bool:
    assert not liveness.on_probed(id, 5, Sign.REFUSED, at_ms)
    return liveness.on_probed(id, 5, Sign.REFUSED, at_ms + REFUSED_APART_MS)


def test_all_others_are_probed_one_probe_at_a_time() -> None:
    liveness = watching(2, 3)
    assert liveness.next_ms() == T
    assert liveness.pump(T) == [Probe(2, 5), Probe(3, 5)]
    assert liveness.pump(T + 10_000) == [], "no answer yet"
    assert liveness.next_ms() is None
    liveness.on_probed(2, 5, Sign.ANSWERED, T + 5)
    assert liveness.next_ms() == T + 5 + PROBE_MS
    assert liveness.pump(T + 4 + PROBE_MS) == []
    assert liveness.pump(T + 5 + PROBE_MS) == [Probe(2, 5)]


def test_many_brokers_are_asked_less_often() -> None:
    liveness = watching(*range(2, 202))
    assert len(liveness.pump(T)) == 200
    liveness.on_probed(2, 5, Sign.ANSWERED, T)
    assert liveness.next_ms() == T + 2_000


def test_a_broker_that_is_not_registered_watches_nobody() -> None:
    liveness = watching(2)
    refused_twice(liveness)
    liveness.on_brokers(there(2), T)
    assert liveness.pump(T) == []
    assert liveness.suspected == set()


def test_two_refusals_some_time_apart_make_a_suspect() -> None:
    liveness = watching(2)
    assert not liveness.on_probed(2, 5, Sign.REFUSED, T)
    assert liveness.next_ms() == T + REFUSED_APART_MS, "the second opinion does not wait for its turn"
    assert not liveness.on_probed(2, 5, Sign.REFUSED, T + REFUSED_APART_MS - 1)
    assert liveness.on_probed(2, 5, Sign.REFUSED, T + REFUSED_APART_MS)
    assert liveness.suspected == {2}
    assert not liveness.on_probed(2, 5, Sign.REFUSED, T + 1_000), "nothing new"
    assert not liveness.on_probed(2, 5, Sign.SILENT, T + 2_000)
    assert liveness.suspected == {2}, "only an answer ends it"
    assert liveness.on_probed(2, 5, Sign.ANSWERED, T + 3_000)
    assert liveness.suspected == set()


def test_an_answer_in_between_starts_the_count_anew() -> None:
    liveness = watching(2)
    liveness.on_probed(2, 5, Sign.REFUSED, T)
    liveness.on_probed(2, 5, Sign.ANSWERED, T + 100)
    assert not liveness.on_probed(2, 5, Sign.REFUSED, T + 1_000)


def test_the_silent_are_unreachable_after_a_while_and_never_suspected() -> None:
    liveness = watching(2, 3)
    for at_ms in range(T, T + 60_000, 2_000):
        assert not liveness.on_probed(2, 5, Sign.SILENT, at_ms)
        assert liveness.unreachable(at_ms) == ({2: 5} if at_ms - T >= UNREACHABLE_MS else {})
    assert liveness.suspected == set()
    liveness.on_probed(2, 5, Sign.ANSWERED, T + 60_000)
    assert liveness.unreachable(T + 60_000) == {}


def test_one_late_answer_makes_nobody_unreachable() -> None:
    """This process may have stood still itself: then all its probes are late, once."""
    liveness = watching(2)
    liveness.on_probed(2, 5, Sign.SILENT, T + 60_000)
    assert liveness.unreachable(T + 60_000) == {}


def test_when_the_connection_is_lost_the_next_probe_comes_at_once_but_not_again_and_again() -> None:
    liveness = watching(2)
    liveness.pump(T)
    liveness.on_probed(2, 5, Sign.ANSWERED, T)
    liveness.on_probed(2, 5, Sign.LOST, T + 200)
    assert liveness.pump(T + 200) == [Probe(2, 5)]
    liveness.on_probed(2, 5, Sign.LOST, T + 201)
    assert liveness.next_ms() == T + 200 + AT_ONCE_MS, "whoever hangs up at once is not asked without end"
    liveness.pump(T + 250)
    liveness.on_probed(2, 5, Sign.LOST, T + 251)
    assert liveness.next_ms() == T + 251 + PROBE_MS
    assert liveness.unreachable(T + UNREACHABLE_MS) == {2: 5}


def test_another_incarnation_is_a_stranger() -> None:
    liveness = watching(2)
    refused_twice(liveness)
    liveness.on_brokers(there(1, 2, epoch=9), T + 1_000)
    assert liveness.suspected == set()
    assert not liveness.on_probed(2, 5, Sign.REFUSED, T + 2_000), "a late word of the one before"
    assert liveness.pump(T + 2_000) == [Probe(2, 9)]
    liveness.on_brokers(there(1), T + 3_000)
    assert liveness.peers == {}


def test_what_comes_and_goes_is_not_suspected_each_time() -> None:
    liveness = watching(2)
    assert refused_twice(liveness)
    liveness.on_probed(2, 5, Sign.ANSWERED, T + 1_000)
    assert not refused_twice(liveness, at_ms=T + 2_000)
    assert liveness.on_probed(2, 5, Sign.REFUSED, T + 1_000 + AGAIN_MS)


def test_one_that_others_reach_is_not_suspected_before_it_has_answered() -> None:
    liveness = watching(2)
    refused_twice(liveness)
    assert liveness.doubtful(T + DOUBT_MS) == []
    at_ms = T + REFUSED_APART_MS + DOUBT_MS
    assert liveness.doubtful(at_ms) == [2]
    assert liveness.trust(2, at_ms)
    assert liveness.suspected == set()
    assert not liveness.on_probed(2, 5, Sign.REFUSED, at_ms + 2 * AGAIN_MS)
    assert liveness.unreachable(at_ms) == {2: 5}, "which is told all the same"
    liveness.on_probed(2, 5, Sign.ANSWERED, at_ms + 2 * AGAIN_MS)
    assert refused_twice(liveness, at_ms=at_ms + 3 * AGAIN_MS)


def test_a_witness_answers_and_has_been_there_for_a_while() -> None:
    liveness = watching(2)
    assert not liveness.is_witness(2, T + DOUBT_MS - 1)
    assert liveness.is_witness(2, T + DOUBT_MS)
    liveness.on_probed(2, 5, Sign.SILENT, T + DOUBT_MS)
    assert not liveness.is_witness(2, T + DOUBT_MS)
    assert not liveness.is_witness(7, T + DOUBT_MS)
