"""The configuration of transactions: Kafka's names and defaults."""

import pytest

from ottla.base.config import ConfigError, load, rows
from ottla.broker.config import ALONE, cluster_defaults
from ottla.txn.config import TransactionConfig


def test_names_and_defaults_are_kafkas() -> None:
    config = load(TransactionConfig, {})
    assert {row.name: getattr(config, row.attribute) for row in rows(TransactionConfig)} == {
        "transaction.max.timeout.ms": 900_000,
        "transactional.id.expiration.ms": 604_800_000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
        "ottla.transactions.max.bytes": 160 << 20,
        "transaction.state.log.num.partitions": 50,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        "transaction.state.log.segment.bytes": 100 << 20,
        "transaction.partition.verification.enable": True,
        "add.partitions.to.txn.retry.backoff.ms": 20,
        "add.partitions.to.txn.retry.backoff.max.ms": 100,
        "transaction.two.phase.commit.enable": False,
    }


def test_two_phase_commit_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be false: there is no two-phase commit"):
        load(TransactionConfig, {"transaction.two.phase.commit.enable": "true"})
    load(TransactionConfig, {"transaction.two.phase.commit.enable": "false"})


@pytest.mark.parametrize(
    "key", [row.name for row in rows(TransactionConfig) if isinstance(row.default, int) and row.default > 1]
)
def test_a_number_must_be_positive(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load(TransactionConfig, {key: "0"})


@pytest.mark.parametrize(("brokers", "factor", "isr"), [(1, 1, 1), (2, 2, 2), (5, 3, 2)])
def test_brokers_on_one_machine_have_as_many_replicas_as_they_can(
    brokers: int, factor: int, isr: int
) -> None:
    config = load(TransactionConfig, cluster_defaults(brokers))
    assert (config.state_replication_factor, config.state_isr_min) == (factor, isr)


def test_a_broker_that_is_alone_has_one_replica() -> None:
    config = load(TransactionConfig, ALONE)
    assert (config.state_replication_factor, config.state_isr_min) == (1, 1)
