"""W6: fan-out. One topic, written once, is read from its beginning by 1, 5 and 20 readers at the same time,
each at its own pace, as so many groups would: one partition, records of 1 KiB in batches of 64 KiB."""

from bench.common_loads import KEPT, fill, read_all
from bench.report import Column, Outcome, with_ratio
from bench.servers import Peer
from bench.workload import Contender, Scale, take_turns, up

COLUMNS = (
    Column("mb_per_s", "MB/s"),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("mb_per_cpu_s", "MB / CPU-s"),
    Column("client_cpu_s", "client CPU-s", 2),
    Column("spread", "spread %", 0, 100),
    Column("of_apache", "x Apache", 2),
)
TOPIC = "fan-out"
RECORD_BYTES, BATCH_BYTES = 1024, 64 << 10
READERS = (1, 5, 20)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W6", "fan-out: one partition read from its beginning by many at once", COLUMNS)
    with up(brokers, outcome, scale) as running:
        ends = {}
        for peer in running:
            scale.say(f"W6: filling {peer.name}")
            peer.create_topic(TOPIC, KEPT)
            records = scale.bulk_records[RECORD_BYTES] // 4
            ends[peer.name] = fill(peer, TOPIC, records, RECORD_BYTES, BATCH_BYTES)
            read_all(peer, TOPIC, ends[peer.name], max(READERS))
        for readers in READERS:
            contenders = [
                Contender(
                    peer.name,
                    lambda peer=peer, readers=readers: read_all(peer, TOPIC, ends[peer.name], readers),  # type: ignore[misc]
                )
                for peer in running
            ]
            case = f"{readers} reader{'s' * (readers > 1)}"
            take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)
    with_ratio(outcome, "mb_per_s")
    return outcome
