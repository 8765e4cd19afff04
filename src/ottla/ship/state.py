"""What `ottla ship` remembers between runs: how far each file has gone, and where its topic stood then.

The state is written only once everything up to it has been acknowledged, to a new file that is synced and
renamed, so it is whole whenever it is read. It belongs to one topic of one cluster. `ends` are offsets of
the topic: whatever this shipper has sent beyond this state stands in the topic from there on, and
`ship/topic` finds it.
"""

import json
import os
import uuid
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field

from ottla.base.command_error import USAGE, CommandError
from ottla.base.file_lock import exclusive

VERSION = 1


@dataclass(slots=True)
class Position:
    """How far a file has gone. `print` is the fingerprint of what stands before `offset`.

    A file that was cut and written anew is a new generation of it. `is_inside` means that the offset is not
    at the beginning of a line, because a part of the line has gone already.
    """

    path: str
    device: int
    inode: int
    generation: int = 0
    offset: int = 0
    is_inside: bool = False
    print: str = ""

    @property
    def file(self) -> str:
        """The name of this generation of the file in record headers."""
        return f"{self.device}-{self.inode}-{self.generation}"


@dataclass(slots=True)
class ShipState:
    topic: str
    cluster: str = ""  # the ids of cluster and topic; empty until they are known
    topic_id: str = ""
    shipper: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    is_clean: bool = True
    ends: dict[int, int] = field(default_factory=dict)
    files: list[Position] = field(default_factory=list)

    def belongs_to(self, cluster: str, topic_id: str) -> "ShipState":
        """This state, if it is of that cluster and topic; else a fresh one.

        Positions tell what one topic has. A topic of the same name elsewhere, or one that was created again,
        has none of it. A state from before the ids were kept is taken for the right one.
        """
        ids = (self.cluster or cluster, self.topic_id or topic_id)
        if ids != (cluster, topic_id):
            return ShipState(self.topic, cluster, topic_id)
        self.cluster, self.topic_id = ids
        return self


def default_path(topic: str) -> str:
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(home, "ottla", "ship", f"{topic}.json")


def locked(path: str) -> AbstractContextManager[None]:
    """Two shippers with one state would send everything twice."""
    return exclusive(
        f"{path}.lock",
        unwritable=f"cannot keep the state in {path}",
        held=f"another shipper uses {path}; give this one its own --state",
    )


def load(path: str, topic: str) -> ShipState:
    try:
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
        if stored.pop("version") != VERSION:
            raise ValueError("it is from another version")
        state = ShipState(**stored)
        state.ends = {int(partition): offset for partition, offset in state.ends.items()}
        state.files = [Position(**position) for position in stored["files"]]
    except FileNotFoundError:
        return ShipState(topic)
    except OSError as error:
        raise CommandError(f"cannot read the state {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(f"{path} is not the state of a shipper ({error}); use another --state") from None
    if state.topic != topic:
        raise CommandError(f"{path} is the state of shipping to {state.topic!r}; use another --state", USAGE)
    return state


def save(path: str, state: ShipState) -> None:
    """Durable when this returns: the content first, then its name."""
    fresh = f"{path}.new"
    try:
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, **asdict(state)}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise CommandError(f"cannot keep the state in {path}: {error.strerror}") from None
