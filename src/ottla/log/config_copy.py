"""Copies of settings beside the logs they are for, so that they outlive the keeper (design note 006).

    topic.config    in the folder of every partition: what is set for its topic. Where nothing was when the
                    partition was made, partition.metadata says so, and this file need not be there
    broker.config   in every log directory: what was set for brokers while they ran, where anything was

Both are one object of JSON. Apache Kafka ignores them: it looks only at names with its own suffixes. A file
that was cut off is no JSON, and then nobody knows what is set; nor with a format that we do not know.

    version           of the format
    topic_id          whose configs these are; a copy that came into another topic's folder says nothing
    revision          grows with every change, so that of two copies the newer one can be told
    metadata_offset   where Apache Kafka's metadata log ended when this was written, 0 where there is none: if
                      that has grown, Kafka has been at work since, and knows better
    configs           by name; for brokers, by id ('' for all) and name
"""

import json
import os.path
from typing import Any, NamedTuple

from ottla.base.files import Files
from ottla.base.ids import uuid_from_text, uuid_text
from ottla.log.partition_metadata import PARTITION_METADATA, says_no_configs

TOPIC_CONFIG = "topic.config"
BROKER_CONFIG = "broker.config"

_VERSION = 0


class ConfigCopy(NamedTuple):
    """A copy of what is set for a topic, or for brokers; then it has no topic id."""

    topic_id: bytes | None
    revision: int
    metadata_offset: int
    configs: dict[str, Any]


def format_copy(copy: ConfigCopy) -> bytes:
    fields = {
        "version": _VERSION,
        "topic_id": None if copy.topic_id is None else uuid_text(copy.topic_id),
        "revision": copy.revision,
        "metadata_offset": copy.metadata_offset,
        "configs": copy.configs,
    }
    return json.dumps(fields, sort_keys=True).encode() + b"\n"


def parse_copy(data: bytes) -> ConfigCopy | None:
    """None if the file is not what `format_copy` makes."""
    try:
        fields = json.loads(data)
        if fields["version"] != _VERSION or not isinstance(fields["configs"], dict):
            return None
        topic_id = fields["topic_id"]
        return ConfigCopy(
            None if topic_id is None else uuid_from_text(topic_id),
            int(fields["revision"]),
            int(fields["metadata_offset"]),
            fields["configs"],
        )
    except (ValueError, KeyError, TypeError):
        return None


def read_topic_copy(files: Files, folder: str, topic_id: bytes | None) -> ConfigCopy | None:
    """What the folder of a partition of this topic says; None if nothing that can be believed."""
    data = read_file(files, folder, TOPIC_CONFIG)
    if data is not None:
        copy = parse_copy(data)
        return copy if copy is not None and topic_id in {None, copy.topic_id} else None
    return ConfigCopy(topic_id, 0, 0, {}) if says_none(files, folder) else None


def read_broker_copy(files: Files, directory: str) -> ConfigCopy | None:
    data = read_file(files, directory, BROKER_CONFIG)
    return None if data is None else parse_copy(data)


def says_none(files: Files, folder: str) -> bool:
    """Nothing was set for the topic when its partition was made."""
    data = read_file(files, folder, PARTITION_METADATA)
    return data is not None and says_no_configs(data)


def read_file(files: Files, folder: str, name: str) -> bytes | None:
    try:
        return files.read(os.path.join(folder, name))
    except FileNotFoundError:
        return None
