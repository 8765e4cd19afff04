"""Holds librdkafka's mock cluster open: prints its address, and ends when its standard input does."""

import sys

from confluent_kafka import Producer


def main() -> None:
    holder = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 3})
    broker = next(iter(holder.list_topics(timeout=10).brokers.values()))
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
