"""Small, blocking pieces of a Kafka client that confluent-kafka does not have. Empty until one is needed."""
