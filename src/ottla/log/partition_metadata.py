"""partition.metadata, the file in a partition's folder that says to which topic the partition belongs.

Two lines, as Kafka writes them; a third one of ours says that nothing is set for the topic. A file that makes
no sense is treated as absent.
"""

import os.path
import re

from ottla.base.files import Files
from ottla.base.ids import uuid_from_text, uuid_text

PARTITION_METADATA = "partition.metadata"

_METADATA = re.compile(r"version: ?0\ntopic_id: ?(\S+)(\n|\Z)")
_NO_CONFIGS = "configs: none\n"


def format_partition_metadata(topic_id: bytes, *, no_configs: bool = False) -> bytes:
    """`no_configs`: nothing was set for the topic when this was written, so that no other file needs to say
    it (design note 006). Kafka reads two lines, and takes no notice of what follows."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}\n{_NO_CONFIGS if no_configs else ''}".encode()


def says_no_configs(data: bytes) -> bool:
    return data.endswith(f"\n{_NO_CONFIGS}".encode())


def parse_partition_metadata(data: bytes) -> bytes | None:
    """The topic id, or None if the file says nothing that can be understood."""
    match = _METADATA.match(data.decode(errors="replace"))
    if match is None:
        return None
    try:
        return uuid_from_text(match[1])
    except ValueError:
        return None


def read_topic_id(files: Files, folder: str) -> bytes | None:
    """The topic id in a partition's folder, or None if nothing there says it."""
    try:
        return parse_partition_metadata(files.read(os.path.join(folder, PARTITION_METADATA)))
    except FileNotFoundError:
        return None
