"""The topics of the cluster, as far as groups care."""

from collections.abc import Collection
from typing import Protocol


class Topics(Protocol):
    """A view of the image. `revision` grows whenever something in it may have changed."""

    @property
    def revision(self) -> int: ...
    def names(self) -> Collection[str]: ...
    def id_of(self, name: str) -> bytes | None: ...
    def name_of(self, topic_id: bytes) -> str | None: ...
    def partition_count(self, name: str) -> int: ...
    def racks(self, name: str) -> dict[int, set[str]]:
        """The racks that hold a replica of each partition; empty where brokers have none."""
