"""A broker that stops, or is stopped, and starts again on the same disk and keeper."""

import pytest
from tests.api.asking import (
    BY_NAME,
    batch,
    create,
    fetch,
    fetch_of,
    idempotent,
    lead,
    produce,
    records,
    to,
    values,
)
from tests.api.harness import Disk, Machine, lone_tree
from tests.api.test_alter_configs import TOPIC, set_configs
from tests.api.test_fetch import log_of
from tests.log.simdisk import Keep, page_cache, power_loss

from ottla.base.errors import ErrorCode
from ottla.broker.effects import SyncLog
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest


def filled(**configs: str) -> Machine:
    machine = Machine()
    client = machine.client()
    create(client, "t", partitions=2, **configs)
    produce(client, "t", idempotent(0, "a", "b"))
    produce(client, "t", batch("c"))
    return machine


def again(machine: Machine, how: str) -> None:
    if how == "clean":
        machine.restart()
    else:
        machine.crash(page_cache)


@pytest.mark.parametrize("how", ["clean", "killed"])
def test_topics_configs_offsets_and_producers_are_there_again(how: str) -> None:
    machine = filled(retention_ms="-1", segment_bytes="200")
    topic_id = machine.broker.image.topics["t"].id
    again(machine, how)
    client = machine.client()
    (topic,) = client.send(MetadataRequest(topics=None)).topics
    assert (topic.name, topic.topic_id, len(topic.partitions)) == ("t", topic_id, 2)
    assert log_of(machine).config.retention_ms == -1
    assert [record.offset for record in records(fetch(client, "t"))] == [0, 1, 2]
    assert values(fetch(client, "t")) == ["a", "b", "c"]
    assert produce(client, "t", idempotent(0, "a", "b")).base_offset == 0, "a duplicate is still known"
    assert produce(client, "t", idempotent(2, "d")).base_offset == 3
    assert produce(client, "t", idempotent(9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_clean_stop_needs_no_repair_and_no_new_epoch() -> None:
    machine = filled()
    machine.restart()
    assert machine.reports == []
    assert machine.broker.partitions.find("t", 0).leader_epoch == 0


def test_after_a_crash_the_broker_leads_in_a_new_epoch() -> None:
    machine = filled()
    machine.crash()
    assert machine.broker.partitions.find("t", 0).leader_epoch == 1
    produce(machine.client(), "t", batch("d"))
    machine.restart()
    assert machine.broker.partitions.find("t", 0).leader_epoch == 1


def test_many_restarts_lose_nothing() -> None:
    machine = filled()
    for number in range(4):
        again(machine, "clean" if number % 2 else "killed")
        produce(machine.client(), "t", batch(f"{number}"))
    assert values(fetch(machine.client(), "t")) == ["a", "b", "c", "0", "1", "2", "3"]


@pytest.mark.parametrize("keep", [page_cache, power_loss])
def test_what_was_acknowledged_with_flush_messages_1_survives_anything(keep: Keep) -> None:
    machine = filled(flush_messages="1")
    machine.hold(SyncLog)
    pending = machine.client().ask(to("t", batch("not synced")), BY_NAME)
    assert pending.answer is None
    machine.crash(keep)
    kept = values(fetch(machine.client(), "t"))
    assert kept[:3] == ["a", "b", "c"]
    assert kept == ["a", "b", "c", "not synced"][: len(kept)]
    assert (len(kept) == 4) == (keep is page_cache)


def test_a_power_loss_without_flushing_leaves_a_prefix_and_a_broker_that_works() -> None:
    machine = filled()
    machine.crash(power_loss)
    client = machine.client()
    kept = values(fetch(client, "t"))
    assert kept == ["a", "b", "c"][: len(kept)]
    answer = produce(client, "t", batch("next"))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, len(kept))


def test_a_torn_write_is_cut_off_and_reported() -> None:
    machine = filled()
    size = log_of(machine).size
    machine.crash(
        lambda path, synced, have: size - 1 if path.endswith("t-0/00000000000000000000.log") else have
    )
    assert any("t-0" in line for line in machine.reports)
    client = machine.client()
    assert values(fetch(client, "t")) == ["a", "b"]
    assert produce(client, "t", batch("c again")).base_offset == 2


def test_a_topic_deleted_while_the_broker_was_away_leaves_no_folder() -> None:
    machine = filled()
    machine.stop()
    machine.keeper.write([Delete(znodes.topic_path("t"))])
    machine.start()
    assert machine.reports == [f"t-{p}: its topic is gone; its folder will be removed" for p in (0, 1)]
    assert machine.broker.partitions == {}
    machine.pass_time(60_000)
    assert machine.disk.folders == {"/data"}


def test_a_topic_made_again_while_the_broker_was_away_does_not_inherit_records() -> None:
    machine = filled()
    machine.stop()
    machine.keeper.write([Delete(znodes.topic_path("t"))])
    nodes = {
        znodes.topic_path("t"): znodes.topic_node(b"n" * 16, {0: (1,)}),
        znodes.state_path("t"): znodes.state_node(1, {0: (1, 0, (1,))}),
    }
    machine.keeper.write([Create(path, data) for path, data in nodes.items()])
    machine.start()
    assert values(fetch(machine.client(), "t")) == []
    assert machine.broker.store.topic_id(machine.broker.partitions.find("t", 0).topic_partition) == b"n" * 16


def test_a_deletion_that_was_interrupted_is_finished_at_the_next_start() -> None:
    machine = filled()
    machine.client().send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    assert any(path.endswith("-delete") for path in machine.disk.folders)
    machine.crash()
    assert machine.disk.folders == {"/data"}


def test_logs_without_a_keeper_are_adopted_with_their_ids_and_in_a_new_epoch() -> None:
    machine = filled()
    topic_id = machine.broker.image.topics["t"].id
    lead(machine, "t", leader=1, epoch=7)
    produce(machine.client(), "t", batch("in epoch 7"))
    machine.stop()
    machine.keeper = lone_tree()
    machine.start()
    topic = machine.broker.image.topics["t"]
    assert (topic.id, sorted(topic.assignment)) == (topic_id, [0, 1])
    client = machine.client()
    assert values(fetch(client, "t")) == ["a", "b", "c", "in epoch 7"]
    assert produce(client, "t", batch("mine")).base_offset == 4
    assert machine.broker.partitions.find("t", 0).leader_epoch == 8, "epochs in a log never go back"
    assert log_of(machine).latest_epoch == 8
    machine.restart()
    assert values(fetch(machine.client(), "t", 3)) == ["in epoch 7", "mine"]


def test_an_adopted_log_without_an_id_gets_one() -> None:
    machine = filled()
    machine.stop()
    for partition in (0, 1):
        machine.disk.remove(f"/data/t-{partition}/partition.metadata")
    machine.keeper = lone_tree()
    machine.start()
    assert len(machine.broker.image.topics["t"].id) == 16
    machine.restart()
    (line,) = machine.reports
    assert "ottla configs set --topic t cleanup.policy=" in line, "what was set for it nobody knows"
    assert values(fetch(machine.client(), "t")) == ["a", "b", "c"]


def test_parked_answers_and_sessions_do_not_survive() -> None:
    machine = filled()
    client = machine.client()
    client.ask(fetch_of(("t", 1, 0), max_wait_ms=1000, session_epoch=0), BY_NAME)
    machine.restart()
    assert list(machine.broker.waiting) == []
    assert machine.broker.sessions.by_id == {}


def test_a_config_that_was_changed_holds_after_a_crash() -> None:
    machine = filled()
    set_configs(machine.client(), TOPIC, "t", {"max.message.bytes": "10"})
    machine.crash(power_loss)
    assert produce(machine.client(), "t").error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_two_machines_with_the_same_seed_do_the_same() -> None:
    first, second = (Machine(disk=Disk(), seed=5) for _ in range(2))
    assert create(first.client(), "t") == create(second.client(), "t")
    assert first.keeper.nodes == second.keeper.nodes
