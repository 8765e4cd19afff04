# The adapters import kafka-python under a filter for the warnings it gives: they must be the first to do it.
import tests.kafka_clients.adapters  # noqa: F401
