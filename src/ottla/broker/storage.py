"""The logs of this broker on their disks: what is synced and compacted, and what the failure of a disk means.

What may block leaves as an effect, and its result comes back here. A failure that is the fault of a log
directory takes that directory offline (`TakeOffline`), as soon as the input at hand is done with. Nothing is
tried again on a file that failed: a failed sync may have thrown away what it could not write.
"""

import logging
from collections.abc import Callable

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Files
from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.base.metrics import Histogram
from ottla.broker.compaction_notice import say_cleaned
from ottla.broker.effects import CleanLog, SyncFolder, SyncLog, TakeOffline
from ottla.broker.outbox import Outbox
from ottla.broker.settings import Settings
from ottla.log.compaction.task import CleanOutcome
from ottla.log.directories import LogDirectoryError
from ottla.log.log import Log
from ottla.log.store import LogStore

log = logging.getLogger(__name__)

DAMAGE_MAX = 1_000


class Storage:
    """`last_stable_offset` says how far a log may be compacted."""

    def __init__(
        self, files: Files, settings: Settings, outbox: Outbox, last_stable_offset: Callable[[Log], int]
    ) -> None:
        self.store = LogStore(
            files,
            settings.config.log_dirs,
            settings.log_config,
            settings.store_config,
            on_failed=self.failed,
            on_chore=outbox.do,
        )
        self.flush_times = Histogram()  # of syncs, by whoever has a clock
        self._outbox = outbox
        self._last_stable_offset = last_stable_offset
        self._damage: set[str] = set()  # what was said of logs that cannot be read

    def configure(self, settings: Settings) -> None:
        self.store.config, self.store.store_config = settings.log_config, settings.store_config

    def wall_ms(self, now_ms: int) -> int:
        """The time of day at `now_ms`, which itself never jumps (design note 002)."""
        return now_ms + self.store.wall_offset_ms

    # -- failures --

    def failed(self, error: OSError) -> ErrorCode:
        """The disk refused something; the code that tells a client."""
        if isinstance(error, LogDirectoryError) and error.directory not in self.store.offline:
            self._outbox.put(TakeOffline(error.directory, str(error)))
        return ErrorCode.KAFKA_STORAGE_ERROR

    def report_damage(self, topic_partition: TopicPartition, damage: ApiError) -> None:
        """Something in a log cannot be read: say where, once, however often its readers come back for it."""
        if str(damage) not in self._damage:
            if len(self._damage) >= DAMAGE_MAX:
                self._damage.clear()
            self._damage.add(str(damage))
            topic, partition = topic_partition
            log.error(
                "%s is damaged: %s", topic_partition, damage, extra=fields(topic=topic, partition=partition)
            )

    # -- syncs --

    def start_syncs(self, now_ms: int) -> None:
        for due, sync in self.store.due_syncs(now_ms):
            self._outbox.put(SyncLog(due, sync))

    def on_sync_failed(self, unsynced: Log, error: LogDirectoryError) -> None:
        unsynced.on_sync_failed()
        self.failed(error)

    # -- compaction --

    def start_cleanings(self, now_ms: int) -> None:
        for dirty, task in self.store.next_cleanings(self._last_stable_offset, now_ms):
            self._outbox.put(CleanLog(dirty, task))

    def on_cleaned(self, cleaned: Log, outcome: CleanOutcome, now_ms: int) -> None:
        """A worker wrote compacted segments: put them into place, with a sync of the folder at each step."""
        if self.store.on_cleaned(cleaned, outcome, now_ms):
            self._sync_folder(cleaned)
        say_cleaned(self.store, cleaned, outcome, self._last_stable_offset, now_ms)

    def on_folder_synced(self, synced: Log, now_ms: int) -> None:
        if self.store.on_folder_synced(synced, now_ms):
            self._sync_folder(synced)

    def _sync_folder(self, unsynced: Log) -> None:
        self._outbox.put(SyncFolder(unsynced, unsynced.files.syncable(unsynced.directory)))
