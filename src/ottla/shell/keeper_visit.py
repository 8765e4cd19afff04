"""The keeper without a broker: for what must be there before the first broker starts, such as users.

ZooKeeper may have brokers, which hear of a change as of any other. A broker's own keeper may not: the lock of
its folder is held meanwhile.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from ottla.base.config import load
from ottla.base.files import OsFiles
from ottla.broker.config import BrokerConfig
from ottla.controller import user_nodes
from ottla.controller.keeper import NodeChanged, Operation, Outcome, Written
from ottla.controller.user_nodes import Entity
from ottla.security.credentials import ScramCredential, ScramMechanism
from ottla.shell.keeper import Keeper, Session
from ottla.shell.keeper_session import keeper_maker
from ottla.shell.lock import SHARED, DirectoryLock, StartError, UnusableError, read_meta

WITHIN_S = 15.0
ACLS_WITHIN_S = 300.0
TRIES_MAX = 5

Nodes = dict[str, NodeChanged]
Plan = Callable[[Nodes], list[Operation]]


class Visitor:
    """Keeps what the keeper tells: `nodes` by their paths."""

    def __init__(self) -> None:
        self.nodes: Nodes = {}
        self.on_failed: Callable[[StartError], None] = lambda _error: None

    def on_nodes(self, nodes: Iterable[NodeChanged]) -> None:
        for node in nodes:
            if node.data is None:
                self.nodes.pop(node.path, None)
            else:
                self.nodes[node.path] = node

    def on_session(self, event: Session) -> None:
        """Whoever waits for a write is told by its outcome."""

    def on_failure(self, reason: str) -> None:
        self.on_failed(StartError(reason))


def write_without_broker(properties: Mapping[str, str], plan: Plan) -> Nodes:
    """Write what `plan` makes of the nodes, and again if somebody else was faster. The nodes after that.

    `properties` are a broker's. StartError: one line with the reason.
    """

    async def write() -> Nodes:
        async with visited(properties) as (keeper, visitor):
            reason = ""
            for _ in range(TRIES_MAX):
                operations = plan(visitor.nodes)
                outcome = await _written(keeper, visitor, operations) if operations else Written()
                if isinstance(outcome, Written):
                    return visitor.nodes
                reason = outcome.reason
            raise StartError(f"{keeper.where} refuses the write: {reason}")

    return asyncio.run(write())


def write_scram_user(
    properties: Mapping[str, str], user: str, credentials: Mapping[ScramMechanism, ScramCredential | None]
) -> None:
    """As `scram_writes` says."""
    write_without_broker(properties, lambda nodes: scram_writes(nodes, user, credentials))


def scram_writes(
    nodes: Mapping[str, NodeChanged], user: str, credentials: Mapping[ScramMechanism, ScramCredential | None]
) -> list[Operation]:
    """What gives a user these credentials, and takes away those that are None, in a keeper that has these
    nodes. What else the user's node has stays."""
    entity = Entity(user)
    node = nodes.get(entity.path)
    values = user_nodes.config_of(node.data or b"") if node else {}
    wanted = dict(values)
    for mechanism, credential in credentials.items():
        wanted.pop(mechanism.title, None)
        if credential is not None:
            wanted[mechanism.title] = credential.text()
    return user_nodes.write(entity, wanted, node.version if node else -1) if wanted != values else []


def set_zookeeper_acls(properties: Mapping[str, str], *, is_open: bool) -> int:
    """Of all nodes that are there: as `zookeeper.set.acl` has them, or open to everybody. How many."""
    from kazoo.security import OPEN_ACL_UNSAFE

    from ottla.shell.keeper_zookeeper import ZooKeeperKeeper
    from ottla.shell.zookeeper_access import secure_acls

    async def set_acls() -> int:
        async with visited(properties) as (keeper, _visitor):
            assert isinstance(keeper, ZooKeeperKeeper)
            acls = (lambda _path: OPEN_ACL_UNSAFE) if is_open else secure_acls
            return await asyncio.wait_for(keeper.set_acls(acls), ACLS_WITHIN_S)

    return asyncio.run(set_acls())


@contextlib.asynccontextmanager
async def visited(properties: Mapping[str, str]) -> AsyncIterator[tuple[Keeper, Visitor]]:
    """The keeper that a broker with these properties would use, and what is in it."""
    config = load(BrokerConfig, properties)
    with contextlib.ExitStack() as undo:
        if not config.zookeeper_connect:
            undo.callback(_lock(config.log_dirs[0]).release)
        keeper = keeper_maker(config, properties, durable=True)(asyncio.get_running_loop())
        visitor = Visitor()
        try:
            visitor.on_nodes(await asyncio.wait_for(keeper.load(visitor), WITHIN_S))
            yield keeper, visitor
        except TimeoutError:
            raise StartError(f"{keeper.where} does not answer within {WITHIN_S:.0f} s") from None
        finally:
            await keeper.close()


async def _written(keeper: Keeper, visitor: Visitor, operations: list[Operation]) -> Outcome:
    answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def done(outcome: Outcome) -> None:
        if not answered.done():
            answered.set_result(outcome)

    visitor.on_failed = answered.set_exception
    keeper.write(operations, done)
    return await asyncio.wait_for(answered, WITHIN_S)


def _lock(directory: str) -> DirectoryLock:
    lock = DirectoryLock(directory)
    try:
        lock.take()
    except UnusableError:
        raise
    except StartError:
        raise StartError(f"a broker runs on {directory}: ask it, with --bootstrap HOST:PORT") from None
    if SHARED in read_meta(OsFiles(), directory):
        lock.release()
        raise StartError(
            f"{directory} belongs to a cluster that ZooKeeper keeps: use --zookeeper, not --data"
        )
    return lock
