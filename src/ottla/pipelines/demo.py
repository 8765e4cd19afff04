"""What `ottla demo` needs of a pipeline: shops that send orders while it runs, and the rows that it made."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.base.command_error import CommandError
from ottla.client.librdkafka import connections
from ottla.pipelines import status
from ottla.pipelines.run import JAVA_OPTIONS

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
# Most of a short run is Java compiling itself.
QUICK = {JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Shop:
    """A thread that sends orders: now and then one of them twice, or one that is none."""

    def __init__(self, bootstrap: str, name: str, number: int) -> None:
        self.name, self.number, self.sent = name, number, 0
        self.client = connections.producer(bootstrap, {"enable.idempotence": True, "linger.ms": 20})
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
def open_shops(bootstrap: str) -> Iterator[list[Shop]]:
    shops = [Shop(bootstrap, name, number) for number, name in enumerate(SHOPS)]
    for shop in shops:
        shop.thread.start()
    try:
        yield shops
    finally:
        for shop in shops:
            shop.close()


def send_customers(bootstrap: str) -> None:
    client = connections.producer(bootstrap, {})
    for key, (name, country, tier) in CUSTOMERS.items():
        client.produce("customers", json.dumps({"name": name, "country": country, "tier": tier}), key)
    if client.flush(DELIVERY_S):
        raise CommandError("the customers were not acknowledged")


def rows(folder: str, table: str) -> list[dict[str, Any]]:
    """Of a table of the pipeline in a folder."""
    from pyarrow import parquet

    made: list[dict[str, Any]] = []
    for path in status.files(os.path.join(folder, "tables", table)):
        made += parquet.ParquetFile(path).read().to_pylist()
    return made
