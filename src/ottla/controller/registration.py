"""How a broker enters the cluster: the cluster gets its id, the broker its node, and one broker the
controller's seat.

The controller's epoch moves on with every new controller, in the same write that takes the seat, so that
whatever an earlier controller still tries to write is refused by the check on the epoch.
"""

from collections.abc import Collection

from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import Create, Operation, Put


def registration(
    broker_id: int,
    host: str,
    port: int,
    rack: str | None,
    *,
    is_clean: bool = True,
    clean_since: int = 0,
    lost: Collection[tuple[str, int]] = (),
) -> list[Operation]:
    """A broker that registers again without having stopped is clean since its endpoint in the image was. The
    replicas it has `lost` to failed directories are said in the same write: nobody counts on them."""
    node = znodes.broker_node(host, port, rack, is_clean=is_clean, clean_since=clean_since)
    operations: list[Operation] = [Create(znodes.BROKERS + str(broker_id), node, ephemeral=True)]
    if lost:
        offline = znodes.offline_node(lost)
        operations.append(Create(znodes.OFFLINE + str(broker_id), offline, ephemeral=True))
    return operations


def founding(image: Image, cluster_id: str) -> list[Operation]:
    """Nothing, where the cluster has an id already."""
    return [] if image.cluster_id else [Create(znodes.CLUSTER_ID, znodes.cluster_id_node(cluster_id))]


def candidacy(image: Image, broker_id: int) -> list[Operation]:
    """Take the controller's seat; refused if somebody else has it."""
    epoch = str(image.controller_epoch + 1).encode()
    if image.controller_epoch_version < 0:
        bump: Operation = Create(znodes.CONTROLLER_EPOCH, epoch)
    else:
        bump = Put(znodes.CONTROLLER_EPOCH, epoch, image.controller_epoch_version)
    seat = Create(znodes.CONTROLLER, znodes.controller_node(broker_id), ephemeral=True)
    if image.deletions_version < 0:
        return [seat, bump, Create(znodes.DELETIONS, znodes.deletions_node())]
    return [seat, bump]
