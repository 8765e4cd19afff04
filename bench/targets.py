"""The promises, declared once. A workload fills in a figure; this module says whether it is kept."""

from dataclasses import dataclass
from enum import StrEnum


class Sense(StrEnum):
    AT_LEAST = ">="
    AT_MOST = "<="
    BELOW = "<"


@dataclass(frozen=True)
class Target:
    workload: str
    what: str
    sense: Sense
    limit: float
    unit: str

    def kept(self, figure: float) -> bool:
        match self.sense:
            case Sense.AT_LEAST:
                return figure >= self.limit
            case Sense.AT_MOST:
                return figure <= self.limit
            case Sense.BELOW:
                return figure < self.limit


@dataclass(frozen=True)
class Verdict:
    """`figure` is None when the run could not measure it; that is neither kept nor missed."""

    target: Target
    figure: float | None
    note: str = ""

    @property
    def word(self) -> str:
        if self.figure is None:
            return "not measured"
        return "pass" if self.target.kept(self.figure) else "FAIL"


RECORDS_PER_CPU_SECOND = Target(
    "W1", "records per broker CPU-second (100 B, 1 MiB batches)", Sense.AT_LEAST, 2.5, "M rec/CPU-s"
)
SHARE_OF_CEILING = Target("W1", "end-to-end produce rate against the mock ceiling", Sense.AT_LEAST, 90.0, "%")
SINGLE_P50_RATIO = Target("W2", "single-message produce p50 against Apache Kafka", Sense.AT_MOST, 1.2, "x")
CATCH_UP_RATIO = Target("W5", "catching up, MB/s against Apache Kafka", Sense.AT_LEAST, 1.0, "x")
COLD_START = Target("W11", "cold start to first acknowledged record", Sense.BELOW, 300.0, "ms")
IDLE_MEMORY = Target("W11", "idle memory (RSS)", Sense.BELOW, 60.0, "MB")
FAILOVER = Target(
    "W10F", "writes flow after kill -9 of the leader, beyond the session", Sense.AT_MOST, 2.0, "s"
)

STALLS = Target("WL", "stalls of more than 50 ms by the broker's own meter", Sense.AT_MOST, 0.0, "")
COLD_READER = Target(
    "WL", "produce p99 beside a reader of old records, against before", Sense.AT_MOST, 3.0, "x"
)
LINES_AGAINST_KCAT = Target("WC", "two million lines against kcat", Sense.AT_MOST, 2.0, "x")
COMMAND_TIME = Target("WC", "a command from a cold shell", Sense.BELOW, 0.3, "s")
COMPACTION_RATIO = Target("W9", "compaction rate against Apache Kafka", Sense.AT_LEAST, 1.0, "x")
COMPACTION_P99_RATIO = Target("W9", "produce p99 while compacting against before", Sense.AT_MOST, 2.0, "x")
RECOVERY_RATIO = Target("W10", "recovery after kill -9 against the limit formula", Sense.AT_MOST, 2.0, "x")

TRANSACTION_RATIO = Target("WT", "transactions a second against Apache Kafka", Sense.AT_LEAST, 1.0, "x")

TLS_RATIO = Target("WS", "rate over TLS against Apache Kafka over TLS", Sense.AT_LEAST, 1.0, "x")
ACL_CHECK = Target("WS", "an ACL check for one topic, once cached", Sense.BELOW, 2.0, "us")

SPARK_READ = Target("W12", "Spark rows read per core (100 B)", Sense.AT_LEAST, 1.0, "M rows/s")
SPARK_READ_RATIO = Target("W12", "Spark read rate against the official connector", Sense.AT_LEAST, 1.0, "x")
SPARK_WRITE = Target("W12", "Spark rows written per core (100 B)", Sense.AT_LEAST, 0.5, "M rows/s")
SPARK_EXACTLY_ONCE = Target(
    "W12E", "Spark write rate exactly once against at least once", Sense.AT_LEAST, 0.9, "x"
)
SPARK_MICRO_BATCH = Target("W12", "micro-batch over 64 quiet partitions", Sense.BELOW, 300.0, "ms")

TARGETS = (
    RECORDS_PER_CPU_SECOND,
    SHARE_OF_CEILING,
    SINGLE_P50_RATIO,
    CATCH_UP_RATIO,
    COMPACTION_RATIO,
    COMPACTION_P99_RATIO,
    RECOVERY_RATIO,
    FAILOVER,
    STALLS,
    COLD_READER,
    COLD_START,
    IDLE_MEMORY,
    TRANSACTION_RATIO,
    TLS_RATIO,
    ACL_CHECK,
    SPARK_READ,
    SPARK_READ_RATIO,
    SPARK_WRITE,
    SPARK_EXACTLY_ONCE,
    SPARK_MICRO_BATCH,
)
