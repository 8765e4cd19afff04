"""The stream template on a standalone cluster. The demo runs it on this machine, without a change."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.pipelines.conftest import QUICK_JAVA, WAIT_S, Pipeline, die_with_parent, quick

from ottla.pipelines import spark_environment
from ottla.spark.session import linked

ENRICHED = ("order_id", "customer_id", "amount", "name", "country", "tier")
SESSION = ("customer_id", "begin", "end", "orders", "amount")


def order(number: int, customer: str, amount: float, clock: str) -> dict[str, Any]:
    return {
        "order_id": f"o{number}",
        "customer_id": customer,
        "amount": amount,
        "time": f"2026-03-01T{clock}:00Z",
    }


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{clock}:00").replace(tzinfo=UTC)


@pytest.fixture
def master(spark_is_there: None, tmp_path: Path) -> Iterator[str]:
    """A standalone cluster: a master and two workers, each with a core."""
    with contextlib.ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = quick() | spark_environment.environment(linked(str(tmp_path / "spark")), "spark://")
        environment |= {"SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_LOG_DIR": str(tmp_path), "SPARK_WORKER_DIR": str(tmp_path / "work")}
        launcher = os.path.join(environment["SPARK_HOME"], "bin", "spark-class")
        address = f"spark://127.0.0.1:{port}"
        logs = []
        roles = [("master.Master", ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"])]
        worker = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", address]
        roles += [("worker.Worker", worker)] * 2
        for number, (role, arguments) in enumerate(roles):
            log = tmp_path / f"{number}.log"
            logs.append(log)
            with log.open("wb") as file:
                process = subprocess.Popen(
                    [launcher, f"org.apache.spark.deploy.{role}", *arguments],
                    stdout=file, stderr=file, env=environment, start_new_session=True,
                    preexec_fn=die_with_parent,
                )  # fmt: skip
            stack.callback(_end, process)
        deadline = time.monotonic() + WAIT_S
        while sum("registered with master" in one.read_text() for one in logs[1:]) < 2:
            assert time.monotonic() < deadline, [one.read_text() for one in logs]
            time.sleep(0.1)
        yield address


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_orders_are_joined_and_sessions_close_on_a_cluster(
    pipeline: Pipeline, send: Callable[..., None], received: Callable[[str], list[Any]], master: str
) -> None:
    pipeline.init("stream")
    customers = {
        "c1": [
            {"name": "O.", "country": "CZ", "tier": "basic"},
            {"name": "Ottla", "country": "CZ", "tier": "gold"},
        ],
        "c2": [{"name": "Max", "country": "AT", "tier": "basic"}],
        "c3": [{"name": "Gone", "country": "DE", "tier": "basic"}, None],
    }
    for key, versions in customers.items():
        send("customers", *versions, key=key)
    send(
        "orders",
        order(1, "c1", 10.5, "09:00"),
        order(1, "c1", 10.5, "09:00"),  # sent twice
        order(2, "c1", 20, "09:20"),
        order(3, "c2", 5, "09:10"),
        order(4, "c3", 7, "09:15"),  # of a customer who was deleted
        "no order",
        {"order_id": "o9"},
        order(5, "c2", 1, "12:00"),
    )
    quick_java = f"spark.executor.extraJavaOptions={QUICK_JAVA}"
    sets = ("--set", "spark.executor.memory=512m", "--set", quick_java)
    process = pipeline.start("--interval", "0", "--master", master, *sets)
    pipeline.wait_for_rounds(1)
    enriched = [
        ("o1", "c1", Decimal("10.50"), "Ottla", "CZ", "gold"),
        ("o2", "c1", Decimal("20.00"), "Ottla", "CZ", "gold"),
        ("o3", "c2", Decimal("5.00"), "Max", "AT", "basic"),
        ("o4", "c3", Decimal("7.00"), None, None, None),
        ("o5", "c2", Decimal("1.00"), "Max", "AT", "basic"),
    ]
    assert pipeline.table("enriched", ENRICHED) == enriched
    sessions = [
        ("c1", at("09:00"), at("09:50"), 2, Decimal("30.50")),
        ("c2", at("09:10"), at("09:40"), 1, Decimal("5.00")),
        ("c3", at("09:15"), at("09:45"), 1, Decimal("7.00")),
    ]
    assert pipeline.table("sessions", SESSION) == sessions
    assert pipeline.table("rejected", ("offset", "raw")) == [(5, "no order"), (6, '{"order_id": "o9"}')]
    pipeline.wait_for_view("customers", ("customer_id",), [("c1",), ("c2",)])

    send("customers", {"name": "Max", "country": "DE", "tier": "gold"}, key="c2")
    pipeline.wait_for_rounds(pipeline.rounds() + 2)  # from now on every round has read it
    send("orders", order(5, "c2", 1, "12:00"), order(6, "c2", 2, "12:10"), order(7, "c1", 3, "18:00"))
    pipeline.wait_for_rounds(pipeline.rounds() + 2)  # one may have begun before
    revenue = [
        ("AT", 2, Decimal("6.00")),
        ("CZ", 3, Decimal("33.50")),
        ("DE", 1, Decimal("2.00")),
        ("unknown", 1, Decimal("7.00")),
    ]
    pipeline.wait_for_view("revenue", ("country", "orders", "amount"), revenue)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors
    enriched += [
        ("o6", "c2", Decimal("2.00"), "Max", "DE", "gold"),
        ("o7", "c1", Decimal("3.00"), "Ottla", "CZ", "gold"),
    ]
    assert pipeline.table("enriched", ENRICHED) == enriched
    sessions.append(("c2", at("12:00"), at("12:40"), 2, Decimal("3.00")))
    assert pipeline.table("sessions", SESSION) == sorted(sessions, key=repr)
    topic = [(one["order_id"], one.get("name"), one["amount"]) for one in received("orders.enriched")]
    assert sorted(topic, key=repr) == sorted([(row[0], row[3], float(row[2])) for row in enriched], key=repr)
    assert len(list((pipeline.folder.parent / "work").iterdir())) == 1  # an application has been there
