"""What the driver of a pipeline has told so far, and sentences about it for a person."""

from dataclasses import dataclass, field
from typing import Any

from ottla.pipelines.mistakes import Mistake

COMPLETED, FAILED, STOPPED, RUNNING = "completed", "failed", "stopped", "running"


@dataclass(slots=True)
class Progress:
    """What the driver has told so far."""

    version: str = ""
    rounds_before: int = 0  # of drivers that were started before this one
    rounds: int = 0
    flows: dict[str, str] = field(default_factory=dict)
    state: str = RUNNING
    reason: str = ""
    took_s: float = 0.0
    mistakes: list[Mistake] = field(default_factory=list)
    pause_s: float | None = None
    batches: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # rows, and how far behind

    def take(self, event: dict[str, Any]) -> str | None:
        """A sentence for the person, if there is something to say."""
        match event["kind"]:
            case "session":
                self.version = event["version"]
                return f"Spark {self.version} is up"
            case "round":
                self.flows.clear()
                self.batches.clear()
                self.pause_s = None
            case "waiting":
                self.pause_s = event["pause_s"]
            case "event" if event.get("flow"):
                self.flows[event["flow"]] = event["state"]
                if event["state"] == "FAILED":
                    return f"flow {event['flow']} has failed: {' '.join(event['message'].split()[4:])}"
            case "batch":
                rows, _ = self.batches.get(event["flow"], (0, None))
                self.batches[event["flow"]] = rows + event["rows"], event["behind"]
                if event["behind"] is not None:
                    return f"run {self.rounds + 1}: {event['sentence']}"
            case "completed":
                self.rounds, self.took_s = self.rounds_before + event["number"], event["took_s"]
                count = sum(state != "EXCLUDED" for state in self.flows.values())
                if not count:
                    return f"nothing is wrong with the pipeline; that took {self.took_s:.1f} s"
                flows = "1 flow" if count == 1 else f"{count} flows"
                return f"run {self.rounds}: {flows} completed in {self.took_s:.1f} s"
            case "stopped":
                self.state = STOPPED
            case "failed":
                self.state, self.reason = FAILED, event["reason"]
                self.mistakes = [Mistake(**mistake) for mistake in event.get("mistakes", [])]
        return None

    def doing(self) -> str:
        if not self.version:
            return "starting Spark"
        if self.pause_s is not None:
            return f"waiting for {self.pause_s:.0f} s, then run {self.rounds + 1}"
        name = f"run {self.rounds + 1}"
        if not self.flows:
            return f"{name}: reading the pipeline"
        wanted = {flow: state for flow, state in self.flows.items() if state != "EXCLUDED"}
        done = sum(state == "COMPLETED" for state in wanted.values())
        busy = [self._at_work(flow) for flow, state in wanted.items() if state == "RUNNING"]
        running = f", running: {', '.join(busy)}" if busy else ""
        return f"{name}: {done} of {len(wanted)} flows done{running}"

    def _at_work(self, flow: str) -> str:
        if flow not in self.batches:
            return flow
        rows, behind = self.batches[flow]
        return f"{flow} ({rows:,} rows{'' if behind is None else f', {behind:,} behind'})"
