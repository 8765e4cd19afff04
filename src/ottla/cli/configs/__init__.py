"""`ottla configs`: `commands`, and `resources`, reading and changing the configs of topics and brokers."""
