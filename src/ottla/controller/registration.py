"""How a broker enters the cluster: the cluster gets its id and the secret of its brokers, the broker its
node, and one broker the controller's seat.

The controller's epoch moves on with every new controller, in the same write that takes the seat, so that
whatever an earlier controller still tries to write is refused by the check on the epoch.
"""

from collections.abc import Collection, Iterable, Mapping

from ottla.base.addresses import Address
from ottla.controller import znodes
from ottla.controller.features import agreed, first_features
from ottla.controller.image import Image
from ottla.controller.keeper import Check, Create, Delete, NodeChanged, Operation, Put


def registration(
    broker_id: int,
    endpoints: Mapping[str, Address],
    rack: str | None,
    *,
    protocols: Mapping[str, str] | None = None,
    is_clean: bool = True,
    clean_since: int = 0,
    lost: Collection[tuple[str, int]] = (),
    incarnation: str = "",
) -> list[Operation]:
    """A broker that registers again without having stopped is clean since its endpoint in the image was. The
    replicas it has `lost` to failed directories are said in the same write: nobody counts on them."""
    node = znodes.broker_node(
        endpoints, rack, protocols=protocols,
        is_clean=is_clean, clean_since=clean_since, incarnation=incarnation,
    )  # fmt: skip
    operations: list[Operation] = [Create(znodes.BROKERS + str(broker_id), node, ephemeral=True)]
    if lost:
        offline = znodes.offline_node(lost)
        operations.append(Create(znodes.OFFLINE + str(broker_id), offline, ephemeral=True))
    return operations


def founding(image: Image, cluster_id: str, peer_secret: bytes = b"") -> list[Operation]:
    """Where the cluster has its id and its secret, only that it agrees on what this broker knows of. A broker
    that is alone needs no secret."""
    operations = agreed(image)
    if not image.cluster_id:
        operations.append(Create(znodes.CLUSTER_ID, znodes.cluster_id_node(cluster_id)))
        if image.features_version < 0:
            operations.append(Create(znodes.FEATURES, first_features()))
    if peer_secret and not image.peer_secret:
        operations.append(Create(znodes.PEER_SECRET, znodes.peer_secret_node(peer_secret)))
    return operations


def succession(predecessor: int, nodes: Iterable[NodeChanged]) -> list[Operation]:
    """Take an earlier incarnation of a broker out of the tree, whose process is known to be gone and whose
    session is not over yet: all that goes with that session."""
    own = {folder + str(predecessor) for folder in (znodes.BROKERS, znodes.OFFLINE, znodes.REPORTS)}
    return [
        Delete(node.path, node.version)
        for node in nodes
        if node.data is not None
        and (
            node.path in own
            or (node.path == znodes.CONTROLLER and znodes.parse(node.data)["brokerid"] == predecessor)
        )
    ]


def candidacy(image: Image, broker_id: int) -> list[Operation]:
    """Take the controller's seat: a free one, or that of the controller whom the image names. Refused if
    somebody has taken it since: nobody does without moving the epoch on."""
    epoch = image.controller_epoch + 1
    content = str(epoch).encode()
    operations: list[Operation] = [Delete(znodes.CONTROLLER)] if image.controller_id >= 0 else []
    operations.append(Create(znodes.CONTROLLER, znodes.controller_node(broker_id, epoch), ephemeral=True))
    if image.controller_epoch_version < 0:
        operations.append(Create(znodes.CONTROLLER_EPOCH, content))
    else:
        operations.append(Put(znodes.CONTROLLER_EPOCH, content, image.controller_epoch_version))
    if image.deletions_version < 0:
        operations.append(Create(znodes.DELETIONS, znodes.deletions_node()))
    return operations


def resignation(image: Image) -> list[Operation]:
    """Leave the controller's seat; refused if somebody else has it by now."""
    return [Check(znodes.CONTROLLER_EPOCH, image.controller_epoch_version), Delete(znodes.CONTROLLER)]
