"""What is counted of a broker's keeper, from the broker's start on."""

from dataclasses import dataclass, field

from ottla.base.metrics import Histogram
from ottla.controller.keeper import Outcome, Refused, Unknown, Written
from ottla.shell.keeper import Keeper, Session

OUTCOMES: dict[type[Outcome], str] = {Written: "written", Refused: "refused", Unknown: "unknown"}


@dataclass(slots=True)
class KeeperCounts:
    keeper: Keeper | None = None  # None: the broker has not asked for it yet
    is_connected: bool = False
    connects: int = 0
    sessions: dict[Session, int] = field(default_factory=lambda: dict.fromkeys(Session, 0))
    writes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES.values(), 0))
    write_durations: Histogram = field(default_factory=Histogram)

    def on_connected(self) -> None:
        self.is_connected = True
        self.connects += 1

    def on_session(self, event: Session) -> None:
        self.sessions[event] += 1
        if event is Session.SUSPENDED:
            self.is_connected = False
        else:
            self.on_connected()

    def on_written(self, outcome: Outcome, took_us: int) -> None:
        self.writes[OUTCOMES[type(outcome)]] += 1
        self.write_durations.observe(took_us)
