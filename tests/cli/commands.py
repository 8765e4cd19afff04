"""Commands run in the process, with streams of their own; for the tests of products that they start, too."""

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from ottla import Broker
from ottla.cli import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    raw: bytes


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `ottla` with arguments and stdin; what it wrote and its exit code."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        out, err = io.BytesIO(), io.BytesIO()
        code = 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, write_through=True))
            try:
                main(list(arguments))
            except SystemExit as leaving:
                code = int(leaving.code or 0)
            sys.stdout.flush()
            raw, errors = out.getvalue(), err.getvalue()
        assert b"Traceback" not in errors, errors.decode()
        return Outcome(code, raw.decode(errors="replace"), errors.decode(), raw)

    return run


@pytest.fixture
def ottla(run: Run, ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The same, with a broker to talk to."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla_broker.bootstrap_servers)
    return run
