"""The second half of `ottla demo`: live producers, a pipeline on Spark, and what it made as tables."""

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.cli import cluster, output, pipeline, pipeline_status
from ottla.cli.errors import CommandError

CUSTOMERS = {
    "c1": ("Ottla", "CZ", "gold"),
    "c2": ("Franz", "CZ", "silver"),
    "c3": ("Milena", "AT", "gold"),
    "c4": ("Max", "IL", "silver"),
    "c5": ("Felice", "DE", "basic"),
}
SHOPS = ("north", "south")
BEGIN = datetime(2026, 1, 1, 9, tzinfo=UTC)
PER_SECOND = 100
REPEATED_EVERY, BROKEN_EVERY = 10, 50
DELIVERY_S = 15.0
SHOWN = 5
# Most of a short run is Java compiling itself.
QUICK = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Shop:
    """A thread that sends orders: now and then one of them twice, or one that is none."""

    def __init__(self, bootstrap: str, name: str, number: int) -> None:
        self.name, self.number, self.sent = name, number, 0
        self.client = cluster.producer(bootstrap, {"enable.idempotence": True, "linger.ms": 20})
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._sell, name=f"shop {name}", daemon=True)

    def _sell(self) -> None:
        for number in range(10**9):
            customer = f"c{(number * (self.number + 2)) % len(CUSTOMERS) + 1}"
            self._send(self._order(number, customer))
            if number % REPEATED_EVERY == 0:
                self._send(self._order(number, customer))
            if number % BROKEN_EVERY == 0:
                self._send("this is no order")
            if self.stopped.wait(1 / PER_SECOND):
                return

    def _order(self, number: int, customer: str) -> str:
        moment = BEGIN + timedelta(seconds=37 * number + 4000 * (number // 40))
        order = {
            "order_id": f"{self.name}-{number}",
            "customer_id": customer,
            "amount": round(5 + (number * 7 % 95) + 0.5, 2),
            "time": moment.isoformat(),
        }
        return json.dumps(order)

    def _send(self, value: str) -> None:
        self.client.produce("orders", value, self.name)
        self.client.poll(0)
        self.sent += 1

    def close(self) -> None:
        self.stopped.set()
        self.thread.join()
        self.client.flush(DELIVERY_S)


@contextmanager
def _open_shops(bootstrap: str) -> Iterator[list[Shop]]:
    shops = [Shop(bootstrap, name, number) for number, name in enumerate(SHOPS)]
    for shop in shops:
        shop.thread.start()
    try:
        yield shops
    finally:
        for shop in shops:
            shop.close()


def show(bootstrap: str) -> None:
    """Make a pipeline out of a template, run it while orders come, and show its tables."""
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as home:
        folder = os.path.join(home, "shop")
        pipeline.make(folder, "stream", bootstrap)
        client = cluster.producer(bootstrap, {})
        for key, (name, country, tier) in CUSTOMERS.items():
            client.produce("customers", json.dumps({"name": name, "country": country, "tier": tier}), key)
        if client.flush(DELIVERY_S):
            raise CommandError("the customers were not acknowledged")
        with _open_shops(bootstrap) as shops:
            print(f"{len(shops)} shops send {len(shops) * PER_SECOND} orders a second", flush=True)
            began = time.perf_counter()
            pipeline.run(
                folder, once=True, master="local[*]", interval=0, settings=[QUICK], dry=False,
                bootstrap=bootstrap,
            )  # fmt: skip
            sent = sum(shop.sent for shop in shops)
            took_s = time.perf_counter() - began
            print(f"{took_s:7.1f} s   a pipeline read them from the topic; {sent:,} records are there by now")
        _show_results(folder)


def _show_results(folder: str) -> None:
    def rows(table: str) -> list[dict[str, Any]]:
        return _rows(os.path.join(folder, "tables", table))

    revenue = sorted(rows("revenue"), key=lambda row: -row["amount"])
    output.show_table(
        ("country", "orders", "amount"),
        [(row["country"], row["orders"], float(row["amount"])) for row in revenue],
        "revenue, each order once, joined to its customer",
    )
    names = {key: name for key, (name, _, _) in CUSTOMERS.items()}
    sessions = sorted(rows("sessions"), key=lambda row: -row["orders"])
    output.show_table(
        ("customer", "begin", "end", "orders", "amount"),
        [
            (
                names.get(row["customer_id"], "-"),
                f"{row['begin']:%H:%M}",
                f"{row['end']:%H:%M}",
                row["orders"],
                float(row["amount"]),
            )
            for row in sessions[:SHOWN]
        ],
        f"the longest of {len(sessions)} sessions",
    )
    print(f"set aside: {output.plural(len(rows('rejected')), 'record')} that are no orders", flush=True)


def _rows(folder: str) -> list[dict[str, Any]]:
    from pyarrow import parquet

    found: list[dict[str, Any]] = []
    for path in pipeline_status.files(folder):
        found += parquet.ParquetFile(path).read().to_pylist()
    return found
