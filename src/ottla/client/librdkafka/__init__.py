"""Kafka clusters through confluent-kafka (librdkafka): producers, consumers and administration for commands.

    connections         clients of confluent-kafka, after a look whether anybody listens at the address
    security            TLS and SASL in librdkafka's words
    java_names          properties that only Java's clients have
    cluster             topics and partitions that are there
    partition_offsets   where partitions begin and end
    messages            records as they come, with what confluent-kafka gets wrong set right
    transactions        transactions of a producer
    errors              whatever is refused as a `CommandError`: one line

Rules: confluent-kafka is loaded when somebody first connects, never by an import of these modules; its own
log stays silent, since what matters comes as an error. The rest of `ottla.client` does not import this.
"""
