"""The names in a log directory: its own files, which folder is which partition's, what does not belong there.

<topic>-<partition>                      a partition
<topic>-<partition>.<unique>-future      the copy of one that is on its way to this directory
<topic>-<partition>.<unique>-delete      one that was deleted, and is removed later
"""

import hashlib
import re

from ottla.base.files import FOLDER
from ottla.base.ids import TopicPartition, is_topic_name
from ottla.log.config_copy import TOPIC_CONFIG
from ottla.log.epochs import FILE_NAME as EPOCHS
from ottla.log.partition_metadata import PARTITION_METADATA

META = "meta.properties"
LOCK = ".lock"
INCARNATION = "incarnation"
KEEPER_DB = "keeper.db"
FILE_NAME_MAX = 255
PLAIN = "a plain file"
PARTITION_MAX = (1 << 31) - 1
_FOLDER = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})\Z")
_LOOKS_LIKE_FOLDER = re.compile(r".*-\d+\Z", re.DOTALL)
_DELETED_FOLDER = re.compile(r".+-\d+\.[0-9a-f]{32}-delete\Z")
_SET_ASIDE = re.compile(r".+\.[0-9a-f]{32}-(delete|future|stray)\Z")
_FUTURE_FOLDER = re.compile(r"(.+-\d+)\.[0-9a-f]{32}-future\Z")


def misplaced(name: str, kind: str) -> str | None:
    """What an entry of a log directory is, if a broker neither makes nor opens such a thing."""
    is_partition = parse_folder(name) is not None
    if kind == FOLDER:
        if is_partition or not _LOOKS_LIKE_FOLDER.match(name):
            return None
        return "a folder with a name that no partition can have"
    if kind == PLAIN:
        return "a plain file with the name of a partition" if is_partition else None
    return kind


def is_of_partition(name: str) -> bool:
    """Whether a name in a partition's folder is, or begins as, that of a file that brokers use."""
    return name[:1].isdigit() or name.startswith((PARTITION_METADATA, EPOCHS, TOPIC_CONFIG))


def parse_future(name: str) -> TopicPartition | None:
    """The partition whose move was to end in this folder."""
    match = _FUTURE_FOLDER.match(name)
    return parse_folder(match[1]) if match else None


def parse_folder(name: str) -> TopicPartition | None:
    """The partition whose folder this is; topic names may hold dashes, dots and digits themselves."""
    match = _FOLDER.match(name)
    if match is None or not is_topic_name(match[1]) or int(match[2]) > PARTITION_MAX:
        return None
    return TopicPartition(match[1], int(match[2]))


def is_set_aside(name: str) -> bool:
    """Whether this is the folder of a partition that was deleted, moved, or given up by Apache Kafka."""
    return _SET_ASIDE.match(name) is not None


def is_deleted_folder(name: str) -> bool:
    return _DELETED_FOLDER.match(name) is not None


def deleted_folder(topic_partition: TopicPartition, unique: str) -> str:
    suffix = f"-{topic_partition.partition}.{unique}-delete"
    return topic_partition.topic[: FILE_NAME_MAX - len(suffix)] + suffix


def future_folder(topic_partition: TopicPartition, unique: str) -> str:
    return f"{topic_partition}.{unique}-future"


def unique(seed: str) -> str:
    """A name that nothing else has; the same one in a run that is repeated."""
    return hashlib.blake2b(seed.encode(), digest_size=16).hexdigest()
