"""The configuration of transactions and of the topic they are kept in.

One row per key, with Kafka's names and defaults. transaction.two.phase.commit.enable is there to be refused:
there is no two-phase commit (KIP-939), and who asks for it would rely on it.

Left out: transaction.state.log.load.buffer.size (there is no load buffer).
"""

from dataclasses import dataclass

from ottla.base.config import ConfigType, at_least, key


def _no_two_phase_commit(value: bool) -> str | None:
    return "must be false: there is no two-phase commit (KIP-939)" if value else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    timeout_ms_max: int = key(
        "transaction.max.timeout.ms", 900_000,
        "The longest time a producer may ask for to end a transaction; it is aborted after that.",
        check=at_least(1),
    )  # fmt: skip
    id_expiration_ms: int = key(
        "transactional.id.expiration.ms", 7 * 24 * 3_600_000,
        "Forget a transactional id this long after its last transaction.",
        check=at_least(1),
    )  # fmt: skip
    abort_interval_ms: int = key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000,
        "Look for transactions whose time is up this often.",
        check=at_least(1),
    )  # fmt: skip
    expiration_interval_ms: int = key(
        "transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000,
        "Look for transactional ids to forget this often.",
        check=at_least(1),
    )  # fmt: skip
    memory_bytes_max: int = key(
        "ottla.transactions.max.bytes", 160 << 20,
        "Memory for all transactional ids of this broker; new ones are refused at three quarters of it.",
        type=ConfigType.LONG, check=at_least(1 << 20),
    )  # fmt: skip
    state_partitions: int = key(
        "transaction.state.log.num.partitions", 50,
        "The number of partitions of __transaction_state when it is created; never change it after.",
        check=at_least(1),
    )  # fmt: skip
    state_replication_factor: int = key(
        "transaction.state.log.replication.factor", 3,
        "The replication factor of __transaction_state when it is created.",
        type=ConfigType.SHORT, check=at_least(1),
    )  # fmt: skip
    state_isr_min: int = key(
        "transaction.state.log.min.isr", 2,
        "The min.insync.replicas of __transaction_state when it is created.",
        check=at_least(1),
    )  # fmt: skip
    state_segment_bytes: int = key(
        "transaction.state.log.segment.bytes", 100 << 20,
        "The segment size of __transaction_state; small segments are compacted and loaded sooner.",
        check=at_least(1),
    )  # fmt: skip
    partition_verification_enable: bool = key(
        "transaction.partition.verification.enable", True,
        "Ask the coordinator whether a partition takes part in a transaction before the first records of it "
        "are appended there.",
        dynamic=True,
    )  # fmt: skip
    add_retry_ms: int = key(
        "add.partitions.to.txn.retry.backoff.ms", 20,
        "Try again after this time to add a partition to a transaction, while the one before is completed.",
        check=at_least(1),
    )  # fmt: skip
    add_retry_ms_max: int = key(
        "add.partitions.to.txn.retry.backoff.max.ms", 100,
        "How long that is tried before the producer is told to try again itself.",
        check=at_least(1),
    )  # fmt: skip
    two_phase_commit_enable: bool = key(
        "transaction.two.phase.commit.enable", False, "There is no two-phase commit: only false is allowed.",
        check=_no_two_phase_commit,
    )  # fmt: skip
