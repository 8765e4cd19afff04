"""W9: how fast a log is compacted, and what a producer beside it feels of that.

A topic of ordinary policy is filled with records of 1 KiB under random keys, then made a compacted one. The
time runs from that change until the broker's `cleaner-offset-checkpoint` says that all closed segments are
clean, so it holds the cleaner's start as well; both brokers look for work every 100 ms. Meanwhile one raw
producer sends single messages to another topic, as it did before for comparison.
"""

import itertools
import os
import random
import threading
import time

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.common_loads import send_singly
from bench.report import Column, Figures, Outcome, ratio
from bench.servers import Peer, PeerError
from bench.targets import COMPACTION_P99_RATIO, COMPACTION_RATIO, Verdict
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("mb_per_s", "MB/s", 1),
    Column("seconds", "seconds", 1),
    Column("log_mb", "log MB"),
    Column("left_mb", "left MB"),
    Column("cpu_s", "CPU-s", 1),
    Column("p99_before_us", "p99 before us"),
    Column("p99_us", "p99 meanwhile us"),
    Column("p99_ratio", "ratio", 2),
)
CASE = "1 KiB, as many keys as records"
RECORD_BYTES = 1024
KEY_BYTES = 16
SEGMENT_BYTES = 128 << 20
LOAD_S = 3.0
WAIT_S = 300.0


def alter(peer: Peer, kind: ResourceType, name: str, configs: dict[str, str]) -> None:
    resource = ConfigResource(kind, name)
    for key, value in configs.items():
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    try:
        admin.incremental_alter_configs([resource])[resource].result(20)
    except KafkaException as error:
        raise PeerError(f"{peer.name} refused {configs}: {error.args[0].str()}") from error


def fill(peer: Peer, topic: str, records: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "batch.size": 65_536,
            "linger.ms": 50,
            "queue.buffering.max.kbytes": 1 << 18,
        }
    )
    chosen, noise = random.Random(9), os.urandom(1 << 20)
    for _ in range(records):
        key = b"%0*d" % (KEY_BYTES, chosen.randrange(records))
        at = chosen.randrange(len(noise) - RECORD_BYTES)
        while True:
            try:
                producer.produce(topic, noise[at : at + RECORD_BYTES - KEY_BYTES], key)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(LOAD_TIMEOUT_S):
        raise PeerError(f"{peer.name} did not take all records")


def segment_sizes(folder: str) -> dict[int, int]:
    """Size of each segment by its base offset."""
    names = [name for name in os.listdir(folder) if name.endswith(".log")]
    return {int(name[:20]): os.path.getsize(os.path.join(folder, name)) for name in names}


def cleaned_to(data: str, topic: str) -> int:
    """The offset below which a topic of one partition is clean, as the broker has it on its disk."""
    try:
        with open(os.path.join(data, "cleaner-offset-checkpoint")) as file:
            found = [line.split() for line in file]
    except FileNotFoundError:
        return 0
    return next((int(line[2]) for line in found if len(line) == 3 and line[0] == topic), 0)


def _load(peer: Peer) -> Figures:
    return send_singly("single-raw", peer, "beside", 100, 1, LOAD_S)


def _measure(peer: Peer, topic: str, records: int) -> Figures:
    data = os.path.join(peer.folder, "data")
    peer.create_topic(topic, {"segment.bytes": str(SEGMENT_BYTES)})
    fill(peer, topic, records)
    before = _load(peer)
    folder = os.path.join(data, f"{topic}-0")
    sizes = segment_sizes(folder)
    active = max(sizes)
    closed = sum(size for base, size in sizes.items() if base != active)
    during: list[Figures] = []
    loader = threading.Thread(target=lambda: during.append(_load(peer)))
    loader.start()
    cpu, started = peer.cpu_seconds(), time.perf_counter()
    alter(peer, ResourceType.TOPIC, topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    while cleaned_to(data, topic) < active:
        peer.check_alive()
        if time.perf_counter() - started > WAIT_S:
            raise PeerError(f"{peer.name} did not clean in {WAIT_S:.0f} s")
        time.sleep(0.01)
    seconds = time.perf_counter() - started
    cpu = peer.cpu_seconds() - cpu
    loader.join()
    left = sum(size for base, size in segment_sizes(folder).items() if base < active)
    peer.delete_topic(topic)
    meanwhile = during[0] if during else {}
    return {
        "mb_per_s": closed / seconds / 1e6,
        "seconds": seconds,
        "log_mb": closed / 1e6,
        "left_mb": left / 1e6,
        "cpu_s": cpu,
        "p99_before_us": before["p99_us"],
        "p99_us": meanwhile.get("p99_us"),
        "p99_ratio": ratio(meanwhile.get("p99_us"), before["p99_us"]),
    }


def _contender(peer: Peer, records: int) -> Contender:
    turns = itertools.count()
    return Contender(peer.name, lambda: _measure(peer, f"table{next(turns)}", records))


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    records = scale.bulk_records[RECORD_BYTES]
    outcome = Outcome("W9", f"compaction of {records:,} records of {RECORD_BYTES} B", COLUMNS)
    with up(brokers, outcome, scale) as running:
        for peer in running:
            alter(peer, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
            peer.create_topic("beside")
        contenders = [_contender(peer, records) for peer in running]
        take_turns(CASE, contenders, outcome, scale.bulk_rounds, scale.say)
    ours, theirs = (outcome.figure(CASE, name, "mb_per_s") for name in ("Ottla", "Apache"))
    outcome.verdicts = [
        Verdict(COMPACTION_RATIO, ours / theirs if ours and theirs else None),
        Verdict(COMPACTION_P99_RATIO, outcome.figure(CASE, "Ottla", "p99_ratio")),
    ]
    return outcome
