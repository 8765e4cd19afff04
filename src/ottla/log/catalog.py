"""Which logs a broker has: the log of each partition, its directory, its topic's id, its last high watermark.

`lost` are the partitions that cannot be served until the next start, with the directory they should be in:
that directory is offline, or something else is in the partition's place (then it is `unfit` as well).
"""

from collections.abc import Callable, Iterable, Sequence

from ottla.base.files import Files
from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.log import Log


class Catalog:
    """`on_due` and `on_lowered` are what every log of the broker reports to (see `Log.open`)."""

    __slots__ = (
        "_counts", "_on_due", "_on_lowered", "directories", "high_watermarks", "logs", "lost", "topic_ids",
        "unfit",
    )  # fmt: skip

    def __init__(
        self,
        directories: Sequence[str],
        on_due: Callable[[Log, int], None],
        on_lowered: Callable[[], None],
    ) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.directories: dict[TopicPartition, str] = {}
        self.topic_ids: dict[TopicPartition, bytes] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.lost: dict[TopicPartition, str] = {}
        self.unfit: set[TopicPartition] = set()
        self._counts = dict.fromkeys(directories, 0)
        self._on_due = on_due
        self._on_lowered = on_lowered

    def open(
        self,
        files: Files,
        folder: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        dense_from: int | None = None,
    ) -> Log:
        """Open a log that is to be one of these; `put` makes it one."""
        return Log.open(
            files,
            folder,
            topic_partition,
            config,
            recovery_point=recovery_point,
            clean=clean,
            log_start_offset=log_start_offset,
            dense_from=dense_from,
            now_ms=now_ms,
            on_due=self._on_due,
            on_lowered=self._on_lowered,
        )

    def put(self, log: Log, directory: str, topic_id: bytes | None) -> None:
        self.logs[log.topic_partition] = log
        self.directories[log.topic_partition] = directory
        self._counts[directory] += 1
        if topic_id is not None:
            self.topic_ids[log.topic_partition] = topic_id

    def remove(self, topic_partition: TopicPartition) -> Log:
        self._counts[self.directories.pop(topic_partition)] -= 1
        self.topic_ids.pop(topic_partition, None)
        self.high_watermarks.pop(topic_partition, None)
        return self.logs.pop(topic_partition)

    def emptiest(self, directories: Iterable[str]) -> str:
        """The one of these directories that holds the fewest logs."""
        return min(directories, key=self._counts.__getitem__)
