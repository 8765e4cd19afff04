"""The part of `make fuzz` that goes to a real broker, over its socket, beside an honest client."""

import gc
import random
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tests.hostile.arena import TOPICS, Report
from tests.hostile.generate import PAIRS, Generator, Pool
from tests.hostile.healthy import Healthy
from tests.hostile.mutate import Case, batches, mutants
from tests.hostile.probe import Probe
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import Wire

from ottla.api.table import TABLE
from ottla.wire.codec import decode
from ottla.wire.header import decode_request_header
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.primitives import ProtocolError

RSS_BYTES_MAX = 1 << 30
PER_SAMPLE = 40


def run(seed: int, count: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder))
        broker.start()
        try:
            with Healthy(broker):
                report = attack(broker, seed, count)
            gc.collect()  # the client goes before its broker does, and has nothing to complain about
            if broker.rss_bytes() > RSS_BYTES_MAX:
                report.found.append(f"the broker holds {broker.rss_bytes() >> 20} MB")
            if broker.stop() != 0:
                report.found.append("the broker did not stop cleanly")
            broker.start()
            with Healthy(broker):
                pass
            gc.collect()
            report.found += [f"the broker's log: {bug}" for bug in broker.bugs()]
        finally:
            broker.kill()
    return report


def attack(broker: BrokerProcess, seed: int, count: int) -> Report:
    report, chance = Report("broker"), random.Random(f"broker {seed}")
    pool = prepare(broker, chance)
    probe = Probe(broker.port)
    try:
        for case in islice(cases(chance, pool), count):
            report.cases += 1
            report.outcomes[probe.send(case.frame).name.lower()] += 1
            if not broker.is_running:
                report.found.append(f"{case.what} ended the broker: {case.frame.hex()}")
                break
    finally:
        probe.close()
    return report


def prepare(broker: BrokerProcess, chance: random.Random) -> Pool:
    with Wire(broker.port) as wire:
        wanted = [CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in TOPICS]
        wire.call(CreateTopicsRequest(topics=wanted), 5)
        asked = [MetadataRequestTopic(name=name) for name in TOPICS]
        ids = [topic.topic_id for topic in wire.call(MetadataRequest(topics=asked), 12).topics]
    records = [b"", *(case.frame for case in islice(batches(chance), 0, 400, 40))]
    return Pool(topic_ids=[*Pool().topic_ids, *ids], records=records)


def cases(chance: random.Random, pool: Pool) -> Iterator[Case]:
    """A few lies about each of many requests."""
    while True:
        for key, version in chance.sample(PAIRS, len(PAIRS)):
            sample = Generator(chance, pool).sample(key, version)
            made = list(mutants(sample, chance))
            for case in chance.sample(made, min(len(made), PER_SAMPLE)):
                if not is_costly(case.frame):
                    yield Case(f"{TABLE[key].title} v{version}: {case.what}", case.frame)


def is_costly(payload: bytes) -> bool:
    """Whether it is a legal request for very many partitions: they must be made, which takes its time."""
    cls = {b"\x00\x13": CreateTopicsRequest, b"\x00\x25": CreatePartitionsRequest}.get(payload[:2])
    if cls is None:
        return False
    try:
        header, at = decode_request_header(memoryview(payload))
        request = decode(cls, header.api_version, memoryview(payload), at)
    except (ProtocolError, ValueError):
        return False
    counts = [getattr(topic, "num_partitions", 0) + getattr(topic, "count", 0) for topic in request.topics]
    return max(counts, default=0) > 200
