"""What the driver of a pipeline has told so far, and sentences about it for a person."""

from dataclasses import dataclass, field
from typing import Any

COMPLETED, FAILED, STOPPED, RUNNING = "completed", "failed", "stopped", "running"


@dataclass(slots=True)
class Progress:
    """What the driver has told so far."""

    version: str = ""
    rounds: int = 0
    flows: dict[str, str] = field(default_factory=dict)
    state: str = RUNNING
    reason: str = ""
    took_s: float = 0.0

    def take(self, event: dict[str, Any]) -> str | None:
        """A sentence for the person, if there is something to say."""
        match event["kind"]:
            case "session":
                self.version = event["version"]
                return f"Spark {self.version} is up"
            case "round":
                self.flows.clear()
            case "event" if event.get("flow"):
                self.flows[event["flow"]] = event["state"]
                if event["state"] == "FAILED":
                    return f"flow {event['flow']} has failed: {' '.join(event['message'].split()[4:])}"
            case "completed":
                self.rounds, self.took_s = event["number"], event["took_s"]
                flows = "1 flow" if len(self.flows) == 1 else f"{len(self.flows)} flows"
                return f"run {self.rounds}: {flows} completed in {self.took_s:.1f} s"
            case "stopped":
                self.state = STOPPED
            case "failed":
                self.state, self.reason = FAILED, event["reason"]
        return None

    def doing(self) -> str:
        if not self.version:
            return "starting Spark"
        if not self.flows:
            return "reading the pipeline"
        done = sum(state == "COMPLETED" for state in self.flows.values())
        busy = [flow for flow, state in self.flows.items() if state == "RUNNING"]
        return f"{done} of {len(self.flows)} flows done" + (f", running: {', '.join(busy)}" if busy else "")
