"""The short form of `make fuzz`: every API in every version, malformed in every way we can think of.

The same cases in every run, unless `OTTLA_FUZZ_SEED` says otherwise; `make fuzz` is the long form.
"""

import json
import os
import random
from itertools import islice
from pathlib import Path

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader
from tests.hostile import arena as arenas
from tests.hostile import fuzz, fuzz_decoders
from tests.hostile.arena import Arena, Found
from tests.hostile.decoders import all_examples, any_decoder
from tests.hostile.fuzz_broker import attack
from tests.hostile.fuzz_decoders import timed
from tests.hostile.generate import PAIRS, Generator, Kind, Pool, uvarint
from tests.hostile.healthy import Healthy
from tests.hostile.mutate import SMALL_FRAME, batches, mutants, mutated
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import frame_of, produce_request

from ottla.api import metadata
from ottla.wire.header import decode_request_header
from ottla.wire.messages.metadata import MetadataRequest

SEED = int(os.environ.get("OTTLA_FUZZ_SEED", str(fuzz.SEED)))
REQUESTS, BATCHES, FRAMES, INPUTS = 8_000, 4_000, 1_500, 8_000
GROWTH_BYTES_MAX = 50 << 20
CPU_S_MAX = 1.0


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests share the processor with these: the short form allows a case more than `make fuzz`."""
    monkeypatch.setattr(arenas, "STEP_S_MAX", CPU_S_MAX)
    monkeypatch.setattr(fuzz_decoders, "CPU_S_MAX", CPU_S_MAX)


def test_requests_of_every_api_and_version_with_one_lie_each_are_answered_or_closed() -> None:
    report = fuzz.run_chunk(("small requests", SEED, REQUESTS))
    assert report.found == []
    assert report.cases == REQUESTS
    assert report.outcomes["answered"] > REQUESTS // 10
    assert report.outcomes["closed"] > REQUESTS // 10


def test_batches_with_one_byte_changed_are_refused_or_can_be_read() -> None:
    report = fuzz.run_chunk(("batches", SEED, BATCHES))
    assert report.found == []
    assert report.outcomes == {"answered": BATCHES}


def test_a_real_broker_serves_an_honest_client_beside_it(
    broker: BrokerProcess, healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    attack(broker, SEED, 100)  # what is loaded late is loaded
    before = broker.rss_bytes()
    report = attack(broker, SEED + 1, FRAMES)
    assert (report.found, report.cases) == ([], FRAMES)
    assert broker.rss_bytes() - before < GROWTH_BYTES_MAX


def test_decoders_raise_what_they_declare() -> None:
    chance = random.Random(SEED)
    decode, sound = timed(any_decoder), all_examples(chance)
    for data in sound:
        decode(data)
    for _ in range(INPUTS):
        example = chance.choice(sound)
        decode(example[:1] + mutated(example[1:], chance))


# Whether all that is worth anything


def test_what_is_generated_is_what_kio_reads() -> None:
    generator = Generator(random.Random(SEED), Pool(records=[b"", b"records"]))
    for key, version in PAIRS:
        for _ in range(5):
            frame = generator.sample(key, version).frame()
            header, at = decode_request_header(memoryview(frame))
            assert (header.api_key, header.api_version) == (key, version)
            _, size = entity_reader(load_request_schema(key, version))(frame, at)
            assert at + size == len(frame)


def test_every_length_and_every_count_is_lied_about() -> None:
    sample = Generator(random.Random(SEED), Pool()).sample(19, 7)
    cases = list(mutants(sample, random.Random(SEED)))
    whats = [case.what for case in cases]
    for at, part in enumerate(sample.parts):
        if part.kind in (Kind.COUNT_COMPACT, Kind.LENGTH_COMPACT):
            for lie in (0, -1, -2, 2**31 - 1):
                assert f"part {at}, {part.kind.name.lower()}: {lie}" in whats
    small = Generator(random.Random(SEED), Pool()).sample(18, 0)
    cuts = [case for case in mutants(small, random.Random(SEED)) if case.what.startswith("cut at")]
    assert len(small.frame()) == len(cuts) <= SMALL_FRAME
    assert uvarint(300) == b"\xac\x02"


def test_batches_are_changed_in_every_byte() -> None:
    cases = list(batches(random.Random(SEED)))
    sound = next(case.frame for case in cases if case.what == "none: sound")
    changed = {case.what for case in cases if case.what.startswith("none: byte")}
    assert all(any(what.startswith(f"none: byte {at} ") for what in changed) for at in range(len(sound)))


def test_a_bug_is_found_written_down_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "FOLDER", tmp_path / "found")
    frame = frame_of(MetadataRequest(topics=None), 9)[4:]
    assert fuzz.replay([frame]) is None
    monkeypatch.setattr(metadata, "metadata", None)
    from ottla.api import dispatch

    monkeypatch.setattr(dispatch, "_loaded", {})
    monkeypatch.setattr(arenas.Arena, "check_health", lambda _self: None)
    with pytest.raises(Found, match="NoneType"):
        Arena().take(frame)
    before = [frame_of(produce_request("fuzz", b""), 9)[4:]] * 30
    path = fuzz.save("requests-1", "what", "why", [*before, frame])
    assert path is not None
    case = json.loads(path.read_text())
    assert case["frames"] == [frame.hex()], "the fewest frames that show it"
    assert "NoneType" in (fuzz.replay([frame]) or "")


@pytest.mark.parametrize("what", ["slow", "large"])
def test_a_case_that_takes_too_much_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "STEP_S_MAX" if what == "slow" else "GROWTH_BYTES_MAX", -1)
    arena = Arena()
    try:
        with pytest.raises(Found, match="processor time" if what == "slow" else "memory grew"):
            arena.take(frame_of(MetadataRequest(topics=None), 9)[4:])
    finally:
        arena.close()


def test_the_same_seed_gives_the_same_cases() -> None:
    def frames() -> list[bytes]:
        arena = Arena()
        arena.close()
        return [case.frame for case in islice(fuzz.requests(random.Random(SEED), arena), 500)]

    assert frames() == frames()
