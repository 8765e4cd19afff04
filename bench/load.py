"""Load generators run in their own process: `python -m bench.load KIND SPEC`.

The dialogue is three lines: the generator prints `ready` once it is connected and warm, waits for `go`,
and prints its result as JSON. `drive` is the other side of it: it reads the broker's CPU clock at `go`
and at the result, so that neither the start of an interpreter nor the connection is counted.
"""

import gc
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from bench.servers import ROOT, Peer, PeerError

Run = Callable[[], dict[str, Any]]


def drive(
    kind: str,
    spec: dict[str, Any],
    peer: Peer | None,
    timeout_s: float,
    on_go: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Run one load to its end and add `broker_cpu_s`; raises PeerError when it fails or takes too long."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.load", kind, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            text=True,
        )
        watchdog = threading.Timer(timeout_s, process.kill)
        watchdog.start()
        try:
            return _converse(process, peer, on_go)
        except (OSError, ValueError) as error:
            process.kill()
            process.wait()
            errors.seek(0)
            said = errors.read().strip().splitlines()
            raise PeerError(
                f"load {kind} failed: {said[-1] if said else f'no answer in {timeout_s:.0f} s'}"
            ) from error
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _converse(
    process: subprocess.Popen[str], peer: Peer | None, on_go: Callable[[], None] | None
) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise ValueError("the generator did not get ready")
    before = peer.cpu_seconds() if peer else 0.0
    process.stdin.write("go\n")
    process.stdin.flush()
    if on_go:
        on_go()
    result: dict[str, Any] = json.loads(process.stdout.readline())
    result["broker_cpu_s"] = peer.cpu_seconds() - before if peer else None
    return result


def main(kind: str, spec: dict[str, Any]) -> None:
    from bench import (
        load_bulk,
        load_fetch,
        load_keyed,
        load_latency,
        load_raw,
        load_readers,
        load_single,
        load_steady,
        load_transactions,
    )

    prepare: dict[str, Callable[[dict[str, Any]], Run]] = {
        "bulk": load_bulk.prepare,
        "fetch": load_fetch.prepare,
        "keyed": load_keyed.prepare,
        "latency": load_latency.prepare,
        "readers": load_readers.prepare,
        "replay": load_raw.prepare_replay,
        "single-raw": load_raw.prepare_single,
        "single-rdkafka": load_single.prepare,
        "steady": load_steady.prepare,
        "transactions": load_transactions.prepare,
    }
    run = prepare[kind](spec)
    gc.collect()
    gc.disable()
    print("ready", flush=True)
    if sys.stdin.readline().strip() == "go":
        print(json.dumps(run()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
