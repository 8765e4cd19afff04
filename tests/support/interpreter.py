"""The one interpreter of effects: what a shell does for a broker, for tests that have no shell.

Every effect has a method here, and by default happens at once. Whoever wants it late, lost or done by a test
overrides that method. What no test can do without is abstract: the time, answers, requests to other brokers.
What only some tests let happen (a connection closed, a probe, a compaction, a halt) fails a test that did not
expect it, and so does an effect that nobody knows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NoReturn, assert_never

from ottla.base.files import Buffer, Syncable
from ottla.broker.broker import Broker
from ottla.broker.effects import (
    CleanLog,
    Close,
    ConfirmTree,
    CopyLog,
    DoChore,
    Effect,
    Halt,
    Job,
    Probe,
    ReadKeys,
    Reply,
    RunJob,
    Send,
    SyncFolder,
    SyncLog,
    TakeOffline,
    WriteNodes,
)
from ottla.broker.parked import Parked
from ottla.controller.keeper import NodeChanged, Operation
from ottla.controller.tree import ONLY_SESSION, Tree
from ottla.log.chores import run_at_once
from ottla.log.directories import LogDirectoryError
from ottla.log.directory_moves import CopySlice, Move, MoveError
from ottla.log.durability import Sync
from ottla.log.log import Log


class Interpreter(ABC):
    broker: Broker
    keeper: Tree
    session = ONLY_SESSION  # with the keeper

    @abstractmethod
    def clock_ms(self) -> int: ...

    def carry_out_effects(self) -> None:
        """All that the broker asks for, and what it asks for because of that; then, behind the answers, what
        follows from the ends of transactions."""
        self._carry_out_effects()
        if self.broker.coordinators.has_ends:
            self.broker.coordinators.send_ends(self.clock_ms())
            self._carry_out_effects()

    def _carry_out_effects(self) -> None:
        while self.broker.outbox.effects:
            for effect in self.broker.outbox.take():
                self.carry_out_effect(effect)

    def carry_out_effect(self, effect: Effect) -> None:
        match effect:
            case Reply(connection, chunks, counted_bytes, mute_ms):
                self.broker.allowance.unsent_bytes -= counted_bytes
                if mute_ms:
                    self.reply_and_mute(connection, chunks, mute_ms)
                else:
                    self.reply(connection, chunks)
            case Close():
                self.close(effect)
            case WriteNodes(token, operations):
                self.write_nodes(token, operations)
            case ConfirmTree(asked_ms):
                self.confirm_tree(asked_ms)
            case Send():
                self.send(effect)
            case Probe():
                self.probe(effect)
            case TakeOffline(directory, reason):
                self.take_offline(directory, reason)
            case Halt(reason):
                self.halt(reason)
            case SyncLog() | SyncFolder() | CopyLog() | CleanLog() | DoChore() | RunJob():
                self._give_to_worker(effect)
            case ReadKeys():
                self.read_keys(effect)
            case _:
                assert_never(effect)

    def _give_to_worker(self, effect: SyncLog | SyncFolder | CopyLog | CleanLog | DoChore | RunJob) -> None:
        match effect:
            case SyncLog(log, sync):
                self.work(lambda: self._sync_log(log, sync))
            case SyncFolder(log, folder):
                self.work(lambda: self._sync_folder(log, folder))
            case CopyLog(move, part):
                self.work(lambda: self._copy_log(move, part))
            case DoChore(chore):
                self.work(lambda: run_at_once(chore))
            case CleanLog():
                self.clean_log(effect)
            case RunJob(job, parked):
                self.run_job(job, parked)

    def read_keys(self, effect: ReadKeys) -> None:
        _unexpected(effect)

    # Clients

    @abstractmethod
    def reply(self, connection: int, chunks: list[Buffer]) -> None: ...

    def reply_and_mute(self, connection: int, chunks: list[Buffer], mute_ms: int) -> None:
        raise AssertionError(f"nobody has a quota, and connection {connection} is muted for {mute_ms} ms")

    def close(self, effect: Close) -> None:
        _unexpected(effect)

    # The keeper

    def write_nodes(self, token: int, operations: tuple[Operation, ...]) -> None:
        changed, outcome = self.keeper.write(operations, self.session)
        self.tell(changed)
        self.broker.outbox.on_written(token, outcome, self.clock_ms())

    def tell(self, changed: list[NodeChanged]) -> None:
        """Whoever watches the keeper sees these changes; here it is this broker alone."""
        self.broker.on_nodes(changed, self.clock_ms())

    def confirm_tree(self, asked_ms: int) -> None:
        self.broker.proofs.on_confirmed(asked_ms, self.clock_ms())

    # Other brokers

    @abstractmethod
    def send(self, effect: Send) -> None: ...

    def probe(self, effect: Probe) -> None:
        _unexpected(effect)

    # Workers and disks

    def work(self, task: Callable[[], None]) -> None:
        """Run what a worker thread runs, and let the broker know."""
        task()

    def _sync_log(self, log: Log, sync: Sync) -> None:
        try:
            for file in sync.files:
                file.sync()
        except LogDirectoryError as error:
            self.broker.storage.on_sync_failed(log, error)
        else:
            self.broker.partitions.on_synced(log, sync, self.clock_ms())

    def _sync_folder(self, log: Log, folder: Syncable) -> None:
        try:
            folder.sync()
        except LogDirectoryError as error:
            self.broker.storage.failed(error)
        else:
            self.broker.storage.on_folder_synced(log, self.clock_ms())

    def _copy_log(self, move: Move, part: CopySlice) -> None:
        failure = None
        try:
            part.run()
        except (OSError, MoveError) as error:
            failure = error
        self.broker.moves.on_copied(move, failure, self.clock_ms())

    def clean_log(self, effect: CleanLog) -> None:
        _unexpected(effect)

    def run_job(self, job: Job, parked: Parked) -> None:
        if parked.reply is not None:
            job.run(lambda: None)
            self.job_done(job)

    def job_done(self, job: Job) -> None:
        self.broker.waiting.wake(job, self.clock_ms())

    def take_offline(self, directory: str, reason: str) -> None:
        self.broker.on_directory_failed(directory, reason, self.clock_ms())

    def halt(self, reason: str) -> None:
        _unexpected(Halt(reason))


def _unexpected(effect: Effect) -> NoReturn:
    raise AssertionError(f"this test does not expect {effect}")
