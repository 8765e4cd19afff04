"""There are only as many series as an operator wants, and no counter ever goes back for that."""

import pytest
from tests.api.asking import BY_NAME, batch, create, produce, to
from tests.api.harness import Client, Machine
from tests.api.test_alter_configs import BROKER, SET, incremental
from tests.support.metrics import metrics_of, traffic_of

from ottla.base.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

SIZE = len(batch("a"))


def started(topics_max: int, *topics: str) -> tuple[Machine, Client]:
    machine = Machine({"ottla.metrics.topics.max": str(topics_max)})
    client = machine.client()
    for name in topics:
        create(client, name, 2)
    return machine, client


def write(client: Client, *topics: str) -> None:
    for name in topics:
        client.send(to(name, batch("a"), batch("a")), BY_NAME)


def messages(machine: Machine) -> dict[str, int]:
    """By topic; that of all of them under no name."""
    begin = "kafka_server_brokertopicmetrics_messagesin_total"
    return {
        name.removeprefix(begin).removeprefix('{topic="').removesuffix('"}'): int(value)
        for name, value in metrics_of(machine.broker).items()
        if name.startswith(begin)
    }


def set_config(client: Client, name: str, value: str) -> None:
    (result,) = client.send(incremental(BROKER, "", (name, SET, value))).responses
    assert result.error_code == ErrorCode.NONE, result


def test_the_first_topics_have_series_of_their_own_and_all_others_are_summed_up() -> None:
    machine, client = started(2, "a", "b", "c", "d")
    write(client, "a", "b", "c", "d", "d")
    assert messages(machine) == {"": 10, "a": 2, "b": 2, "(others)": 6}
    samples = metrics_of(machine.broker)
    assert samples["ottla_metrics_topics_left_out"] == 2
    assert samples['kafka_log_log_size{topic="a",partition="1"}'] == SIZE
    assert samples['kafka_log_log_size{topic="(others)",partition=""}'] == 6 * SIZE
    assert samples['kafka_log_log_numlogsegments{topic="(others)",partition=""}'] == 4
    assert not [name for name in samples if 'topic="c"' in name]


def test_a_topic_that_goes_takes_nothing_away_from_the_others_and_makes_room_for_a_new_one() -> None:
    machine, client = started(2, "a", "b", "c", "d")
    write(client, "a", "b", "c", "d")
    for name in ("a", "c"):
        client.send(DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000), 5)
    assert messages(machine) == {"": 8, "b": 2, "(others)": 4}
    create(client, "e")
    produce(client, "e", batch("x"))
    write(client, "d")
    assert messages(machine) == {"": 11, "b": 2, "e": 1, "(others)": 6}, "d stays where it was"


def test_with_a_higher_limit_topics_get_series_that_begin_at_zero() -> None:
    machine, client = started(1, "a", "b", "c")
    write(client, "a", "b", "c")
    set_config(client, "ottla.metrics.topics.max", "2")
    assert messages(machine) == {"": 6, "a": 2, "b": 0, "(others)": 4}
    write(client, "a", "b", "c")
    assert messages(machine) == {"": 12, "a": 4, "b": 2, "(others)": 6}


@pytest.mark.parametrize("topics_max", [0, 1])
def test_with_a_lower_limit_series_go_and_no_sum_does(topics_max: int) -> None:
    machine, client = started(2, "a", "b", "c")
    write(client, "a", "b", "c")
    set_config(client, "ottla.metrics.topics.max", str(topics_max))
    left = {"a": 2} if topics_max else {}
    assert messages(machine) == {"": 6, **left, "(others)": 2}
    write(client, "b", "c")
    assert messages(machine) == {"": 10, **left, "(others)": 6}


def test_under_the_limit_there_are_no_others() -> None:
    machine, client = started(3, "a", "b", "c")
    write(client, "a")
    assert messages(machine) == {"": 2, "a": 2, "b": 0, "c": 0}
    assert metrics_of(machine.broker)["ottla_metrics_topics_left_out"] == 0


def test_series_of_partitions_can_be_switched_off_and_on() -> None:
    machine, client = started(10, "a")
    write(client, "a")
    assert [name for name in metrics_of(machine.broker) if "partition=" in name]
    set_config(client, "ottla.metrics.partitions.enable", "false")
    assert not [name for name in metrics_of(machine.broker) if "partition=" in name]
    assert traffic_of(machine.broker, "a")["messagesin"] == 2
    set_config(client, "ottla.metrics.partitions.enable", "true")
    assert metrics_of(machine.broker)['kafka_log_log_logendoffset{topic="a",partition="1"}'] == 1
