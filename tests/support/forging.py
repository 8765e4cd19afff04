"""Records put into the files of a partition while no broker has them open."""

import re
from pathlib import Path
from typing import Any

from ottla.coordinator.turn import StoredRecord
from ottla.records.batch import split
from ottla.records.builder import NewRecord, build_batch


def forge(folder: Path, *records: StoredRecord, **batch_fields: Any) -> int:
    """Append one batch to a partition's last segment, as its last leader might have; the first offset."""
    path = max(file for file in folder.iterdir() if re.fullmatch(r"\d{20}\.log", file.name))
    headers = [header for header, _ in split(path.read_bytes())]
    base_offset = headers[-1].next_offset if headers else int(path.stem)
    batch = build_batch(
        [NewRecord(record.key, record.value) for record in records],
        base_offset=base_offset,
        leader_epoch=headers[-1].leader_epoch if headers else 0,
        **batch_fields,
    )
    with path.open("ab") as file:
        file.write(batch)
    return base_offset
