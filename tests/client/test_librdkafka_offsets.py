"""Questions that librdkafka does not repeat: the command line does while a leader moves."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.client.librdkafka import partition_offsets
from ottla.client.librdkafka.errors import requests_within


class Broker:
    """Refuses as often as it is told to."""

    def __init__(self, code: int, refusals: int) -> None:
        self.code, self.refusals, self.asked = code, refusals, 0

    def get_watermark_offsets(self, _place: object, timeout: float) -> tuple[int, int]:
        assert timeout > 0
        self.asked += 1
        if self.asked <= self.refusals:
            raise KafkaException(KafkaError(self.code))
        return 3, 8


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_offsets, "AGAIN_S", 0.001)


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
def test_the_bounds_are_asked_for_again_while_the_leader_moves(code: int) -> None:
    broker = Broker(code, refusals=3)
    assert partition_offsets.watermarks(broker, "t", 0) == (3, 8)
    assert broker.asked == 4


def test_a_refusal_that_will_not_change_is_said_at_once() -> None:
    broker = Broker(KafkaError.TOPIC_AUTHORIZATION_FAILED, refusals=3)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        partition_offsets.watermarks(broker, "t", 0)
    assert broker.asked == 1


def test_patience_has_an_end() -> None:
    broker = Broker(KafkaError.NOT_LEADER_FOR_PARTITION, refusals=10_000)
    with requests_within(0.5), pytest.raises(KafkaException, match="NOT_LEADER"):  # at most 500 questions
        partition_offsets.watermarks(broker, "t", 0)
    assert 1 < broker.asked < 1_000
