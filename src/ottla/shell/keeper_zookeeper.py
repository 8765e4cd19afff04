"""The keeper of a cluster: a ZooKeeper ensemble.

What this broker knows of the tree is a copy (`_known`), kept current by one-shot watches: a watch fires, the
node is read again and watched again. A connection answers in the order it was asked, so what is read is
never older than what was read before, not even by way of another server of the ensemble. After every
connection, new session or not, the whole tree is read again (behind a `sync`, so that even a write whose
answer was lost has either happened by then or never will), and what differs is told.

A write is one multi, and right behind it, without waiting, its nodes are read again: so its changes are
told before its outcome.

Rules of the tree: nodes with data are told, nodes without are folders. A node that is told is told after its
parent; a child of a parent that was deleted and made again is told again after the new parent.

To confirm what is known, a write that changes nothing goes through the ensemble's quorum (a `sync` does not:
a leader that has lost its quorum answers it for a while). Before its answer come the watches of all that was
written before it; what they tell to read, and what that leads to, is read before the confirmation is given.
A change of `/cluster/deletions` waits for the same: whoever knows of it knows which topics are gone.

Whoever is refused by ZooKeeper while it starts (SASL, TLS) does not start. Later it says so and goes on
trying: ZooKeeper decides then, by the session, how long this broker counts.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent, ZnodeStat
from kazoo.security import ACL

from ottla.base.log_fields import fields
from ottla.base.metrics import Histogram
from ottla.broker.zookeeper_config import JAAS_FILE
from ottla.controller.keeper import ANY, Check, NodeChanged, Operation, Refused, Unknown
from ottla.controller.znodes import CONTROLLER_EPOCH, DELETIONS
from ottla.shell.keeper import KeeperListener, OnOutcome, Reminder, Session
from ottla.shell.lock import StartError
from ottla.shell.zookeeper_access import NO_ACCESS_CONTROL, ZooKeeperAccess
from ottla.shell.zookeeper_link import Link, split_ensemble
from ottla.shell.zookeeper_write import LOST, Multi, is_folder, is_told_empty, parent_of, unpacked

log = logging.getLogger(__name__)

TOPS = (
    "admin", "brokers", "cluster", "config", "controller", "controller_epoch", "feature", "kafka-acl",
    "kafka-acl-extended", "latest_producer_id_block",
)  # fmt: skip
FOLDERS = (
    "/brokers", "/brokers/ids", "/brokers/offline", "/brokers/reports", "/brokers/topics", "/cluster",
    "/config", "/config/brokers", "/config/clients", "/config/groups", "/config/ips", "/config/topics",
    "/config/users",
)  # fmt: skip
DEAD_S = 1.0
SILENCE_S, SILENCE_AGAIN_S = 1.0, 60.0  # at a start, until it is said that ZooKeeper is silent
STRANGERS_MAX = 3
LISTED_PER_S, LIST_DELAY_S_MIN = 50_000, 0.01


class Known(NamedTuple):
    created: int
    modified: int
    version: int
    owner: int


class ZooKeeperKeeper:
    is_shared = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ensemble: str,
        session_timeout_ms: int,
        access: ZooKeeperAccess = NO_ACCESS_CONTROL,
    ) -> None:
        self.ensemble = ensemble
        self.where = f"ZooKeeper at {ensemble}"
        hosts, self._chroot = split_ensemble(ensemble)
        self._loop = loop
        self._access = access
        self._refused = Reminder()
        self._link = Link(
            loop, hosts, session_timeout_ms, access, self._on_state, self._on_event, self._on_refused
        )
        self._listener: KeeperListener
        self._loaded: asyncio.Future[None] = loop.create_future()
        self._known: dict[str, Known] = {}
        self._children: dict[str, set[str]] = {}
        self._changed: list[NodeChanged] = []
        self._is_flushing = False
        self._is_current = False  # connected, and the whole tree was read since
        self._is_expired = False
        self._lost_s = 0.0  # when the connection was, by the loop's clock
        self._connections = 0  # so that an answer of an earlier one is known as such
        self._open = 0  # reads that are not answered yet
        self._unconfirmed: list[Callable[[], None]] = []  # who waits until there is none
        self._deletions: tuple[bytes, ZnodeStat] | None = None  # as they are, to be told when there is none
        self._visits = 0  # reads of the whole tree that are not answered yet
        self._met: set[str] = set()  # nodes that were there since the great reading began
        self._held: deque[tuple[tuple[Operation, ...], OnOutcome]] = deque()
        self._sent: dict[int, OnOutcome] = {}
        self._last_sent = 0
        self._lost: list[OnOutcome] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_closed = False

    # -- life -------------------------------------------------------------------------------------

    @property
    def heard_s(self) -> float | None:
        return self._link.heard_s

    @property
    def request_durations(self) -> Histogram:
        return self._link.durations

    async def load(self, listener: KeeperListener) -> list[NodeChanged]:
        """As long as answers come it may take its time; a large tree does. Until ZooKeeper is there, this
        waits, and says so from time to time."""
        self._listener = listener
        self._link.start()
        patience_s = SILENCE_S
        try:
            while not self._loaded.done():
                answered = self._link.answered
                await asyncio.wait([self._loaded], timeout=patience_s)
                if self._link.answered == answered and not self._loaded.done():
                    trouble = f" ({self._link.trouble})" if self._link.trouble else ""
                    log.warning("no ZooKeeper answers at %s%s; waiting for it", self.ensemble, trouble)
                    patience_s = SILENCE_AGAIN_S
            self._loaded.result()
        except (StartError, asyncio.CancelledError):
            await self.close()
            raise
        changed, self._changed = self._changed, []
        return changed

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._is_closed, self._is_current = True, False
        await self._link.stop()

    def owns(self, path: str) -> bool:
        node = self._known.get(path)
        return node is not None and node.owner == self._link.session_id != 0

    # -- the session ------------------------------------------------------------------------------

    def _on_state(self, state: KazooState) -> None:
        if self._is_closed:
            return
        if state == KazooState.CONNECTED:
            self._connections += 1
            self._open, self._unconfirmed, self._deletions = 0, [], None
            self._read_everything()
            return
        was_current, self._is_current = self._is_current, False
        self._lost += self._sent.values()
        self._sent = {}
        self._after(DEAD_S, "dead", self._check_alive)
        if state == KazooState.LOST and self._loaded.done():
            self._is_expired = True
        elif was_current:
            log.warning("the connection to ZooKeeper at %s is lost", self.ensemble)
            self._lost_s = self._loop.time()
            self._listener.on_session(Session.SUSPENDED)

    def _after(self, delay_s: float, name: str, what: Callable[[], None]) -> None:
        """Do this later, once, whoever asked for it before."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        if not self._is_closed:
            self._timers[name] = self._loop.call_later(delay_s, what)

    def _check_alive(self) -> None:
        if self._link.is_dead:
            self._fail("to go on", RuntimeError("kazoo's thread has ended"))

    def _on_everything_read(self) -> None:
        self._is_current = True
        for path in sorted(self._known.keys() - self._met, reverse=True):
            self._forget(path)  # of our own making, and gone before its folder was listed with it
        self._met = set()
        if not self._loaded.done():
            self._loaded.set_result(None)
            log.info("connected to ZooKeeper at %s, which has %d nodes", self.ensemble, len(self._known))
            return
        is_expired, self._is_expired = self._is_expired, False
        self._flush()
        extra = fields(took_ms=int((self._loop.time() - self._lost_s) * 1000))
        if is_expired:
            log.warning("the session with ZooKeeper had expired; there is a new one", extra=extra)
        else:
            log.warning("the connection to ZooKeeper is back", extra=extra)
        self._listener.on_session(Session.EXPIRED if is_expired else Session.RESUMED)
        lost, self._lost = self._lost, []
        for done in lost:
            done(Unknown("the connection to ZooKeeper was lost"))
        held, self._held = self._held, deque()
        for operations, done in held:
            if is_expired:
                done(Refused(operations[0].path if operations else "", "the session expired"))
            else:
                self.write(operations, done)

    def _on_refused(self, refusal: str) -> None:
        if not self._loaded.done():
            self._loaded.set_exception(StartError(f"ZooKeeper at {self.ensemble}: {refusal}"))
        elif not self._is_closed:
            self._refused.say(f"ZooKeeper at {self.ensemble} refuses the connection: {refusal}")

    def _fail(self, doing: str, error: Exception) -> None:
        reason = f"ZooKeeper at {self.ensemble} refuses {doing}: {type(error).__name__} {error}".rstrip()
        if isinstance(error, NoAuthError):
            reason += f": its ACL is for another user; authenticate as that one ({JAAS_FILE})"
        if not self._loaded.done():
            self._loaded.set_exception(StartError(reason))
        else:
            self._listener.on_failure(reason)

    # -- reading ----------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        self._visits, self._met = 0, set()
        paths = self._chroot.split("/")[1:]
        made = ["/" + "/".join(paths[: depth + 1]) for depth in range(len(paths))]
        for path in made:
            self._link.ask(partial(_create, path=path, acls=self._access.acls("")), _ignore)
        for folder in FOLDERS:
            self._make_folder(folder)
        self._link.ask(lambda client: client.sync_async(self._chroot or "/"), _ignore)
        self._list("/", is_visit=True)

    def _make_folder(self, path: str) -> None:
        self._link.ask(partial(_create, path=self._chroot + path, acls=self._access.acls(path)), _ignore)

    def _on_event(self, event: WatchedEvent) -> None:
        path = event.path.removeprefix(self._chroot) or "/"
        if event.type == EventType.CHILD:
            # A long list is not read for every name that comes: a thousand topics are created in a row.
            delay_s = len(self._children.get(path, ())) / LISTED_PER_S
            if delay_s > LIST_DELAY_S_MIN:
                self._after(delay_s, path, lambda: self._list(path))
            else:
                self._list(path)
        else:
            self._read(path)

    def _answer_to(self, done: Callable[[Any, Exception | None], None], *, is_visit: bool) -> Any:
        """`done`, unless the connection is another by then; keeps count of the great reading."""
        connection = self._connections
        self._visits += is_visit
        self._open += 1

        def answered(value: Any, error: Exception | None) -> None:
            if connection != self._connections or isinstance(error, LOST):
                return  # everything is read again
            done(value, error)
            self._visits -= is_visit
            if is_visit and not self._visits:
                self._on_everything_read()
            self._open -= 1
            if not self._open:
                self._confirm()

        return answered

    def _read(self, path: str, *, is_visit: bool = False, then: Callable[[], None] | None = None) -> None:
        def answered(answer: tuple[bytes, ZnodeStat] | None, error: Exception | None) -> None:
            if answer is not None:
                self._on_seen(path, *answer, is_visit=is_visit)
            elif isinstance(error, NoNodeError):
                self._on_gone(path)
            elif error is not None:
                self._fail(f"to read {path}", error)
            if then is not None:
                then()

        self._link.ask(
            lambda client: client.get_async(self._chroot + path, watch=self._link.watch),
            self._answer_to(answered, is_visit=is_visit),
        )

    def _list(self, folder: str, *, is_visit: bool = False) -> None:
        """`is_visit`: everything below is read, known or not; else what came and what went."""

        def answered(names: list[str] | None, error: Exception | None) -> None:
            if names is not None:
                self._on_listed(folder, set(names), is_visit=is_visit)
            elif isinstance(error, NoNodeError):
                self._on_gone(folder)
            elif error is not None:
                self._fail(f"to list {folder}", error)

        self._link.ask(
            lambda client: client.get_children_async(self._path(folder), watch=self._link.watch),
            self._answer_to(answered, is_visit=is_visit),
        )

    def _path(self, path: str) -> str:
        return self._chroot + path if path != "/" else self._chroot or "/"

    def _on_listed(self, folder: str, names: set[str], *, is_visit: bool) -> None:
        if folder == "/":
            names.intersection_update(TOPS)
        stem = "" if folder == "/" else folder
        before = self._children.get(folder, set())
        self._children[folder] = names
        for name in sorted(before - names):
            self._on_gone(f"{stem}/{name}")
        for name in sorted(names if is_visit else names - before):
            path = f"{stem}/{name}"
            self._read(path, is_visit=is_visit)
            if is_folder(path):
                self._list(path, is_visit=is_visit)

    def _on_seen(self, path: str, packed: bytes, stat: ZnodeStat, *, is_visit: bool = False) -> None:
        node = self._known.get(path)
        if not self._is_current:
            self._met.add(path)
        if node is not None and stat.mzxid <= node.modified:
            return
        if not packed and not is_told_empty(path):
            return
        is_new = node is None or node.created != stat.czxid
        above = self._known.get(parent_of(path))
        if is_new and above is not None and above.created != stat.czxid:
            if stat.czxid < above.created:
                return  # it was below another parent; what is below this one is read behind it
            # The parent may have been made again, too, and must then be told first.
            self._read(parent_of(path), is_visit=is_visit, then=lambda: self._tell(path, packed, stat))
        elif path == DELETIONS and self._is_current:
            self._deletions = packed, stat
            self._list_now()
        else:
            self._tell(path, packed, stat)

    def _tell(self, path: str, packed: bytes, stat: ZnodeStat) -> None:
        node, above = self._known.get(path), self._known.get(parent_of(path))
        if (node is not None and stat.mzxid <= node.modified) or (above and stat.czxid < above.created):
            return
        if is_folder(path) and node is not None and node.created != stat.czxid:
            self._forget_below(path)
            self._list(path)
        self._known[path] = Known(stat.czxid, stat.mzxid, stat.version, stat.ephemeralOwner)
        self._change(NodeChanged(path, unpacked(packed), stat.version, stat.czxid))

    def _on_gone(self, path: str) -> None:
        self._forget_below(path)
        self._forget(path)

    def _forget_below(self, path: str) -> None:
        for name in sorted(self._children.pop(path, ())):
            self._on_gone(f"{path}/{name}")

    def _forget(self, path: str) -> None:
        node = self._known.pop(path, None)
        siblings = self._children.get(parent_of(path))
        if siblings is not None:
            siblings.discard(path.rpartition("/")[2])
        if node is not None:
            self._change(NodeChanged(path, None, node.version, node.created))

    def _change(self, node: NodeChanged) -> None:
        self._changed.append(node)
        if not self._is_flushing and self._is_current:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._changed and self._is_current:
            changed, self._changed = self._changed, []
            self._listener.on_nodes(changed)

    # -- writing ----------------------------------------------------------------------------------

    def write(self, operations: Iterable[Operation], done: OnOutcome) -> None:
        asked = tuple(operations)
        if self._is_current:
            self._write(asked, done, STRANGERS_MAX)
        else:
            self._held.append((asked, done))

    def _write(self, operations: tuple[Operation, ...], done: OnOutcome, tries: int) -> None:
        multi = Multi(self._chroot, operations, self._below, self._is_there, self._access.acls)
        if multi.refusal is not None:
            self._loop.call_soon(done, multi.refusal)
            return
        for folder in multi.folders:
            self._make_folder(folder)
        self._last_sent = number = self._last_sent + 1
        self._sent[number] = done
        answers: list[tuple[Any, Exception | None]] = []

        def read_back() -> None:
            results, error = answers[0]
            del self._sent[number]
            if tries and multi.has_met_strangers(results):
                self._write(operations, done, tries - 1)  # what is below the node has been listed since
                return
            self._flush()
            done(multi.outcome(results, error, self._known.get))

        self._link.ask(multi.commit, lambda value, error: answers.append((value, error)))
        for path in multi.relisted:
            self._list(path)
        *first, last = multi.paths or [CONTROLLER_EPOCH]
        for path in first:
            self._read(path)
        self._read(last, then=read_back)

    async def set_acls(self, acls: Callable[[str], list[ACL]]) -> int:
        """Of every node that is there, and of the chroot; how many. StartError: this user may not."""
        paths = {f"{folder.rstrip('/')}/{name}" for folder, names in self._children.items() for name in names}
        paths |= {"/"} if self._chroot else set()
        answers: list[asyncio.Future[None]] = []
        for path in sorted(paths):
            answers.append(self._loop.create_future())
            self._link.ask(
                partial(_set_acls, path=self._path(path), acls=acls(path)),
                partial(self._on_acls_set, path, answers[-1]),
            )
        await asyncio.gather(*answers)
        return len(paths)

    def _on_acls_set(
        self, path: str, answer: "asyncio.Future[None]", _value: Any, error: Exception | None
    ) -> None:
        if error is None or isinstance(error, NoNodeError):
            answer.set_result(None)
        else:
            reason = f"{self.where} does not let this user change the ACL of {path}: {type(error).__name__}"
            answer.set_exception(StartError(reason))

    def confirm(self, done: Callable[[], None]) -> None:
        if not self._is_current:
            return
        check = Multi(
            self._chroot, (Check(CONTROLLER_EPOCH, ANY),), self._below, self._is_there, self._access.acls
        )

        def committed(_results: Any, _error: Exception | None) -> None:
            self._list_now()
            self._unconfirmed.append(done)

        self._link.ask(check.commit, self._answer_to(committed, is_visit=False))

    def _list_now(self) -> None:
        """What is known to have changed is not listed later, but at once."""
        for path in [name for name in self._timers if name.startswith("/")]:
            self._timers.pop(path).cancel()
            self._list(path)

    def _confirm(self) -> None:
        """Nothing is left to be read of what was known to have changed."""
        if self._deletions is not None:
            deletions, self._deletions = self._deletions, None
            self._tell(DELETIONS, *deletions)
        if self._unconfirmed:
            confirmed, self._unconfirmed = self._unconfirmed, []
            self._flush()
            for done in confirmed:
                done()

    def _below(self, path: str) -> list[str]:
        """What is known below a node, children first."""
        paths: list[str] = []
        for name in sorted(self._children.get(path, ()), reverse=True):
            paths += [*self._below(f"{path}/{name}"), f"{path}/{name}"]
        return paths

    def _is_there(self, path: str) -> bool:
        return path in self._known or path in self._children or path == ""


def _create(client: KazooClient, path: str, acls: list[ACL]) -> Any:
    return client.create_async(path, acl=acls)


def _set_acls(client: KazooClient, path: str, acls: list[ACL]) -> Any:
    return client.set_acls_async(path, acls)


def _ignore(_value: Any, error: Exception | None) -> None:
    if error is not None and not isinstance(error, (NodeExistsError, *LOST)):
        log.debug("ZooKeeper: %s %s", type(error).__name__, error)
