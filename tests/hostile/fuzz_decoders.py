"""The search by coverage: atheris looks for inputs that reach new code of a decoder, and for what breaks it.

A decoder may raise what it declares, and take 200 ms of processor time.

    python -m tests.hostile.fuzz_decoders -runs=100000     libFuzzer's options
    python -m tests.hostile.fuzz_decoders FILE             an input that was found, again
"""

import importlib
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CPU_S_MAX = 0.2
INPUT_BYTES_MAX = 4096
FOUND = Path(".fuzz")


def search(runs: int, seed: int, jobs: int) -> list[str]:
    """So many runs in all, in processes with a seed each; what was found."""
    if importlib.util.find_spec("atheris") is None:
        print("decoders: not searched by coverage, as there is no atheris for this Python or machine")
        return []
    FOUND.mkdir(exist_ok=True)
    began = time.monotonic()
    with ThreadPoolExecutor(jobs) as threads:
        found = [*threads.map(lambda number: _search(runs // jobs, seed + number), range(jobs))]
    print(f"decoders: {runs} runs by coverage in {time.monotonic() - began:.0f} s")
    return [line for line in found if line]


def _search(runs: int, seed: int) -> str:
    from tests.hostile.decoders import all_examples

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(all_examples(random.Random(seed))):
            Path(corpus, str(number)).write_bytes(data)
        options = [
            f"-runs={runs}", f"-seed={seed}", f"-max_len={INPUT_BYTES_MAX}", "-verbosity=0", "-timeout=60",
            f"-artifact_prefix={FOUND}/decoder-", "-rss_limit_mb=1024", corpus,
        ]  # fmt: skip
        command = [sys.executable, "-m", "tests.hostile.fuzz_decoders", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    found = f"a decoder: {(done.stdout + done.stderr)[-3000:]}"
    print(f"found: {found}", flush=True)
    return found


def timed(decode: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        began = time.process_time()
        decode(data)
        took_s = time.process_time() - began
        assert took_s < CPU_S_MAX, f"it took {took_s * 1000:.0f} ms of processor time"

    return run


def main(*options: str) -> None:
    if options and Path(options[0]).is_file():
        decode = importlib.import_module("tests.hostile.decoders").any_decoder
        timed(decode)(Path(options[0]).read_bytes())
        return
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["ottla"]):
        decoders = importlib.import_module("tests.hostile.decoders")
    decoders.instrument(atheris.instrument_func)
    atheris.Setup([sys.argv[0], *options], timed(decoders.any_decoder))
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
