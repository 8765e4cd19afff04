"""What the broker asks the world to do. `shell/core` has each kind carried out; so does a simulator."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias

from ottla.base.files import Buffer, Syncable
from ottla.broker.parked import Parked
from ottla.controller.keeper import Operation
from ottla.log.chores import Chore
from ottla.log.compaction.task import CleanTask
from ottla.log.directory_moves import CopySlice, Move
from ottla.log.durability import Sync
from ottla.log.log import Log


@dataclass(slots=True)  # not frozen: one is made for every answer that waited, and that takes thrice as long
class Reply:
    """A parked answer is ready: send it on this connection, and go on reading from it, after a while if its
    client is over a quota (`mute_ms`)."""

    connection: int
    chunks: list[Buffer]
    unsent_bytes: int = 0  # that the broker counts until this is carried out, and no longer
    mute_ms: int = 0


@dataclass(frozen=True, slots=True)
class Close:
    """Close this connection: a parked answer cannot be given, or (`after_answers`) its client is sent away as
    soon as the answers before have left. `over_limit`: what it asked for is more than anybody may. `sender`:
    whose request that was, if it was one, for the log."""

    connection: int
    reason: str
    after_answers: bool = False
    over_limit: bool = False
    sender: str = ""


@dataclass(frozen=True, slots=True)
class WriteNodes:
    """Write to the keeper, all or nothing; the outcome comes back with the token."""

    token: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class ConfirmTree:
    """Have the keeper confirm that all changes of its tree before now have been seen, then call
    `proofs.on_confirmed` with `asked_ms`. If the connection is lost meanwhile, nothing is called."""

    asked_ms: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to another broker, then call `on_peer_reply` with the token: with the answer, or with
    None if none can come any more (no connection, or it was lost; the request may have arrived or not).

    Requests of one channel to one peer are answered in the order they were sent. A fetch waits at its
    leader, so it has a channel of its own.
    """

    peer: int
    channel: str
    token: int
    request: Any


class Sign(Enum):
    """What became of a probe of another broker."""

    ANSWERED = "it answered"
    REFUSED = "nobody listens at its address: its process is gone, or somebody in between refuses for it"
    SILENT = "no answer in time, or none that can be understood"
    LOST = "the connection was lost, whether something was asked on it or not"


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask another broker for a sign of life, over a connection that stays, then call `on_probed`. When that
    connection is lost later, call it again."""

    peer: int
    epoch: int  # the incarnation that is asked


@dataclass(frozen=True, slots=True)
class SyncLog:
    """Make a log's files durable in a worker, then call `on_synced`."""

    log: Log
    sync: Sync


@dataclass(frozen=True, slots=True)
class CleanLog:
    """Compact a log in a worker process, then call `on_cleaned`."""

    log: Log
    task: CleanTask


@dataclass(frozen=True, slots=True)
class SyncFolder:
    """Make the names in a log's folder durable in a worker, then call `on_folder_synced`."""

    log: Log
    folder: Syncable


@dataclass(frozen=True, slots=True)
class CopyLog:
    """Run a slice of a move in a worker, then call `on_copied`."""

    move: Move
    slice: CopySlice


@dataclass(frozen=True, slots=True)
class DoChore:
    """Run a chore of the logs in a worker, then call its `done`."""

    chore: Chore


class Job(Protocol):
    """Work for a request that would keep all others waiting."""

    @property
    def waits_for_disk(self) -> bool:
        """Rather than to compute: many of those can wait at the same time."""

    def run(self, pause: Callable[[], None]) -> None:
        """Touch nothing of the broker's, and call `pause` every millisecond or so. If that raises
        SpentError, return: it is run again, later."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run a job in a worker, unless nobody waits for it any more, then wake whoever waits for it: `parked`,
    which is filed under the job alone. Nobody else holds it, so that it is gone when the client is."""

    job: Job
    parked: Parked


class KeySet(Protocol):
    """Keys that verify tokens, and where they are (`security/key_sets`)."""

    url: str
    trust_file: str

    def on_read(self, keys: Any, now_ms: int) -> None: ...
    def on_failed(self, now_ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """Read the keys of tokens in a worker, then call `on_read` or `on_failed`."""

    keys: KeySet


@dataclass(frozen=True, slots=True)
class TakeOffline:
    """A log directory failed under the input that is being handled: call `on_directory_failed` after it."""

    directory: str
    reason: str


@dataclass(frozen=True, slots=True)
class Halt:
    """The broker cannot go on (its last disk failed): stop it, and say why. What is in memory cannot be
    trusted to be on disk, so this is no clean stop."""

    reason: str


Effect: TypeAlias = (
    Reply
    | Close
    | WriteNodes
    | ConfirmTree
    | Send
    | Probe
    | SyncLog
    | CleanLog
    | SyncFolder
    | CopyLog
    | DoChore
    | RunJob
    | ReadKeys
    | TakeOffline
    | Halt
)
