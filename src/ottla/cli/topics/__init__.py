"""`ottla topics`: `commands`, and `replicas`, how partitions stand and which are in trouble."""
