"""What a broker knows of the cluster, node by node."""

from tests.support.endpoints import plaintext

from ottla.base.addresses import Address
from ottla.controller import znodes
from ottla.controller.image import BrokerConfigChanged, BrokerEndpoint, Image
from ottla.controller.keeper import Check, NodeChanged, Put
from ottla.controller.registration import candidacy, founding, registration


def test_brokers_come_and_go() -> None:
    image = Image()
    image.apply(NodeChanged("/brokers/ids/4", znodes.broker_node(plaintext("h", 1), "r"), 0))
    assert image.brokers == {
        4: BrokerEndpoint(4, {"PLAINTEXT": Address("h", 1)}, "r", protocols={"PLAINTEXT": "PLAINTEXT"})
    }
    image.apply(NodeChanged("/brokers/ids/4", None, 0))
    assert image.brokers == {}


def test_every_change_moves_the_revision() -> None:
    image = Image()
    image.apply(NodeChanged("/cluster/id", znodes.cluster_id_node("abc"), 0))
    image.apply(NodeChanged("/unknown", b"{}", 0))
    assert (image.revision, image.cluster_id) == (2, "abc")


def test_the_controller_is_known_by_its_seat() -> None:
    image = Image()
    for operation in (
        *founding(image, "abc"),
        *registration(3, plaintext("h", 1), None),
        *candidacy(image, 3),
    ):
        image.apply(NodeChanged(operation.path, getattr(operation, "data", None), 0))
    assert (image.controller_id, image.controller_epoch, image.cluster_id) == (3, 1, "abc")
    assert founding(image, "other") == [Check("/feature", 0)]
    assert Put("/controller_epoch", b"2", 0) in candidacy(image, 3)
    image.apply(NodeChanged("/controller", None, 0))
    assert image.controller_id == -1


def test_configs_of_one_broker_and_of_all_are_kept_apart() -> None:
    image = Image()
    assert image.apply(NodeChanged("/config/brokers/<default>", znodes.config_node({"a": "1"}), 0)) == [
        BrokerConfigChanged("")
    ]
    image.apply(NodeChanged("/config/brokers/1", znodes.config_node({"a": "2"}), 4))
    assert (image.broker_config(""), image.broker_config("1"), image.broker_config("2")) == (
        {"a": "1"},
        {"a": "2"},
        {},
    )
    assert image.broker_configs["1"].version == 4
    image.apply(NodeChanged("/config/brokers/1", None, 5))
    assert image.broker_config("1") == {}


def test_the_last_block_of_producer_ids_is_known() -> None:
    image = Image()
    image.apply(NodeChanged("/latest_producer_id_block", znodes.producer_id_block_node(1, 1000, 1999), 2))
    assert (image.producer_id_block_end, image.producer_id_block_version) == (1999, 2)


def _offline(image: Image, *partitions: tuple[str, int], created: int) -> None:
    image.apply(NodeChanged(znodes.OFFLINE + "1", znodes.offline_node(partitions), 0, created))


def _broker(image: Image, created: int) -> None:
    image.apply(NodeChanged(znodes.BROKERS + "1", znodes.broker_node(plaintext("h", 1), None), 0, created))


def test_what_a_broker_has_lost_is_not_forgotten_before_its_session() -> None:
    image = Image()
    _broker(image, 5)
    _offline(image, ("t", 0), created=7)
    image.apply(NodeChanged(znodes.OFFLINE + "1", None, 0))
    assert image.offline == {1: {("t", 0)}}, "its own node will go, too"
    image.apply(NodeChanged(znodes.BROKERS + "1", None, 0))
    _broker(image, 9)
    assert image.offline == {}


def test_what_an_earlier_incarnation_lost_is_forgotten_in_whatever_order_it_is_seen() -> None:
    image = Image()
    _broker(image, 5)
    _offline(image, ("t", 0), created=5)
    _broker(image, 9)
    assert image.offline == {}
    image.apply(NodeChanged(znodes.OFFLINE + "1", None, 0))
    assert image.offline == {}
    _offline(image, ("t", 1), created=11)
    _broker(image, 11)
    assert image.offline == {1: {("t", 1)}}, "the same write made both"
