"""Every API in every version, malformed in every way we can think of, while a healthy client goes on.

A run is repeated with `OTTLA_FUZZ_SEED`, and made longer with `OTTLA_FUZZ_SECONDS`.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tests.clients.harness import BrokerProcess
from tests.clients.wire_client import Wire, all_requests, frame_of, response_class
from tests.hostile.generate import instance, mutated
from tests.hostile.healthy import Healthy
from tests.hostile.probe import Outcome, Probe

from ottla.wire.codec import decode
from ottla.wire.header import decode_request_header, decode_response_header, response_is_flexible
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.primitives import ProtocolError

SECONDS = float(os.environ.get("OTTLA_FUZZ_SECONDS", "24"))
SEED = int(os.environ.get("OTTLA_FUZZ_SEED", random.randrange(1 << 30)))
GROWTH_BYTES_MAX = 50 << 20
PATIENCE_S = 30.0  # where nothing may be held back

pytestmark = pytest.mark.timeout(120 + 2 * SECONDS)


@pytest.fixture(scope="module")
def served(broker: BrokerProcess) -> list[tuple[type, int]]:
    """Every request class with every version the broker says it speaks."""
    with Wire(broker.port) as wire:
        keys = {one.api_key for one in wire.call(ApiVersionsRequest(), 0).api_keys}
    classes = sorted((cls for cls in all_requests() if cls.API_KEY in keys), key=lambda cls: cls.API_KEY)
    assert len(classes) == len(keys)
    return [(cls, version) for cls in classes for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]


def payload_of(cls: type, version: int, chance: random.Random) -> bytes:
    return frame_of(instance(cls, version, chance), version, chance.randrange(1 << 30))[4:]


def test_requests_that_are_legal_and_senseless_are_answered(
    broker: BrokerProcess, served: list[tuple[type, int]], healthy: Healthy
) -> None:
    """An answer that can be decoded, or none where none is due. Only acks=0 may close: no other sign."""
    chance = random.Random(SEED)
    probe, patient = Probe(broker.port, patience_s=1.0), Probe(broker.port, PATIENCE_S)
    end = time.monotonic() + SECONDS / 4
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        for cls, version in served:
            request = instance(cls, version, chance)
            is_silent = getattr(request, "acks", None) == 0
            outcome = (patient if is_silent else probe).send(frame_of(request, version)[4:])
            where = f"{cls.__name__} v{version}, seed {SEED}: {request}"
            if is_silent:
                assert outcome in {Outcome.SILENT, Outcome.CLOSED}, where
                continue
            assert outcome in {Outcome.ANSWERED, Outcome.WAITING}, f"{outcome}: {where}"
            if outcome is Outcome.ANSWERED:
                frame = memoryview(probe.last_answer)
                _, at = decode_response_header(frame, response_is_flexible(cls.API_KEY, version))
                decode(response_class(cls), version, frame, at)
            if time.monotonic() > end and rounds > 1:
                break
    probe.close()
    patient.close()


def test_a_request_cut_short_at_any_byte_closes_the_connection(
    broker: BrokerProcess, served: list[tuple[type, int]], healthy: Healthy
) -> None:
    chance = random.Random(SEED + 1)
    probe = Probe(broker.port, PATIENCE_S)
    end = time.monotonic() + SECONDS / 4
    for number, (cls, version) in enumerate(chance.sample(served, len(served))):
        payload = payload_of(cls, version, chance)
        places: Sequence[int] = range(len(payload))
        if number % 5:
            places = chance.sample(places, min(len(payload), 12))
        for at in places:
            where = f"{cls.__name__} v{version} cut at {at}, seed {SEED}: {payload!r}"
            assert probe.send(payload[:at]) is Outcome.CLOSED, where
        if time.monotonic() > end:
            break
    probe.close()


def is_costly(payload: bytes) -> bool:
    """Whether it is a legal request for very many partitions: they must be made, which takes its time."""
    cls = {b"\x00\x13": CreateTopicsRequest, b"\x00\x25": CreatePartitionsRequest}.get(payload[:2])
    if cls is None:
        return False
    try:
        header, at = decode_request_header(memoryview(payload))
        request: Any = decode(cls, header.api_version, memoryview(payload), at)
    except (ProtocolError, ValueError):
        return False
    return any(getattr(one, "num_partitions", 0) + getattr(one, "count", 0) > 200 for one in request.topics)


def test_mutated_requests_cost_at_most_their_own_connection(
    broker: BrokerProcess,
    served: list[tuple[type, int]],
    healthy: Healthy,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chance = random.Random(SEED + 2)
    probe = Probe(broker.port)
    for cls, version in served:
        probe.send(payload_of(cls, version, chance))
    before = broker.rss_bytes()
    outcomes: Counter[Outcome] = Counter()
    end = time.monotonic() + SECONDS / 2
    while time.monotonic() < end:
        cls, version = chance.choice(served)
        match chance.randrange(12):
            case 0:
                payload = chance.randbytes(chance.randrange(200))
            case 1:
                key = chance.choice((-1, 4, 5, 6, 7, 58, 99, 32767))
                payload = key.to_bytes(2, "big", signed=True) + payload_of(cls, version, chance)[2:]
            case 2:
                wrong = chance.choice((-1, 30, 99, 32767))
                sound = payload_of(cls, version, chance)
                payload = sound[:2] + wrong.to_bytes(2, "big", signed=True) + sound[4:]
            case _:
                payload = mutated(payload_of(cls, version, chance), chance)
        if is_costly(payload):
            continue
        outcomes[probe.send(payload)] += 1
        assert broker.is_alive(), f"seed {SEED}, {payload!r}"
    probe.close()
    grown = broker.rss_bytes() - before
    with capsys.disabled():
        counts = ", ".join(f"{count} {outcome.name.lower()}" for outcome, count in outcomes.items())
        print(f"\nfuzz: seed {SEED}, {outcomes.total()} frames ({counts}), memory grew {grown / 1e6:.1f} MB")
    assert grown < GROWTH_BYTES_MAX
